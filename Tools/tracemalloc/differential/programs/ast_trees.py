"""ast: parse, walk, change, compile, unparse; symbol tables and tokens."""
import ast
import io
import symtable
import tokenize

SOURCE = '''
import os, sys as system
class A(object):
    """Doc."""
    x: int = 1
    def m(self, a, *b, c=1, **d):
        for i in range(10):
            if i % 2 and a or not c:
                yield [i, (a, b), {c: d}, {*b}]
        else:
            return
    async def n(self):
        async with self as s, s.t:
            await s
try:
    f = lambda q: (w := q ** 2)
except (KeyError, ValueError) as e:
    raise e from None
finally:
    print(f"{f(3)!r:>10}")
match f(2):
    case [1, *rest] | {"k": rest}: pass
    case A(x=1): pass
'''


def swap(tree):
    """Other constants.  (A NodeTransformer makes up names of methods.)"""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            node.value += 1000
    return tree


def setup():
    ast.dump(swap(ast.parse(SOURCE)))
    list(tokenize.generate_tokens(io.StringIO(SOURCE).readline))


def main(h):
    trees = [ast.parse(SOURCE) for _ in range(3)]
    h.check("parsed")
    h.traceback("tree", trees[0])
    changed = swap(trees[1])
    code = compile(ast.fix_missing_locations(changed), "tree.py", "exec")
    h.check("compiled")
    dumps = [ast.dump(t, indent=1) for t in (trees[0], changed)]
    h.check("text")
    table = symtable.symtable(SOURCE, "s.py", "exec")
    tokens = list(tokenize.generate_tokens(io.StringIO(SOURCE).readline))
    h.check("tokens")
    nodes = list(ast.walk(trees[2]))
    del trees, changed
    h.check("half dropped")
    try:
        ast.parse("def broken(:\n")
    except SyntaxError as exc:
        error = exc
    h.note("n", [*map(len, dumps), len(tokens), len(nodes), error.msg,
                 len(code.co_code), table.get_name()])
