"""exec and compile: code objects that are born, run and die, address reuse."""

NAMES = [f"made{n}.py" for n in range(1001)]


def source(n, lines):
    body = "".join(f"    x{i} = [bytearray({n + i})]\n" for i in range(lines))
    return f"def f{n}():\n{body}    return locals()\nkept.append(f{n}())\n"


def run(n, lines, kept):
    code = compile(source(n, lines), NAMES[n], "exec")
    exec(code, {"kept": kept})


def evaluated(n):
    return eval(f"[{n}, bytearray({n}), (lambda: [{n}])()]")


def main(h):
    kept = []
    for n in range(60):
        run(n, 1 + n % 7, kept)         # each code object is dead at once
    h.check("run once each")
    for n in range(60):
        kept.clear()
        run(1000 - n, 5, kept)
    h.check("addresses reused")
    kept += [evaluated(n) for n in range(40)]
    h.check("evaluated")
    h.traceback("evaluated", kept[-1])
    codes = [compile(source(n, 3), NAMES[n], "exec") for n in range(20)]
    h.check("kept code")
    for code in codes:
        exec(code, {"kept": kept})
        exec(code.replace(co_filename="renamed.py", co_firstlineno=500),
             {"kept": kept})
    h.check("replaced code")
    del code
    codes.clear()
    h.check("code dropped")
    functions = {}
    exec("def g(n):\n    return [n] * n\n", functions)
    g = functions["g"]
    before = [g(i) for i in range(30)]
    g.__code__ = (lambda n: bytearray(n)).__code__
    after = [g(i) for i in range(30)]
    h.check("code of a function replaced")
    h.note("lengths", [len(before), len(after)])
