"""
Source : pytest-dev/pytest#7731, pytest-dev/pytest#9644, python/cpython#101430
Kind   : ResourceWarning with allocation traceback
Seen   : the "Object allocated at" part was missing or lost.
Right  : with -X tracemalloc=N a ResourceWarning shows where the object was
         allocated, oldest frame first, with at most N frames; without tracing
         it says how to get it; warnings.catch_warnings(record=True) carries the
         source object, whose traceback can still be asked for.
"""
import os
import re
import subprocess
import sys
import tempfile

from _case import clean_env, need

SRC = '''import sys, warnings, tracemalloc
class Res:
    def __del__(self):
        warnings.warn("left open", ResourceWarning, source=self)
def inner():
    return Res()
def outer():
    return inner()
r = outer()
r = None
f = open(__file__, "rb")
f = None
with warnings.catch_warnings(record=True) as got:
    warnings.simplefilter("always")
    q = outer()
    q = None
tb = tracemalloc.get_object_traceback(got[0].source)
print([(x.lineno) for x in tb] if tb else None)
'''
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "rescase.py")
    with open(path, "w") as fh:
        fh.write(SRC)
    env = clean_env()

    def go(*opts, **more):
        p = subprocess.run([sys.executable, *opts, path], env={**env, **more}, timeout=60,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
        need(p.returncode == 0, opts, p.returncode, p.stderr)
        return p.stdout.strip(), p.stderr

    for opts, more in ((("-Wd", "-X", "tracemalloc=10"), {}),
                       (("-Wd",), {"PYTHONTRACEMALLOC": "10"}),
                       (("-X", "dev", "-X", "tracemalloc=10"), {})):
        out, err = go(*opts, **more)
        blocks = re.findall(r"Object allocated at \(most recent call last\):\n((?:  .*\n)+)", err)
        need(len(blocks) == 2, opts, more, err)
        lines = re.findall(r"lineno (\d+)", blocks[0])
        need(lines == ["9", "8", "6"], "frames of Res", lines, err)
        need(re.findall(r"lineno (\d+)", blocks[1])[:1] == ["11"], "frames of open()", blocks[1])
        need("Enable tracemalloc" not in err, err)
        need(out == "[15, 8, 6]", out)
    out, err = go("-Wd", "-X", "tracemalloc=1")
    blocks = re.findall(r"Object allocated at \(most recent call last\):\n((?:  .*\n)+)", err)
    need([re.findall(r"lineno (\d+)", b) for b in blocks][0] == ["6"], err)
    need(out == "[6]", out)
    out, err = go("-Wd")
    need(err.count("Enable tracemalloc to get the object allocation traceback") == 2, err)
    need(out == "None", out)
print("OK")
