"""
Source : python/cpython#110029
Kind   : crash, subinterpreter
Seen   : with tracing on, making a subinterpreter and then calling
         tracemalloc.stop() crashed the process.
Right  : start, create, look at the totals, stop, and start again all work
         while the subinterpreter is alive and after it is gone; exit 0.
         Also for a legacy subinterpreter that shares the GIL and the memory
         allocator, and for one that is never destroyed.
"""
from _case import child, clean

CODE = """
    import tracemalloc
    try:
        import _interpreters as I
    except ImportError:
        import _xxsubinterpreters as I
    for round in range(4):
        tracemalloc.start(1 + 5 * round)
        ids = [I.create() for _ in range(3)]
        cur, peak = tracemalloc.get_traced_memory()
        assert 0 < cur <= peak, (cur, peak)
        if round % 2:
            for i in ids: I.destroy(i)
            tracemalloc.stop()
        else:
            tracemalloc.stop()
            for i in ids: I.destroy(i)
        assert tracemalloc.get_traced_memory() == (0, 0)
    print("done")
"""
LEGACY = """
    import tracemalloc, _testcapi
    for round in range(4):
        tracemalloc.start(7)
        assert _testcapi.run_in_subinterp("import re, json; x = [bytes(900)] * 9") == 0
        cur, peak = tracemalloc.get_traced_memory()
        assert 0 <= cur <= peak and peak > 100000, (cur, peak)
        assert _testcapi.run_in_subinterp("import tracemalloc; tracemalloc.stop()") == 0
        assert not tracemalloc.is_tracing()
    print("done")
"""
ALIVE = """
    import tracemalloc, _interpreters as I
    tracemalloc.start()
    i = I.create()
    a = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print("done")
"""
for mode in ({}, {"PYTHONMALLOC": "debug"}, {"PYTHONMALLOC": "malloc"}):
    clean(child(CODE, env=mode), f"subinterpreter + stop, {mode}", "done")
    clean(child(LEGACY, env=mode), f"legacy subinterpreter + stop, {mode}", "done")
    clean(child(ALIVE, env=mode), f"subinterpreter alive at exit, {mode}", "done")
print("OK")
