"""Sampling by bytes: how it is turned on, and what is told about estimates."""

import _tracemalloc
import copy
import io
import json
import math
import os
import pickle
import subprocess
import sys
import tracemalloc
import unittest
from test.support import os_helper
from test.test_tracemalloc_pep454 import util
from tracemalloc import Snapshot

INTERVAL = 1000
TRACES = {
    0x1000: (64, (("lib/a.py", 7), ("main.py", 1), ("lib/a.py", 2))),
    0x2000: (640, (("lib/a.py", 7), ("main.py", 1), ("lib/a.py", 2))),
    0x3000: (2_000_000, (("lib/c.py", 8),)),
    0x4000: (3, ((None, None),)),
}


def weight(size, interval=INTERVAL):
    """Bytes, blocks and variance that a sampled block stands for."""
    q = math.exp(-size / interval)
    return size / (1 - q), 1 / (1 - q), size * size * q / (1 - q) ** 2


def expected(*sizes):
    """Size, count and standard error of the sum of some blocks."""
    size, count, variance = map(sum, zip(*map(weight, sizes)))
    return round(size), round(count), math.sqrt(variance)


def sampled(traces=None, mapping=True, when=util.BEFORE):
    """A snapshot of samples, made by hand."""
    traces = TRACES if traces is None else traces
    rows = [(0, size, tuple((name or "<unknown>", line or 0)
                            for name, line in frames), len(frames))
            for size, frames in traces.values()]
    columns = _tracemalloc.Columns.from_traces(rows, list(traces), 10,
                                               INTERVAL)
    if mapping:
        held = tracemalloc._views.TraceMap(columns)
        snapshot = Snapshot(when, 10, held)
    else:
        snapshot = Snapshot(tracemalloc._views._Traces(columns), 10)
        snapshot.timestamp, snapshot.pid = when, 10
    return snapshot


def summary(snapshot):
    """All that statistics tell, errors included."""
    return [(s.traceback, s.size, s.count, s.stderr)
            for key in ("filename", "lineno")
            for s in snapshot.statistics(key)]


class IntervalTests(util.Untraced):
    def test_default(self):
        self.assertEqual(tracemalloc.get_sample_interval(), 1)
        tracemalloc.start()
        self.assertEqual(tracemalloc.get_sample_interval(), 1)
        self.assertEqual(tracemalloc.take_snapshot().sample_interval, 1)
        self.assertEqual(Snapshot.create().sample_interval, 1)

    def test_enable_uses_the_interval_that_was_set(self):
        tracemalloc.set_sample_interval(4096)
        self.assertFalse(tracemalloc.is_enabled())
        tracemalloc.enable()
        self.assertEqual(tracemalloc.get_sample_interval(), 4096)
        tracemalloc.disable()
        self.assertEqual(tracemalloc.get_sample_interval(), 4096)
        tracemalloc.start(3)
        self.assertEqual(tracemalloc.get_sample_interval(), 4096)

    def test_start_sets_it(self):
        tracemalloc.start(2, sample_interval=8192)
        self.assertEqual(tracemalloc.get_sample_interval(), 8192)
        self.assertEqual(tracemalloc.get_traceback_limit(), 2)
        tracemalloc.stop()
        tracemalloc.start(2, sample_interval=4096)
        self.assertEqual(tracemalloc.get_sample_interval(), 4096)
        tracemalloc.stop()
        tracemalloc.start(2, sample_interval=None)
        self.assertEqual(tracemalloc.get_sample_interval(), 4096)
        tracemalloc.stop()
        tracemalloc.start(sample_interval=1)
        self.assertEqual(tracemalloc.get_sample_interval(), 1)

    def test_nothing_changes_while_tracing(self):
        tracemalloc.start(1, sample_interval=4096)
        tracemalloc.start(1, sample_interval=8192)
        self.assertEqual(tracemalloc.get_sample_interval(), 4096)
        with self.assertRaisesRegex(RuntimeError, "sample interval"):
            tracemalloc.set_sample_interval(8192)
        self.assertRaises(ValueError, tracemalloc.set_sample_interval, 0)
        self.assertRaises(ValueError, tracemalloc.start, sample_interval=0)

    def test_values(self):
        for good in (1, 2, 524288, 2**63 - 1):
            tracemalloc.set_sample_interval(good)
            self.assertEqual(tracemalloc.get_sample_interval(), good)
        tracemalloc.set_sample_interval(7)
        for bad, error in ((0, ValueError), (-1, ValueError),
                           (2**63, ValueError), (-2**80, ValueError),
                           (True, TypeError), (1.0, TypeError),
                           ("512k", TypeError), ([], TypeError)):
            with self.subTest(bad=bad):
                with self.assertRaisesRegex(error, "sample interval"):
                    tracemalloc.set_sample_interval(bad)
                with self.assertRaisesRegex(error, "sample interval"):
                    tracemalloc.start(1, sample_interval=bad)
                self.assertRaises(TypeError, tracemalloc.set_sample_interval)
                self.assertFalse(tracemalloc.is_tracing())
        self.assertRaises(TypeError, tracemalloc.set_sample_interval, None)
        self.assertEqual(tracemalloc.get_sample_interval(), 7)

    def test_arguments_of_start(self):
        # A second number by position is refused, as it always was.
        self.assertRaises(TypeError, tracemalloc.start, 1, 2)
        self.assertRaises(TypeError, tracemalloc.start, nframe=1)
        self.assertRaises(TypeError, tracemalloc.start, interval=1)
        # A refused start changes nothing.
        self.assertRaises(ValueError, tracemalloc.start, 0,
                          sample_interval=4096)
        self.assertEqual(tracemalloc.get_sample_interval(), 1)


