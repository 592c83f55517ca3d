"""Snapshot: making, reading, changing and copying one."""

import copy
import datetime
import inspect
import os
import pickle
import tracemalloc
import unittest
from tracemalloc import Filter, Snapshot
from test.test_tracemalloc_pep454 import util

NOW = datetime.datetime(2026, 1, 31, 9, 5, 7)
TRACES = {16: (5, (("a.py", 1), ("b.py", 2))), 32: (7, (("a.py", 1),))}
STATS = {"a.py": {1: (12, 2)}}


class ConstructorTests(unittest.TestCase):
    def test_draft(self):
        metrics = {"m": tracemalloc.Metric("m", 1, "int")}
        for snapshot in (
                Snapshot(NOW, 5, TRACES, STATS, metrics),
                Snapshot(timestamp=NOW, pid=5, traces=TRACES, stats=STATS,
                         metrics=metrics)):
            self.assertEqual(snapshot.timestamp, NOW)
            self.assertEqual(snapshot.pid, 5)
            self.assertIs(snapshot.traces, TRACES)
            self.assertIs(snapshot.stats, STATS)
            self.assertIs(snapshot.metrics, metrics)

    def test_defaults(self):
        snapshot = Snapshot(NOW, 5)
        self.assertIsNone(snapshot.traces)
        self.assertEqual(snapshot.metrics, {})
        self.assertEqual(snapshot.traceback_limit, 1)
        self.assertEqual(snapshot.lost, 0)

    def test_3_13(self):
        rows = [(0, 5, (("a.py", 1),), 1)]
        for snapshot in (Snapshot(rows, 3),
                         Snapshot(traces=rows, traceback_limit=3),
                         Snapshot(tuple(rows), traceback_limit=3)):
            self.assertEqual(snapshot.traceback_limit, 3)
            self.assertEqual([t.size for t in snapshot.traces], [5])
            self.assertEqual(snapshot.stats, {"a.py": {1: (5, 1)}})
            self.assertEqual(snapshot.pid, os.getpid())
            self.assertIsInstance(snapshot.timestamp, datetime.datetime)

    def test_wrong_arguments(self):
        self.assertRaises(TypeError, Snapshot)
        self.assertRaises(TypeError, Snapshot, [])
        self.assertRaises(TypeError, Snapshot, NOW)
        self.assertRaises(TypeError, Snapshot, [], 1, 2)

    def test_limit_of_traces(self):
        # For hand-made ones the longest traceback, at least 1.
        self.assertEqual(Snapshot(NOW, 5, TRACES).traceback_limit, 2)
        self.assertEqual(Snapshot(NOW, 5, {}).traceback_limit, 1)
        self.assertEqual(Snapshot(NOW, 5, {1: (2, ())}).traceback_limit, 1)

    def test_signature(self):
        inspect.signature(Snapshot)


