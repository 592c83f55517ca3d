"""Snapshot.top_by, GroupedStats, StatsDiff."""

import unittest
from tracemalloc import GroupedStats, Snapshot, StatsDiff
from test.test_tracemalloc_pep454 import util


class TopByTests(unittest.TestCase):
    def setUp(self):
        self.old, self.new = util.two_snapshots()

    def test_line(self):
        top = self.old.top_by("line")
        self.assertIsInstance(top, GroupedStats)
        self.assertEqual(top.stats, {
            ("lib/a.py", 7): (200, 2), ("lib/a.py", 9): (40, 1),
            ("lib/b.py", 1): (5, 1), (None, None): (3, 1)})
        self.assertEqual(top.group_by, "line")
        self.assertIs(top.cumulative, False)
        self.assertEqual(top.timestamp, self.old.timestamp)
        self.assertEqual(top.metrics, self.old.metrics)

    def test_filename(self):
        self.assertEqual(self.old.top_by("filename").stats, {
            "lib/a.py": (240, 3), "lib/b.py": (5, 1), None: (3, 1)})

    def test_address(self):
        self.assertEqual(self.old.top_by("address").stats, {
            0x1000: (100, 1), 0x2000: (100, 1), 0x3000: (40, 1),
            0x4000: (5, 1), 0x5000: (3, 1)})

    def test_names_of_3_13(self):
        self.assertEqual(self.old.top_by("lineno").stats,
                         self.old.top_by("line").stats)
        self.assertEqual(self.old.top_by("traceback").stats, {
            (("lib/a.py", 7), ("main.py", 1)): (200, 2),
            (("lib/a.py", 9), ("main.py", 2)): (40, 1),
            (("lib/b.py", 1),): (5, 1), ((None, None),): (3, 1)})

    def test_unknown_grouping(self):
        for group_by in ("file", "", None, 5, "LINE"):
            self.assertRaises(ValueError, self.old.top_by, group_by)

    def test_cumulative(self):
        # Cumulate size and count of all frames.
        top = self.old.top_by("line", cumulative=True)
        self.assertIs(top.cumulative, True)
        self.assertEqual(top.stats, {
            ("lib/a.py", 7): (200, 2), ("main.py", 1): (200, 2),
            ("lib/a.py", 9): (40, 1), ("main.py", 2): (40, 1),
            ("lib/b.py", 1): (5, 1), (None, None): (3, 1)})
        self.assertEqual(self.old.top_by("filename", True).stats, {
            "lib/a.py": (240, 3), "main.py": (240, 3),
            "lib/b.py": (5, 1), None: (3, 1)})

    def test_cumulative_does_not_matter(self):
        # ... for addresses, or if the limit is less than 2
        top = self.old.top_by("address", True)
        self.assertIs(top.cumulative, False)
        self.assertEqual(top.stats, self.old.top_by("address").stats)
        self.old.traceback_limit = 1
        top = self.old.top_by("line", True)
        self.assertIs(top.cumulative, False)
        self.assertEqual(top.stats, self.old.top_by("line").stats)

    def test_need_traces(self):
        self.old.traces = None
        for arguments in (("address",), ("address", True), ("line", True),
                          ("filename", True), ("traceback",)):
            with self.assertRaises(ValueError) as caught:
                self.old.top_by(*arguments)
            self.assertEqual(str(caught.exception), "need traces")
        self.assertEqual(self.old.top_by("filename").stats, {
            "lib/a.py": (240, 3), "lib/b.py": (5, 1), None: (3, 1)})
        self.assertEqual(self.old.top_by("line").stats[("lib/a.py", 7)],
                         (200, 2))

    def test_given_stats(self):
        snapshot = Snapshot(util.BEFORE, 1, {1: (5, (("a.py", 1),))},
                            {"b.py": {2: (7, 1), 3: (1, 4)}})
        self.assertEqual(snapshot.top_by("line").stats,
                         {("b.py", 2): (7, 1), ("b.py", 3): (1, 4)})
        self.assertEqual(snapshot.top_by("filename").stats,
                         {"b.py": (8, 5)})
        self.assertEqual(snapshot.top_by("address").stats, {1: (5, 1)})

    def test_lists_as_tracebacks(self):
        snapshot = Snapshot(util.BEFORE, 1, {
            1: (5, [("a.py", 1), ("b.py", 2)]), 2: (6, []),
            3: (7, [["a.py", 1]])})
        self.assertEqual(snapshot.top_by("line").stats,
                         {("a.py", 1): (12, 2), (None, None): (6, 1)})
        self.assertEqual(snapshot.top_by("filename").stats,
                         {"a.py": (12, 2), None: (6, 1)})

    def test_sequence_of_traces(self):
        snapshot = Snapshot([(0, 5, (("a.py", 1),), 1),
                             (9, 6, (("<unknown>", 0),), 1)], 1)
        self.assertEqual(snapshot.top_by("line").stats,
                         {("a.py", 1): (5, 1), (None, None): (6, 1)})
        self.assertRaises(ValueError, snapshot.top_by, "address")


