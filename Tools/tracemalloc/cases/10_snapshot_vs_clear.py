"""
Source : python/cpython#126314
Kind   : race between take_snapshot() and clear_traces() (threads)
Seen   : a snapshot walked tables that another thread had just cleared:
         segmentation fault (free-threaded build).
Right  : on every build, snapshots in some threads and clear_traces() in others
         give either whole traces or none; no crash, and each snapshot is sound
         (size > 0 or == 0 allowed, at least one frame, str name, int line >= 0).
"""
from _case import child, clean

CODE = """
    import sys, threading, time, tracemalloc
    sys.setswitchinterval(1e-5)
    tracemalloc.start(12)
    end = time.monotonic() + 6
    errors = []
    def snap():
        while time.monotonic() < end:
            s = tracemalloc.take_snapshot()
            for t in s.traces:
                tb = t.traceback
                if len(tb) < 1 or t.size < 0 or tb.total_nframe < len(tb):
                    errors.append(repr(t))
                for f in tb:
                    if type(f.filename) is not str or f.lineno < 0:
                        errors.append(repr(f))
    def clear():
        while time.monotonic() < end:
            tracemalloc.clear_traces()
            time.sleep(0.0005)
    names = []       # kept alive
    def load(n):
        ns = {}
        k = 0
        while time.monotonic() < end:
            k += 1
            names.append("gen%d_%d.py" % (n, k))
            exec(compile("x = [bytearray(i) for i in range(200)]", names[-1], "exec"), ns)
    ts = [threading.Thread(target=f, args=a) for f, a in
          ((snap, ()), (snap, ()), (clear, ()), (load, (1,)), (load, (2,)))]
    for t in ts: t.start()
    for t in ts: t.join()
    assert not errors, errors[:3]
    print("done")
"""
for env in ({}, {"PYTHONMALLOC": "debug"}):
    clean(child(CODE, env=env, timeout=60), f"snapshot against clear {env}", "done")
print("OK")