class OptionTests(unittest.TestCase):
    code = ("import tracemalloc as t; "
            "print(t.is_tracing(), t.get_sample_interval())")

    def run_python(self, *options, **environment):
        environ = {name: value for name, value in os.environ.items()
                   if not name.startswith("PYTHON") or name == "PYTHONPATH"}
        return subprocess.run(
            [sys.executable, *options, "-c", self.code], timeout=60,
            capture_output=True, text=True, env={**environ, **environment})

    def check(self, shown, *options, **environment):
        with self.subTest(options=options, environment=environment):
            done = self.run_python(*options, **environment)
            self.assertEqual((done.returncode, done.stdout.strip(),
                              done.stderr), (0, shown, ""))

    def test_values(self):
        for text, interval in (("1", 1), ("4096", 4096), ("512k", 524288),
                               ("512K", 524288), ("512KiB", 524288),
                               ("3m", 3 << 20), ("3MiB", 3 << 20),
                               ("2g", 2 << 30), ("2gib", 2 << 30),
                               ("007", 7), (str(2**63 - 1), 2**63 - 1)):
            self.check(f"False {interval}", "-X", f"tracemalloc_sample={text}")
            self.check(f"False {interval}", PYTHONTRACEMALLOC_SAMPLE=text)

    def test_with_tracing(self):
        self.check("True 524288", "-X", "tracemalloc_sample=512k",
                   "-X", "tracemalloc")
        self.check("True 524288", PYTHONTRACEMALLOC="3",
                   PYTHONTRACEMALLOC_SAMPLE="512k")

    def test_which_one_counts(self):
        self.check("False 2048", "-X", "tracemalloc_sample=2k",
                   PYTHONTRACEMALLOC_SAMPLE="5k")
        self.check("False 2048", "-X", "tracemalloc_sample=2k",
                   PYTHONTRACEMALLOC_SAMPLE="wrong")
        for option in ("-E", "-I"):
            self.check("False 1", option, PYTHONTRACEMALLOC_SAMPLE="5k")
            self.check("False 1", option, PYTHONTRACEMALLOC_SAMPLE="wrong")
            self.check("False 2048", option, "-X", "tracemalloc_sample=2k")
        self.check("False 1", PYTHONTRACEMALLOC_SAMPLE="")

    def test_invalid(self):
        for text in ("", "0", "0k", "-1", "1.5k", "k", "5q", "5 k", "5kb",
                     "5kk", "5ki", " 5", "+5", "\N{SNOWMAN}", str(2**63),
                     f"{2**33}g"):
            done = self.run_python("-X", f"tracemalloc_sample={text}")
            shown = text.replace("\N{SNOWMAN}", "?")
            with self.subTest(text=text):
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(f"-X tracemalloc_sample={shown}: ",
                              done.stderr.splitlines()[0])
            if not text or not text.isascii():
                continue
            done = self.run_python(PYTHONTRACEMALLOC_SAMPLE=text)
            with self.subTest(environment=text):
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(f"PYTHONTRACEMALLOC_SAMPLE={text}: ",
                              done.stderr.splitlines()[0])
        done = self.run_python("-X", "tracemalloc_sample")
        self.assertEqual(done.returncode, 1)
        done = self.run_python("-X", "tracemalloc_sample=" + "9" * 100_000)
        self.assertEqual(done.returncode, 1)

    def test_help(self):
        for option, text in (("--help-xoptions", "-X tracemalloc_sample=N"),
                             ("--help-env", "PYTHONTRACEMALLOC_SAMPLE")):
            self.assertIn(text, self.run_python(option).stdout)