class GroupedStatsTests(unittest.TestCase):
    def test_constructor(self):
        stats, metrics = {"a.py": (1, 2)}, {}
        grouped = GroupedStats(util.BEFORE, stats, "filename", True, metrics)
        self.assertIs(grouped.timestamp, util.BEFORE)
        self.assertIs(grouped.stats, stats)
        self.assertEqual(grouped.group_by, "filename")
        self.assertIs(grouped.cumulative, True)
        self.assertIs(grouped.metrics, metrics)
        grouped = GroupedStats(timestamp=util.BEFORE, stats=stats,
                               group_by="filename")
        self.assertIs(grouped.cumulative, False)
        self.assertEqual(grouped.metrics, {})

    def test_compare(self):
        old, new = (s.top_by("line") for s in util.two_snapshots())
        diff = new.compare_to(old)
        self.assertIsInstance(diff, StatsDiff)
        self.assertIs(diff.old_stats, old)
        self.assertIs(diff.new_stats, new)
        # None is replaced with an empty string or 0.
        self.assertCountEqual(diff.differences, [
            (6000, 6200, 1, 3, ("lib/a.py", 7)),
            (0, 40, 0, 1, ("lib/a.py", 9)),
            (-5, 0, -1, 0, ("lib/b.py", 1)),
            (12, 12, 1, 1, ("lib/c.py", 8)),
            (-3, 0, -1, 0, ("", 0))])

    def test_compare_files(self):
        old, new = (s.top_by("filename") for s in util.two_snapshots())
        self.assertCountEqual(old.compare_to(new).differences, [
            (-6000, 240, -1, 3, "lib/a.py"), (5, 5, 1, 1, "lib/b.py"),
            (3, 3, 1, 1, ""), (-12, 0, -1, 0, "lib/c.py")])

    def test_compare_addresses(self):
        old, new = (s.top_by("address") for s in util.two_snapshots())
        self.assertEqual(
            {key: diff for diff, _, _, _, key
             in new.compare_to(old).differences if diff},
            {0x4000: -5, 0x5000: -3, 0x6000: 6000, 0x7000: 12})

    def test_compare_tracebacks(self):
        old, new = (s.top_by("traceback") for s in util.two_snapshots())
        keys = {key for *_, key in new.compare_to(old).differences}
        self.assertIn((("", 0),), keys)
        self.assertIn((("lib/b.py", 1),), keys)

    def test_compare_to_nothing(self):
        old, _ = util.two_snapshots()
        top = old.top_by("filename")
        for diff in (top.compare_to(), top.compare_to(None)):
            self.assertIsNone(diff.old_stats)
            self.assertCountEqual(diff.differences, [
                (0, 240, 0, 3, "lib/a.py"), (0, 5, 0, 1, "lib/b.py"),
                (0, 3, 0, 1, "")])

    def test_unknown_line_of_known_file(self):
        old = GroupedStats(util.BEFORE, {("a.py", None): (5, 1)}, "line")
        new = GroupedStats(util.AFTER, {("a.py", None): (7, 1),
                                        (None, None): (1, 1)}, "line")
        self.assertCountEqual(new.compare_to(old).differences, [
            (2, 7, 0, 1, ("a.py", 0)), (1, 1, 1, 1, ("", 0))])

    def test_keys_that_become_one(self):
        grouped = GroupedStats(util.BEFORE, {None: (5, 1), "": (7, 2)},
                               "filename")
        self.assertEqual(grouped.compare_to().differences,
                         [(0, 12, 0, 3, "")])

    def test_compare_leaves_stats_alone(self):
        old, new = (s.top_by("line") for s in util.two_snapshots())
        before = dict(old.stats), dict(new.stats)
        new.compare_to(old)
        self.assertEqual((old.stats, new.stats), before)

    def test_subclass(self):
        class Mine(GroupedStats):
            pass

        old, _ = util.two_snapshots()
        mine = Mine(util.BEFORE, old.top_by("line").stats, "line")
        diff = mine.compare_to(mine)
        self.assertTrue(all(d[0] == 0 for d in diff.differences))


