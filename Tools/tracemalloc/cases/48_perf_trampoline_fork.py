"""
Source : python/cpython#144766 (#144795) and python/cpython#149156 (#150347)
Kind   : crash after fork with -X perf, here with the tracer on as well
Seen   : a forked child freed or unregistered trampolines of the parent that
         were still in use; it crashed when code objects were released.
Right  : with -X perf (and with tracing) a forked child that drops thousands of
         code objects made by the parent, makes new ones, and exits normally
         does so with status 0.
"""
from _case import SKIPPED, child, clean, drop_perf_maps, perf_maps, skip

CODE = """
    import gc, os, sys, tracemalloc
    if not hasattr(sys, "is_stack_trampoline_active") or not sys.is_stack_trampoline_active():
        os._exit(77)
    ns = {}
    fs = []
    for k in range(3000):
        d = {}
        exec(compile("def f%d(x): return [x] * 3" % k, "perf%d.py" % k, "exec"), d)
        f = d["f%d" % k]
        f(k)
        fs.append(f)
    bad = []
    for rnd in range(4):
        pid = os.fork()
        if pid == 0:
            del d, f
            fs.clear(); gc.collect()
            new = []
            for k in range(500):
                d = {}
                exec(compile("def g(x): return [x] * 3", "child%d.py" % k, "exec"), d)
                d["g"](1); new.append(d["g"])
            pid2 = os.fork()                       # a grandchild as well
            if pid2 == 0:
                new.clear(); gc.collect()
                sys.exit(0)
            _, st = os.waitpid(pid2, 0)
            sys.exit(0 if st == 0 else 9)
        _, st = os.waitpid(pid, 0)
        if st: bad.append(st)
    print("done" if not bad else "children died: %s" % bad)
"""
env_sets = ((("-X", "perf"), {}), (("-X", "perf", "-X", "tracemalloc=5"), {}))
for opts, env in env_sets:
    before = perf_maps()
    try:
        res = child(CODE, *opts, env=env, timeout=120)
    finally:
        drop_perf_maps(before)
    if res[0] == SKIPPED:
        skip("no perf trampoline")
    clean(res, f"fork with {opts}", "done")
print("OK")
