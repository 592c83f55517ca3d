"""
Source : bpo-46280 and python/cpython#128888 (the locking redesign that made
         frees done inside the tracer skip the tracer)
Kind   : out-of-memory injection below the tracer, self-deadlock
Seen   : the memory for a trace could not be had; the new block was then freed
         with the tracer's lock held, and that free entered the tracer again
         and waited for the same lock for ever.
Right  : when the allocation of a trace or a traceback fails once, Python raises
         MemoryError (or the block just goes untraced); no hang, no crash, and
         everything works afterwards.
"""
from _case import SKIPPED, child, clean, skip

CODE = """
    import os, sys, time
    try:
        import _testcapi
    except ImportError:
        os._exit(77)
    import tracemalloc
    body = "".join("a%d = bytes(%d)\\n" % (i, s) for i, s in enumerate([600, 5000, 90, 3_000_000] * 6))
    first = int(sys.argv[1])
    stuck, died = [], []
    for n in range(first, first + 25):
        pid = os.fork()
        if pid == 0:
            try:
                ns = {}
                code = compile(body, "oom%d.py" % n, "exec")
                _testcapi.set_nomemory(n, n + 1)
                try:
                    tracemalloc.start(5)
                    exec(code, ns)
                    s = tracemalloc.take_snapshot()
                    for _ in range(400):    # few allocations so far: let it fail here
                        bytes(600)
                except MemoryError:
                    pass
                s = None
                if not tracemalloc.is_tracing():
                    tracemalloc.start(5)
                ns.clear()
                exec(code, ns)
                s = tracemalloc.take_snapshot()
                assert any(f.filename.startswith("oom") for t in s.traces for f in t.traceback)
                os._exit(0)
            except BaseException as exc:
                os.write(2, repr(exc).encode())
                os._exit(9)
        end = time.monotonic() + 5
        while True:
            p, st = os.waitpid(pid, os.WNOHANG)
            if p:
                if st: died.append((n, st))
                break
            if time.monotonic() > end:
                os.kill(pid, 9); os.waitpid(pid, 0)
                stuck.append(n)
                break
            time.sleep(0.001)
        if len(stuck) + len(died) >= 2: break
    print(stuck, died)
"""
for first in range(0, 300, 25):
    res = child(CODE, argv=[str(first)], timeout=90)
    if res[0] == SKIPPED:
        skip("no _testcapi")
    clean(res, f"one failed allocation below the tracer, {first}..{first + 24} (stuck, died)", "[] []")
print("OK")
