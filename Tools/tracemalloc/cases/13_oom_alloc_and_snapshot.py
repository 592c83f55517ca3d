"""
Source : bpo-46280 (python/cpython#30591: a missing NULL check in the copy that
         a snapshot makes)
Kind   : out-of-memory injection
Seen   : when the allocation of a table copy failed, the NULL was used.
Right  : with one allocation (or all later ones) made to fail at any point while
         memory is allocated, traced, tracked in another domain and copied by a
         snapshot, Python raises MemoryError (or succeeds); it does not crash,
         and once memory is back the tracer works and its total agrees with the
         sum of its traces.
"""
from _case import SKIPPED, child, clean, skip

CODE = """
    import os, sys, tracemalloc
    try:
        import _testcapi
        _testcapi.tracemalloc_track
    except (ImportError, AttributeError):
        os._exit(77)
    step, forever = int(sys.argv[1]), sys.argv[2] == "all"
    tracemalloc.start(4)
    for k in range(40):
        _testcapi.tracemalloc_track(31, 5000 + k, 7)
    outcome = set()
    for n in range(step * 40, step * 40 + 40):
        # the hooks sit on top of the tracer: Python-level allocations fail
        _testcapi.set_nomemory(n, 0 if forever else n + 1)
        try:
            s = tracemalloc.take_snapshot()
            r = "ok"
        except MemoryError:
            r = "mem"
        finally:
            _testcapi.remove_mem_hooks()
        outcome.add(r)
        s = None
    assert outcome <= {"ok", "mem"}, outcome
    assert step or "mem" in outcome, outcome
    tracemalloc.stop()
    tracemalloc.start(2)
    b = bytearray(7777)
    snap = tracemalloc.take_snapshot()
    assert any(t.size == 7778 or t.size == 7777 for t in snap.traces)
    print("done")
"""
for step in range(0, 8):
    for how in ("one", "all"):
        res = child(CODE, argv=[str(step), how])
        if res[0] == SKIPPED:
            skip("no _testcapi")
        clean(res, f"allocation fails above the tracer, from {step * 40}, {how}", "done")
print("OK")
