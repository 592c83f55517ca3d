"""Reference tracers: as many objects are destroyed as are created."""

import asyncio
import contextvars
import gc
import sys
import types
import unittest

from . import _build
from .util import CapiTestCase, GIL_DISABLED

ext = None


def setUpModule() -> None:
    global ext
    ext = _build.load("reftracer_ext")


class BalanceTests(unittest.TestCase):
    """As many objects are destroyed as are created, whatever becomes of them."""

    def setUp(self) -> None:
        self.addCleanup(ext.remove_tracer)

    def assert_balanced(self, kind: type, function, least: int = 200, rounds: int = 3) -> None:
        """Call a function a few times, so that its code is specialised; then count the objects of a type."""
        for _ in range(rounds):
            function()
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        ext.counter_on(kind)
        try:
            function()
        finally:
            made, gone, removed = ext.counter_off()
        self.assertGreaterEqual(made, least)
        self.assertEqual(made, gone, kind)
        self.assertEqual(removed, 1)

    def test_free_lists(self) -> None:
        def loop(expression):
            def function():
                for i in range(300):
                    expression(i)
            return function
        async def agen():
            yield 1
        for kind, expression in (
            (list, lambda i: [i]), (tuple, lambda i: (i, i)), (dict, lambda i: {i: i}), (float, lambda i: i * 1.5),
            (slice, lambda i: slice(i, i)), (set, lambda i: {i}), (frozenset, lambda i: frozenset([i])),
            (complex, lambda i: i * 1j), (bytes, lambda i: bytes(i + 2)), (bytearray, lambda i: bytearray(i)),
            (str, lambda i: f"number {i}"), (int, lambda i: i + 2 ** 40), (range, lambda i: range(i)),
            (object, lambda i: object()), (memoryview, lambda i: memoryview(b"abc")),
            (type(agen()), lambda i: agen()), (type(x for x in ()), lambda i: (x for x in (i,))),
            (type(lambda: 0), lambda i: (lambda: i)), (type([].append), lambda i: [].append),
            (enumerate, lambda i: enumerate("ab")), (zip, lambda i: list(zip("ab", "cd"))),
        ):
            with self.subTest(kind=kind):
                self.assert_balanced(kind, loop(expression))

    def test_free_lists_of_contexts(self) -> None:
        variable = contextvars.ContextVar("variable")
        def contexts():
            for _ in range(300):
                contextvars.copy_context().run(variable.set, 1)
        self.assert_balanced(contextvars.Context, contexts)
        self.assert_balanced(contextvars.Token, contexts)

    def test_free_lists_of_asynchronous_generators(self) -> None:
        async def agen():
            for i in range(3):
                yield i
        def exhaust(step):
            while True:
                try:
                    step.send(None)
                except StopIteration:
                    return
        def steps():
            for _ in range(300):
                a = agen()
                exhaust(a.__anext__())
                exhaust(a.asend(None))
                exhaust(a.aclose())
        a = agen()
        awaited = [a.__anext__(), a.athrow(KeyError)]
        for kind in type(a), *map(type, awaited):
            self.assert_balanced(kind, steps)
        for thing in awaited:
            thing.close()
        # What is yielded comes in a wrapper, whose type nobody gets to see: all objects are counted.
        ext.ledger_on()
        steps()
        book = ext.ledger_off()
        self.assertGreaterEqual(book["made"], 300 * 4)
        self.assertEqual((book["twice_made"], book["twice_gone"]), (0, 0))

    def test_free_lists_of_futures(self) -> None:
        loop = asyncio.new_event_loop()
        self.addCleanup(loop.close)
        future = loop.create_future()
        kind = type(future.__await__())
        def iterators():
            for _ in range(300):
                future.__await__()
        self.assert_balanced(kind, iterators)

    def test_immortal_objects(self) -> None:
        """They are neither made nor destroyed, however they are come by."""
        def function():
            for i in range(300):
                (i & 255) + 1, i == i, None, "", "a"[:1], "xyz"[i % 3], b"", (), b"abc"[i % 3:i % 3 + 1]
                int("7"), bool(i), bytes([i & 127])
        for _ in range(3):
            function()
        for kind in (bool, bytes, type(None)):
            with self.subTest(kind=kind):
                ext.counter_on(kind)
                function()
                self.assertEqual(ext.counter_off(), (0, 0, 1))
        self.assert_balanced(int, function, least=0)
        self.assert_balanced(str, function, least=0)

    def test_coroutines_and_frames(self) -> None:
        async def inner(i):
            return i

        async def outer():
            for i in range(300):
                await inner(i)

        def drive():
            loop = asyncio.new_event_loop()
            loop.run_until_complete(outer())
            loop.close()
        self.assert_balanced(types.CoroutineType, drive)

        def frames():
            for _ in range(300):
                sys._getframe()
        self.assert_balanced(types.FrameType, frames, least=1)

    def test_arithmetic_in_the_interpreter_loop(self) -> None:
        def integers():
            x = 2 ** 40
            for i in range(300):
                y = x + i
                y = y * 3 - x
        def floats():
            x = 1.25
            for i in range(300):
                y = x * 2.0 - x + i
                y = -y / x
        def strings():
            for i in range(300):
                s = "a" + str(i) + "b"
                s += "c"
        def compare():
            for i in range(300):
                (i * 1.5) < (i * 2.5), str(i) == str(i + 1), (i + 2 ** 40) > (i + 2 ** 41)
        def subscripts():
            t = list(range(300))
            for i in range(300):
                t[i * 1 + 0], (i, i)[1], {i: i}[i]
        for kind, function in ((int, integers), (float, floats), (str, strings), (float, compare), (int, compare),
                               (str, compare), (tuple, subscripts), (dict, subscripts)):
            with self.subTest(kind=kind, function=function.__name__):
                self.assert_balanced(kind, function)

    def test_objects_that_move(self) -> None:
        def strings():
            for i in range(100):
                s = "x" * 10
                for k in range(6):
                    s += "yz" * 40
        def bytes_():
            for i in range(300):
                b"".join([b"%d" % i for _ in range(40)])
                bytes(x % 256 for x in range(i + 40))
        def tuples():
            for i in range(300):
                tuple(x for x in range(i))
        def lists():
            for i in range(300):
                [x for x in range(i)]
        for kind, function in ((str, strings), (bytes, bytes_), (tuple, tuples), (list, lists)):
            with self.subTest(kind=kind):
                self.assert_balanced(kind, function)

    def test_resize_from_c(self) -> None:
        self.assert_balanced(ext.Growing,
                             lambda: [ext.resize_object(ext.Growing, (10, 5000, 3, 70000, 1)) for _ in range(50)])

    def test_failed_resize_from_c(self) -> None:
        def function():
            for _ in range(50):
                with self.assertRaises(MemoryError):
                    ext.resize_object(ext.Growing, (10, 2 ** 62))
        self.assert_balanced(ext.Growing, function, least=100)

    def test_deferred_deallocation(self) -> None:
        def nest(make):
            def function():
                x = None
                for _ in range(5000):
                    x = make(x)
            return function
        class Instance:
            def __init__(self, other):
                self.other = other
        class Slotted:
            __slots__ = ("other",)
            def __init__(self, other):
                self.other = other
        for kind, make in ((list, lambda x: [x]), (tuple, lambda x: (x,)), (dict, lambda x: {"x": x}),
                           (Instance, Instance), (Slotted, Slotted)):
            with self.subTest(kind=kind):
                self.assert_balanced(kind, nest(make), least=5000, rounds=1)

    def test_garbage_collection(self) -> None:
        class Node:
            pass
        def cycles():
            for _ in range(300):
                a = Node(); b = Node(); a.other, b.other = b, a
                a.items = [a, {"b": b}, (a, b)]
            del a, b
            gc.collect()
        for kind in (Node, list, dict, tuple):
            with self.subTest(kind=kind):
                self.assert_balanced(kind, cycles)

    def test_finalizers_that_revive(self) -> None:
        kept = []
        class Phoenix:
            def __del__(self):
                kept.append(self)
        def function():
            for _ in range(200):
                Phoenix()
            kept.clear()        # __del__ is called once only
        self.assert_balanced(Phoenix, function, least=400)

    def test_watchers_that_revive(self) -> None:
        def functions():
            for _ in range(100):
                f = lambda: 0
        def codes():
            for i in range(100):
                compile("pass", f"revived {i}", "exec")
            if GIL_DISABLED:
                gc.collect()            # which alone destroys what has deferred reference counts
        for name, kind, function in (("function", type(codes), functions), ("code", type(codes.__code__), codes)):
            with self.subTest(kind=name):
                self.assert_balanced(kind, lambda: self.assertGreaterEqual(ext.revive_during(name, function), 100))
        def dictionaries():
            for _ in range(100):
                box = [{"watched": 1}]
                self.assertEqual(ext.revive_during("dict", box.clear, box), 1)
        self.assert_balanced(dict, dictionaries)

    @unittest.skipIf(GIL_DISABLED,
                     "types live for ever there once some thread was started")
    def test_types_and_modules(self) -> None:
        def make_types():
            for i in range(50):
                type(f"T{i}", (), {})
            gc.collect()
        self.assert_balanced(type, make_types, least=50)
        def modules():
            for i in range(50):
                types.ModuleType(f"m{i}")
            if GIL_DISABLED:
                gc.collect()
        self.assert_balanced(types.ModuleType, modules, least=50)

    def test_exceptions(self) -> None:
        def function():
            for i in range(200):
                try:
                    raise KeyError(i)
                except KeyError as e:
                    e.add_note("x")
                try:
                    [].missing
                except AttributeError:
                    pass
        self.assert_balanced(KeyError, function)
        self.assert_balanced(AttributeError, function)
        def memory_errors():
            for i in range(50):
                try:
                    bytearray(2 ** 62)
                except MemoryError:
                    pass
        self.assert_balanced(MemoryError, memory_errors, least=50)