class StatisticTests(unittest.TestCase):
    def test_statistics(self):
        for mapping in (True, False):
            snapshot = sampled(mapping=mapping)
            self.assertEqual(snapshot.sample_interval, INTERVAL)
            found = {str(s.traceback): s for s in
                     snapshot.statistics("lineno")}
            line = found["lib/a.py:7"]
            size, count, error = expected(64, 640)
            self.assertEqual((line.size, line.count), (size, count))
            self.assertAlmostEqual(line.stderr, error)
            line = found["lib/c.py:8"]
            self.assertEqual((line.size, line.count), (2_000_000, 1))
            self.assertAlmostEqual(line.stderr, 0)
            for text in ("filename", "traceback"):
                self.assertTrue(all(s.stderr is not None for s in
                                    snapshot.statistics(text)))
            found = {str(s.traceback): s for s in
                     snapshot.statistics("filename", True)}
            self.assertEqual(found["main.py:0"].size, size)
            self.assertAlmostEqual(found["lib/a.py:0"].stderr, 2 * error)

    def test_text(self):
        [_, line, _] = sampled().statistics("lineno")
        self.assertEqual(
            str(line), "lib/a.py:7: size=2386 B ±1402 B (estimated), "
            "count=18, average=133 B")
        [line, *_] = sampled().statistics("lineno")
        self.assertEqual(
            str(line), "lib/c.py:8: size=1953 KiB ±0 B (estimated), "
            "count=1, average=1953 KiB")
        old = sampled({0x1000: TRACES[0x1000]})
        [_, line, _] = sampled().compare_to(old, "lineno")
        self.assertEqual(
            str(line), "lib/a.py:7: size=2386 B ±1402 B "
            "(+1354 B ±1722 B, estimated), count=18 (+2), average=133 B")

    def test_exact_ones_say_nothing(self):
        statistic = tracemalloc.Statistic(
            tracemalloc.Traceback([("a.py", 1)]), 10, 2)
        self.assertIsNone(statistic.stderr)
        self.assertEqual(str(statistic),
                         "a.py:1: size=10 B, count=2, average=5 B")
        self.assertNotIn("stderr", str(statistic.__getstate__()))
        estimate = tracemalloc.Statistic(statistic.traceback, 10, 2, 3.0)
        self.assertNotEqual(estimate, statistic)
        for each in (statistic, estimate):
            again = pickle.loads(pickle.dumps(each))
            self.assertEqual(again, each)
            self.assertEqual(again.stderr, each.stderr)

    def test_compare(self):
        exact = Snapshot(util.BEFORE, 10, TRACES)
        for old, new in ((sampled(), sampled({})), (exact, sampled()),
                         (sampled(), exact), (sampled({}), sampled()),
                         (sampled(mapping=False), exact)):
            # The other way, in Python.
            [slow_old, slow_new] = [copy.deepcopy(each) for each in (old, new)]
            for each in slow_old, slow_new:
                each.stats = each.stats
                each.traces = None
                each._interval = 1
            fast = new.compare_to(old, "lineno")
            slow = slow_new.compare_to(slow_old, "lineno")
            self.assertEqual([(s.traceback, s.size, s.size_diff, s.count,
                               s.count_diff) for s in fast],
                             [(s.traceback, s.size, s.size_diff, s.count,
                               s.count_diff) for s in slow])
            for a, b in zip(fast, slow):
                self.assertAlmostEqual(a.diff_stderr, b.diff_stderr)
                if new is exact:
                    self.assertIsNone(a.stderr)
                elif a.size:
                    self.assertAlmostEqual(a.stderr, b.stderr)
        for line in exact.compare_to(exact, "lineno"):
            self.assertEqual((line.stderr, line.diff_stderr), (None, None))

    def test_stats(self):
        snapshot = sampled()
        found = snapshot.stats["lib/a.py"][7]
        size, count, error = expected(64, 640)
        self.assertEqual(found, (size, count))
        self.assertIsInstance(found, tracemalloc.Estimate)
        self.assertAlmostEqual(found.stderr, error)
        self.assertIn(None, snapshot.stats[None])
        exact = Snapshot(util.BEFORE, 10, TRACES)
        self.assertIs(type(exact.stats["lib/a.py"][7]), tuple)

    def test_traces_are_those_that_were_drawn(self):
        self.assertEqual(dict(sampled().traces), TRACES)
        self.assertEqual([t.size for t in sampled(mapping=False).traces],
                         [64, 640, 2_000_000, 3])

    def test_traces_can_be_replaced(self):
        for mapping in (True, False):
            snapshot = sampled(mapping=mapping)
            small = [t for t in TRACES.items() if t[1][0] < 1000]
            snapshot.traces = dict(small)
            self.assertEqual(snapshot.sample_interval, INTERVAL)
            self.assertEqual(snapshot.statistics("lineno")[0].size,
                             expected(64, 640)[0])
            other = Snapshot(sampled(mapping=False).traces, 10)
            self.assertEqual(other.sample_interval, INTERVAL)

    def test_changed_list(self):
        snapshot = sampled(mapping=False)
        del snapshot.traces._traces[2]
        self.assertEqual(snapshot.statistics("lineno")[0].size,
                         expected(64, 640)[0])

    def test_without_traces(self):
        snapshot = sampled()
        with_traces = summary(snapshot)
        snapshot.traces = None
        for one, other in zip(summary(snapshot), with_traces):
            self.assertEqual(one[0], other[0])
            self.assertAlmostEqual(one[1], other[1], delta=1)
            self.assertAlmostEqual(one[3], other[3], delta=1)

    def test_filters(self):
        kept = sampled().filter_traces([tracemalloc.Filter(True, "*a.py")])
        self.assertEqual(kept.sample_interval, INTERVAL)
        self.assertEqual(kept.statistics("lineno")[0].size,
                         expected(64, 640)[0])
        snapshot = sampled()
        snapshot.apply_filters([tracemalloc.Filter(True, "*a.py")])
        self.assertEqual(summary(snapshot), summary(kept))

        class Mine(tracemalloc.BaseFilter):
            def _match(self, trace):
                return trace[1] == 640

        kept = sampled().filter_traces([Mine(True)])
        self.assertEqual(kept.sample_interval, INTERVAL)
        self.assertEqual(kept.statistics("lineno")[0].size, expected(640)[0])

    def test_repr(self):
        self.assertIn(f"sample_interval={INTERVAL}", repr(sampled()))
        grouped = sampled().top_by("line")
        self.assertIn("(estimated)", repr(grouped))
        self.assertNotIn("(estimated)",
                         repr(util.two_snapshots()[0].top_by("line")))