class StatsDiffTests(unittest.TestCase):
    def test_sort(self):
        # abs(size_diff), size, abs(count_diff), count, key: biggest first
        right = [
            (-500, 0, -1, 0, ("z.py", 1)),
            (400, 900, 1, 1, ("a.py", 1)),
            (-400, 800, 9, 9, ("a.py", 1)),
            (7, 5, -3, 1, ("a.py", 1)),
            (-7, 5, 2, 2, ("a.py", 1)),
            (7, 5, 2, 1, ("b.py", 2)),
            (7, 5, -2, 1, ("b.py", 1)),
            (-7, 5, 2, 1, ("a.py", 9)),
        ]
        differences = right[::-1]
        diff = StatsDiff(differences, None, None)
        self.assertIs(diff.differences, differences)
        self.assertIsNone(diff.sort())
        self.assertIs(diff.differences, differences)
        self.assertEqual(differences, right)

    def test_sort_other_keys(self):
        for keys in ((1, 2, 3), ("", "a", "b"), (None, "a", "b"),
                     ((None, None), ("a", None), ("a", 2))):
            diff = StatsDiff([(0, 1, 0, 1, key) for key in keys], None, None)
            diff.sort()
            self.assertEqual([d[4] for d in diff.differences],
                             list(keys)[::-1])

    def test_attributes(self):
        diff = StatsDiff([], 1, 2)
        self.assertEqual((diff.old_stats, diff.new_stats), (1, 2))


class LiveTests(util.Traced):
    limit = 3

    def test_agrees_with_the_traces(self):
        keep = [util.deep(1 + n % 4, 5000 + n) for n in range(100)]
        snapshot = Snapshot.create(traces=True, metrics=False)
        lines, files, cumulative = {}, {}, {}
        for size, frames in snapshot.traces.values():
            frames = frames or ((None, None),)
            for sums, key in ((lines, frames[0]), (files, frames[0][0]),
                              *((cumulative, frame) for frame in frames)):
                before = sums.get(key, (0, 0))
                sums[key] = before[0] + size, before[1] + 1
        self.assertEqual(snapshot.top_by("line").stats, lines)
        self.assertEqual(snapshot.top_by("filename").stats, files)
        self.assertEqual(snapshot.top_by("line", True).stats, cumulative)
        self.assertEqual(snapshot.top_by("address").stats, {
            address: (size, 1)
            for address, (size, _) in snapshot.traces.items()})
        del keep


if __name__ == "__main__":
    unittest.main()
