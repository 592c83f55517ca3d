"""The order of steps of an allocation, a realloc and a free: what the counters
say in between, whose traceback a block has, and what a failure leaves."""

import gc
import io
import itertools
import sys
import unittest

import _tracemalloc as engine
from test import support

from . import blocks
from .util import (ODD, Tracing, Untraced, child_says, here, made_in,
                   objects_are_announced, traces_at)

RAW, MEM, OBJ = blocks.RAW, blocks.MEM, blocks.OBJ
MIB = 1 << 20


class Counters(Tracing):
    limit = 1

    def setUp(self):
        self.module = blocks.load()
        super().setUp()

    def peak_of(self, call, *args):
        """What a call adds to the traced size, at its peak and at its end."""
        engine.reset_peak()
        before, _ = engine.get_traced_memory()
        result = call(*args)
        after, peak = engine.get_traced_memory()
        return result, peak - before, after - before

    def test_size_and_peak_of_blocks(self):
        for domain in (RAW, MEM, OBJ):
            address, peak, grown = self.peak_of(self.module.malloc, domain, MIB)
            self.assertAlmostEqual(grown, MIB, delta=4000)
            self.assertAlmostEqual(peak, MIB, delta=4000)
            _, peak, grown = self.peak_of(self.module.free, domain, address)
            self.assertAlmostEqual(grown, -MIB, delta=4000)
            self.assertLess(peak, 4000)

    def test_realloc_forgets_the_old_block_first(self):
        # Else the peak would hold both blocks.
        for domain in (RAW, MEM, OBJ):
            for old, new in ((MIB, 3 * MIB), (3 * MIB, MIB), (100, 2 * MIB),
                             (2 * MIB, 100), (MIB, MIB + 1)):
                with self.subTest(domain=domain, old=old, new=new):
                    address = self.module.malloc(domain, old)
                    address, peak, grown = self.peak_of(
                        self.module.realloc, domain, address, new)
                    self.assertAlmostEqual(grown, new - old, delta=4000)
                    self.assertLess(peak, max(new - old, 0) + 4000)
                    self.module.free(domain, address)

    def test_exact_sum_of_small_reallocs(self):
        many = [self.module.malloc(OBJ, 400) for _ in range(3000)]
        engine.reset_peak()
        before, _ = engine.get_traced_memory()
        for i, address in enumerate(many):
            many[i] = self.module.realloc(OBJ, address, 512)
        after, peak = engine.get_traced_memory()
        self.assertAlmostEqual(after - before, 3000 * 112, delta=3000)
        self.assertLess(peak - after, 3000)
        for address in many:
            self.module.free(OBJ, address)

    def test_sum_of_traces_is_the_size(self):
        kept = [bytearray(n) for n in range(0, 2000, 3)]
        size, _ = engine.get_traced_memory()
        total = sum(trace[1] for trace in engine._get_traces())
        # Only what the two calls themselves have made lies between.
        self.assertAlmostEqual(total, size, delta=2000)
        frozen = engine._freeze()
        self.assertEqual(sum(frozen.trace(i)[1] for i in range(len(frozen))),
                         frozen.total_size)

    def test_reset_peak(self):
        block = bytearray(4 * MIB)
        del block
        size, peak = engine.get_traced_memory()
        self.assertGreater(peak, size + 3 * MIB)
        engine.reset_peak()
        size, peak = engine.get_traced_memory()
        self.assertLess(peak - size, 10_000)
        engine.stop()
        engine.reset_peak()
        self.assertEqual(engine.get_traced_memory(), (0, 0))


