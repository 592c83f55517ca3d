"""The same program under this build and under the stock build of the version: the same events, in the same order."""

import json
import subprocess
import sys
import sysconfig
import unittest

from .util import CapiTestCase, run_python, stock_python

#: A bit of everything that makes events; deterministic.
PROGRAM = """
import contextlib

def plain(a, b=2, *args, c=3, **kw):
    return a + b + c + len(args) + len(kw)

def generator(n):
    try:
        for i in range(n):
            received = yield i
            if received:
                yield received * 2
    except KeyError as e:
        yield repr(e)
    finally:
        plain(0)

def delegating(n):
    result = yield from generator(n)
    return result

async def awaited(x):
    return x * 2

async def awaiting(n):
    total = 0
    for i in range(n):
        total += await awaited(i)
    return total

async def numbers(n):
    for i in range(n):
        yield i

async def consume(n):
    return [i async for i in numbers(n) if i % 2]

class Thing:
    attribute = property(lambda self: len("property"))
    def __init__(self, x):
        self.x = x
    def __add__(self, other):
        return Thing(self.x + other.x)
    def __eq__(self, other):
        return self.x == other.x
    def __hash__(self):
        return hash(self.x)
    def __getattr__(self, name):
        if name == "virtual":
            return 5
        raise AttributeError(name)
    @classmethod
    def make(cls, x):
        return cls(x)
    @staticmethod
    def static(x):
        return [y for y in range(x)]
    def __enter__(self):
        return self
    def __exit__(self, *exc):
        return True
    def __iter__(self):
        return iter([self.x])
    def __call__(self, **kw):
        return sorted(kw, key=lambda k: -ord(k))

@contextlib.contextmanager
def manager():
    yield "inside"

def failing(depth):
    if depth == 0:
        raise ValueError("bottom")
    try:
        failing(depth - 1)
    finally:
        len("finally")

def loops():
    total = 0
    for i in range(4):
        if i == 2: continue
        while total < i:
            total += 1
    else:
        total = -total
    return {k: v for k, v in zip("abc", range(total, total + 3))}

def drive(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as e:
        return e.value

def main():
    for _ in range(3):                  # so that instructions specialise
        plain(1); plain(1, 3, 4, 5, c=6, d=7); plain(*[1, 2], **{"c": 4})
        list(generator(3)); list(delegating(2))
        g = generator(3); next(g); g.send(5); g.throw(KeyError("k")); g.close()
        drive(awaiting(3)); drive(consume(4))
        t = Thing(1) + Thing.make(2)
        t == Thing(3), hash(t), t.attribute, t.virtual, Thing.static(2), list(t), t(b=1, a=2)
        with t:
            raise KeyError
        with manager() as m:
            str.upper(m)
        try:
            failing(2)
        except ValueError as e:
            e.args
        try:
            t.missing
        except AttributeError:
            pass
        try:
            int("x"), max()
        except (ValueError, TypeError):
            pass
        loops()
        max(*[1, 2], key=abs); "".join(["a", "b"]); "%s" % t.x; f"{t.x!r:>5}"
        list(map(plain, range(2))); dict.fromkeys("ab"); [1].append(2); {}.get("x")
        exec("x = 1\\ny = [x for _ in range(2)]")
        match t.x:
            case 1 | 2: pass
            case int(n): n + 1
"""

RECORD = """
import json, sys, tracefunc_ext as ext
namespace = {"__name__": "recorded"}
exec(compile(PROGRAM, "recorded.py", "exec"), namespace)
def describe(what, argument):
    if argument is ...: return "NULL"
    if what == ext.EXCEPTION: return argument[0].__name__
    if callable(argument): return getattr(argument, "__qualname__", type(argument).__name__)
    return repr(argument) if isinstance(argument, (int, str, type(None), list, dict)) else type(argument).__name__
if sys.argv[2] == "traced":
    import tracemalloc; tracemalloc.start(5)
events = []
main = namespace["loops" if sys.argv[1] == "opcodes" else "main"]
# Asked for before the function is set: the stock build does not hear of it later when the function is written in C.
sys._getframe().f_trace_opcodes = sys.argv[1] == "opcodes"
kind = sys.argv[1] if sys.argv[1] == "profile" else "trace"
ext.set(kind, events)
main(), main()
ext.set(kind)
print(json.dumps([(what, name, line, describe(what, argument)) for what, name, line, argument in events]))
"""

COUNT = """
import gc, json, sys, reftracer_ext as ext
namespace = {"__name__": "recorded"}
exec(compile(PROGRAM, "recorded.py", "exec"), namespace)
main = namespace["main"]
for _ in range(3): main()
if sys.argv[1] == "traced":
    import tracemalloc; tracemalloc.start(5); main()
import types
result = {}
for kind in (int, float, str, bytes, list, tuple, dict, set, slice, range, types.GeneratorType, types.CoroutineType,
             types.FunctionType, types.FrameType, types.MethodType, types.CodeType, namespace["Thing"], KeyError, ValueError):
    gc.collect(); gc.disable()
    ext.counter_on(kind); main()
    result[kind.__name__] = ext.counter_off()[:2]
    gc.enable()
print(json.dumps(result))
"""


class RecordedTests(CapiTestCase):
    extensions = ("tracefunc_ext", "reftracer_ext")

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.stock = stock_python()
        suffix = subprocess.run([cls.stock, "-c", "import sys, sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'), sys.version_info[:3])"],
                                capture_output=True, text=True).stdout.strip()
        if suffix != f"{sysconfig.get_config_var('EXT_SUFFIX')} {sys.version_info[:3]}":
            raise unittest.SkipTest(f"the stock build is of another kind: {suffix}")

    def output(self, code: str, *arguments: str, python: str = sys.executable):
        done = run_python(f"PROGRAM = {PROGRAM!r}\n" + code, *arguments, python=python, extensions=self.extensions)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_same(self, code: str, *arguments: str, least: int) -> None:
        wanted = self.output(code, *arguments, "plain", python=self.stock)
        self.assertGreater(len(wanted), least)
        for how in "plain", "traced":
            with self.subTest(how):
                self.assertEqual(self.output(code, *arguments, how), wanted)

    def test_profile_events(self) -> None:
        self.check_same(RECORD, "profile", least=500)

    def test_trace_events(self) -> None:
        self.check_same(RECORD, "trace", least=900)

    def test_opcode_events(self) -> None:
        self.check_same(RECORD, "opcodes", least=20)

    def test_objects(self) -> None:
        """How many objects of each type the program makes and destroys."""
        self.check_same(COUNT, least=15)


if __name__ == "__main__":
    unittest.main()
