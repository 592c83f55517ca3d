"""
Source : bpo-37961 (python/cpython#82142, #15545, #23805)
Kind   : truncated tracebacks, repr, old data
Seen   : nothing told that a traceback had been cut; later the repr of a
         traceback that did not know its length crashed.
Right  : Trace.traceback.total_nframe is the true depth (or the documented cap
         65535), len() is at most the limit; repr, str, ==, <, hash, in, slices
         work; traces of the old three-item form (before 3.9) can be read.
"""
import tracemalloc as tm

from _case import need

def deep(n):
    return bytearray(3333) if n == 0 else deep(n - 1)

for limit in (1, 3, 20, 200):
    tm.start(limit)
    objs = {n: deep(n) for n in (0, 1, 5, 50, 150)}
    here = len(__import__("inspect").stack())
    snap = tm.take_snapshot()
    need(snap.traceback_limit == limit)
    seen = sorted((t.traceback.total_nframe, len(t.traceback))
                  for t in snap.traces if 3333 <= t.size <= 3335)
    # depth: this module + the comprehension's frame (inlined) + n + 1 calls
    depths = [here + n + 1 for n in objs]
    want = sorted((d, min(d, limit)) for d in depths)
    need(seen == want, limit, seen, want)
    for t in list(snap.traces)[:500]:
        tb = t.traceback
        for x in (repr, str, hash):
            x(tb), x(t), x(tb[0])
        need(tb == tb and not tb < tb and tb <= tb)
        need(tb[0] in tb and tb[-1] == tb[len(tb) - 1])
        need(isinstance(tb[:2], tuple))
        need(tb.total_nframe >= len(tb) >= 1)
    one = tm.get_object_traceback(objs[50])
    need(1 <= len(one) <= limit)
    repr(one), str(one)
    need(one.total_nframe is None or one.total_nframe == here + 51)
    tm.stop()
old = tm.Trace((0, 10, (("old.py", 5), ("old.py", 9))))
need(old.traceback.total_nframe is None and len(old.traceback) == 2, "old three-item trace")
need("old.py" in repr(old.traceback) and "old.py" in repr(old) and "old.py" in str(old))
print("OK")
