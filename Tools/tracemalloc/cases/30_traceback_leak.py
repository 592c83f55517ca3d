"""
Source : python/cpython#121390
Kind   : memory leak of the tracer itself
Seen   : the stored tracebacks were never freed by stop() and clear_traces().
Right  : start, allocate on very many different lines and depths, stop; again
         and again: the resident size of the process levels off.
"""
import os

from _case import ADDRESS_SANITIZER, child, clean, skip

CODE = """
    import gc, sys, tracemalloc
    def rss():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096
    src = "".join("def f%d():\\n" % k + "".join(" x%d = bytes(%d)\\n" % (i, 700 + i) for i in range(20)) + "f%d()\\n" % k
                  for k in range(200))
    codes = [compile(src, "leak%d.py" % k, "exec") for k in range(5)]
    def dive(n, code):
        if n: return dive(n - 1, code)
        exec(code, {})
    marks = []
    for rnd in range(24):
        tracemalloc.start(40)
        for k, c in enumerate(codes):
            dive(10 + k, c)
        if sys.argv[1] == "clear":
            tracemalloc.clear_traces()
        tracemalloc.stop()
        gc.collect()
        marks.append(rss())
    # 20000 tracebacks a round, each some hundred bytes: a leak is > 8 MB a round
    growth = marks[-1] - marks[5]
    print("ok" if growth < 12 << 20 else "grew %d MB: %s" % (growth >> 20, [m >> 20 for m in marks]))
"""
if not os.path.exists("/proc/self/statm"):
    skip("no /proc")
if ADDRESS_SANITIZER:
    skip("the address sanitizer keeps freed memory")
for how in ("stop", "clear"):
    clean(child(CODE, argv=[how], timeout=120), f"resident size over rounds, {how}", "ok")
print("OK")
