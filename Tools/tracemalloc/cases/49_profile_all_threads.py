"""
Source : python/cpython#137400 (#137471, #137518), python/cpython#132296
Kind   : race, PyEval_SetProfileAllThreads / SetTraceAllThreads
Seen   : setting or removing the function for all threads while threads start,
         end or are inside a call crashed.
Right  : with tracing on, threading.setprofile_all_threads() and
         settrace_all_threads() toggled quickly against short-lived and busy
         threads never crash; after removal no more events come; while set,
         another thread's calls are seen.
"""
from _case import child, clean

CODE = """
    import sys, threading, time, tracemalloc
    sys.setswitchinterval(1e-5)
    if sys.argv[1] == "tm": tracemalloc.start(4)
    which = threading.setprofile_all_threads if sys.argv[2] == "profile" else threading.settrace_all_threads
    seen = set()
    def ev(frame, event, arg):
        seen.add(threading.get_ident())
        return ev
    stop = [False]
    def small(n): return [n] * 5
    def busy():
        while not stop[0]:
            for i in range(20): small(i)
    def short():
        for i in range(30): small(i)
    main_busy = [threading.Thread(target=busy) for _ in range(3)]
    for t in main_busy: t.start()
    end = time.monotonic() + 5
    def churn():
        while time.monotonic() < end:
            ts = [threading.Thread(target=short) for _ in range(5)]
            for t in ts: t.start()
            for t in ts: t.join()
    ch = [threading.Thread(target=churn) for _ in range(2)]
    for t in ch: t.start()
    n = 0
    while time.monotonic() < end:
        which(ev)
        small(1)
        which(None)
        n += 1
    for t in ch: t.join()
    which(ev)
    time.sleep(0.1)
    ids = {t.ident for t in main_busy}
    got = ids <= seen
    which(None)
    quiet = False
    for _ in range(25):             # a call that was under way may still report
        time.sleep(0.2)
        seen.clear()
        time.sleep(0.2)
        quiet = not (seen & ids)
        if quiet: break
    stop[0] = True
    for t in main_busy: t.join()
    print(n > 5, got, quiet)
"""
for tmode in ("tm", "off"):
    for which in ("profile", "trace"):
        clean(child(CODE, argv=[tmode, which], timeout=60), f"{which} for all threads, tracer {tmode} (rounds, seen, quiet)", "True True True")
print("OK")
