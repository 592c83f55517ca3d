"""
Source : python/cpython#121112 (PYTHONTRACEMALLOC with debug allocators on a real
         program), bpo-36611
Kind   : combinations of PYTHONMALLOC, -X dev and the tracer
Seen   : tracing is mostly used together with other allocator settings.
Right  : the traced numbers for the same work do not depend on the allocator
         under the tracer (debug padding is not counted), start and stop at run
         time work on each, exit is clean.
"""
from _case import child, clean, need

CODE = """
    import gc, sys, tracemalloc as tm
    if not tm.is_tracing(): tm.start(5)
    ns = {}
    exec(compile("def w():\\n    a = [bytearray(k) for k in range(0, 2000, 13)]\\n    b = {k: str(k) * 5 for k in range(800)}\\n    c = [tuple(range(k)) for k in range(60)]\\n    return a, b, c\\n", "work.py", "exec"), ns)
    gc.collect()            # empties the free lists
    r = ns["w"]()
    s = tm.take_snapshot().filter_traces([tm.Filter(True, "work.py")])
    st = sorted((x.traceback[0].lineno, x.size, x.count) for x in s.statistics("lineno"))
    tm.stop(); tm.start(3); tm.stop()
    del r
    gc.collect()
    print(st)
"""
ref = None
for malloc in (None, "default", "pymalloc", "malloc", "debug", "pymalloc_debug", "malloc_debug", "mimalloc", "mimalloc_debug"):
    for opts in ((), ("-X", "tracemalloc=5"), ("-X", "dev"), ("-X", "dev", "-X", "tracemalloc=5")):
        if malloc is not None and "dev" in opts:
            continue
        env = {} if malloc is None else {"PYTHONMALLOC": malloc}
        out = clean(child(CODE, *opts, env=env), f"PYTHONMALLOC={malloc} {opts}")
        if ref is None:
            ref = out
        need(out == ref, f"PYTHONMALLOC={malloc} {opts}: numbers differ:", out, "against", ref)
print("OK")
