"""
Source : DalgoT4D/DDP_backend#1308 (a web worker dumps statistics("traceback")
         from a SIGUSR1 handler)
Kind   : signal handlers
Seen   : handlers take and format snapshots while the program is busy, also
         while it is inside another snapshot.
Right  : a Python handler that takes a snapshot, clears, stops and starts, hit
         thousands of times in the middle of allocation-heavy code and of other
         snapshots, neither hangs nor crashes; numbers stay sound.
"""
from _case import child, clean

CODE = """
    import os, signal, sys, threading, time, tracemalloc as tm
    mode = sys.argv[1]
    tm.start(15)
    hits = [0]
    names = []
    busy = [False]
    def handler(sig, frame):
        if busy[0]: return            # a handler may be hit by the next signal
        busy[0] = True
        try: act()
        finally: busy[0] = False
    def act():
        hits[0] += 1
        if mode == "snap":
            tm.take_snapshot().statistics("traceback")[:3]
        elif mode == "clear":
            tm.clear_traces()
        elif mode == "restart":
            tm.stop(); tm.start(1 + hits[0] % 20)
        a, b = tm.get_traced_memory()
        assert 0 <= a <= b
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    end = time.monotonic() + 5
    k = 0
    while time.monotonic() < end:
        k += 1
        d = {i: [bytearray(i)] for i in range(300)}
        if k % 5 == 0 and tm.is_tracing():
            try:
                s = tm.take_snapshot()
            except RuntimeError:
                continue
            s.statistics("lineno"); s.compare_to(s, "filename")
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert hits[0] > 50, hits
    print("done")
"""
for mode in ("snap", "clear", "restart"):
    clean(child(CODE, argv=[mode], timeout=60), f"signal handler: {mode}", "done")
print("OK")
