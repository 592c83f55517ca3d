"""Columns of samples, and of the rows of a peak: estimates, their errors, and
the packed form."""

import itertools
import math
import random
import struct
import unittest

import _tracemalloc as engine
from _tracemalloc import Columns, Estimate

from .util import Untraced

INTERVAL = 1000
LEAF = (("a.py", 1), ("b.py", 2), ("a.py", 7))
BIG = (("c.py", 3),)
ROWS = [(0, 64, LEAF, 3), (0, 2_000_000, BIG, 1), (5, 640, LEAF, 4)]


def weight(size: int, interval: int = INTERVAL) -> tuple[float, float, float]:
    """Bytes, blocks and variance of one sampled block."""
    q = math.exp(-(size or 1) / interval)
    p = 1 - q
    return size / p, 1 / p, size * size * q / (p * p)


def columns(rows=ROWS, interval: int = INTERVAL) -> Columns:
    addresses = range(0x1000, 0x1000 + 16 * len(rows), 16)
    return Columns.from_traces(rows, addresses, 25, interval)


class Estimates(unittest.TestCase):
    def check(self, entries, expected) -> None:
        """Compare (key, size, count, error) to {key: (sizes, times)}."""
        self.assertEqual({entry[0] for entry in entries}, set(expected))
        for key, size, count, error in entries:
            parts = [(weight(size), times) for size, times in expected[key]]
            self.assertEqual(size, round(sum(w[0] * n for w, n in parts)))
            self.assertEqual(count, round(sum(w[1] * n for w, n in parts)))
            self.assertAlmostEqual(
                error, math.sqrt(sum(w[2] * n * n for w, n in parts)),
                delta=1e-6 * size)

    def test_group(self):
        self.check(columns().group("lineno"), {
            (("a.py", 1),): [(64, 1), (640, 1)],
            (("c.py", 3),): [(2_000_000, 1)]})
        self.check(columns().group("traceback"), {
            LEAF: [(64, 1), (640, 1)], BIG: [(2_000_000, 1)]})

    def test_draft_keys(self):
        self.check(columns().group("filename", False, True), {
            "a.py": [(64, 1), (640, 1)], "c.py": [(2_000_000, 1)]})

    def test_a_file_twice_in_a_traceback_has_twice_the_error(self):
        self.check(columns().group("filename", True), {
            (("a.py", 0),): [(64, 2), (640, 2)],
            (("b.py", 0),): [(64, 1), (640, 1)],
            (("c.py", 0),): [(2_000_000, 1)]})

    def test_large_blocks_are_not_scaled(self):
        for size in (20 * INTERVAL, 1000 * INTERVAL, 2**63):
            [(_, found, count, error)] = columns([(0, size, BIG)]).group(
                "lineno")
            self.assertEqual((found, count), (size, 1))
            self.assertLess(error, size / 10000)

    def test_small_blocks_stand_for_the_interval(self):
        [(_, size, count, error)] = columns([(0, 1, BIG)]).group("lineno")
        self.assertEqual((size, count), (1001, 1001))
        self.assertAlmostEqual(error, 1000, delta=1)

    def test_empty_block(self):
        self.assertEqual(columns([(0, 0, BIG)]).group("lineno"),
                         [((("c.py", 3),), 0, 1001, 0.0)])

    def test_rounded_once(self):
        # 1000.5 each: rounding every block would gain half a byte a block.
        rows = [(0, 1, BIG)] * 1000
        self.assertEqual(columns(rows).total_size,
                         round(1000 * weight(1)[0]))

    def test_disjoint_groups_add_up(self):
        source = random.Random(4)
        rows = [(0, source.randrange(5000),
                 ((f"{source.randrange(9)}.py", source.randrange(1, 9)),))
                for _ in range(2000)]
        whole = columns(rows)
        for key in ("filename", "lineno", "traceback"):
            groups = whole.group(key)
            self.assertAlmostEqual(sum(group[1] for group in groups),
                                   whole.total_size, delta=len(groups))

    def test_unknown_places_are_one_in_the_draft_form(self):
        rows = [(0, 1, (("<unknown>", 0),)), (0, 1, ())]
        [(key, size, count, error)] = columns(rows).group("lineno", False, True)
        self.assertEqual((key, size, count), ((None, None), 2001, 2001))

    def test_interval_1_is_exact(self):
        self.assertEqual({len(entry) for key in ("lineno", "address")
                          for entry in columns(interval=1).group(key)}, {3})
        self.assertEqual(columns(interval=1).pack()["format"], 1)

    def test_addresses_are_blocks(self):
        self.assertEqual(columns().group("address"),
                         [(0x1000, 64, 1), (0x1010, 2_000_000, 1),
                          (0x1020, 640, 1)])

    def test_traces_have_their_own_sizes(self):
        self.assertEqual(columns().tolist(), ROWS)
        self.assertEqual([row[1] for row in columns().tolist(scaled=True)],
                         [round(weight(row[1])[0]) for row in ROWS])

    def test_stats(self):
        found = columns().stats()["a.py"][1]
        size, count = found
        self.assertIs(type(found), Estimate)
        self.assertEqual(found, (size, count))
        self.assertEqual((found.size, found.count), (size, count))
        self.assertGreater(found.stderr, 0)
        self.assertIs(type(columns(interval=1).stats()["a.py"][1]), tuple)

    def test_compare(self):
        old, new = columns(ROWS[:1]), columns()
        found = {row[0]: row[1:] for row in new.compare(old, "lineno")}
        size, size_diff, count, count_diff, error, diff_error = found[LEAF[:1]]
        first, third = weight(64), weight(640)
        self.assertEqual(size, round(first[0] + third[0]))
        self.assertAlmostEqual(size_diff, third[0], delta=1)
        self.assertAlmostEqual(count_diff, third[1], delta=1)
        self.assertAlmostEqual(error, math.sqrt(first[2] + third[2]), 3)
        self.assertAlmostEqual(diff_error,
                               math.sqrt(2 * first[2] + third[2]), 3)

    def test_compare_to_exact(self):
        exact, sampled = columns(interval=1), columns()
        row = exact.compare(sampled, "lineno")[0]
        self.assertIsNone(row[5])
        self.assertGreater(row[6], 0)
        row = sampled.compare(exact, "lineno")[0]
        self.assertEqual(row[5], row[6])
        self.assertEqual(len(exact.compare(exact, "lineno")[0]), 5)

    def test_filter_keeps_the_interval(self):
        kept = columns().filter([(True, "a.py", 0, False, -1)])
        self.assertEqual(kept.sample_interval, INTERVAL)
        self.assertEqual(kept.group("lineno"), columns().group("lineno")[1:])

    def test_interval_is_checked(self):
        for bad in (0, -1, 2**63):
            self.assertRaises(OverflowError, columns, ROWS, bad)
        self.assertEqual(columns(ROWS, 2**63 - 1).sample_interval, 2**63 - 1)

    def test_unbiased(self):
        # Blocks are drawn as the tracer does: by an exponential distance.
        source = random.Random(7)
        sizes = [(line, size) for line, size in enumerate(
            (1, 17, 100, 512, 3000, 50_000), 1)]
        times = {1: 20_000, 17: 3000, 100: 500, 512: 100, 3000: 20, 50_000: 2}
        seeds, sums = 100, {line: [] for line, _ in sizes}
        for _ in range(seeds):
            rows = []
            for line, size in sizes:
                p = -math.expm1(-size / INTERVAL)
                left = times[size]
                while True:         # distances between blocks are geometric
                    left -= 1 + int(math.log(source.random())
                                    / math.log1p(-p)) if p < 1 else 1
                    if left < 0:
                        break
                    rows.append((0, size, (("f.py", line),)))
            for (_, line), size, _, error in columns(rows).group(
                    "lineno", False, True):
                sums[line].append((size, error))
        for line, size in sizes:
            exact = size * times[size]
            mean = sum(found for found, _ in sums[line]) / seeds
            spread = math.sqrt(times[size] * size * size
                               * math.exp(-size / INTERVAL)
                               / -math.expm1(-size / INTERVAL))
            with self.subTest(size=size):
                self.assertAlmostEqual(
                    mean, exact, delta=3.5 * spread / math.sqrt(seeds) + 1)
                # What is told about the error is right on average, too.
                told = sum(error * error for _, error in sums[line]) / seeds
                self.assertAlmostEqual(told, spread ** 2,
                                       delta=spread ** 2 / 4 + 1)


