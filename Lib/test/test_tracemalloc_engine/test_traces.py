"""Traces of blocks of every size and kind: each block is traced once, with
the bytes that were asked for, wherever its memory comes from."""

import gc
import random
import sys
import unittest

import _tracemalloc as engine
from test import support

from . import blocks
from .util import GIL_DISABLED, ODD, Tracing, run_child, traces_at

RAW, MEM, OBJ = blocks.RAW, blocks.MEM, blocks.OBJ

# Around the limits of size classes, of pools, and of pymalloc itself.
SIZES = (0, 1, 8, 15, 16, 17, 31, 32, 33, 100, 128, 255, 256, 257, 383, 384,
         385, 400, 495, 496, 497, 510, 511, 512, 513, 514, 600, 1000, 4095,
         4096, 10_000, 100_000, 1_000_000)


def sizes_now():
    """{address: size} of all traces of domain 0."""
    return {address: size for address, (size, _) in engine.get_traces().items()}


class Model:
    """Blocks made by the extension, and what their traces should say."""

    def __init__(self, module, seed=1):
        self.module = module
        self.random = random.Random(seed)
        self.blocks = {}        # address: (allocator, size)

    def new(self, domain, size):
        if self.random.randrange(4):
            address = self.module.malloc(domain, size)
        else:
            address = self.module.calloc(domain, 1, size)
        self.blocks[address] = domain, size

    def resize(self, address, size):
        domain, _ = self.blocks.pop(address)
        address = self.module.realloc(domain, address, size)
        self.blocks[address] = domain, size
        return address

    def free(self, address):
        domain, _ = self.blocks.pop(address)
        self.module.free(domain, address)

    def free_all(self):
        for address in list(self.blocks):
            self.free(address)

    def check(self, test):
        """Assert that every block is traced with its size."""
        wanted = {address: size for address, (_, size) in self.blocks.items()}
        known = sizes_now()
        test.assertEqual({a: known.get(a) for a in wanted}, wanted)
        test.check_engine()

    def step(self):
        what = self.random.randrange(10)
        size = self.random.choice(SIZES)
        if self.random.randrange(3):
            size = self.random.randrange(700)
        if what < 4 or not self.blocks:
            self.new(self.random.randrange(3), size)
            return
        address = self.random.choice(list(self.blocks))
        if what < 7:
            self.free(address)
        else:
            if what == 7:       # a little smaller: may stay where it is
                size = self.blocks[address][1] * 7 // 8
            self.resize(address, size)


