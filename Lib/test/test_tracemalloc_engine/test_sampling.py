"""Sampling by bytes: what is recorded, what is counted, and that estimates of a
profile with many lines are unbiased."""

import math
import sys
import threading
import unittest

import _tracemalloc as engine

from .util import GIL_DISABLED, Untraced, run_child

try:
    import _testcapi
except ImportError:
    _testcapi = None

INTERVAL = 4096
FILE = "profile.py"
LINES = 40
EMPTY = sys.getsizeof(b"")
# Lengths of bytes objects, each on a line of its own, and how many there are.
LENGTHS = [1 + int(1.3 ** i) for i in range(LINES)]


def make_profile():
    """A function that holds blocks of line k for k = 1, 2, ..."""
    code = "".join(
        f"  {'if' if k == 0 else 'elif'} k == {k}:"
        f" return [bytes({length}) for _ in range(n)]\n"
        for k, length in enumerate(LENGTHS))
    space = {}
    exec(compile("def hold(k, n):\n" + code, FILE, "exec"), space)
    return space["hold"]


hold = make_profile()


def held(numbers):
    return [hold(k, n) for k, n in enumerate(numbers)]


def even_numbers(total=2 << 20):
    """As many blocks of each line as make all lines equal."""
    return [max(1, total // LINES // (EMPTY + length)) for length in LENGTHS]


def measure(interval, seed, work):
    """Traced size and Columns of what a function returns."""
    engine._sample_seed(seed)
    engine.start(1, sample_interval=interval)
    try:
        kept = work()
        size = engine.get_traced_memory()[0]
        return size, engine._freeze(), kept
    finally:
        engine.stop()


class Recorded(Untraced):
    def test_interval_1_is_exact(self):
        numbers = even_numbers(1 << 18)
        results = []
        for interval in (None, 1):
            engine.start(3, sample_interval=interval)
            kept = held(numbers)
            columns = engine._freeze()
            engine.stop()
            results.append([(size, count) for key, size, count in sorted(
                columns.group("lineno")) if key[0][0] == FILE])
            del kept
        self.assertEqual(*results)
        self.assertEqual([count for _, count in results[0]],
                         [n + 1 for n in numbers])

    def test_few_blocks_are_recorded(self):
        size, columns, kept = measure(INTERVAL, 1,
                                      lambda: held(even_numbers()))
        self.assertLess(len(columns), 3 * size / INTERVAL)
        self.assertGreater(len(columns), size / INTERVAL / 3)
        self.assertEqual(columns.sample_interval, INTERVAL)
        self.assertEqual(len(columns), len(set(map(columns.address,
                                                   range(len(columns))))))

    def test_true_sizes(self):
        _, columns, kept = measure(INTERVAL, 1, lambda: held(even_numbers()))
        line_sizes = {k + 2: EMPTY + length for k, length in enumerate(LENGTHS)}
        lists = {k + 2 for k in range(LINES)}
        for _, size, frames, _ in columns.tolist():
            if frames[0][0] == FILE and size != line_sizes[frames[0][1]]:
                # The list that holds them.
                self.assertEqual(size % 8, 0)
                lists.discard(frames[0][1])

    def test_large_blocks_are_always_recorded(self):
        for seed in range(20):
            size = 40 * INTERVAL
            _, columns, kept = measure(
                INTERVAL, seed, lambda: [hold.__globals__, bytes(size)])
            [row] = [row for row in columns.group("lineno")
                     if row[1] > size]
            _, found, count, error = row
            self.assertAlmostEqual(found, size, delta=3 * INTERVAL)
            self.assertLess(count, 300)
            self.assertIn(size + EMPTY, [t[1] for t in columns.tolist()])

    def test_an_interval_without_end_records_nothing(self):
        size, columns, kept = measure(2**63 - 1, 5,
                                      lambda: held(even_numbers()))
        self.assertEqual(len(columns), 0)
        self.assertEqual(columns.total_size, 0)
        self.assertGreater(size, 1 << 20)

    def test_freed_samples_go(self):
        engine._sample_seed(3)
        engine.start(1, sample_interval=INTERVAL)
        kept = held(even_numbers())
        full = len(engine._freeze())
        del kept
        self.assertLess(len(engine._freeze()), full / 10)

    def test_seeds(self):
        def drawn(seed):
            _, columns, kept = measure(INTERVAL, seed, lambda: held(
                even_numbers(1 << 19)))
            return [t[1] for t in columns.tolist()]

        self.assertNotEqual(drawn(1), drawn(2))

    def test_clear(self):
        engine.start(1, sample_interval=64)
        kept = held(even_numbers(1 << 18))
        engine.clear_traces()
        self.assertLess(engine.get_traced_memory()[0], 10_000)
        del kept
        more = held(even_numbers(1 << 18))
        self.assertGreater(len(engine._freeze()), 10)
        self.assertEqual(engine.get_sample_interval(), 64)

    def test_live_filters(self):
        engine._set_filters([(False, FILE, 0, False, -1)])
        size, columns, kept = measure(INTERVAL, 1, lambda: held(even_numbers()))
        self.assertNotIn(FILE, columns.stats())
        # Where a block comes from that is not drawn, nobody knows: totals are
        # of all blocks, small and large, drawn or not, dropped or not.
        true = sum(map(sys.getsizeof, [b for line in kept for b in line]))
        self.assertGreaterEqual(size, true)
        self.assertLess(size, true * 1.5)
        del kept
        engine._set_filters([(True, FILE, 0, False, -1)])
        size, columns, kept = measure(INTERVAL, 1, lambda: held(even_numbers()))
        self.assertEqual(list(columns.stats()), [FILE])
        self.assertAlmostEqual(columns.total_size, size, delta=size / 4)

    def test_blocks_that_were_not_drawn_look_untraced(self):
        engine._sample_seed(1)
        engine.start(1, sample_interval=1 << 40)
        thing = bytearray(1000)
        self.assertIsNone(engine._get_object_traceback(thing))
        self.assertIsNone(engine.get_object_trace(thing))
        self.assertEqual((engine.get_traces(), engine._get_traces(),
                          engine.get_stats()), ({}, [], {}))
        self.assertGreaterEqual(engine.get_traced_memory()[0], 1000)

    def test_threads(self):
        engine.start(1, sample_interval=INTERVAL)
        kept = []
        threads = [threading.Thread(
            target=lambda: kept.append(held(even_numbers(1 << 18))))
            for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertIsNone(engine._check())
        total = engine._freeze(False).total_size
        exact = engine.get_traced_memory()[0]
        self.assertAlmostEqual(total, exact, delta=exact / 2)

    @unittest.skipUnless(_testcapi, "needs _testcapi")
    def test_tracked_again_and_dropped(self):
        # With a filter in between, what was known of the address is over.
        engine.start(1)
        before = engine.get_traced_memory()[0]
        _testcapi.tracemalloc_track(7, 16, 1_000_000)
        self.assertGreater(engine.get_traced_memory()[0] - before, 999_999)
        engine._set_filters([(False, "*", 0, False, -1)])
        _testcapi.tracemalloc_track(7, 16, 2_000_000)
        self.assertLess(engine.get_traced_memory()[0] - before, 500_000)
        self.assertIsNone(engine._check())

    @unittest.skipUnless(_testcapi, "needs _testcapi")
    def test_tracked_memory(self):
        engine._sample_seed(3)
        engine.start(1, sample_interval=1000)
        for i in range(4000):
            _testcapi.tracemalloc_track(7, 16 * (i + 1), 100)
        self.assertGreaterEqual(engine.get_traced_memory()[0], 400_000)
        columns = engine._freeze().filter([(True, None, 0, False, 7)])
        self.assertLess(len(columns), 800)
        self.assertAlmostEqual(columns.total_size, 400_000, delta=100_000)
        for i in range(4000):
            _testcapi.tracemalloc_untrack(7, 16 * (i + 1))
        self.assertEqual(
            len(engine._freeze().filter([(True, None, 0, False, 7)])), 0)
        self.assertLess(engine.get_traced_memory()[0], 300_000)


class Totals(Untraced):
    def sizes(self, interval):
        """Traced size at some points of a program."""
        engine.start(1, sample_interval=interval)
        points = []
        kept = held(even_numbers(1 << 19))
        points.append(engine.get_traced_memory())
        for blocks in kept[::2]:
            blocks.clear()
        points.append(engine.get_traced_memory())
        grown = bytearray(10)
        for _ in range(4000):
            grown += b"x" * 10          # realloc, in place and not
        points.append(engine.get_traced_memory())
        engine.reset_peak()
        del kept, grown
        points.append(engine.get_traced_memory())
        engine.stop()
        return points

    def test_exact(self):
        self.sizes(1)
        exact = self.sizes(1)
        for interval in (2, 100, INTERVAL, 1 << 19, 1 << 40):
            for one, other in zip(self.sizes(interval), exact):
                self.assertAlmostEqual(one[0], other[0], delta=2000)
                self.assertAlmostEqual(one[1], other[1], delta=2000)

    def test_nothing_is_left(self):
        engine.start(1, sample_interval=100)
        before = engine.get_traced_memory()[0]
        for _ in range(20):
            held(even_numbers(1 << 16))
        self.assertAlmostEqual(engine.get_traced_memory()[0], before,
                               delta=2000)

    def test_other_allocators(self):
        code = (
            "import _tracemalloc as t\n"
            "def work(interval):\n"
            "    t._sample_seed(1); t.start(1, sample_interval=interval)\n"
            "    kept = [bytes(100) for _ in range(20000)]\n"
            "    size = t.get_traced_memory()[0]\n"
            "    found = t._freeze(False).total_size\n"
            "    wrong = t._check(); t.stop()\n"
            "    return size, found, wrong\n"
            "work(1); exact = work(1); size, found, wrong = work(1000)\n"
            "print(abs(size - exact[0]) < 2000,"
            " abs(found - size) < size / 4, wrong)\n")
        for allocator in (("mimalloc", "mimalloc_debug") if GIL_DISABLED else
                          ("malloc", "malloc_debug", "pymalloc")) + (
                              "debug", "default"):
            with self.subTest(allocator=allocator):
                done = run_child(code, env={"PYTHONMALLOC": allocator})
                self.assertEqual((done.out.strip(), done.err),
                                 ("True True None", ""))


class Unbiased(Untraced):
    seeds = 60

    def setUp(self):
        super().setUp()
        if not hasattr(engine, "_sample_seed"):
            self.skipTest("samples cannot be repeated")

    def test_profile(self):
        numbers = even_numbers(60 << 20)
        for k in range(LINES):              # lines of very different size
            numbers[k] = max(1, numbers[k] // (1 + (7 * k) % LINES))
        engine.start(1, sample_interval=1)
        kept = held(numbers)
        lines = engine._freeze(False).stats()[FILE]
        engine.stop()
        total = sum(size for size, _ in lines.values())
        large = {line: size for line, (size, _) in lines.items()
                 if size > total / 100}
        self.assertGreater(len(large), 10)
        self.assertGreater(total / INTERVAL, 1000)
        sums = dict.fromkeys(large, 0)
        totals = off = 0
        for seed in range(self.seeds):
            _, columns, kept = measure(INTERVAL, seed, lambda: held(numbers))
            found = columns.stats()[FILE]
            totals += sum(size for size, _ in found.values())
            for line, size in large.items():
                estimate = found.get(line)
                if estimate is None or (abs(estimate.size - size)
                                        > 3 * estimate.stderr + 1):
                    off += 1
                sums[line] += estimate.size if estimate else 0
        self.assertAlmostEqual(totals / self.seeds, total, delta=total / 100)
        # Nearly all are within three standard errors; small numbers of
        # samples are not quite normal.
        self.assertLess(off, self.seeds * len(large) / 50)
        for line, size in large.items():
            spread = math.sqrt(size * (INTERVAL + size / numbers[line - 2]))
            self.assertAlmostEqual(sums[line] / self.seeds, size,
                                   delta=4 * spread / math.sqrt(self.seeds))


if __name__ == "__main__":
    unittest.main()
