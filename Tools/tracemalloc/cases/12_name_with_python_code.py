"""
Source : python/cpython#128710, review: a finalizer that runs while the tracer
         clears its tables with its lock held
Kind   : re-entrancy / deadlock
Seen   : (from the review) clearing the tables can drop the last reference to an
         object whose finalizer runs Python code, with the internal lock held.
         The only objects the tracer keeps are file names; a code object accepts
         an instance of a str subclass as its file name, so __del__, __hash__
         and __eq__ can be Python code.
         (On 3.13.5 __hash__ hangs as soon as such code allocates; __del__ and __eq__
         hang in clear_traces().)
Right  : tracing code under such a name, taking a snapshot, clear_traces() and
         stop() neither hang nor crash nor call __hash__/__eq__ in a way that
         recurses; allocating in the finalizer is fine.
"""
from _case import child, clean

CODE = """
    import gc, sys, tracemalloc
    which = sys.argv[1]
    log = []
    class Name(str):
        if which == "del":
            def __del__(self):
                log.append([bytearray(600) for _ in range(30)])
        if which == "hash":
            def __hash__(self):
                log.append([str(n) * 3 for n in range(5)])
                return 1
        if which == "eq":
            __hash__ = str.__hash__
            def __eq__(self, other):
                log.append([str(n) * 3 for n in range(5)])
                return str.__eq__(self, other)
        if which == "raise":
            def __hash__(self): raise ValueError("no hash for you")
    tracemalloc.start(3)
    for rnd in range(4):
        code = compile("z = [bytearray(900) for _ in range(40)]", "plain.py", "exec")
        code = code.replace(co_filename=Name("fancy%d.py" % rnd))
        ns = {}
        exec(code, ns)
        snap = tracemalloc.take_snapshot()
        names = {str.__str__(f.filename) for t in snap.traces for f in t.traceback}
        if which != "raise":
            assert ("fancy%d.py" % rnd) in names, names
        snap.statistics("filename") if which not in ("raise",) else None
        del code, ns, snap, names
        gc.collect()
        if rnd % 2:
            tracemalloc.clear_traces()
        else:
            tracemalloc.stop(); tracemalloc.start(3)
    tracemalloc.stop()
    print("done")
"""
for which in ("del", "hash", "eq", "raise"):
    clean(child(CODE, argv=[which], timeout=20), f"file name with Python {which}", "done")
print("OK")
