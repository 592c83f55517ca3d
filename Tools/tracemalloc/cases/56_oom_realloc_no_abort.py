"""
Source : devdanzin/cpython-oom-findings, catalog/non_bugs.md (fuzzing met the
         fatal error "failed to allocate a trace" in the realloc hook; there it
         is filed as by design)
Kind   : out-of-memory injection, realloc
Seen   : a growing block whose new trace cannot be stored ends the whole process
         with a fatal error (here even a hang: the report is printed with the
         tracer's lock held).
Right  : losing one trace must not take the program down: the resize succeeds,
         or MemoryError is raised with the old block intact; the process goes
         on. (Stock 3.13.5 aborts on purpose.)
"""
from _case import SKIPPED, child, clean, skip

CODE = """
    import os, sys, time
    try:
        import _testcapi
    except ImportError:
        os._exit(77)
    import tracemalloc
    died, stuck = [], []
    for n in range(int(sys.argv[1]), int(sys.argv[1]) + 40):
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            b = [bytearray(700) for _ in range(60)]
            code = [compile("\\n" * i + "for q in b: q += bytes(%d)\\n" % (1000 + 50 * i), "grow%d.py" % i, "exec")
                    for i in range(8)]
            _testcapi.set_nomemory(n, n + 3)
            try:
                tracemalloc.start(3)
            except MemoryError:
                pass
            for c in code:
                try:
                    exec(c)
                except MemoryError:
                    pass
            os._exit(0)
        end = time.monotonic() + 5
        while True:
            p, st = os.waitpid(pid, os.WNOHANG)
            if p:
                if os.WIFSIGNALED(st): died.append((n, st))
                break
            if time.monotonic() > end:
                os.kill(pid, 9); os.waitpid(pid, 0)
                stuck.append(n)
                break
            time.sleep(0.001)
        if len(stuck) + len(died) >= 2: break
    print(stuck, died)
"""
for first in range(0, 400, 40):
    res = child(CODE, argv=[str(first)], timeout=90)
    if res[0] == SKIPPED:
        skip("no _testcapi")
    clean(res, f"failed trace in realloc, {first}..{first + 39} (stuck, died)", "[] []")
print("OK")
