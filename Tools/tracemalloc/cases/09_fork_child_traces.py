"""
Source : mediacloud/backend#337 (a task worker forks: the trace taken in the
         parent said nothing about the child that did the work)
Kind   : fork / multiprocessing semantics
Seen   : people expect either tracing to go on in the child, or to be off; what
         matters is that it is one of these and that the numbers stay separate.
Right  : turned on by start(), the forked child is still tracing with the same
         frame limit, keeps the traces it inherited, and counts its own blocks; the
         parent's totals do not move. Turned on by -X, a forked child is not tracing
         unless the fork policy is "follow". A spawned worker inherits -X tracemalloc=N.
"""
import os
import subprocess
import sys
import tempfile

from _case import child, clean, clean_env, need

FORK = """
    import gc, os, sys, tracemalloc
    tracemalloc.start(9)
    ns = {}
    exec(compile("def mk(n): return [bytearray(1000) for _ in range(n)]", "maker.py", "exec"), ns)
    old = ns["mk"](100)
    def seen(name):
        s = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, name)])
        sizes = [t.size for t in s.traces if 1000 <= t.size <= 1010]
        return sum(sizes), len(sizes)
    before = seen("maker.py")
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        assert tracemalloc.is_tracing() and tracemalloc.get_traceback_limit() == 9
        assert seen("maker.py") == before
        new = ns["mk"](300)
        a = seen("maker.py")[1] - before[1]
        old.clear(); gc.collect()
        b = seen("maker.py")[1]
        os.write(w, b"%d %d" % (a, b))
        tracemalloc.stop()
        os._exit(0)
    _, st = os.waitpid(pid, 0)
    assert st == 0, st
    assert os.read(r, 100) == b"300 300"
    assert seen("maker.py") == before, "the child moved the parent's numbers"
    print("done")
"""
clean(child(FORK), "fork", "done")
SPAWN = """
import multiprocessing as mp, tracemalloc, sys
def work(n):
    x = bytearray(5000)
    return tracemalloc.is_tracing(), tracemalloc.get_object_traceback(x) is not None
if __name__ == "__main__":
    for how in ("fork", "spawn", "forkserver"):
        with mp.get_context(how).Pool(2) as p:
            print(how, set(p.map(work, range(4))))
"""
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "spawncase.py")
    with open(path, "w") as f:
        f.write(SPAWN)
    base = clean_env()
    # draft 3 of PEP 454: turned on by -X, tracing is off in a forked child, unless the policy says "follow"
    for policy, forked in (("follow", True), (None, False)):
        env = dict(base, PYTHONTRACEMALLOC_FORK=policy) if policy else base
        p = subprocess.run([sys.executable, "-X", "tracemalloc=7", path], env=env, timeout=90,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
        want = "".join(f"{h} {{({on}, {on})}}\n" for h, on in
                       (("fork", forked), ("spawn", True), ("forkserver", forked)))
        need(p.returncode == 0 and p.stdout == want, "pool workers:", policy, p.stdout, p.stderr[-600:])
print("OK")
