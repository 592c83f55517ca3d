"""Odd file names and line numbers: wide, empty, lone surrogates, far lines."""
import ast

NAMES = ["", "plain.py", "caf\u00e9.py", "\u20acuro.py", "\U0001f600.py",
         "lone\udc80.py", "x" * 5000, "<string>", "a\x00b.py", "plain.py"]
# compile() takes no null characters; replace() does.
SOUND = {name: name.replace("\x00", "0") for name in NAMES}
SOURCE = "keep.append(bytearray(500))\ndef f():\n    keep.append([1] * 9)\nf()\n"


def run(code, keep):
    exec(code, {"keep": keep})


def main(h):
    keep = []
    for name in NAMES:
        try:
            code = compile(SOURCE, "x.py", "exec").replace(co_filename=name)
        except ValueError:
            continue
        run(code, keep)
        inner = compile(SOURCE, SOUND[name], "exec")
        run(inner, keep)
        h.traceback(f"{ascii(name)[:30]}", keep[-1])
    h.check("names")
    for line in (1, 7, 255, 70_000, 2 ** 24, 2 ** 31 - 1):
        tree = ast.parse("keep.append(bytearray(600))", "lines.py")
        for node in ast.walk(tree):
            if hasattr(node, "lineno"):
                node.lineno = node.end_lineno = line
        run(compile(tree, "lines.py", "exec"), keep)
    h.check("far lines")
    base = compile(SOURCE, "base.py", "exec")
    for first in (0, 10, 10 ** 6, 2 ** 31 - 10):
        run(base.replace(co_firstlineno=first), keep)
    for table in (b"", b"\x80", base.co_linetable[:3]):
        run(base.replace(co_linetable=table), keep)
    h.check("odd tables")
    long = "".join("keep.append([%d])\n" % i for i in range(3000))
    run(compile(long, "long.py", "exec"), keep)
    h.check("long module")
    run(compile("(\n" * 90 + "keep.append([0]\n)" + "\n)" * 90, "deep.py", "exec"), keep)
    h.check("many lines for one expression")