class GroupedTests(unittest.TestCase):
    def test_top_by(self):
        size, count, error = expected(64, 640)
        for group_by, key in (("line", ("lib/a.py", 7)),
                              ("filename", "lib/a.py")):
            grouped = sampled().top_by(group_by)
            self.assertEqual(grouped.sample_interval, INTERVAL)
            self.assertEqual(grouped.stats[key], (size, count))
            self.assertAlmostEqual(grouped.stats[key].stderr, error)
        grouped = sampled().top_by("filename", cumulative=True)
        self.assertEqual(grouped.stats["main.py"], (size, count))
        self.assertAlmostEqual(grouped.stats["lib/a.py"].stderr, 2 * error)

    def test_addresses_are_blocks(self):
        grouped = sampled().top_by("address")
        self.assertEqual(grouped.stats, {address: (trace[0], 1) for
                                         address, trace in TRACES.items()})

    def test_compare(self):
        old = sampled({0x1000: TRACES[0x1000]}).top_by("line")
        entries = {entry[4]: entry for entry in
                   sampled().top_by("line").compare_to(old).differences}
        entry = entries["lib/a.py", 7]
        self.assertEqual(entry, (expected(64, 640)[0] - expected(64)[0],
                                 expected(64, 640)[0], 2, 18,
                                 ("lib/a.py", 7)))
        self.assertAlmostEqual(entry.stderr, expected(64, 640)[2])
        self.assertAlmostEqual(entry.diff_stderr, expected(64, 64, 640)[2])
        exact = Snapshot(util.BEFORE, 10, TRACES).top_by("line")
        self.assertIs(type(exact.compare_to(exact).differences[0]), tuple)
        diff = exact.compare_to(old)
        self.assertIsNone(diff.differences[0].stderr)
        diff.sort()

    def display(self, *snapshots, **options):
        out = io.StringIO()
        top = tracemalloc.DisplayTop()
        for snapshot in snapshots:
            out.seek(0)
            out.truncate()
            top.display_snapshot(snapshot, file=out, **options)
        return out.getvalue().splitlines()

    def test_display(self):
        lines = self.display(sampled())
        self.assertEqual(lines[:5], [
            "2026-01-31 09:05:07: Top 3 allocations per filename and line "
            "number (estimated, sample interval 1000 B)",
            "#1: lib/c.py:8: size=1953 KiB ±0 B, count=1",
            "#2: lib/a.py:7: size=2386 B ±1402 B, count=18, average=132 B",
            "#3: ???:?: size=1002 B ±1000 B, count=334, average=3 B",
            "Traced Python memory: size=1956 KiB ±1722 B, count=353, "
            "average=5 KiB",
        ])

    def test_display_compared(self):
        old = sampled({0x1000: TRACES[0x1000]})
        lines = self.display(old, sampled(when=util.AFTER), count=1)
        self.assertEqual(lines[:4], [
            "2026-01-31 10:30:00: Top 1 allocations per filename and line "
            "number (estimated, sample interval 1000 B) (compared to "
            "2026-01-31 09:05:07)",
            "#1: lib/c.py:8: size=1953 KiB ±0 B (+1953 KiB ±0 B), "
            "count=1 (+1)",
            "2 more: size=3388 B ±1722 B (+2356 B ±1991 B), "
            "count=352 (+336), average=9 B",
            "Traced Python memory: size=1956 KiB ±1722 B "
            "(+1955 KiB ±1991 B), count=353 (+337), average=5 KiB",
        ])

    def test_display_addresses(self):
        lines = self.display(sampled(), count=1, group_by="address")
        self.assertEqual(lines[:4], [
            "2026-01-31 09:05:07: Top 1 allocations per address "
            "(sampled blocks, sample interval 1000 B)",
            "#1: memory block 0x3000: size=1953 KiB",
            "3 more: size=707 B, average=235 B",
            "Sampled blocks: size=1953 KiB, average=488 KiB",
        ])

    def test_display_cumulative(self):
        lines = self.display(sampled(), count=1, cumulative=True)
        self.assertEqual(lines[1], "#1: lib/c.py:8: size=1953 KiB ±0 B, "
                                   "count=1")
        # Errors of sums that share blocks are not known.
        self.assertNotIn("±", lines[2])


