"""
Source : python/cpython#127953 and python/cpython#109181 (time grows with the
         position in a long function, because the line table is read from its
         start each time)
Kind   : speed, huge line table
Seen   : a data module of tens of thousands of lines takes quadratic time once
         every line needs its number.
Right  : with tracing on, the cost of an allocation does not grow with the
         length of the module: per line, a module 16 times longer may cost at
         most 6 times as much. (Stock 3.13.5 is quadratic.)
"""
from _case import child, clean, need

CODE = """
    import gc, sys, time, tracemalloc
    gc.disable()
    def cost(n):
        src = "\\n".join("keep.append([%d])" % i for i in range(n))
        c = compile(src, "data%d.py" % n, "exec")
        best = 1e9
        for _ in range(5 if n < 5000 else 3):
            ns = {"keep": []}
            tracemalloc.start(1)
            t = time.process_time()
            exec(c, ns)
            t = time.process_time() - t
            tracemalloc.stop()
            best = min(best, t / n)
        return best
    a, b = cost(1000), cost(16000)
    print("%.2f %.2e %.2e" % (b / a, a, b))
"""
out = clean(child(CODE, timeout=200), "long module")
ratio = float(out.split()[0])
need(ratio < 6, "per-line cost ratio (16000 lines / 1000 lines):", out.strip())
print("OK", out.strip())
