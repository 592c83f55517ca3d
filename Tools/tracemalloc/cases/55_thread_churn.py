"""
Source : comment in the tracer about a deadlock in thread state deletion, met in
         python/cpython#128679 and zhuyifei1999/guppy3#11
Kind   : threads that come and go
Seen   : the thread state is freed with PyMem_RawFree() after the GIL has been
         given up; a free hook that wants the GIL there deadlocks.
Right  : thousands of short threads, also with start/stop in between, end;
         memory of the tracer and totals level off; thread-local helpers do not
         leak (resident size).
"""
import os

from _case import ADDRESS_SANITIZER, child, clean, skip

CODE = """
    import gc, sys, threading, tracemalloc as tm, _thread, time
    toggle = sys.argv[1] == "toggle"
    tm.start(8)
    def work():
        x = [bytearray(500) for _ in range(10)]
    def rss():
        with open("/proc/self/statm") as f: return int(f.read().split()[1]) * 4096
    marks, totals = [], []
    for rnd in range(12):
        for _ in range(40):
            ts = [threading.Thread(target=work) for _ in range(10)]
            for t in ts: t.start()
            if toggle: tm.stop(); tm.start(8)
            for t in ts: t.join()
        for _ in range(50): _thread.start_new_thread(work, ())
        time.sleep(0.05)
        del ts, t
        gc.collect()
        totals.append(tm.get_traced_memory()[0]); marks.append(rss())
    assert max(totals) < 600000, totals
    assert abs(totals[-1] - totals[4]) < 60000, totals
    assert marks[-1] - marks[4] < 12 << 20, [m >> 20 for m in marks]
    print("done")
"""
if not os.path.exists("/proc/self/statm"):
    skip("no /proc")
if ADDRESS_SANITIZER:
    skip("the address sanitizer keeps freed memory")
for how in ("plain", "toggle"):
    clean(child(CODE, argv=[how], timeout=120), f"thread churn {how}", "done")
print("OK")
