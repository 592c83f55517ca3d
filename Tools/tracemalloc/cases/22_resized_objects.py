"""
Source : python/cpython#126076
Kind   : wrong count / lost object after an in-place or moving resize
Seen   : objects that the runtime grows or shrinks by realloc (bytes, str, tuple,
         int) were not reported properly when they moved.
Right  : after such a resize exactly one trace exists for the object, its size
         is that of the resized block, the traceback is known, the old address
         is not traced, and all of it goes away when the object dies.
"""
from _case import child, clean

CODE = """
    import gc, sys, io, tracemalloc as tm
    tm.start(2)
    def grow_str(n):
        s = "a"
        for _ in range(n): s += "b" * 37
        return s
    def grow_str2(n):
        s = "\\u0100"
        for _ in range(n): s += "\\u0101" * 11
        return s
    def tup(n): return tuple(None for i in range(n))
    def byt(n): return b"".join(iter([b"q" * 3] * n))
    def rd(n): return io.BytesIO(b"z" * (n * 7)).read(n * 5)
    def dec(n): return bytes(str(10**(n % 4000)), "ascii").decode("ascii")
    def fmt(n): return "%d-%s" % (n, "k" * n)
    def fil(n):
        with open(sys.executable, "rb", buffering=0) as f:
            return f.read(n * 13)
    def big(n): return int("9" * (n % 4000 + 1))
    bad = []
    for fn in (grow_str, grow_str2, tup, byt, rd, dec, fmt, fil, big):
        for n in (1, 2, 5, 30, 100, 333, 1000, 5000):
            tm.clear_traces()
            o = fn(n)
            snap = tm.take_snapshot()
            tb = tm.get_object_traceback(o)
            size = sys.getsizeof(o)
            have = [t.size for t in snap.traces]
            if size > 60 and size not in have and size - 16 not in have:
                # over-allocation is allowed, a smaller block is not
                near = [h for h in have if size <= h <= size * 2 + 64]
                if not near: bad.append((fn.__name__, n, size, sorted(have)[-4:]))
            if size > 60 and tb is None: bad.append((fn.__name__, n, "no traceback"))
            total = sum(have)
            # nothing of the old, smaller copies may be left behind
            if size > 2000 and total > size * 2.2 + 4000: bad.append((fn.__name__, n, "left over", size, total))
            del o, snap, tb
            gc.collect()
            cur = tm.get_traced_memory()[0]
            if cur > 30000: bad.append((fn.__name__, n, "not released", cur))
    assert not bad, bad
    print("done")
"""
for env in ({}, {"PYTHONMALLOC": "malloc"}, {"PYTHONMALLOC": "debug"}):
    clean(child(CODE, env=env), f"resized objects {env}", "done")
print("OK")