class FailedRealloc(Untraced):
    """A realloc that fails leaves the old block, and its trace."""

    IMPOSSIBLE = sys.maxsize - 1000

    def setUp(self):
        self.module = blocks.load()
        super().setUp()

    def check_kept(self, domains, sizes, fail):
        for domain in domains:
            for size in sizes:
                with self.subTest(domain=domain, size=size):
                    address = self.module.malloc(domain, size)
                    before = engine.get_trace(address)
                    self.assertEqual(before[0], size)
                    base, _ = engine.get_traced_memory()
                    with self.assertRaises(MemoryError):
                        fail(domain, address)
                    self.assertEqual(engine.get_trace(address), before)
                    now, _ = engine.get_traced_memory()
                    self.assertLess(abs(now - base), 10_000)
                    self.check_engine()
                    address = self.module.realloc(domain, address, size + 9)
                    self.assertEqual(engine.get_trace(address)[0], size + 9)
                    self.module.free(domain, address)
                    self.assertIsNone(engine.get_trace(address))

    @support.skip_if_sanitizer("allocators of sanitizers end the process",
                               address=True, memory=True, thread=True)
    def test_more_than_there_is(self):
        engine.start(3)
        self.check_kept(
            (RAW, MEM, OBJ), (0, 1, 100, 512, 513, MIB),
            lambda domain, address:
                self.module.realloc(domain, address, self.IMPOSSIBLE))

    def test_the_allocator_below_fails(self):
        for domain in (RAW, MEM, OBJ):
            self.module.wrap(domain)
            self.addCleanup(self.module.unwrap, domain)
        self.addCleanup(engine.stop)
        engine.start(3)

        def fail(domain, address):
            args = domain, address, 3 * MIB
            realloc = self.module.realloc
            self.module.fail(0, 1)
            realloc(*args)

        # RAW only: another allocation of the interpreter could come first.
        self.check_kept((RAW,), (0, 1, 100, 512, 513, MIB), fail)

    def test_no_memory_for_anybody(self):
        # _testcapi's hooks lie above ours.
        child_says(self, "ok", """
            import _testcapi, _tracemalloc as engine, sys
            engine.start(3)
            blocks = [bytearray(n) for n in (1, 100, 500, 600, 5000, 100000)]
            traces = [engine.get_object_trace(b) for b in blocks]
            for n in range(12):
                for block, trace in zip(blocks, traces):
                    _testcapi.set_nomemory(n, 0)
                    try:
                        block.extend(b"x" * 1000000)
                    except MemoryError:
                        pass
                    finally:
                        _testcapi.remove_mem_hooks()
                    assert engine.get_object_trace(block) == trace
                    assert engine._check() is None
            print("ok")
        """)

    def test_failed_allocations_are_not_traced(self):
        child_says(self, "ok", """
            import _testcapi, _tracemalloc as engine
            engine.start(3)
            base = engine.get_traced_memory()[0]
            for n in range(60):
                _testcapi.set_nomemory(n, 0)
                try:
                    kept = [bytearray(100000), list(range(1000)), {1: 2}]
                except MemoryError:
                    pass
                finally:
                    _testcapi.remove_mem_hooks()
                kept = None
                assert engine._check() is None
            assert abs(engine.get_traced_memory()[0] - base) < 50000
            print("ok")
        """)


class Forget(Tracing):
    """A trace is forgotten before its block is freed: another thread may be
    handed the address at once."""

    limit = 2

    def test_freed_blocks_are_gone(self):
        for n in (0, 1, 100, 470, 600, MIB):
            block = bytes(n + 1)
            address = engine.get_object_address(block)
            self.assertIsNotNone(engine.get_trace(address))
            del block
            self.assertIsNone(engine.get_trace(address))

    def test_address_handed_on(self):
        # The next owner's trace stands, not what the free would have removed.
        for _ in range(300):
            first = bytes(ODD)
            address = engine.get_object_address(first)
            del first
            second = bytes(ODD)
            line = here(-1)
            if engine.get_object_address(second) == address:
                break
        else:
            self.skipTest("no address was handed on")
        self.assertEqual(engine.get_trace(address)[1][0], line)

    def test_address_handed_to_another_thread(self):
        # Native threads give back and get the same raw blocks all the time.
        module = blocks.load()
        module.native_start(4, 4000)
        for _ in range(50):
            bytearray(2000)
            engine._freeze()
        self.assertEqual(module.native_join(), 0)
        self.assertEqual([t for t in engine._get_traces() if t[0] == 77], [])
        self.check_engine()