class DifferenceTests(unittest.TestCase):
    """What services write about two snapshots."""

    def setUp(self):
        from tracemalloc._difference import Difference
        old = sampled({0x1000: TRACES[0x1000]})
        self.estimated = Difference(old, sampled())
        self.exact = Difference(Snapshot(util.BEFORE, 1, {}),
                                Snapshot(util.AFTER, 1, TRACES))

    def test_text(self):
        lines = self.estimated.text().splitlines()
        self.assertEqual(lines[1], "lib/a.py:7: size=2386 B ±1402 B "
                                   "(+1354 B ±1722 B), count=18 (+2)")
        self.assertIn("Sizes and counts are estimated, sample interval 1000 B",
                      lines)
        self.assertNotIn("±", self.exact.text())
        self.assertNotIn("estimated", self.exact.text())

    def test_json(self):
        data = json.loads(self.estimated.json())
        self.assertEqual(data["sample_interval"], 1000)
        self.assertEqual((data["lines"][1]["stderr"],
                          data["lines"][1]["diff_stderr"]), (1402, 1722))
        data = json.loads(self.exact.json())
        self.assertNotIn("sample_interval", data)
        self.assertNotIn("stderr", data["lines"][0])


class LiveTests(util.Untraced):
    """The whole way, from the engine to the text."""

    def test_display(self):
        tracemalloc.start(5, sample_interval=1000)
        kept = [util.allocate(100) for _ in range(10_000)]
        out = io.StringIO()
        top = tracemalloc.DisplayTop()
        top.color = False
        snapshot = top.display(3, file=out)
        lines = out.getvalue().splitlines()
        self.assertIn("(estimated, sample interval 1000 B)", lines[0])
        self.assertRegex(lines[1], r"util\.py:\d+: size=1\d+ KiB ±\d+ KiB, ")
        self.assertEqual(snapshot.sample_interval, 1000)
        estimate = snapshot.stats[util.PLACE[0]][util.PLACE[1]]
        exact = 10_000 * sys.getsizeof(kept[0])
        self.assertAlmostEqual(estimate.size, exact, delta=5 * estimate.stderr)
        self.assertAlmostEqual(estimate.count, 10_000, delta=2500)
        # Growth of what is held, by the difference of two estimates.
        old = tracemalloc.take_snapshot()
        kept += [util.allocate(100) for _ in range(10_000)]
        line = tracemalloc.take_snapshot().compare_to(old, "lineno")[0]
        self.assertEqual(line.traceback[0].lineno, util.PLACE[1])
        self.assertAlmostEqual(line.size_diff, exact,
                               delta=5 * line.diff_stderr)
        self.assertIn("estimated", str(line))

    def test_get_stats(self):
        tracemalloc.start(1, sample_interval=1000)
        kept = util.allocate(1_000_000)
        found = tracemalloc.get_stats()[util.PLACE[0]][util.PLACE[1]]
        self.assertIsInstance(found, tracemalloc.Estimate)
        self.assertEqual(found, (sys.getsizeof(kept), 1))
        self.assertAlmostEqual(found.stderr, 0)


