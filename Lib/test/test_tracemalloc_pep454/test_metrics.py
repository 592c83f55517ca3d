"""Metric, the metric functions, and the metrics of snapshots."""

import gc
import os
import pickle
import subprocess
import sys
import tracemalloc
import unittest
from test.test_tracemalloc_pep454 import util
from tracemalloc import Metric, Snapshot

PYMALLOC_KEYS = {
    "alignment", "threshold", "nalloc", "arena_size", "total_arenas",
    "max_arenas", "arenas", "allocated_bytes", "available_bytes", "pool_size",
    "free_pools", "pool_headers", "quantization", "arena_alignment"}
has_pymalloc = unittest.skipUnless(hasattr(tracemalloc, "get_pymalloc_stats"),
                                   "built without pymalloc")


class MetricTests(unittest.TestCase):
    def test_attributes(self):
        metric = Metric("m", 5, "size")
        self.assertEqual((metric.name, metric.value, metric.format),
                         ("m", 5, "size"))
        metric = Metric(name="m", value=0.5, format="percent")
        self.assertEqual((metric.name, metric.value, metric.format),
                         ("m", 0.5, "percent"))

    def test_formats(self):
        for format in ("int", "percent", "size"):
            Metric("m", 1, format)
        for format in ("", "float", None, 5):
            self.assertRaises(ValueError, Metric, "m", 1, format)

    def test_equality(self):
        self.assertEqual(Metric("m", 1, "int"), Metric("m", 1, "int"))
        self.assertEqual(len({Metric("m", 1, "int"), Metric("m", 1, "int")}),
                         1)
        for other in (Metric("n", 1, "int"), Metric("m", 2, "int"),
                      Metric("m", 1, "size"), ("m", 1, "int"), None):
            self.assertNotEqual(Metric("m", 1, "int"), other)
        self.assertEqual(pickle.loads(pickle.dumps(Metric("m", 1, "int"))),
                         Metric("m", 1, "int"))


class FunctionTests(util.Traced):
    def test_allocated_blocks(self):
        before = tracemalloc.get_allocated_blocks()
        keep = [object() for _ in range(1000)]
        self.assertGreaterEqual(tracemalloc.get_allocated_blocks() - before,
                                900)
        self.assertAlmostEqual(tracemalloc.get_allocated_blocks(),
                               sys.getallocatedblocks(), delta=50)
        del keep

    def test_traced_memory(self):
        # (size: int, max_size: int)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        block = util.allocate(1 << 20)
        size, peak = tracemalloc.get_traced_memory()
        self.assertAlmostEqual(size - before, 1 << 20, delta=5000)
        del block
        size, peak = tracemalloc.get_traced_memory()
        self.assertAlmostEqual(size, before, delta=5000)
        self.assertGreaterEqual(peak - before, 1 << 20)

    def test_tracemalloc_memory(self):
        # an int, which is also (size: int, free: int)
        memory = tracemalloc.get_tracemalloc_memory()
        self.assertIsInstance(memory, int)
        size, free = memory
        self.assertEqual((memory.size, memory.free), (size, free))
        self.assertEqual(memory, size)
        self.assertEqual((memory[0], memory[1]), (size, free))
        self.assertGreater(size, 0)
        # size includes free bytes
        self.assertGreaterEqual(free, 0)
        self.assertLessEqual(free, size)
        self.assertEqual(tuple(pickle.loads(pickle.dumps(memory))),
                         (size, free))
        self.assertEqual(f"{memory} {memory:d} {memory + 1}",
                         f"{size} {size} {size + 1}")

    def test_tracemalloc_memory_grows(self):
        before = tracemalloc.get_tracemalloc_memory().size
        keep = [bytes(1000) for _ in range(50_000)]
        self.assertGreater(tracemalloc.get_tracemalloc_memory().size, before)
        del keep

    @unittest.skipUnless(sys.platform == "linux", "needs /proc")
    def test_process_memory(self):
        # (rss: int, vms: int)
        rss, vms = tracemalloc.get_process_memory()
        self.assertLess(rss, vms)
        with open("/proc/self/status") as file:
            told = {name: rest.split()[0] for name, _, rest in
                    (entry.partition(":") for entry in file) if rest.strip()}
        self.assertAlmostEqual(vms, int(told["VmSize"]) * 1024, delta=8 << 20)
        self.assertAlmostEqual(rss, int(told["VmRSS"]) * 1024, delta=8 << 20)
        keep = bytearray(64 << 20)
        keep[::4096] = bytes(len(keep[::4096]))
        more, _ = tracemalloc.get_process_memory()
        self.assertGreater(more - rss, 50 << 20)

    @has_pymalloc
    def test_arena_size(self):
        size = tracemalloc.get_arena_size()
        self.assertIs(type(size), int)
        self.assertGreaterEqual(size, 0)
        keep = [bytes(400) for _ in range(50_000)]
        grown = tracemalloc.get_arena_size()
        if tracemalloc.get_pymalloc_stats()["arenas"]:
            self.assertGreaterEqual(grown - size, 10 << 20)
        del keep

    @has_pymalloc
    def test_pymalloc_stats(self):
        stats = tracemalloc.get_pymalloc_stats()
        self.assertEqual(set(stats), PYMALLOC_KEYS)
        for name, value in stats.items():
            self.assertIs(type(value), int, name)
            self.assertGreaterEqual(value, 0, name)
        self.assertIn(stats["alignment"], (8, 16))
        self.assertEqual(stats["threshold"], 512)
        self.assertLessEqual(stats["arenas"], stats["max_arenas"])
        self.assertLessEqual(stats["max_arenas"], stats["total_arenas"])

    @has_pymalloc
    def test_pymalloc_stats_add_up(self):
        stats = tracemalloc.get_pymalloc_stats()
        total = sum(stats[name] for name in (
            "allocated_bytes", "available_bytes", "pool_headers",
            "quantization", "arena_alignment"))
        total += stats["free_pools"] * stats["pool_size"]
        self.assertEqual(total, stats["arenas"] * stats["arena_size"])

    @has_pymalloc
    def test_pymalloc_stats_move(self):
        first = tracemalloc.get_pymalloc_stats()
        if not first["arenas"]:
            self.skipTest("another allocator is in use")
        keep = [bytes(200) for _ in range(10_000)]
        second = tracemalloc.get_pymalloc_stats()
        self.assertGreaterEqual(
            second["allocated_bytes"] - first["allocated_bytes"], 2_000_000)
        self.assertGreaterEqual(second["nalloc"] - first["nalloc"], 10_000)
        del keep

    def test_unicode_interned(self):
        # (size: int, length: int) of the dictionary
        size, length = tracemalloc.get_unicode_interned()
        self.assertGreater(size, 0)
        self.assertGreater(length, 100)
        keep = [sys.intern(f"surely nobody has this {n}")
                for n in range(5000)]
        more_size, more_length = tracemalloc.get_unicode_interned()
        self.assertGreaterEqual(more_length - length, 5000)
        self.assertGreaterEqual(more_size, size)
        # The strings themselves are not counted.
        self.assertLess(more_size, 400 * more_length)
        del keep