class AttributeTests(unittest.TestCase):
    def test_writable(self):
        snapshot = Snapshot(NOW, 5, TRACES)
        for name in ("timestamp", "pid", "traces", "stats", "metrics",
                     "traceback_limit", "lost", "something_else"):
            thing = {}
            setattr(snapshot, name, thing)
            self.assertIs(getattr(snapshot, name), thing)

    def test_stats_follow_from_traces(self):
        snapshot = Snapshot(NOW, 5, TRACES)
        self.assertEqual(snapshot.stats, STATS)
        snapshot.traces = {64: (9, ((None, None),))}
        self.assertEqual(snapshot.stats, {None: {None: (9, 1)}})

    def test_given_stats_stay(self):
        given = {"z.py": {1: (1, 1)}}
        snapshot = Snapshot(NOW, 5, TRACES, given)
        snapshot.traces = None
        self.assertIs(snapshot.stats, given)

    def test_dropping_traces_keeps_stats(self):
        snapshot = Snapshot(NOW, 5, dict(TRACES))
        snapshot.traces = None
        self.assertIsNone(snapshot.traces)
        self.assertEqual(snapshot.stats, STATS)
        self.assertEqual(snapshot.top_by("line").stats, {("a.py", 1): (12, 2)})

    def test_nothing(self):
        snapshot = Snapshot(NOW, 5)
        self.assertEqual(snapshot.stats, {})
        self.assertEqual(snapshot.top_by("line").stats, {})

    def test_changed_in_place(self):
        traces = dict(TRACES)
        snapshot = Snapshot(NOW, 5, traces)
        self.assertEqual(snapshot.top_by("line").stats, {("a.py", 1): (12, 2)})
        traces[48] = (1, (("c.py", 3),))
        self.assertEqual(snapshot.top_by("line").stats,
                         {("a.py", 1): (12, 2), ("c.py", 3): (1, 1)})
        self.assertEqual(snapshot.stats["c.py"], {3: (1, 1)})

    def test_list_of_traces(self):
        # Other methods work with whatever was put there.
        first = Snapshot([(0, 5, (("a.py", 1),), 1), (3, 2, (("b.py", 1),), 1)],
                         1)
        first.traces = [t for t in first.traces if t.domain == 3]
        self.assertEqual(first.stats, {"b.py": {1: (2, 1)}})
        self.assertEqual([str(s) for s in first.statistics("lineno")],
                         ["b.py:1: size=2 B, count=1, average=2 B"])
        self.assertEqual(
            len(first.filter_traces([Filter(False, "b.py")]).traces), 0)
        first.apply_filters([Filter(False, "b.py")])
        self.assertEqual(list(first.traces), [])

    def test_list_that_changes(self):
        rows = [(0, 5, (("a.py", 1),), 1)]
        snapshot = Snapshot(rows, 1)
        self.assertEqual(snapshot.statistics("filename")[0].size, 5)
        rows.append((0, 10, (("a.py", 1),), 1))
        self.assertEqual(snapshot.statistics("filename")[0].size, 15)
        snapshot.traces._traces.append((0, 20, (("a.py", 1),), 1))
        self.assertEqual(snapshot.statistics("filename")[0].size, 35)
        rows[0] = (0, 1, (("a.py", 1),), 1)
        self.assertEqual(snapshot.statistics("filename")[0].size, 31)

    def test_odd_values(self):
        # No tracer gives these, but a snapshot made by hand may have them.
        rows = [(0, 1.5, (("a.py", -3),), None), (-1, 1 << 80, (("b", 0),), 7)]
        snapshot = Snapshot(rows, 1)
        self.assertEqual([(s.size, str(s.traceback))
                          for s in snapshot.statistics("lineno")],
                         [(1 << 80, "b:0"), (1.5, "a.py:-3")])
        self.assertEqual(snapshot.top_by("filename").stats,
                         {"a.py": (1.5, 1), "b": (1 << 80, 1)})
        difference = snapshot.compare_to(Snapshot([], 1), "filename")
        self.assertEqual([d.size_diff for d in difference], [1 << 80, 1.5])
        difference = Snapshot([], 1).compare_to(snapshot, "filename")
        self.assertEqual([d.size_diff for d in difference], [-1 << 80, -1.5])

    def test_huge_sums(self):
        rows = [(0, 1 << 62, (("a.py", 1),), 1)] * 8
        snapshot = Snapshot(rows, 1)
        self.assertEqual(snapshot.statistics("lineno")[0].size, 1 << 65)
        self.assertEqual(snapshot.top_by("line").stats,
                         {("a.py", 1): (1 << 65, 8)})


