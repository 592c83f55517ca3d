"""
Source : python/cpython#126315 and python/cpython#139116
Kind   : race / deadlock, every entry point from many threads
Seen   : calling start, stop, reset_peak, get_traced_memory and the like from
         several threads at once aborted or deadlocked.
Right  : any mix of the calls from many threads ends; afterwards the module is
         in a sound state: a fresh start() traces, stop() returns to (0, 0).
"""
from _case import child, clean

CODE = """
    import random, sys, threading, time, tracemalloc
    sys.setswitchinterval(1e-5)
    end = time.monotonic() + 5
    odd = []
    def ok(f, *a):
        try:
            return f(*a)
        except RuntimeError:
            return None
    def worker(seed):
        r = random.Random(seed)
        keep = []
        calls = [
            lambda: tracemalloc.start(r.choice([1, 2, 25, 300])),
            tracemalloc.stop, tracemalloc.clear_traces, tracemalloc.reset_peak,
            tracemalloc.get_traced_memory, tracemalloc.get_tracemalloc_memory,
            tracemalloc.get_traceback_limit, tracemalloc.is_tracing,
            lambda: tracemalloc.get_object_traceback(keep),
            lambda: ok(tracemalloc.take_snapshot),
        ]
        while time.monotonic() < end:
            v = r.choice(calls)()
            if isinstance(v, tuple) and len(v) == 2 and not (0 <= v[0] <= v[1]):
                odd.append(v)
            keep.append(bytearray(r.randrange(3000)))
            if len(keep) > 300: keep.clear()
    ts = [threading.Thread(target=worker, args=(i,)) for i in range(10)]
    for t in ts: t.start()
    for t in ts: t.join()
    assert not odd, odd[:3]
    tracemalloc.stop()
    assert tracemalloc.get_traced_memory() == (0, 0)
    tracemalloc.start(4)
    b = bytearray(4321)
    assert tracemalloc.get_object_traceback(b) is not None
    assert tracemalloc.get_traced_memory()[0] >= 4321
    tracemalloc.stop()
    print("done")
"""
for env in ({}, {"PYTHONMALLOC": "debug"}):
    clean(child(CODE, env=env, timeout=60), f"storm of calls {env}", "done")
print("OK")