class LedgerTests(CapiTestCase):
    """Nothing is made where an object lives, nothing dies twice: in programs that do a bit of everything."""

    extensions = ("reftracer_ext",)

    PROGRAM = """
        import reftracer_ext as ext, sys
        import argparse, ast, asyncio, collections, contextlib, copy, dataclasses, datetime, decimal, enum, fractions, functools, gc, io
        import itertools, json, pickle, random, re, string, threading, types, typing, weakref
        ext.ledger_on()
        class Celsius(enum.Enum):
            COLD = 1; WARM = 2
        @dataclasses.dataclass
        class Point:
            x: int; y: float = 1.5
        def words(n):
            for i in range(n):
                yield f"word{i}" * (i % 5)
        def work():
            text = " ".join(words(200))
            data = {w: [len(w), w.upper()] for w in re.findall("[a-z]+[0-9]+", text)}
            json.loads(json.dumps(data)); pickle.loads(pickle.dumps(data)); copy.deepcopy(data)
            [decimal.Decimal(i) / 7 for i in range(1, 50)]; [fractions.Fraction(i, 7) + 1 for i in range(50)]
            [datetime.datetime(2020, 1, 1) + datetime.timedelta(i) for i in range(50)]
            tree = ast.parse("\\n".join(f"x{i} = [a + {i} for a in b]" for i in range(50)))
            exec(compile(tree, "x", "exec"), {"b": [1, 2]})
            points = [Point(i) for i in range(50)]
            weak = weakref.WeakValueDictionary((i, p) for i, p in enumerate(points))
            del points
            counter = collections.Counter(text); collections.OrderedDict(counter); collections.deque(text, 10)
            functools.lru_cache(10)(lambda x: [x])(3); list(itertools.permutations("abcd")); list(itertools.tee("abc", 3))
            s = io.StringIO(text); s.readlines(); io.BytesIO(text.encode()).read()
            async def add(a, b):
                await asyncio.sleep(0)
                return a + b
            async def agen():
                for i in range(5):
                    yield i
            async def main():
                await asyncio.gather(*(add(i, i) for i in range(20)))
                [x async for x in agen()]
            asyncio.run(main())
            class Meta(type): pass
            class Made(metaclass=Meta):
                __slots__ = "a", "__weakref__"
            with contextlib.suppress(ZeroDivisionError):
                1 / 0
            typing.Optional[Made]; list[int] | None
            sorted(text, key=str.lower); "%s %r" % (text, data); text.translate({97: None})
        for _ in range(3):
            work()
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads: t.start()
        for t in threads: t.join()
        gc.collect()
        book = ext.ledger_off()
        assert book["made"] > 10000, book
        assert book["twice_made"] == book["twice_gone"] == book["null_events"] == 0, book
        print("done")
    """

    def test_program(self) -> None:
        self.run_code(self.PROGRAM, wanted="done")

    def test_program_with_memory_tracing(self) -> None:
        self.run_code(self.PROGRAM, wanted="done", options=("-X", "tracemalloc=5"))

    def test_program_with_other_allocators(self) -> None:
        for name in ("malloc", "debug"):
            with self.subTest(allocator=name):
                if name == "malloc" and GIL_DISABLED:
                    continue            # that build has no choice
                self.run_code(self.PROGRAM, wanted="done", environment={"PYTHONMALLOC": name})

    def test_until_the_end(self) -> None:
        """A tracer stays through finalization, which destroys nearly everything."""
        self.run_code("""
            import reftracer_ext as ext, threading, json
            ext.ledger_on()
            class Late:
                def __del__(self):
                    print("late", flush=True)
            keep = [Late()]
            keep.append(keep)
        """, wanted="late")

    def test_daemon_threads_at_the_end(self) -> None:
        self.run_code("""
            import reftracer_ext as ext, threading
            ext.ledger_on()
            def run():
                while True:
                    [str(i) for i in range(100)]
            for _ in range(3):
                threading.Thread(target=run, daemon=True).start()
            print("done", flush=True)
        """, wanted="done")

    def test_created_object_is_in_the_book(self) -> None:
        self.run_code("""
            import reftracer_ext as ext
            ext.ledger_on()
            things = [[], {}, set(), object(), 1.5 * len("abc"), str(12345), (len("a"),), type("T", (), {}), lambda: 0]
            known = [ext.ledger_knows(x) for x in things]
            ext.ledger_off()
            assert all(known), known
            print("done")
        """, wanted="done")


if __name__ == "__main__":
    unittest.main()