class Objects(Tracing):
    """The traceback of an object is that of the code that made it, also when
    its memory comes from a free list."""

    limit = 2

    def setUp(self):
        super().setUp()
        if not objects_are_announced():
            self.skipTest("the interpreter does not tell of new objects")

    def trace_line(self, thing):
        frames = engine._get_object_traceback(thing)
        return frames and frames[0]

    def makers(self):
        numbers = itertools.count(1000)
        return {
            "float": lambda: next(numbers) * 1.5,
            "tuple": lambda: (next(numbers), 1, 2),
            "tuple of 1": lambda: (next(numbers),),
            "list": lambda: [next(numbers)],
            "dict": lambda: {next(numbers): 1},
            "object": lambda: object(),
            "slice": lambda: slice(next(numbers)),
            "complex": lambda: next(numbers) * 1j,
            "method": lambda: self.makers,
            "function": lambda: lambda: 0,
            "generator": lambda: (i for i in ()),
            "context": lambda: __import__("contextvars").Context(),
            "bytes": lambda: bytes(next(numbers)),
            "int": lambda: next(numbers) + 10**30,
            "iterator": lambda: iter([1]),
            "cell": lambda: (lambda: numbers).__closure__[0],
        }

    def test_made_here(self):
        for name, make in self.makers().items():
            wanted = make.__code__.co_filename, make.__code__.co_firstlineno
            if name == "cell":
                continue            # made by whoever made the maker
            many = [make() for _ in range(300)]
            found = [self.trace_line(thing) for thing in many]
            # A block of before tracing, from a free list, is not traced.
            unknown = found.count(None)
            self.assertLess(unknown, 150, name)
            self.assertEqual(found.count(wanted), len(many) - unknown, name)
            del many

    def test_free_lists_do_not_keep_the_old_owner(self):
        # Made on one line, dropped, made again on another: the block is the
        # same for types with a free list.
        names = made_in("<free lists>", """
            def first(kind):
                return kind(1.25, 2)
            def second(kind):
                return kind(2.25, 3)
        """)
        same = 0
        drained = []

        def floats(x, y):
            return x * y

        def tuples(x, y):
            return x, y

        def lists(x, y):
            return [x, y]

        def dicts(x, y):
            return {x: y}

        def slices(x, y):
            return slice(x, y)

        def generators(x, y):
            return (i for i in ())

        for kind in (floats, tuples, lists, dicts, slices, generators):
            line = kind.__code__.co_firstlineno + 1
            # Use up what has lain there since before tracing.
            drained.append([kind(i + 0.5, i) for i in range(3000)])
            for _ in range(30):
                thing = names["first"](kind)
                self.assertEqual(
                    engine._get_object_traceback(thing),
                    ((kind.__code__.co_filename, line), ("<free lists>", 3)),
                    kind)
                where = id(thing)
                del thing
                thing = names["second"](kind)
                self.assertEqual(
                    engine._get_object_traceback(thing),
                    ((kind.__code__.co_filename, line), ("<free lists>", 5)),
                    kind)
                same += id(thing) == where
                del thing
        self.assertGreater(same, 0)
        self.check_engine()

    def test_pools_that_change_their_size_class(self):
        # What is remembered of the place of an object must not outlive the
        # slots of its pool: objects, nothing, blocks of another size, and
        # objects again in the same memory.
        def objects():
            many = [i * 1.5 for i in range(20_000)]
            # Dropped and made anew through the free list.
            for i in range(0, 20_000, 100):
                many[i:i + 50] = [None] * 50
                many[i:i + 50] = [i * 2.5 for _ in range(50)]
            return many

        line = objects.__code__.co_firstlineno
        for size in (16, 48, 200, 480):
            many = objects()
            lines = {self.trace_line(many[i]) for i in range(0, 20_000, 10)}
            self.assertEqual(lines, {(__file__, line + 1), (__file__, line + 5)})
            del many
            self.check_engine()
            blocks = [bytearray(size) for _ in range(2_000)]
            self.check_engine()
            del blocks

    def test_a_mark_is_used_once(self):
        # The block recorded last is known to be new.  The object in it dies
        # and the next one takes its place without any allocation between: it
        # is another line's.
        exec(compile("def make_two(x):\n"
                     "    a = x * 2.0\n"
                     "    traced = get(a)\n"
                     "    del a\n"
                     "    b = x * 3.0\n"
                     "    return traced, get(b)\n", "<mark>", "exec"),
             scope := {"get": engine._get_object_traceback})
        for _ in range(100):
            first, second = scope["make_two"](1.25)
            self.assertEqual(first[0], ("<mark>", 2))
            self.assertEqual(second[0], ("<mark>", 5))

    def test_objects_of_before_tracing_from_a_free_list(self):
        # Their blocks are not traced; the object made in one is not either,
        # as in the standard library, and nothing is counted.
        engine.stop()
        kept = [float(i) for i in range(50)]
        engine.start(2)
        del kept
        made = [i * 1.5 for i in range(1, 51)]
        self.check_engine()
        for one in made:
            trace = engine.get_object_trace(one)
            if trace is not None:
                self.assertEqual(trace[0], sys.getsizeof(one))

    def test_resized_objects(self):
        def grow_text(n):
            text = "a"
            for _ in range(n):
                text += "b" * 37
            return text

        def numbers(n):
            return tuple(None for _ in range(n))

        def joined(n):
            return b"".join(iter([b"q" * 3] * n))

        def read(n):
            return io.BytesIO(b"z" * (n * 7)).read(n * 5)

        def formatted(n):
            return "%d-%s" % (n, "k" * n)       # noqa: UP031

        for make in (grow_text, numbers, joined, read, formatted):
            for n in (2, 5, 30, 100, 333, 1000, 5000):
                with self.subTest(make=make.__name__, n=n):
                    engine.clear_traces()
                    thing = make(n)
                    frames = engine._get_object_traceback(thing)
                    self.assertEqual(frames[0][0], __file__)
                    first = make.__code__.co_firstlineno
                    self.assertLessEqual(first, frames[0][1])
                    self.assertLess(frames[0][1], first + 5)
                    size, _ = engine.get_object_trace(thing)
                    exact = sys.getsizeof(thing)
                    if sys.getsizeof(type(thing)()) and gc.is_tracked(thing):
                        exact += 0
                    self.assertLessEqual(exact, size + 16)
                    self.assertLess(size, 2 * exact + 64)
                    del thing
                    self.check_engine()

    def test_gc_objects_made_and_collected(self):
        class Node:
            pass

        base, _ = engine.get_traced_memory()
        for _ in range(5):
            for _ in range(500):
                a, b = Node(), Node()
                a.other, b.other = b, a
            gc.collect()
            self.check_engine()
        a = b = None
        gc.collect()
        now, _ = engine.get_traced_memory()
        self.assertLess(abs(now - base), 100_000)


