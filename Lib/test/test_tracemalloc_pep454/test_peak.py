"""Snapshots of the moment when most memory was in use."""

import copy
import io
import pickle
import subprocess
import sys
import tracemalloc
import unittest
from test.support import Py_GIL_DISABLED, os_helper
from test.test_tracemalloc_pep454 import util
from tracemalloc import Filter, Snapshot

SIZE = 2_000_000
# Without a GIL, threads add to the counters in batches.
LATE = 10_000 if Py_GIL_DISABLED else 0


def climb_and_fall():
    """Hold 4 MB at two lines, then let go of them."""
    kept = [util.allocate(SIZE)]                    # LINE
    kept.append(b"y" * SIZE)                        # LINE + 1
    size = tracemalloc.get_traced_memory()[1]
    del kept
    return size


LINE = (climb_and_fall.__code__.co_filename,
        climb_and_fall.__code__.co_firstlineno + 2)


class PeakTests(util.Traced):
    limit = 10

    def setUp(self):
        super().setUp()
        self.peak = climb_and_fall()
        self.assertLess(tracemalloc.get_traced_memory()[0], SIZE)

    def snapshots(self):
        return (tracemalloc.take_snapshot(peak=True), Snapshot.create(peak=True),
                Snapshot.create(traces=True, peak=True))

    def near(self, size, snapshot):
        """The moment that is shown is within the tolerance of the peak."""
        self.assertLessEqual(snapshot.peak_size, self.peak + 1000)
        self.assertGreaterEqual(snapshot.peak_size, self.peak * 15 / 16)
        self.assertAlmostEqual(size, SIZE, delta=SIZE / 10)

    def test_attributes(self):
        for snapshot in self.snapshots():
            self.assertIs(snapshot.peak, True)
            self.assertIsNone(snapshot.traces)
            self.assertEqual(snapshot.traceback_limit, 10)
            self.assertEqual(snapshot.sample_interval, 1)
            self.near(SIZE, snapshot)
            self.assertIn(f"peak_size={snapshot.peak_size}", repr(snapshot))
            self.assertEqual(snapshot.lost, 0)
        for snapshot in (tracemalloc.take_snapshot(), Snapshot.create(),
                         Snapshot((), 1)):
            self.assertIs(snapshot.peak, False)
            self.assertIsNone(snapshot.peak_size)
            with self.assertRaises(AttributeError):
                snapshot.peak = True

    def test_traced_size_is_all_there_is(self):
        for snapshot in self.snapshots():
            for key in ("filename", "lineno", "traceback"):
                found = snapshot.statistics(key)
                self.assertAlmostEqual(sum(line.size for line in found),
                                       snapshot.peak_size, delta=LATE)

    def test_by_line(self):
        for snapshot in self.snapshots():
            found = {str(line.traceback): line for line in
                     snapshot.statistics("lineno")}
            for name, line in (util.PLACE, (LINE[0], LINE[1] + 1)):
                self.near(found[f"{name}:{line}"].size, snapshot)
                self.assertIsNone(found[f"{name}:{line}"].stderr)
            stats = snapshot.stats
            self.near(stats[util.PLACE[0]][util.PLACE[1]][0], snapshot)
            self.assertEqual(
                snapshot.top_by("line").stats[util.PLACE],
                stats[util.PLACE[0]][util.PLACE[1]])

    def test_by_file(self):
        for snapshot in self.snapshots():
            self.near(snapshot.top_by("filename").stats[util.PLACE[0]][0],
                      snapshot)

    def test_by_traceback(self):
        for snapshot in self.snapshots():
            [line] = [line for line in snapshot.statistics("traceback")
                      if line.traceback._frames[-1] == util.PLACE
                      and line.size > 1_000_000]
            self.assertEqual(line.traceback._frames[-2], LINE)
            self.near(line.size, snapshot)
            self.assertIn(
                (util.PLACE, LINE),
                [key[:2] for key in snapshot.top_by("traceback").stats])

    def test_cumulative(self):
        for snapshot in self.snapshots():
            grouped = snapshot.top_by("line", cumulative=True)
            self.assertTrue(grouped.peak)
            self.near(grouped.stats[LINE][0], snapshot)
            found = {str(line.traceback): line for line in
                     snapshot.statistics("lineno", True)}
            self.near(found[f"{LINE[0]}:{LINE[1]}"].size, snapshot)

    def test_single_blocks_are_not_known(self):
        for snapshot in self.snapshots():
            with self.assertRaisesRegex(ValueError, "need traces"):
                snapshot.top_by("address")

    def test_compare_to_now(self):
        for before in self.snapshots():
            for now in (tracemalloc.take_snapshot(),
                        Snapshot.create(traces=True), Snapshot.create()):
                lines = now.compare_to(before, "lineno")[:2]
                self.assertEqual({str(line.traceback) for line in lines},
                                 {f"{name}:{line}" for name, line in
                                  (util.PLACE, (LINE[0], LINE[1] + 1))})
                for line in lines:
                    self.near(-line.size_diff, before)
                diff = now.top_by("line").compare_to(before.top_by("line"))
                diff.sort()
                self.near(-diff.differences[0][0], before)

    def test_filters(self):
        rules = [Filter(True, util.PLACE[0], util.PLACE[1])]
        for snapshot in self.snapshots():
            kept = snapshot.filter_traces(rules)
            self.assertEqual(kept.peak_size, snapshot.peak_size)
            self.assertIsNone(kept.traces)
            [line] = kept.statistics("lineno")
            self.near(line.size, snapshot)
            snapshot.apply_filters(rules)
            self.assertEqual(snapshot.statistics("lineno"), [line])
            self.assertEqual(list(snapshot.stats), [util.PLACE[0]])

        class Mine(tracemalloc.BaseFilter):
            def _match(self, trace):
                return trace[1] > 1_000_000

        kept = tracemalloc.take_snapshot(peak=True).filter_traces([Mine(True)])
        self.assertEqual(len(kept.statistics("lineno")), 2)

    def test_copies(self):
        for snapshot in self.snapshots():
            for again in (copy.copy(snapshot), copy.deepcopy(snapshot),
                          pickle.loads(pickle.dumps(snapshot))):
                self.assertEqual(again.peak_size, snapshot.peak_size)
                self.assertIsNone(again.traces)
                self.assertEqual(again.statistics("traceback"),
                                 snapshot.statistics("traceback"))

    def test_traces_can_be_given(self):
        snapshot = tracemalloc.take_snapshot(peak=True)
        snapshot.traces = {1: (5, (("a.py", 1),))}
        self.assertFalse(snapshot.peak)
        self.assertEqual(snapshot.statistics("lineno")[0].size, 5)

    def test_metrics(self):
        snapshot = Snapshot.create(peak=True, metrics=True)
        self.assertIsNone(snapshot.get_metric("tracemalloc.traces"))
        self.assertEqual(snapshot.get_metric("tracemalloc.traced.max_size"),
                         tracemalloc.get_traced_memory()[1])
        self.assertEqual(Snapshot.create(peak=True, metrics=False).metrics, {})

    def test_display(self):
        out = io.StringIO()
        tracemalloc.DisplayTop().display_snapshot(
            Snapshot.create(peak=True, metrics=False), 2, file=out)
        lines = out.getvalue().splitlines()
        self.assertIn(" (at the peak)", lines[0])
        self.assertIn("size=1953 KiB", lines[1])

    def test_now_is_the_peak(self):
        kept = util.allocate(4 * SIZE)
        snapshot = tracemalloc.take_snapshot(peak=True)
        self.assertGreaterEqual(snapshot.peak_size, len(kept))
        self.assertEqual(snapshot.statistics("lineno")[0].traceback[0].lineno,
                         util.PLACE[1])

    def test_reset_peak(self):
        tracemalloc.reset_peak()
        size = tracemalloc.get_traced_memory()[1]
        snapshot = tracemalloc.take_snapshot(peak=True)
        self.assertLess(snapshot.peak_size, SIZE)
        self.assertAlmostEqual(snapshot.peak_size, size, delta=size / 8 + 9000)

    def test_cleared(self):
        tracemalloc.clear_traces()
        snapshot = tracemalloc.take_snapshot(peak=True)
        self.assertLess(snapshot.peak_size, SIZE)