class CreateTests(util.Traced):
    limit = 3

    def test_needs_tracing(self):
        tracemalloc.disable()
        with self.assertRaises(RuntimeError) as caught:
            Snapshot.create()
        self.assertEqual(str(caught.exception), "the tracemalloc module must "
                                                "be enabled to take a snapshot")

    def test_without_traces(self):
        keep = [util.allocate() for _ in range(10)]
        before = datetime.datetime.now()
        snapshot = Snapshot.create()
        self.assertIsInstance(snapshot, Snapshot)
        self.assertIsNone(snapshot.traces)
        self.assertEqual(snapshot.stats[util.PLACE[0]][util.PLACE[1]],
                         (sum(b.__sizeof__() for b in keep), 10))
        self.assertEqual(snapshot.pid, os.getpid())
        self.assertEqual(snapshot.traceback_limit, 3)
        self.assertEqual(snapshot.lost, 0)
        self.assertLessEqual(before, snapshot.timestamp)
        self.assertLessEqual(snapshot.timestamp, datetime.datetime.now())

    def test_with_traces(self):
        keep = [util.deep(6, 6000 + n) for n in range(10)]
        snapshot = Snapshot.create(traces=True)
        for block in keep:
            trace = snapshot.traces[tracemalloc.get_object_address(block)]
            self.assertEqual(trace, tracemalloc.get_object_trace(block))
            # Limited to traceback_limit frames.
            self.assertEqual(len(trace[1]), 3)
        self.assertEqual(snapshot.stats[util.PLACE[0]][util.PLACE[1]][1], 10)
        size, count = snapshot.stats[util.PLACE[0]][util.PLACE[1]]
        self.assertEqual(size, sum(b.__sizeof__() for b in keep))

    def test_mapping(self):
        block = util.allocate()
        address = tracemalloc.get_object_address(block)
        traces = Snapshot.create(traces=True).traces
        self.assertIn(address, traces)
        self.assertNotIn(address + 1, traces)
        self.assertNotIn("x", traces)
        self.assertNotIn(-5, traces)
        self.assertNotIn(1 << 70, traces)
        self.assertRaises(KeyError, traces.__getitem__, address + 1)
        self.assertIsNone(traces.get(address + 1))
        self.assertEqual(len(traces), len(list(traces)))
        self.assertEqual(len(traces), len(traces.items()))
        self.assertEqual(dict(traces), traces)
        self.assertEqual(dict(traces)[address], traces[address])
        for size, frames in traces.values():
            self.assertIs(type(size), int)
            for name, number in frames:
                self.assertNotEqual(name, "<unknown>")
                self.assertNotEqual(number, 0)

    def test_same_as_get_traces(self):
        blocks = [util.allocate() for _ in range(5)]
        snapshot = Snapshot.create(traces=True, metrics=False)
        traces = tracemalloc.get_traces()
        for block in blocks:
            address = tracemalloc.get_object_address(block)
            self.assertEqual(traces[address], snapshot.traces[address])

    def test_metrics(self):
        # Filled by the five methods, or empty.
        self.assertEqual(Snapshot.create(metrics=False).metrics, {})
        metrics = Snapshot.create().metrics
        for name in ("gc.objects", "pymalloc.blocks",
                     "tracemalloc.traced.size", "unicode_interned.len"):
            self.assertIsInstance(metrics[name], tracemalloc.Metric)

    def test_arguments_by_position(self):
        snapshot = Snapshot.create(True, False)
        self.assertIsNotNone(snapshot.traces)
        self.assertEqual(snapshot.metrics, {})

    def test_what_makes_it_is_not_in_it(self):
        Snapshot.create(True)
        first, second = Snapshot.create(True), Snapshot.create(True)
        self.assertLess(len(second.traces) - len(first.traces), 200)

    def test_subclass(self):
        class Mine(Snapshot):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.mine = True

        for traces in (True, False):
            snapshot = Mine.create(traces)
            self.assertIs(type(snapshot), Mine)
            self.assertTrue(snapshot.mine)
            self.assertEqual(snapshot.traceback_limit, 3)

    def test_independent_of_what_comes_later(self):
        block = util.allocate()
        address = tracemalloc.get_object_address(block)
        snapshot = Snapshot.create(traces=True)
        trace = tracemalloc.get_object_trace(block)
        del block
        tracemalloc.clear_traces()
        tracemalloc.disable()
        self.assertEqual(snapshot.traces[address], trace)

    def test_methods_of_3_13(self):
        keep = [util.allocate() for _ in range(10)]
        expected = (sum(b.__sizeof__() for b in keep), 10)
        for traces in (True, False):
            snapshot = Snapshot.create(traces)
            place = [s for s in snapshot.statistics("lineno")
                     if (s.traceback[0].filename, s.traceback[0].lineno)
                     == util.PLACE]
            self.assertEqual([(s.size, s.count) for s in place], [expected])
            self.assertEqual(
                {d.size_diff for d in snapshot.compare_to(snapshot, "lineno")},
                {0})
        self.assertRaisesRegex(ValueError, "need traces",
                               snapshot.statistics, "traceback")
        self.assertRaisesRegex(ValueError, "need traces",
                               snapshot.statistics, "lineno", True)
        self.assertRaisesRegex(ValueError, "need traces",
                               snapshot.filter_traces, [])

    def test_take_snapshot_has_draft_attributes(self):
        snapshot = tracemalloc.take_snapshot()
        self.assertEqual(snapshot.pid, os.getpid())
        self.assertIsInstance(snapshot.timestamp, datetime.datetime)
        self.assertEqual(snapshot.metrics, {})
        self.assertEqual(snapshot.lost, 0)
        self.assertIsInstance(snapshot.traces[0], tracemalloc.Trace)
        self.assertIn(util.PLACE[0], Snapshot.create().stats.keys()
                      | {util.PLACE[0]})
        self.assertTrue(snapshot.top_by("address").stats)