class Packed(unittest.TestCase):
    def assert_refused(self, pack, **changes):
        with self.subTest(changes=changes):
            with self.assertRaisesRegex(ValueError, "invalid packed snapshot"):
                Columns.unpack({**pack, **changes})

    def test_round_trip(self):
        packed = columns().pack()
        again = Columns.unpack(packed)
        self.assertEqual(packed["format"], 2)
        self.assertEqual(again.pack(), packed)
        self.assertEqual(again.sample_interval, INTERVAL)
        self.assertEqual(again.tolist(), ROWS)
        self.assertEqual(again.group("filename", True),
                         columns().group("filename", True))

    def test_bad_sampling(self):
        packed = columns().pack()
        for bad in (0, 1, -1, 2**63, 2**64, None, "7", 7.0):
            self.assert_refused(packed, interval=bad)
        self.assert_refused(packed, peak_size=5)
        self.assert_refused(packed, estimates=b"")
        self.assert_refused(packed, format=1)
        self.assert_refused(packed, format=3)
        self.assert_refused(packed, more=None)
        exact = columns(interval=1).pack()
        self.assert_refused(exact, format=2)
        self.assert_refused(exact, interval=5)


class Peaks(Untraced):
    def freeze(self, interval=1):
        engine.start(25, sample_interval=interval)
        kept = [bytes(1000) for _ in range(100)]
        peak = engine._freeze_peak()
        engine.stop()
        del kept
        return peak

    def test_rows(self):
        peak = self.freeze()
        self.assertFalse(peak.has_addresses)
        self.assertTrue(peak.has_traces)
        self.assertEqual(peak.total_size, peak.peak_size)
        _, size, count = peak.group("lineno")[0]
        self.assertGreaterEqual(size, 100_000)
        self.assertIn(count, (100, 101, 102))
        self.assertEqual(sum(row[1] for row in peak.tolist()), peak.total_size)

    def test_no_addresses(self):
        peak = self.freeze()
        for ask in (lambda: peak.group("address"), lambda: peak.address(0),
                    lambda: peak.get_by_address(1)):
            self.assertRaises(ValueError, ask)

    def test_ordinary_columns_have_no_peak(self):
        self.assertIsNone(columns().peak_size)

    def test_packed(self):
        for interval in (1, 500):
            peak = self.freeze(interval)
            packed = peak.pack()
            again = Columns.unpack(packed)
            self.assertEqual(again.pack(), packed)
            self.assertEqual(again.peak_size, peak.peak_size)
            self.assertEqual(again.sample_interval, interval)
            for key in ("filename", "lineno", "traceback"):
                self.assertEqual(again.group(key), peak.group(key))

    def test_filter(self):
        peak = self.freeze()
        kept = peak.filter([(True, __file__, 0, True, -1)])
        self.assertEqual(kept.peak_size, peak.peak_size)
        self.assertEqual(Columns.unpack(kept.pack()).group("lineno"),
                         kept.group("lineno"))

    def test_damaged(self):
        packed = self.freeze().pack()
        rows = packed["estimates"]
        doubles = list(struct.unpack(f"<{len(rows) // 8}d", rows))

        def broken(i, value):
            changed = doubles[:i] + [value] + doubles[i + 1:]
            return {**packed,
                    "estimates": struct.pack(f"<{len(changed)}d", *changed)}

        bad = [{**packed, "estimates": rows[:-1]},
               {**packed, "estimates": rows + rows},
               {**packed, "estimates": None},
               {**packed, "peak_size": None},
               {**packed, "peak_size": -1},
               {**packed, "addresses": packed["sizes"]}]
        bad += [broken(i, value) for i, value in itertools.product(
            range(3), (-1.0, math.nan, math.inf, -math.inf, 1e300))
            if (i, value) != (2, 1e300)]
        bad += [broken(1, 0.0), broken(0, doubles[0] + 1)]
        for pack in bad:
            with self.assertRaisesRegex(ValueError, "invalid packed snapshot"):
                Columns.unpack(pack)

    def test_no_memory(self):
        engine.start(5)
        kept = [bytes(1000) for _ in range(100)]
        engine._fail_after(0)
        engine._freeze_peak()
        total = engine._fail_after(0)
        for n in range(1, total + 1):
            engine._fail_after(n)
            try:
                engine._freeze_peak()
            except MemoryError:
                pass
            finally:
                engine._fail_after(0)
        self.assertGreater(total, 5)
        del kept


class SumsOnly(Untraced):
    def test_packed(self):
        engine.start(1, sample_interval=50)
        kept = [bytes(1000) for _ in range(100)]
        sums = engine._freeze(False)
        engine.stop()
        del kept
        packed = sums.pack()
        again = Columns.unpack(packed)
        self.assertEqual(again.pack(), packed)
        self.assertEqual(again.stats(), sums.stats())
        self.assertEqual(again.group("lineno"), sums.group("lineno"))
        for change in ({"estimates": packed["estimates"][:-8]},
                       {"estimates": None}, {"peak_size": 3},
                       {"sums": (packed["sums"][2], *packed["sums"][1:])}):
            with self.assertRaisesRegex(ValueError, "invalid packed"):
                Columns.unpack({**packed, **change})


if __name__ == "__main__":
    unittest.main()
