"""
Source : bpo-32121
Kind   : order of frames, format() limits
Seen   : frames came newest first, unlike every other traceback in Python.
Right  : oldest frame first; format(limit=n) shows the n newest, limit=-n the n
         oldest, limit=0 nothing; most_recent_first reverses; a missing source
         file or line is left out without an error.
"""
import linecache
import tracemalloc as tm

from _case import need

tm.start(10)
src = "def a(): return b()\ndef b(): return c()\ndef c(): return bytearray(99)\n"
ns = {}
exec(compile(src, "order-case.py", "exec"), ns)
linecache.cache["order-case.py"] = (len(src), None, src.splitlines(True), "order-case.py")
tb = tm.get_object_traceback(ns["a"]())
mine = [f.lineno for f in tb if f.filename == "order-case.py"]
need(mine == [1, 2, 3], mine)
need(tb[-1].lineno == 3 and str(tb) == str(tb[0]))
full = tb.format()
L = lambda lines: [l.split("line ")[1] for l in lines if l.startswith("  File")]
all_lines = L(full)
need(all_lines[-3:] == ["1", "2", "3"], full)
need([l.strip() for l in full[-6:]] == [
    'File "order-case.py", line 1', "def a(): return b()",
    'File "order-case.py", line 2', "def b(): return c()",
    'File "order-case.py", line 3', "def c(): return bytearray(99)"], full)
need(L(tb.format(limit=1)) == all_lines[-1:])
need(L(tb.format(limit=2)) == all_lines[-2:])
need(L(tb.format(limit=-1)) == all_lines[:-1] or L(tb.format(limit=-1)) == all_lines[:1], tb.format(limit=-1))
need(L(tb.format(limit=1000)) == all_lines)
need(L(tb.format(most_recent_first=True)) == all_lines[::-1])
need(L(tb.format(limit=2, most_recent_first=True)) == all_lines[-2:][::-1])
need(tb.format(limit=0) == [])
ns = {}
exec(compile("q = bytearray(500)", "no such file \udc80.py", "exec"), ns)
tb = tm.get_object_traceback(ns["q"])
need(any("no such file" in l for l in tb.format()), tb)
print("OK")
