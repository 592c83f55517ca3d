"""The limit of tracebacks: which values it takes, what a change leaves alone,
how deep a stack is told to be, and what clearing forgets."""

import sys
import unittest

import _tracemalloc as engine
from test import support

from .util import (ODD, Probe, Tracing, Untraced, below, made_in,
                   traces_of)

TEXT = "the number of frames must be in range [1; 65535]"


def probe():
    return Probe(bytearray(1), sys._getframe())


class Values(Untraced):
    def test_out_of_range(self):
        for set_limit in (engine.start, engine.set_traceback_limit):
            for value in (0, -1, 65536, 2**31 - 1, -2**31):
                with self.subTest(value=value):
                    with self.assertRaises(ValueError) as caught:
                        set_limit(value)
                    self.assertEqual(str(caught.exception), TEXT)
        self.assertFalse(engine.is_tracing())
        self.assertEqual(engine.get_traceback_limit(), 1)

    def test_not_even_an_int(self):
        for value in ("1", 1.0, None, [], 1j):
            for set_limit in (engine.start, engine.set_traceback_limit):
                with self.assertRaises(TypeError):
                    set_limit(value)
        with self.assertRaises(OverflowError):
            engine.start(2**100)
        with self.assertRaises(ValueError):
            engine.set_traceback_limit(2**100)
        with self.assertRaises(ValueError):
            engine.set_traceback_limit(-2**100)

    def test_the_ends_of_the_range(self):
        for value in (1, 65535):
            engine.start(value)
            self.assertEqual(engine.get_traceback_limit(), value)
            self.check_engine()
            engine.stop()
            # As in the standard library it stays, for enable().
            self.assertEqual(engine.get_traceback_limit(), value)

    def test_start_while_tracing_changes_nothing(self):
        engine.start(5)
        engine.start(9)
        self.assertEqual(engine.get_traceback_limit(), 5)
        engine.enable()
        self.assertEqual(engine.get_traceback_limit(), 5)

    def test_enable_uses_the_limit(self):
        engine.set_traceback_limit(3)
        engine.enable()
        below(9, probe).check(self, 3)
        engine.disable()
        engine.set_traceback_limit(2)
        engine.enable()
        below(9, probe).check(self, 2)

    def test_start_without_argument_means_one(self):
        engine.set_traceback_limit(40)
        engine.start()
        self.assertEqual(engine.get_traceback_limit(), 1)
        below(9, probe).check(self, 1)

    def test_limit_may_change_at_any_time_while_off(self):
        # Limits that nothing was recorded under cost nothing.
        for value in range(1, 600):
            engine.set_traceback_limit(value)
        engine.start(600)
        below(3, probe).check(self)


class Changes(Tracing):
    """A new limit is for new blocks; what is traced keeps its traceback."""

    def test_old_blocks_keep_theirs(self):
        limits = [1, 5, 1, 100, 2, 65535, 1, 33, 5, 100, 1]
        found = []
        for limit in limits:
            engine.set_traceback_limit(limit)
            found.append((limit, below(60, probe), below(2, probe)))
        for limit, deep, flat in found:
            for one in (deep, flat):
                one.check(self, limit)
                self.assertEqual(one.trace().total, len(one.expected))

    def test_equal_tracebacks_of_two_limits_are_equal(self):
        engine.set_traceback_limit(1)
        made_in("<equal>", "def make(): return bytearray(1)")
        names = made_in("<equal>", "def make(): return bytearray(1)")
        make = names["make"]
        blocks = []
        for limit in (1, 1000, 1, 50):
            engine.set_traceback_limit(limit)
            blocks.append(make())
        frozen = engine._freeze()
        frames = [frozen.trace(frozen.get_by_address(
            engine.get_object_address(block)))[2] for block in blocks]
        self.assertIs(frames[0], frames[2])
        self.assertEqual(frames[1], frames[3])

    def test_more_limits_than_can_be_told_apart(self):
        # Each limit in use takes a number.  When they run out the old limit
        # stays, nothing breaks, and clearing gives the numbers back.
        found = []
        limit = 100
        for value in range(2, 400):
            try:
                engine.set_traceback_limit(value)
            except RuntimeError:
                break
            limit = value
            found.append((limit, below(3, probe)))
        self.assertGreater(len(found), 200)
        self.assertEqual(engine.get_traceback_limit(), limit)
        below(3, probe).check(self, limit)
        for value, one in found:
            one.check(self, value)
        engine.clear_traces()
        engine.set_traceback_limit(450)
        below(3, probe).check(self, 450)

    def test_limit_changed_by_a_deeper_frame(self):
        def change(limit):
            engine.set_traceback_limit(limit)
            return probe()

        first = below(20, probe)
        second = below(20, lambda: change(4))
        third = below(20, probe)
        fourth = below(30, lambda: change(64))
        fifth = below(9, probe)
        for one, limit in ((first, 100), (second, 4), (third, 4),
                           (fourth, 64), (fifth, 64)):
            one.check(self, limit)