class FileTests(unittest.TestCase):
    def setUp(self):
        self.name = os_helper.TESTFN
        self.addCleanup(os_helper.unlink, self.name)

    def test_write(self):
        for mapping in (True, False):
            snapshot = sampled(mapping=mapping)
            snapshot.write(self.name)
            again = Snapshot.load(self.name)
            self.assertEqual(again.sample_interval, INTERVAL)
            self.assertEqual(type(again.traces), type(snapshot.traces))
            self.assertEqual(again.traces, snapshot.traces)
            self.assertEqual(summary(again), summary(snapshot))

    def test_write_statistics(self):
        snapshot = sampled()
        snapshot.write(self.name)
        without = Snapshot.load(self.name, traces=False)
        without.write(self.name)
        for each in (without, Snapshot.load(self.name)):
            self.assertIsNone(each.traces)
            self.assertEqual(each.sample_interval, INTERVAL)
            self.assertEqual(each.stats, snapshot.stats)
            self.assertEqual(each.stats["lib/a.py"][7].stderr,
                             snapshot.stats["lib/a.py"][7].stderr)

    def test_exact_files_stay_as_they_were(self):
        util.two_snapshots()[0].write(self.name)
        with open(self.name, "rb") as file:
            data = pickle.load(file)
        self.assertEqual(data["version"], 1)
        self.assertNotIn("sample_interval", data)

    def test_dump(self):
        for mapping in (True, False):
            snapshot = sampled(mapping=mapping)
            snapshot.dump(self.name)
            again = Snapshot.load(self.name)
            self.assertEqual(again.sample_interval, INTERVAL)
            self.assertEqual(sorted(t.size for t in again.traces),
                             [3, 64, 640, 2_000_000])
            self.assertEqual(summary(again), summary(snapshot))
            without = Snapshot.load(self.name, traces=False)
            self.assertIsNone(without.traces)
            self.assertEqual(without.stats, snapshot.stats)

    def test_dump_is_scaled_for_others(self):
        snapshot = sampled()
        snapshot.stats = snapshot.stats
        snapshot.dump(self.name)
        with open(self.name, "rb") as file:
            data = file.read()
        self.assertNotIn(b"Estimate", data)

        class Stock(pickle.Unpickler):
            def find_class(self, module, name):
                return {"Snapshot": Plain, "_Traces": Plain}.get(
                    name) or super().find_class(module, name)

        class Plain:
            pass

        found = Stock(io.BytesIO(data)).load()
        self.assertEqual([row[1] for row in found.traces._traces],
                         [round(weight(size)[0])
                          for size, _ in TRACES.values()])

    def test_copies(self):
        for snapshot in (sampled(), sampled(mapping=False)):
            for again in (copy.copy(snapshot), copy.deepcopy(snapshot),
                          pickle.loads(pickle.dumps(snapshot))):
                self.assertEqual(again.sample_interval, INTERVAL)
                self.assertEqual(summary(again), summary(snapshot))

    def test_damaged(self):
        snapshot = sampled()
        snapshot.traces = None
        for interval, peak, stats in (
                (0, None, {}), (-5, None, {}), (1.5, None, {}),
                (None, None, {}), (5, -1, {}), (5, "x", {}),
                (5, None, {"a": {1: (1, 2, -0.5)}}),
                (5, None, {"a": {1: (1, 2, math.nan)}}),
                (5, None, {"a": {1: (1, 2, math.inf)}}),
                (5, None, {"a": {1: (1, 2, 3)}}),
                (5, None, {"a": {1: (1, 2, 3.0, 4.0)}})):
            from tracemalloc import _files
            payload = {**_files._payload(snapshot),
                       "sample_interval": interval, "peak_size": peak,
                       "stats": stats}
            with open(self.name, "wb") as file:
                summed = _files._Summed(file)
                pickle.dump(payload, summed, 5)
                summed.finish()
            with self.subTest(interval=interval, peak=peak, stats=stats):
                with self.assertRaisesRegex(ValueError, self.name):
                    Snapshot.load(self.name)

    def test_columns_must_agree(self):
        from tracemalloc import _files
        payload = {**_files._payload(sampled()), "sample_interval": 999}
        with open(self.name, "wb") as file:
            summed = _files._Summed(file)
            pickle.dump(payload, summed, 5)
            summed.finish()
        with self.assertRaisesRegex(ValueError, "sampling"):
            Snapshot.load(self.name)

    def test_command_line(self):
        sampled().write(self.name)

        def show(*options):
            return subprocess.run(
                [sys.executable, "-m", "tracemalloc", *options, self.name],
                capture_output=True, text=True, encoding="utf-8",
                timeout=60).stdout.splitlines()

        lines = show()
        self.assertIn("(estimated, sample interval 1000 B)", lines[0])
        self.assertIn("size=2386 B ±1402 B", lines[2])
        lines = show("-t", "-n1")
        self.assertIn("among sampled ones", lines[0])
        self.assertIn("3 more: size=707 B", lines)


if __name__ == "__main__":
    unittest.main()
