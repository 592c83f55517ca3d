"""
Source : bpo-26564, bpo-29564 (python/cpython#10510), python/cpython#121112
Kind   : debug hooks on the allocators together with the tracer
Seen   : a buffer overflow found by the debug hooks should name the place where
         the block was allocated; without tracing it should say how to get it.
Right  : PYTHONMALLOC=debug + tracing: the fatal report has "Memory block
         allocated at (most recent call first)" with our file and line; without
         tracing it has "Enable tracemalloc"; the process dies by abort, and
         does not hang while it prints.
"""
import os
import subprocess
import sys
import tempfile

from _case import clean_env, fail, need, skip

try:
    import _testcapi
except ImportError:
    skip("no _testcapi")
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "overflow_here.py")
    for call in ("pymem_buffer_overflow", "pymem_api_misuse"):
        with open(path, "w") as f:
            f.write("import _testcapi\n\ndef boom():\n    _testcapi.%s()\n\nboom()\n" % call)

        def go(*opts, **more):
            p = subprocess.Popen([sys.executable, *opts, path], env=clean_env(more), text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                out, err = p.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                p.kill()
                fail(call, opts, more, "hung while reporting:", p.communicate()[1][-600:])
            return p.returncode, err

        for opts, more in ((("-X", "tracemalloc=10"), {"PYTHONMALLOC": "debug"}),
                           (("-X", "tracemalloc=10"), {"PYTHONMALLOC": "malloc_debug"}),
                           (("-X", "dev", "-X", "tracemalloc=10"), {}),
                           ((), {"PYTHONMALLOC": "debug", "PYTHONTRACEMALLOC": "10"})):
            rc, err = go(*opts, **more)
            need(rc not in (0, 1), call, opts, more, rc, err[-500:])
            need("Memory block allocated at (most recent call first):" in err, call, opts, err[-900:])
            part = err.split("Memory block allocated at")[1]
            need(part.index("line 4") < part.index("line 6"), part)
            need("overflow_here.py" in part, part)
            need("Fatal Python error" in err, err)
        rc, err = go(PYTHONMALLOC="debug")
        need(rc not in (0, 1) and "Enable tracemalloc to get the memory block allocation traceback" in err, call, rc, err[-500:])
print("OK")
