"""
Source : python/cpython#103295 (lines of /tmp/perf-PID.map were mixed up when
         several writers wrote at once)
Kind   : perf map support
Seen   : entries written by several threads at the same time corrupt each other.
Right  : with tracing on, many threads may call PyUnstable_WritePerfMapEntry()
         without the GIL: every line is whole and present exactly once; a forked
         child that closes the inherited file (PyUnstable_PerfMapState_Fini, as
         documented) gets a file of its own; the name may be long.
"""
import sys

from _case import SKIPPED, child, clean, drop_perf_maps, need, perf_maps, skip

if not sys.platform.startswith("linux"):
    skip("perf maps are for Linux")
CODE = """
    import ctypes, os, sys, threading, tracemalloc
    tracemalloc.start(3)
    lib = ctypes.CDLL(None)                  # releases the GIL around calls
    try:
        W = lib.PyUnstable_WritePerfMapEntry
    except AttributeError:
        os._exit(77)
    W.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_char_p]
    long = "x" * 3000
    def work(t):
        for k in range(400):
            r = W(0x10000 * (t + 1) + k, 16 + k, b"py::case_%d_%d_%s" % (t, k, long.encode() if k % 50 == 0 else b""))
            assert r == 0, r
            tracemalloc.get_traced_memory()
    def read(pid):
        path = "/tmp/perf-%d.map" % pid
        with open(path) as f: lines = f.read().split("\\n")
        os.remove(path)
        assert lines.pop() == ""
        seen = set()
        for l in lines:
            a, s, n = l.split(" ", 2)
            a, s = int(a, 16), int(s, 16)
            assert s >= 16, l[:80]
            if n.startswith("py::case_"):
                t, k, rest = n[len("py::case_"):].split("_", 2)
                t, k = int(t), int(k)
                assert a == 0x10000 * (t + 1) + k and s == 16 + k, l[:80]
                assert rest == (long if k % 50 == 0 else ""), l[:80]
                assert (t, k) not in seen
                seen.add((t, k))
        return len(seen)
    assert lib.PyUnstable_PerfMapState_Init() == 0       # the first use is case 63
    ts = [threading.Thread(target=work, args=(t,)) for t in range(8)]
    for t in ts: t.start()
    for t in ts: t.join()
    pid = os.fork()
    if pid == 0:
        try:
            lib.PyUnstable_PerfMapState_Fini()      # as documented for forking
            for t in range(20, 22): work(t)
            lib.PyUnstable_PerfMapState_Fini()
            os._exit(0)
        finally:
            os._exit(5)
    _, st = os.waitpid(pid, 0)
    assert st == 0, st
    lib.PyUnstable_PerfMapState_Fini()
    n = read(os.getpid())
    m = read(pid) if os.path.exists("/tmp/perf-%d.map" % pid) else "no file"
    print(n, m)
"""
before = perf_maps()
res = child(CODE)
drop_perf_maps(before)          # left over after a crash
if res[0] == SKIPPED:
    skip("function not exported")
out = clean(res, "perf map lines (parent, child)")
need(out.split() == ["3200", "800"], "parent and child lines:", out)
print("OK")