class ApplyFiltersTests(unittest.TestCase):
    def test_traces_and_stats(self):
        snapshot, _ = util.two_snapshots()
        self.assertIsNone(snapshot.apply_filters([Filter(True, "lib/a.py")]))
        self.assertEqual(set(snapshot.traces), {0x1000, 0x2000, 0x3000})
        self.assertEqual(snapshot.stats,
                         {"lib/a.py": {7: (200, 2), 9: (40, 1)}})
        snapshot.apply_filters([Filter(False, "lib/a.py", 7)])
        self.assertEqual(set(snapshot.traces), {0x3000})
        self.assertEqual(snapshot.stats, {"lib/a.py": {9: (40, 1)}})

    def test_all_frames(self):
        snapshot, _ = util.two_snapshots()
        snapshot.apply_filters([Filter(True, "main.py", 1, traceback=True)])
        self.assertEqual(set(snapshot.traces), {0x1000, 0x2000})
        self.assertEqual(snapshot.stats, {"lib/a.py": {7: (200, 2)}})

    def test_unknown(self):
        # A None name matches no pattern.
        snapshot, _ = util.two_snapshots()
        snapshot.apply_filters([Filter(True, "*")])
        self.assertNotIn(0x5000, snapshot.traces)
        self.assertNotIn(None, snapshot.stats)
        snapshot, _ = util.two_snapshots()
        snapshot.apply_filters([Filter(False, "*")])
        self.assertEqual(set(snapshot.traces), {0x5000})
        self.assertEqual(snapshot.stats, {None: {None: (3, 1)}})

    def test_stats_only(self):
        snapshot = Snapshot(NOW, 5, None, {
            "a.py": {1: (5, 1), 2: (6, 1)}, "b.py": {1: (7, 1)},
            None: {None: (8, 1)}})
        snapshot.apply_filters([Filter(False, "a.py", 1), Filter(True, "a*"),
                                Filter(True, "b*")])
        self.assertEqual(snapshot.stats,
                         {"a.py": {2: (6, 1)}, "b.py": {1: (7, 1)}})
        self.assertRaisesRegex(ValueError, "need traces",
                               snapshot.apply_filters,
                               [tracemalloc.DomainFilter(True, 0)])

    def test_given_stats_and_traces(self):
        snapshot = Snapshot(NOW, 5, dict(TRACES),
                            {"a.py": {1: (100, 1)}, "z.py": {1: (1, 1)}})
        snapshot.apply_filters([Filter(False, "z.py")])
        self.assertEqual(snapshot.stats, {"a.py": {1: (100, 1)}})
        self.assertEqual(len(snapshot.traces), 2)

    def test_form_stays(self):
        snapshot = Snapshot([(0, 5, (("a.py", 1),), 1)], 1)
        snapshot.apply_filters([Filter(True, "a.py")])
        self.assertEqual(snapshot.traces[0].size, 5)

    def test_own_class(self):
        class Short(Filter):
            def match(self, filename, lineno):
                return filename is not None and len(filename) < 8

        snapshot, _ = util.two_snapshots()
        snapshot.apply_filters([Short(True, "*")])
        self.assertEqual(set(snapshot.traces), set())
        snapshot.traces = dict(TRACES)
        snapshot.apply_filters([Short(True, "*")])
        self.assertEqual(len(snapshot.traces), 2)

    def test_none(self):
        snapshot, _ = util.two_snapshots()
        before = dict(snapshot.traces)
        snapshot.apply_filters([])
        self.assertEqual(dict(snapshot.traces), before)


class CopyTests(util.Traced):
    def check(self, one, other):
        self.assertEqual(other.timestamp, one.timestamp)
        self.assertEqual(other.pid, one.pid)
        self.assertEqual(other.traceback_limit, one.traceback_limit)
        self.assertEqual(other.metrics, one.metrics)
        self.assertEqual(other.stats, one.stats)
        self.assertEqual(other.lost, one.lost)
        if one.traces is None:
            self.assertIsNone(other.traces)
        else:
            self.assertEqual(other.traces, one.traces)
        self.assertEqual(other.note, one.note)

    def test_copies(self):
        made = [Snapshot.create(True), Snapshot.create(False),
                tracemalloc.take_snapshot(), *util.two_snapshots(),
                Snapshot(NOW, 5, TRACES, {"q": {1: (1, 1)}})]
        made[2].lost = 7
        for snapshot in made:
            snapshot.note = {"any": ["thing"]}
            self.check(snapshot, copy.copy(snapshot))
            self.check(snapshot, copy.deepcopy(snapshot))
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                data = pickle.dumps(snapshot, protocol)
                self.check(snapshot, pickle.loads(data))

    def test_names_in_pickles(self):
        # So that stock Python finds the classes.
        data = pickle.dumps(tracemalloc.take_snapshot())
        self.assertIn(b"tracemalloc", data)
        for word in (b"_snapshot", b"_views", b"_frames", b"_tracemalloc"):
            self.assertNotIn(b"\x94\x8c" + bytes([len(word)]) + word, data)
        for cls in (Snapshot, tracemalloc._Traces, tracemalloc.Trace,
                    tracemalloc.Traceback, tracemalloc.Frame,
                    tracemalloc.Filter, tracemalloc.Statistic,
                    tracemalloc.Metric, tracemalloc.Task):
            self.assertEqual(cls.__module__, "tracemalloc")
            self.assertIs(getattr(tracemalloc, cls.__qualname__), cls)

    def test_form_stays(self):
        for snapshot in (Snapshot.create(True), tracemalloc.take_snapshot()):
            again = copy.deepcopy(snapshot)
            self.assertIs(type(again.traces), type(snapshot.traces))


if __name__ == "__main__":
    unittest.main()