class Depth(Tracing):
    """How many frames there were is known, however few are kept."""

    limit = 1

    def test_limit_one_counts(self):
        for depth in (0, 1, 10, 64, 65, 300):
            one = below(depth, probe)
            one.check(self, 1)
            self.assertEqual(one.trace().total, len(one.expected))

    def test_limit_one_counts_every_time_anew(self):
        # Blocks of one line at several depths differ in nothing but that.
        found = [below(depth, probe) for depth in (3, 30, 3, 7, 30, 0)]
        totals = [one.trace().total for one in found]
        self.assertEqual(totals, [len(one.expected) for one in found])
        self.assertEqual(len({one.trace().frames for one in found}), 1)

    @support.requires_resource("cpu")
    def test_very_deep(self):
        # 65535 is as far as is counted, and the most that can be kept.
        def deep(n):
            if n == 0:
                return [bytearray(1) for _ in range(2)]
            return deep(n - 1)

        line = deep.__code__.co_firstlineno
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(100_000)
        self.addCleanup(sys.setrecursionlimit, limit)
        for kept in (1, 25, 65535):
            engine.set_traceback_limit(kept)
            for depth, total in ((60_000, None), (70_000, 65535)):
                blocks = deep(depth)
                frozen = engine._freeze()
                index = frozen.get_by_address(
                    engine.get_object_address(blocks[1]))
                _, _, frames, counted = frozen.trace(index)
                if total is None:
                    self.assertGreater(counted, depth)
                    self.assertLess(counted, depth + 200)
                    self.assertEqual(len(frames), min(kept, counted))
                else:
                    self.assertEqual(counted, total)
                    self.assertEqual(len(frames), kept)
                wanted = [line + 2] + [line + 3] * depth
                self.assertEqual([f[1] for f in frames[:depth]],
                                 wanted[:min(kept, depth)])
                self.check_engine()
                del blocks, frozen, frames
            engine.clear_traces()


class Clear(Tracing):
    def test_nothing_is_left_and_tracing_goes_on(self):
        kept = [bytearray(ODD) for _ in range(100)]
        engine.clear_traces()
        self.assertEqual(engine._get_object_traceback(kept[0]), None)
        self.assertEqual(traces_of(__file__), [])
        size, peak = engine.get_traced_memory()
        self.assertLess(peak, ODD * 50)
        self.assertTrue(engine.is_tracing())
        self.assertEqual(engine.get_traceback_limit(), self.limit)
        probe().check(self)
        del kept
        self.check_engine()

    def test_blocks_of_before_may_die_or_grow(self):
        kept = [bytearray(n) for n in (1, 100, 500, 600, 5000, 200_000)]
        engine.clear_traces()
        for block in kept:
            block += bytes(3)
        self.check_engine()
        block = None
        kept.clear()
        self.check_engine()
        self.assertGreaterEqual(engine.get_traced_memory()[0], 0)
        self.assertLess(engine.get_traced_memory()[0], 100_000)

    def test_again_and_again(self):
        for _ in range(50):
            below(70, probe).check(self)
            engine.clear_traces()
        probe().check(self)

    def test_memory_of_the_engine_is_given_back(self):
        def tree(n):
            return [probe()] + (tree(n - 1) + tree(n - 1) if n else [])

        tree(2)
        engine.clear_traces()
        before, _ = engine._memory()
        kept = tree(9)
        grown, _ = engine._memory()
        self.assertGreater(grown, before)
        del kept
        engine.clear_traces()
        after, free = engine._memory()
        self.assertLessEqual(after, before + 65536)
        self.assertLessEqual(free, after)
        engine.stop()
        self.assertEqual(engine.get_tracemalloc_memory(), 0)
        self.assertEqual(engine._memory(), (0, 0))

    def test_clear_while_off(self):
        engine.stop()
        engine.clear_traces()
        self.assertFalse(engine.is_tracing())
        self.assertEqual(engine.get_traced_memory(), (0, 0))


if __name__ == "__main__":
    unittest.main()
