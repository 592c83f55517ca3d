"""
Source : bpo-33565 (python/cpython#77746: numbers that seem to grow for ever)
Kind   : drifting totals
Seen   : a long-running loop seems to leak according to the numbers. (There it
         was a real growth in the program; the numbers must be above suspicion.)
Right  : work that allocates and frees everything brings get_traced_memory() and
         the number of traces back to the start, however often, with threads,
         exceptions, generators, resizes and big blocks; at every moment the sum
         of the traces is the reported total.
"""
from _case import child, clean

CODE = """
    import gc, sys, threading, tracemalloc as tm
    tm.start(int(sys.argv[1]))
    def work():
        d = {i: str(i) for i in range(3000)}
        l = [bytearray(i) for i in range(0, 3000, 7)]
        for b in l: b.extend(b"x" * 500)
        for b in l: del b[10:]
        s = ""
        for i in range(300): s += "ab"
        try:
            raise ValueError([1] * 100)
        except ValueError: pass
        list(zip(range(2000), (x * 2.5 for x in range(2000))))
        t = threading.Thread(target=lambda: [bytes(9000) for _ in range(40)])
        t.start(); t.join()
        big = bytearray(5_000_000); big.extend(bytes(1_000_000)); del big
        sorted(d, key=lambda k: -k)
        exec("import json; json.loads(json.dumps(list(range(500))))", {})
    for _ in range(3): work()
    gc.collect()
    def agree():
        snap = tm.take_snapshot()
        a = sum(t.size for t in snap.traces)
        n = len(snap.traces)
        del snap
        return a, n
    gc.collect(); agree(); gc.collect()
    base = tm.get_traced_memory()[0]; n0 = agree()[1]
    own0 = tm.get_tracemalloc_memory()
    worst = 0
    for rnd in range(25):
        work(); gc.collect()
        cur = tm.get_traced_memory()[0]
        worst = max(worst, abs(cur - base))
    a, n = agree()
    assert worst < 40000, worst
    assert abs(n - n0) < 300, (n0, n)
    cur = tm.get_traced_memory()[0]
    assert abs(a - cur) < 20000, (a, cur)
    own = tm.get_tracemalloc_memory()
    assert own < own0 * 3 + 2_000_000, (own0, own)
    assert tm.get_traced_memory()[1] >= 6_000_000
    print("done")
"""
for n in ("1", "15"):
    for env in ({}, {"PYTHONMALLOC": "malloc"}):
        clean(child(CODE, argv=[n], env=env, timeout=120), f"drift with {n} frames {env}", "done")
print("OK")
