"""
Source : truenas/middleware#15259 (tracing dropped for its memory use), python/
         cpython#150494 (cost of tracing every block)
Kind   : speed of snapshots, memory of the tracer, huge numbers of traces
Seen   : with millions of blocks the tracer takes more memory than the program
         and a snapshot takes very long.
Right  : snapshot time and the tracer's own memory grow in proportion to the
         number of traces; own memory is below 200 bytes a block at depth 1; it
         is returned after stop(); get_tracemalloc_memory() is of the order of
         the real growth and not below 40 % of it.
"""
import os

from _case import child, clean, need, skip

CODE = """
    import gc, sys, time, tracemalloc as tm, ctypes
    gc.disable()
    def rss():
        with open("/proc/self/statm") as f: return int(f.read().split()[1]) * 4096
    def trial(n, on):
        gc.collect()
        a = rss()
        if on: tm.start(1)
        x = [bytes(40) + b"%d" % i for i in range(0)]
        x = [None] * n
        for i in range(n): x[i] = b"%040d" % i
        b = rss() - a
        own = tm.get_tracemalloc_memory() if on else 0
        t = 0
        if on:
            # The best of three: the smaller one takes a few milliseconds.  All three are kept, so that each takes new memory.
            t, kept = float("inf"), []
            for _ in range(3):
                u = time.process_time(); s = tm.take_snapshot(); u = time.process_time() - u
                t = min(t, u)
                assert len(s.traces) >= n
                kept.append(s)
            del kept, s
        return b, own, t, x
    n = 1_000_000
    plain = trial(n, False)[0]
    gc.collect()
    _, _, t1, x = trial(100_000, True); del x; tm.stop()
    with_, own, t2, x = trial(n, True)
    del x; tm.stop(); gc.collect()
    per = (with_ - plain) / n
    print("%.1f %.2f %.1f" % (per, own / max(1, with_ - plain), t2 / t1))
"""
if not os.path.exists("/proc/self/statm"):
    skip("no /proc")
out = clean(child(CODE, timeout=200), "scaling")
per, share, ratio = map(float, out.split())
need(per < 200, "bytes of own memory per block:", per)
need(share > 0.4, "get_tracemalloc_memory() / real growth:", share, out.strip())
need(ratio < 25, "snapshot of 1e6 / snapshot of 1e5:", ratio)
print("OK", out.strip())