class OffTests(util.Untraced):
    def test_must_be_tracing(self):
        self.assertRaises(RuntimeError, tracemalloc.take_snapshot, peak=True)
        self.assertRaises(RuntimeError, Snapshot.create, peak=True)


class FileTests(util.Traced):
    limit = 10

    def setUp(self):
        super().setUp()
        climb_and_fall()
        self.snapshot = Snapshot.create(peak=True)
        tracemalloc.stop()
        self.name = os_helper.TESTFN
        self.addCleanup(os_helper.unlink, self.name)

    def check(self, again):
        self.assertEqual(again.peak_size, self.snapshot.peak_size)
        self.assertTrue(again.peak)
        self.assertIsNone(again.traces)
        self.assertEqual(again.stats, self.snapshot.stats)

    def test_write(self):
        self.snapshot.write(self.name)
        again = Snapshot.load(self.name)
        self.check(again)
        for key in ("filename", "lineno"):
            self.assertEqual(again.statistics(key, True),
                             self.snapshot.statistics(key, True))
        again = Snapshot.load(self.name, traces=False)
        self.check(again)
        self.assertRaises(ValueError, again.statistics, "traceback")

    def test_dump(self):
        self.snapshot.dump(self.name)
        self.check(Snapshot.load(self.name))
        self.check(Snapshot.load(self.name, traces=False))

        class Plain:
            pass

        class Stock(pickle.Unpickler):
            def find_class(self, module, name):
                return {"Snapshot": Plain, "_Traces": Plain}.get(
                    name) or super().find_class(module, name)

        with open(self.name, "rb") as file:
            found = Stock(file).load()
        rows = found.traces._traces
        self.assertAlmostEqual(sum(row[1] for row in rows),
                               self.snapshot.peak_size, delta=LATE)
        self.assertEqual(len(rows), len({row[2] for row in rows}))

    def test_command_line(self):
        self.snapshot.write(self.name)

        def show(*options):
            return subprocess.run(
                [sys.executable, "-m", "tracemalloc", *options, self.name],
                capture_output=True, text=True, encoding="utf-8", timeout=60)

        done = show("-n1")
        self.assertIn("(at the peak)", done.stdout.splitlines()[0])
        done = show("-n1", "-c")
        self.assertIn("size=", done.stdout.splitlines()[1])
        for options in (("-a",), ("-t",), ("-b", "1")):
            done = show(*options)
            self.assertEqual(done.returncode, 1)
            self.assertIn("has no traces", done.stderr)


class SampledPeakTests(util.Untraced):
    def test_estimated(self):
        tracemalloc.start(5, sample_interval=1000)
        size = climb_and_fall()
        snapshot = tracemalloc.take_snapshot(peak=True)
        self.assertEqual(snapshot.sample_interval, 1000)
        # Blocks this large are always drawn, and are not scaled up.
        for line in snapshot.statistics("lineno")[:2]:
            self.assertAlmostEqual(line.size, SIZE, delta=SIZE / 100)
            self.assertLess(line.stderr, SIZE / 100)
            self.assertIn("(estimated)", str(line))
        # The size is exact, it needs no samples.
        self.assertAlmostEqual(snapshot.peak_size, size, delta=size / 16)
        tracemalloc.stop()
        with os_helper.temp_dir() as folder:
            name = f"{folder}/peak"
            snapshot.write(name)
            again = Snapshot.load(name)
        self.assertEqual([line.stderr for line in again.statistics("lineno")],
                         [line.stderr for line in
                          snapshot.statistics("lineno")])


if __name__ == "__main__":
    unittest.main()
