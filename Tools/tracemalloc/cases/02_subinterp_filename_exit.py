"""
Source : python/cpython#134604 and python/cpython#144172
Kind   : crash (use after free), subinterpreter
Seen   : traces made by a subinterpreter pointed at file name strings that the
         subinterpreter owned; they were read after it had been destroyed, at
         snapshot time or at exit.
Right  : code run in a subinterpreter under its own file name is traced; after
         the subinterpreter is destroyed a snapshot and the exit still work,
         and every file name in the snapshot is a sound str.
"""
from _case import child, clean

CODE = """
    import tracemalloc, gc
    import _interpreters as I
    if not tracemalloc.is_tracing():
        tracemalloc.start(10)
    for n in range(6):
        i = I.create()
        body = (
            "import json, re, collections\\n"
            "src = 'keep = [bytearray(700) for _ in range(50)]\\\\n' * 3\\n"
            "ns = {}\\n"
            "exec(compile(src, '/sub/only/here_%d.py', 'exec'), ns)\\n"
            "import builtins; builtins.keep_%d = ns\\n" % (n, n))
        err = I.run_string(i, body)
        assert err is None, err
        snap1 = tracemalloc.take_snapshot()
        I.destroy(i)
        gc.collect()
        # churn memory so that freed strings get reused
        junk = ["%d-%s" % (k, "z" * (k % 90)) for k in range(20000)]
        del junk
        snap = tracemalloc.take_snapshot()
        for t in snap.traces:
            for f in t.traceback:
                assert type(f.filename) is str
                f.filename.encode('utf-8', 'surrogatepass')
                hash(f.filename)
        snap.statistics('filename')
    left = I.create()          # left alive on purpose until exit
    print("done")
"""
for opts in ((), ("-X", "tracemalloc=10"), ("-X", "tracemalloc")):
    for env in ({}, {"PYTHONMALLOC": "debug"}):
        clean(child(CODE, *opts, env=env, timeout=120),
              f"subinterpreter file names {opts} {env}", "done")
print("OK")
