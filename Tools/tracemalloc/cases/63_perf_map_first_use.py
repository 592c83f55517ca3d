"""
Source : python/cpython#103295, #103546
Kind   : perf map support, race on first use
Seen   : PyUnstable_WritePerfMapEntry() is documented as thread safe and opens the
         map by itself when it has not been opened; when several threads make the
         first call at once without the GIL, 3.13.5 crashes now and then.
Right  : whichever thread comes first, every call returns 0 and every line is
         there, in each of 60 fresh processes.
"""
import sys

from _case import SKIPPED, child, drop_perf_maps, need, perf_maps, skip

if not sys.platform.startswith("linux"):
    skip("perf maps are for Linux")
CODE = """
    import ctypes, os, threading, tracemalloc
    tracemalloc.start(2)
    lib = ctypes.CDLL(None)
    try:
        W = lib.PyUnstable_WritePerfMapEntry
    except AttributeError:
        os._exit(77)
    W.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_char_p]
    go = threading.Barrier(8)
    out = []
    def work(t):
        go.wait()
        for k in range(20):
            out.append(W(4096 * (t + 1) + k, 16, b"py::first_%d_%d" % (t, k)))
    ts = [threading.Thread(target=work, args=(t,)) for t in range(8)]
    for t in ts: t.start()
    for t in ts: t.join()
    lib.PyUnstable_PerfMapState_Fini()
    path = "/tmp/perf-%d.map" % os.getpid()
    with open(path) as f: n = f.read().count("py::first_")
    os.remove(path)
    print(set(out), n)
"""
before = perf_maps()
bad = []
for _ in range(60):
    res = child(CODE, timeout=30)
    if res[0] == SKIPPED:
        skip("function not exported")
    if res[0] != 0 or res[1].strip() != "{0} 160":
        bad.append((res[0], res[1].strip(), res[2][-200:]))
drop_perf_maps(before)
need(not bad, len(bad), "of 60 processes went wrong, e.g.", bad[0] if bad else "")
print("OK")