class SnapshotMetricTests(util.Traced):
    def setUp(self):
        super().setUp()
        self.snapshot = Snapshot.create(metrics=False)

    def names(self):
        return set(self.snapshot.metrics)

    def test_add_metric(self):
        # Return the newly created Metric instance.
        metric = self.snapshot.add_metric("m", 5, "size")
        self.assertIsInstance(metric, Metric)
        self.assertEqual((metric.name, metric.value, metric.format),
                         ("m", 5, "size"))
        self.assertIs(self.snapshot.metrics["m"], metric)

    def test_add_metric_twice(self):
        self.snapshot.add_metric("m", 5, "size")
        self.assertRaises(ValueError, self.snapshot.add_metric, "m", 6, "int")
        self.assertEqual(self.snapshot.get_metric("m"), 5)

    def test_wrong_format(self):
        self.assertRaises(ValueError, self.snapshot.add_metric, "m", 6, "x")
        self.assertEqual(self.names(), set())

    def test_get_metric(self):
        # Get the value; default if it does not exist.
        self.snapshot.add_metric("m", 5, "size")
        self.assertEqual(self.snapshot.get_metric("m"), 5)
        self.assertIsNone(self.snapshot.get_metric("n"))
        self.assertEqual(self.snapshot.get_metric("n", 7), 7)
        self.assertEqual(self.snapshot.get_metric("m", default=7), 5)

    def test_gc(self):
        self.snapshot.add_gc_metrics()
        self.assertEqual(self.names(), {"gc.objects"})
        metric = self.snapshot.metrics["gc.objects"]
        self.assertEqual(metric.format, "int")
        self.assertAlmostEqual(metric.value, len(gc.get_objects()), delta=500)

    def test_process_memory(self):
        self.snapshot.add_process_memory_metrics()
        if tracemalloc.get_process_memory() is None:
            self.assertEqual(self.names(), set())
            return
        self.assertEqual(self.names(), {"process_memory.rss",
                                        "process_memory.vms"})
        for metric in self.snapshot.metrics.values():
            self.assertEqual(metric.format, "size")
            self.assertGreater(metric.value, 1 << 20)

    @has_pymalloc
    def test_pymalloc(self):
        self.snapshot.add_pymalloc_metrics()
        stats = tracemalloc.get_pymalloc_stats()
        value = self.snapshot.get_metric
        self.assertEqual(
            {m.name: m.format for m in self.snapshot.metrics.values()} | {
                "pymalloc.fragmentation": "percent"},
            {"pymalloc.blocks": "int", "pymalloc.size": "size",
             "pymalloc.max_size": "size", "pymalloc.allocated": "size",
             "pymalloc.free": "size", "pymalloc.fragmentation": "percent"})
        self.assertAlmostEqual(value("pymalloc.blocks"),
                               sys.getallocatedblocks(), delta=1000)
        self.assertAlmostEqual(
            value("pymalloc.size"), stats["arenas"] * stats["arena_size"],
            delta=2 * stats["arena_size"])
        self.assertLessEqual(value("pymalloc.size"),
                             value("pymalloc.max_size"))
        if stats["arenas"]:
            self.assertLess(
                value("pymalloc.allocated") + value("pymalloc.free"),
                value("pymalloc.size") + 1)
            self.assertTrue(0 <= value("pymalloc.fragmentation") < 1)

    def test_blocks_are_always_known(self):
        self.snapshot.add_pymalloc_metrics()
        self.assertIn("pymalloc.blocks", self.names())

    TRACER = {"tracemalloc.traced.size": "size",
              "tracemalloc.traced.max_size": "size",
              "tracemalloc.module.size": "size",
              "tracemalloc.module.free": "size",
              "tracemalloc.module.fragmentation": "percent",
              "tracemalloc.arena_size": "size"}

    def test_tracemalloc(self):
        self.snapshot.add_tracemalloc_metrics()
        self.assertEqual({m.name: m.format
                          for m in self.snapshot.metrics.values()},
                         self.TRACER)
        value = self.snapshot.get_metric
        self.assertAlmostEqual(value("tracemalloc.traced.size"),
                               tracemalloc.get_traced_memory()[0],
                               delta=20_000)
        self.assertLessEqual(value("tracemalloc.traced.size"),
                             value("tracemalloc.traced.max_size"))
        self.assertLessEqual(value("tracemalloc.module.free"),
                             value("tracemalloc.module.size"))
        self.assertAlmostEqual(
            value("tracemalloc.module.fragmentation"),
            value("tracemalloc.module.free")
            / value("tracemalloc.module.size"))

    def test_number_of_traces(self):
        # only present if the snapshot was created with traces
        self.snapshot = Snapshot.create(traces=True)
        self.assertEqual(self.snapshot.get_metric("tracemalloc.traces"),
                         len(self.snapshot.traces))
        self.assertEqual(self.snapshot.metrics["tracemalloc.traces"].format,
                         "int")
        self.assertNotIn("tracemalloc.traces", Snapshot.create().metrics)

    def test_unicode(self):
        self.snapshot.add_unicode_metrics()
        self.assertEqual({m.name: m.format
                          for m in self.snapshot.metrics.values()},
                         {"unicode_interned.size": "size",
                          "unicode_interned.len": "int"})
        size, length = tracemalloc.get_unicode_interned()
        self.assertAlmostEqual(
            self.snapshot.get_metric("unicode_interned.len"), length,
            delta=50)

    def test_create_fills_all(self):
        names = set(Snapshot.create(metrics=True).metrics)
        for fill in ("gc", "process_memory", "pymalloc", "tracemalloc",
                     "unicode"):
            getattr(self.snapshot, f"add_{fill}_metrics")()
        self.assertEqual(names, self.names())

    def test_twice(self):
        for fill in ("gc", "pymalloc", "tracemalloc", "unicode"):
            method = getattr(self.snapshot, f"add_{fill}_metrics")
            method()
            self.assertRaises(ValueError, method)

    def test_reading_does_not_move_the_peak(self):
        tracemalloc.reset_peak()
        _, before = tracemalloc.get_traced_memory()
        Snapshot.create()
        _, after = tracemalloc.get_traced_memory()
        self.assertLess(after - before, 1 << 20)


class OtherAllocatorTests(unittest.TestCase):
    @has_pymalloc
    def test_malloc(self):
        code = ("import tracemalloc as t; t.enable(); "
                "s = t.Snapshot.create(); print(t.get_pymalloc_stats()"
                "['arenas'], s.get_metric('pymalloc.size'),"
                " 'pymalloc.fragmentation' in s.metrics)")
        environ = {**os.environ, "PYTHONMALLOC": "malloc"}
        done = subprocess.run([sys.executable, "-c", code], env=environ,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout, "0 0 False\n")


if __name__ == "__main__":
    unittest.main()
