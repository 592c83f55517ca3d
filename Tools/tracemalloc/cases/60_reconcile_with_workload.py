"""
Source : polarsource/polar#8531, dask/distributed#1585 (trace deltas per task
         used to accuse a task of leaking)
Kind   : per-task deltas in a threaded program
Seen   : the difference of two totals around a task is taken for its leak.
Right  : with eight threads running tasks that keep a known number of bytes,
         the total after all tasks is the known sum (+- 8 %, for the lists around it), for each line the
         kept blocks are counted exactly, and after release it goes back.
"""
from _case import child, clean

CODE = """
    import gc, sys, threading, queue, tracemalloc as tm
    sys.setswitchinterval(1e-5)
    depth = int(sys.argv[1])
    tm.start(depth)
    src = "def task(n, keep):\\n" + "".join("    keep.append(bytearray(%d))\\n    t = [bytes(n) for _ in range(30)]\\n" % (1000 + 10 * i) for i in range(20))
    ns = {}
    exec(compile(src, "tasks.py", "exec"), ns)
    q, kept, lock = queue.Queue(), [], threading.Lock()
    def worker():
        while True:
            n = q.get()
            if n is None: return
            mine = []
            ns["task"](n, mine)
            with lock: kept.append(mine)
    # Before the threads: the state of one is 16 KB in the free-threaded build.
    gc.collect(); base = tm.get_traced_memory()[0]
    ts = [threading.Thread(target=worker) for _ in range(8)]
    for t in ts: t.start()
    for n in range(1600): q.put(n % 700)
    for _ in ts: q.put(None)
    for t in ts: t.join()
    gc.collect()
    grown = tm.get_traced_memory()[0] - base
    want = 1600 * sum(1001 + 10 * i for i in range(20))
    assert abs(grown - want) < want * 0.08, (grown, want)
    cnt = {}
    for t in tm.take_snapshot().traces:
        f = t.traceback[-1]
        if f.filename == "tasks.py" and t.size in {1001 + 10 * i for i in range(20)}:
            cnt[f.lineno, t.size] = cnt.get((f.lineno, t.size), 0) + 1
    assert cnt == {(2 + 2 * i, 1001 + 10 * i): 1600 for i in range(20)}, cnt
    kept.clear(); gc.collect()
    left = tm.get_traced_memory()[0] - base
    assert abs(left) < 100000, left
    print("done")
"""
for depth in ("1", "12"):
    clean(child(CODE, argv=[depth], timeout=120), f"tasks at depth {depth}", "done")
print("OK")
