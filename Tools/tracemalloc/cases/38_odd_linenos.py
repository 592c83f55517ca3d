"""
Source : bpo-44446 (python/cpython#88612: a line number of None)
Kind   : odd line tables
Seen   : code without a line number for an instruction gives None where an int
         was expected, and formatting failed.
Right  : lineno is always an int >= 0 (0 when there is none); huge first lines
         (2**31 - 1), empty and short line tables, code made by replace() with
         bytecode of another function neither crash nor give negative numbers;
         format(), statistics and sorting work on the result.
"""
from _case import child, clean

CODE = """
    import sys, tracemalloc as tm, ast
    tm.start(4)
    keep = []
    def run(code, tag):
        exec(code, {"keep": keep, "bytearray": bytearray})
        return tm.get_object_traceback(keep[-1])[-1]
    base = compile("\\nkeep.append(bytearray(5000))\\n", "lines.py", "exec")
    res = {}
    res["plain"] = run(base, 0).lineno
    for first in (1, 0, -5, 10**6, 2**31 - 1, 2**31 - 10):
        try:
            c = base.replace(co_firstlineno=first)
        except (ValueError, OverflowError):
            continue
        res["first %d" % first] = run(c, 0).lineno
    for table in (b"", b"\\x80", b"\\xf8\\x00" * 3, base.co_linetable[:1], base.co_linetable[:3], base.co_linetable * 3):
        try:
            c = base.replace(co_linetable=table)
        except ValueError:
            continue
        res["table %r" % table] = run(c, 0).lineno
    # a node that claims to be on a far line
    for line in (7, 70000, 2**24, 2**31 - 1):
        tree = ast.parse("keep.append(bytearray(5000))", "lines.py")
        for n in ast.walk(tree):
            if hasattr(n, "lineno"):
                n.lineno = n.end_lineno = line
        res["node %d" % line] = run(compile(tree, "lines.py", "exec"), 0).lineno
    # no location: instructions made by the compiler itself
    src = "with open(keep_name, 'rb') as f:\\n    keep.append(bytearray(5000))\\n"
    assert res["plain"] == 2, res
    for k, v in res.items():
        assert type(v) is int and 0 <= v < 2**32, (k, v)
    for line in (7, 70000, 2**24, 2**31 - 1):
        assert res["node %d" % line] == line, (line, res)
    assert res["first 1000000"] == 10**6 + 1, res
    snap = tm.take_snapshot()
    for key in ("lineno", "filename", "traceback"):
        for s in snap.statistics(key):
            str(s), s.traceback.format()
    snap.compare_to(snap, "lineno")
    print("done")
"""
clean(child(CODE), "odd line numbers", "done")
print("OK")
