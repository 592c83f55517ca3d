"""Traceback limit, and the functions that ask about single blocks."""

import sys
import tracemalloc
import unittest
from test.test_tracemalloc_pep454 import util


class LimitTests(util.Traced):
    def test_default_is_one_frame(self):
        # By default, a trace only stores one frame.
        self.assertEqual(tracemalloc.get_traceback_limit(), 1)
        self.assertEqual(len(tracemalloc.get_object_trace(util.deep(5))[1]), 1)

    def test_set_and_get(self):
        for limit in (1, 2, 100, 65535):
            tracemalloc.set_traceback_limit(limit)
            self.assertEqual(tracemalloc.get_traceback_limit(), limit)

    def test_range(self):
        for limit in (0, -1, 65536, 1 << 40):
            with self.subTest(limit=limit):
                self.assertRaises((ValueError, OverflowError),
                                  tracemalloc.set_traceback_limit, limit)
        self.assertRaises(ValueError, tracemalloc.set_traceback_limit, 0)
        self.assertRaises(ValueError, tracemalloc.set_traceback_limit, 65536)
        self.assertRaises(TypeError, tracemalloc.set_traceback_limit, "5")
        self.assertEqual(tracemalloc.get_traceback_limit(), 1)

    def test_at_any_time(self):
        # Blocks already traced keep their tracebacks.
        tracemalloc.set_traceback_limit(4)
        old = util.deep(10)
        tracemalloc.set_traceback_limit(2)
        new = util.deep(10)
        self.assertEqual(len(tracemalloc.get_object_trace(old)[1]), 4)
        self.assertEqual(len(tracemalloc.get_object_trace(new)[1]), 2)
        tracemalloc.set_traceback_limit(6)
        newer = util.deep(10)
        self.assertEqual(len(tracemalloc.get_object_trace(newer)[1]), 6)
        self.assertEqual(len(tracemalloc.get_object_trace(new)[1]), 2)


class ObjectTests(util.Traced):
    limit = 3

    def test_trace_of_an_object(self):
        block = util.deep(2, 7000)
        size, traceback = tracemalloc.get_object_trace(block)
        self.assertEqual(size, block.__sizeof__())
        self.assertIs(type(traceback), tuple)
        # The most recent call comes first.
        self.assertEqual(traceback[0], util.PLACE)
        self.assertEqual([name for name, _ in traceback[:3]],
                         [util.PLACE[0]] * 3)
        self.assertEqual(len(traceback), 3)
        for frame in traceback:
            self.assertIs(type(frame), tuple)

    def test_only_the_main_block(self):
        big = list(range(5000))
        size, _ = tracemalloc.get_object_trace(big)
        self.assertLess(size, sys.getsizeof(big))

    def test_untraced_object(self):
        tracemalloc.disable()
        block = util.allocate()
        tracemalloc.enable()
        self.assertIsNone(tracemalloc.get_object_trace(block))
        self.assertIsNone(tracemalloc.get_object_trace(None))

    def test_address(self):
        block = util.allocate()
        address = tracemalloc.get_object_address(block)
        self.assertIs(type(address), int)
        self.assertEqual(tracemalloc.get_trace(address),
                         tracemalloc.get_object_trace(block))

    def test_address_of_every_kind_of_object(self):
        class Plain:
            pass

        class Slots:
            __slots__ = ("a",)

        class Number(int):
            pass

        # Lists and dicts that were kept for reuse are older than the tracing.
        used_up = [([], {}) for _ in range(500)]
        for thing in (Plain(), Slots(), Number(5), [], {}, set(), object(),
                      bytearray(50), lambda: 0, (n for n in ()), Plain):
            with self.subTest(type=type(thing)):
                address = tracemalloc.get_object_address(thing)
                trace = tracemalloc.get_trace(address)
                self.assertIsNotNone(trace)
                self.assertEqual(trace, tracemalloc.get_object_trace(thing))
                self.assertIn(address, tracemalloc.get_traces())
        del used_up

    def test_address_without_tracing(self):
        thing = []
        address = tracemalloc.get_object_address(thing)
        tracemalloc.disable()
        self.assertEqual(tracemalloc.get_object_address(thing), address)

    def test_old_name_has_the_old_order(self):
        block = util.deep(2)
        _, frames = tracemalloc.get_object_trace(block)
        traceback = tracemalloc.get_object_traceback(block)
        self.assertEqual([(f.filename, f.lineno) for f in traceback],
                         list(frames)[::-1])


class TraceTests(util.Traced):
    limit = 2

    def test_get_trace_of_nothing(self):
        self.assertIsNone(tracemalloc.get_trace(1))
        block = util.allocate()
        address = tracemalloc.get_object_address(block)
        self.assertIsNotNone(tracemalloc.get_trace(address))
        self.assertIsNone(tracemalloc.get_trace(address + 1))
        tracemalloc.disable()
        self.assertIsNone(tracemalloc.get_trace(address))

    def test_get_trace_after_release(self):
        block = util.allocate(1 << 20)
        address = tracemalloc.get_object_address(block)
        del block
        self.assertIsNone(tracemalloc.get_trace(address))

    def test_arguments_are_checked(self):
        self.assertRaises(TypeError, tracemalloc.get_trace, "x")
        self.assertRaises(TypeError, tracemalloc.get_trace)

    def test_get_traces(self):
        keep = [util.allocate(6000 + n) for n in range(20)]
        traces = tracemalloc.get_traces()
        self.assertIs(type(traces), dict)
        for block in keep:
            address = tracemalloc.get_object_address(block)
            self.assertEqual(traces[address],
                             tracemalloc.get_object_trace(block))
        for address, (size, traceback) in traces.items():
            self.assertIs(type(address), int)
            self.assertIs(type(size), int)
            for name, number in traceback:
                self.assertIn(type(name), (str, type(None)))
                self.assertIn(type(number), (int, type(None)))

    def test_what_asks_is_not_in_the_answer(self):
        first = len(tracemalloc.get_traces())
        second = len(tracemalloc.get_traces())
        self.assertLess(abs(second - first), 100)

    def test_get_traces_when_disabled(self):
        tracemalloc.disable()
        self.assertEqual(tracemalloc.get_traces(), {})

    def test_agrees_with_stats(self):
        keep = [util.allocate() for _ in range(50)]
        traces = tracemalloc.get_traces()
        stats = tracemalloc.get_stats()
        mine = [size for size, frames in traces.values()
                if frames and frames[0] == util.PLACE]
        self.assertEqual((sum(mine), len(mine)),
                         stats[util.PLACE[0]][util.PLACE[1]])
        del keep


if __name__ == "__main__":
    unittest.main()