class Blocks(Tracing):
    limit = 1

    def setUp(self):
        self.module = blocks.load()
        super().setUp()
        self.model = Model(self.module)
        self.addCleanup(self.model.free_all)

    def test_every_size_in_every_domain(self):
        for domain in (RAW, MEM, OBJ):
            for size in SIZES:
                self.model.new(domain, size)
        self.model.check(self)
        total = sum(size for _, size in self.model.blocks.values())
        before, _ = engine.get_traced_memory()
        self.model.free_all()
        after, _ = engine.get_traced_memory()
        self.assertAlmostEqual(before - after, total, delta=50_000)
        self.check_engine()

    def test_calloc_counts_the_product(self):
        for domain in (RAW, MEM, OBJ):
            for n, size in ((3, 50), (0, 7), (7, 0), (1, 512), (2, 256),
                            (2, 257), (1000, 1000)):
                address = self.module.calloc(domain, n, size)
                self.assertEqual(engine.get_trace(address)[0], n * size)
                self.module.free(domain, address)
                self.assertIsNone(engine.get_trace(address))

    def test_zero_bytes(self):
        for domain in (RAW, MEM, OBJ):
            many = [self.module.malloc(domain, 0) for _ in range(50)]
            self.assertEqual(len(set(many)), 50)
            for address in many:
                self.assertEqual(engine.get_trace(address)[0], 0)
            for address in many[::2]:
                self.module.free(domain, address)
                self.assertIsNone(engine.get_trace(address))
            for address in many[1::2]:
                moved = self.module.realloc(domain, address, 40)
                self.assertEqual(engine.get_trace(moved)[0], 40)
                moved = self.module.realloc(domain, moved, 0)
                self.assertEqual(engine.get_trace(moved)[0], 0)
                self.module.free(domain, moved)
        self.check_engine()

    def test_realloc_of_nothing_is_malloc(self):
        for domain in (RAW, MEM, OBJ):
            for size in SIZES:
                address = self.module.realloc(domain, 0, size)
                self.assertEqual(engine.get_trace(address)[0], size)
                self.module.free(domain, address)

    def test_shrinks_in_place(self):
        # pymalloc leaves a block where it is while that wastes less than a
        # quarter of it: more than the rounding of any size class.
        for domain in (MEM, OBJ):
            stayed = 0
            for size in range(1, 513):
                for smaller in {size * 3 // 4, size * 3 // 4 + 1, size * 4 // 5,
                                size - 1, size // 2}:
                    address = self.module.malloc(domain, size)
                    moved = self.module.realloc(domain, address, smaller)
                    stayed += moved == address
                    self.assertEqual(engine.get_trace(moved)[0], smaller)
                    self.module.free(domain, moved)
                    self.assertIsNone(engine.get_trace(moved))
            if not GIL_DISABLED:
                self.assertGreater(stayed, 0)
        self.check_engine()

    def test_between_small_and_large(self):
        sizes = [512, 513, 511, 5000, 1, 600, 0, 513, 100_000, 512, 16, 512,
                 2_000_000, 3_000_000, 513, 512]
        for domain in (RAW, MEM, OBJ):
            address = self.module.malloc(domain, 100)
            for size in sizes:
                address = self.module.realloc(domain, address, size)
                self.assertEqual(engine.get_trace(address)[0], size)
            self.module.free(domain, address)
        self.check_engine()

    def test_pools_change_their_size_class(self):
        # Fill pools with blocks of one class and give them all back; the
        # same pools then serve another class.
        addresses = set()
        again = 0
        for size in (16, 512, 32, 496, 48, 160, 16, 512):
            for _ in range(6000):
                self.model.new(OBJ, size - self.model.random.randrange(8))
            again += len(addresses & {a >> 14 for a in self.model.blocks})
            addresses |= {a >> 14 for a in self.model.blocks}
            self.model.check(self)
            self.model.free_all()
            self.check_engine()
        if support.check_impl_detail() and not GIL_DISABLED:
            self.assertGreater(again, 0)

    def test_pools_half_emptied(self):
        for size in (24, 500):
            for _ in range(5000):
                self.model.new(MEM, size)
            for address in list(self.model.blocks)[::2]:
                self.model.free(address)
            self.model.check(self)
            for _ in range(5000):
                self.model.new(MEM, 24)
            self.model.check(self)
            self.model.free_all()

    def test_arenas_come_and_go(self):
        before, _ = engine.get_traced_memory()
        for _ in range(3):
            many = [self.module.malloc(OBJ, 500) for _ in range(12_000)]
            now, _ = engine.get_traced_memory()
            self.assertGreaterEqual(now - before, 500 * len(many))
            for address in many:
                self.module.free(OBJ, address)
            del many
            gc.collect()
            self.check_engine()
        now, _ = engine.get_traced_memory()
        self.assertLess(abs(now - before), 200_000)

    def test_arenas_are_not_blocks_of_the_program(self):
        # While a block is served, pymalloc may make an arena, and the array of
        # arenas through the raw domain: no trace of its own.
        many = [self.module.malloc(OBJ, 512) for _ in range(40_000)]
        line = sys._getframe().f_lineno - 1
        traces = traces_at(__file__, line)
        self.assertEqual(sum(t.size == 512 for t in traces), len(many))
        # What else the line made: ints and the list, nothing large.
        rest = [t.size for t in traces if t.size != 512]
        self.assertLess(max(rest), 64 * len(many))
        self.assertEqual([s for s in rest if s in (1 << 18, 1 << 20)], [])
        for address in many:
            self.module.free(OBJ, address)

    def test_large_blocks_are_traced_once(self):
        # OBJ hands larger blocks on to RAW.
        for domain in (MEM, OBJ):
            engine.clear_traces()
            address = self.module.malloc(domain, 123_457)
            sizes = [trace[1] for trace in engine._get_traces()]
            self.assertEqual(sizes.count(123_457), 1)
            address = self.module.realloc(domain, address, 234_567)
            sizes = [trace[1] for trace in engine._get_traces()]
            self.assertEqual(sizes.count(123_457), 0)
            self.assertEqual(sizes.count(234_567), 1)
            self.module.free(domain, address)
            sizes = [trace[1] for trace in engine._get_traces()]
            self.assertEqual(sizes.count(234_567), 0)

    def test_random_walk(self):
        before, _ = engine.get_traced_memory()
        for _ in range(15):
            for _ in range(600):
                self.model.step()
            self.model.check(self)
        self.model.free_all()
        # Nothing of what was freed or moved is left behind.
        after, _ = engine.get_traced_memory()
        self.assertLess(abs(after - before), 200_000)

    def test_random_walk_with_clear_and_restart(self):
        for i in range(20):
            for _ in range(200):
                self.model.step()
            self.model.check(self)
            old = list(self.model.blocks)
            if i % 3 == 0:
                engine.clear_traces()
            elif i % 3 == 1:
                engine.stop()
                for address in old[::3]:
                    self.model.free(address)
                engine.start(1)
            else:
                continue
            known = sizes_now()
            self.assertEqual([a for a in self.model.blocks if a in known], [])
            self.check_engine()
            # Blocks of before may go or grow; then they are forgotten.
            for address in list(self.model.blocks)[::2]:
                self.model.free(address)
            for address in list(self.model.blocks):
                address = self.model.resize(address, ODD)
                self.assertEqual(engine.get_trace(address)[0], ODD)
            self.model.check(self)


class Huge(Tracing):
    """Sizes of 4 GiB and more do not fit where all others do."""

    limit = 1
    GIB = 1 << 30

    def setUp(self):
        if sys.maxsize < 2**33:
            self.skipTest("no such sizes on this platform")
        self.module = blocks.load()
        super().setUp()

    def test_tracked(self):
        base = engine.get_traced_memory()[0]
        sizes = [4 * self.GIB - 2, 4 * self.GIB - 1, 4 * self.GIB,
                 4 * self.GIB + 1, 5 * self.GIB, 1 << 40, 1 << 50]
        for domain in (0, 9):
            for i, size in enumerate(sizes):
                self.assertEqual(
                    self.module.track(domain, 0x7000_0000_0000 + 64 * i, size), 0)
        found = sorted((t[0], t[1]) for t in engine._get_traces()
                       if t[1] > 3 * self.GIB)
        self.assertEqual(found, [(d, s) for d in (0, 9) for s in sizes])
        total = engine.get_traced_memory()[0] - base
        self.assertAlmostEqual(total, 2 * sum(sizes), delta=200_000)
        self.check_engine()
        # Replaced by smaller, larger, and as large ones.
        for domain in (0, 9):
            for i, size in enumerate(sizes):
                for other in (10, 6 * self.GIB, 7 * self.GIB, size):
                    self.module.track(domain, 0x7000_0000_0000 + 64 * i, other)
                    self.check_engine()
        total = engine.get_traced_memory()[0] - base
        self.assertAlmostEqual(total, 2 * sum(sizes), delta=200_000)
        for domain in (0, 9):
            for i in range(len(sizes)):
                self.module.untrack(domain, 0x7000_0000_0000 + 64 * i)
                self.check_engine()
        total = engine.get_traced_memory()[0] - base
        self.assertLess(abs(total), 200_000)

    def test_trace_of_a_huge_block(self):
        self.module.track(0, 0x7000_0000_1000, 6 * self.GIB)
        self.assertEqual(engine.get_trace(0x7000_0000_1000)[0], 6 * self.GIB)
        frozen = engine._freeze()
        index = frozen.get_by_address(0x7000_0000_1000)
        self.assertEqual(frozen.trace(index)[1], 6 * self.GIB)

    def test_allocated(self):
        for domain in (RAW, MEM, OBJ):
            try:
                address = self.module.malloc(domain, 5 * self.GIB)
            except MemoryError:
                self.skipTest("the system does not give that much")
            self.assertEqual(engine.get_trace(address)[0], 5 * self.GIB)
            self.check_engine()
            self.module.free(domain, address)
            self.assertIsNone(engine.get_trace(address))
            self.check_engine()


class Addresses(Tracing):
    """What is asked by address."""

    limit = 5

    def test_only_the_start_of_a_block(self):
        self.module = blocks.load()
        for size in (16, 100, 512, 5000):
            address = self.module.malloc(MEM, size)
            self.assertEqual(engine.get_trace(address)[0], size)
            for offset in (1, 8, size - 1):
                self.assertIsNone(engine.get_trace(address + offset))
            self.module.free(MEM, address)

    def test_addresses_of_nothing(self):
        for address in (0, 1, 16, 4096, 1 << 20, 2**47 - 16, 2**63, 2**64 - 1):
            self.assertIsNone(engine.get_trace(address))
        with self.assertRaises(OverflowError):
            engine.get_trace(2**64)
        with self.assertRaises(TypeError):
            engine.get_trace("1")

    def test_pre_header(self):
        # The block of an object begins before it.
        class Thing:
            pass

        class Slots:
            __slots__ = ("__weakref__", "__dict__")

        class Many(int):
            pass

        for make in (Thing, Slots, Many, list, dict, object, bytearray,
                     lambda: [1] * 50, lambda: (1,) * 50, lambda: "x" * 99,
                     lambda: lambda: 0):
            thing = make()
            address = engine.get_object_address(thing)
            self.assertLessEqual(address, id(thing))
            trace = engine.get_object_trace(thing)
            self.assertEqual(engine.get_trace(address), trace)
            if trace is not None:
                self.assertIn(address, engine.get_traces())
                self.assertGreaterEqual(trace[0], thing.__basicsize__
                                        if isinstance(thing, type) else 16)

    def test_objects_that_nobody_allocated(self):
        for thing in (None, True, 5, "", (), int, type(engine), engine._freeze):
            self.assertIsNone(engine._get_object_traceback(thing))
            self.assertIsNone(engine.get_object_trace(thing))


class Allocators(unittest.TestCase):
    """PYTHONMALLOC decides what is below: traces are the same."""

    NAMES = ("malloc", "malloc_debug", "pymalloc", "pymalloc_debug", "mimalloc",
             "mimalloc_debug", "debug", "default")

    def names(self):
        for name in self.NAMES:
            if "pymalloc" in name and not support.with_pymalloc():
                continue
            if "mimalloc" in name and not support.with_mimalloc():
                continue
            if GIL_DISABLED and name in ("malloc", "malloc_debug"):
                continue
            yield name

    def test_blocks(self):
        # The same walk over each allocator, started late or early.
        blocks.load()
        code = """
            import sys, unittest, _tracemalloc as engine
            from test.test_tracemalloc_engine.test_traces import Model
            if not engine.is_tracing():
                engine.start(1)
            class Test(unittest.TestCase):
                def check_engine(self):
                    self.assertIsNone(engine._check())
            test = Test()
            model = Model(tm_blocks, 5)
            for _ in range(6):
                for _ in range(400):
                    model.step()
                model.check(test)
            summary = sorted(model.blocks.values())
            model.free_all()
            test.check_engine()
            print(hash(tuple(summary)))
        """
        says = set()
        for name in self.names():
            for options in ((), ("-X", "tracemalloc=3")):
                with self.subTest(name=name, options=options):
                    done = run_child(code, *options, before=blocks.loading(),
                                     env={"PYTHONMALLOC": name,
                                          "PYTHONHASHSEED": "0"})
                    self.assertEqual(done.status, 0, done)
                    says.add(done.out)
        self.assertEqual(len(says), 1)

    def test_program(self):
        # Objects and their growth: the same multiset of sizes and lines.
        code = """
            import _tracemalloc as engine, gc
            if engine.is_tracing():
                engine.stop()
            source = '''
            class Thing:
                def __init__(self, n):
                    self.name = "x" * n
                    self.numbers = list(range(1000, 1000 + n))
                    self.table = {i: str(i + n) for i in range(n)}
            def run():
                things = [Thing(n) for n in range(0, 900, 7)]
                grown = bytearray()
                for n in range(300):
                    grown += bytes(n)
                del things[::3]
                text = "".join(t.name for t in things)
                return things, grown, text
            '''
            import textwrap
            names = {}
            exec(compile(textwrap.dedent(source), "<prog>", "exec"), names)
            names["run"]()
            gc.collect(); gc.disable()
            engine.start(4)
            kept = names["run"]()
            traces = engine._get_traces()
            engine.stop()
            found = sorted((t[1], t[2][:2]) for t in traces
                           if t[2][0][0] == "<prog>")
            import hashlib
            print(len(found), hashlib.sha256(repr(found).encode()).hexdigest())
        """
        says = {}
        for name in self.names():
            done = run_child(code, env={"PYTHONMALLOC": name,
                                        "PYTHONHASHSEED": "0"})
            self.assertEqual(done.status, 0, done)
            says[name] = done.out
        self.assertEqual(len(set(says.values())), 1, says)
        self.assertGreater(int(done.out.split()[0]), 1000)


if __name__ == "__main__":
    unittest.main()