class Snapshots(Tracing):
    """Objects made while a snapshot is taken are not part of it, and the
    engine's own memory never passes through the hooks."""

    limit = 3

    def test_frozen_copy_is_of_one_moment(self):
        kept = [bytearray(ODD) for _ in range(500)]
        line = here(-1)
        size, _ = engine.get_traced_memory()
        frozen = engine._freeze()
        self.assertAlmostEqual(frozen.total_size, size, delta=2000)
        self.assertAlmostEqual(len(frozen), len(engine.get_traces()),
                               delta=2000)
        mine = [frozen.trace(i) for i in range(len(frozen))]
        self.assertEqual(
            sum(t[2][0] == line and t[1] == ODD + 1 for t in mine), 500)

    def test_many_copies_add_nothing_to_each_other(self):
        engine._freeze()
        first = len(engine._freeze())
        for _ in range(20):
            engine._freeze()
            engine._get_traces()
            engine.get_traces()
            engine.get_stats()
        last = len(engine._freeze())
        self.assertLess(abs(last - first), 20)

    def test_own_memory_is_not_traced(self):
        # A hundred thousand traces of one line: the tables have grown to
        # megabytes, and no block of that size is in them.
        module = blocks.load()
        many = [module.malloc(OBJ, 16) for _ in range(100_000)]
        line = here(-1)
        own, _ = engine._memory()
        self.assertGreater(own, 4 * len(many))
        mine = traces_at(*line)
        largest = sorted(t.size for t in mine)[-3:]
        # The list itself, and no more of its size.
        self.assertLess(largest[1], 100_000)
        for address in many:
            module.free(OBJ, address)


class Nested(Tracing):
    """A block is traced once, under the outermost domain."""

    limit = 1

    def test_growing_object_allocator(self):
        # OBJ falls back to MEM and RAW, and new arenas are made through RAW.
        module = blocks.load()
        for size in (16, 512, 513, 70_000):
            engine.clear_traces()
            count = 3000 if size < 1000 else 300
            made = [module.malloc(OBJ, size) for _ in range(count)]
            sizes = [t[1] for t in engine._get_traces()]
            self.assertEqual(sizes.count(size), count)
            total = sum(sizes)
            self.assertLess(total, count * (size + 200) + 50_000)
            for address in made:
                module.free(OBJ, address)
            self.check_engine()


if __name__ == "__main__":
    unittest.main()
