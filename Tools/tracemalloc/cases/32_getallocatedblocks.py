"""
Source : bpo-36611
Kind   : other memory tools next to the tracer
Seen   : with -X tracemalloc the name of the allocators could not be told and a
         check built on sys.getallocatedblocks() failed.
Right  : sys.getallocatedblocks(), sys._debugmallocstats() and gc keep working
         with tracing on; blocks that the tracer uses for itself do not inflate
         the number (start + stop brings it back).
"""
from _case import child, clean

CODE = """
    import gc, sys, tracemalloc
    n0 = sys.getallocatedblocks()
    assert n0 >= 0
    x = [object() for _ in range(5000)]
    n1 = sys.getallocatedblocks()
    if n0: assert 4900 < n1 - n0 < 5500, (n0, n1)
    del x
    gc.collect()
    sys._debugmallocstats()
    if not tracemalloc.is_tracing():
        a = sys.getallocatedblocks()
        for _ in range(20):
            tracemalloc.start(10)
            y = [bytearray(99) for _ in range(2000)]
            del y
            tracemalloc.stop()
        gc.collect()
        b = sys.getallocatedblocks()
        assert abs(b - a) < 300, (a, b)
    print("done")
"""
for opts in ((), ("-X", "tracemalloc"), ("-X", "tracemalloc=20")):
    for env in ({}, {"PYTHONMALLOC": "debug"}, {"PYTHONMALLOC": "malloc"}, {"PYTHONMALLOC": "mimalloc"}):
        clean(child(CODE, *opts, env=env), f"allocated blocks {opts} {env}", "done")
print("OK")
