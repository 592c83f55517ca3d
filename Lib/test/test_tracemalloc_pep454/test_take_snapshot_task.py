"""TakeSnapshotTask: snapshots into files, by hand and by schedule."""

import os
import pathlib
import tracemalloc
import unittest
from test.support import os_helper
from test.test_tracemalloc_pep454 import util
from tracemalloc import Snapshot, TakeSnapshotTask, Task


class TakeSnapshotTaskTests(util.Traced):
    def setUp(self):
        super().setUp()
        self.enterContext(os_helper.temp_cwd())

    def test_defaults(self):
        task = TakeSnapshotTask()
        self.assertIsInstance(task, Task)
        self.assertEqual(task.filename_template, "tracemalloc-$counter.pickle")
        self.assertIs(task.traces, False)
        self.assertIs(task.metrics, True)
        self.assertIsNone(task.callback)

    def test_arguments(self):
        task = TakeSnapshotTask("a-$pid", True, False, print)
        self.assertEqual(
            (task.filename_template, task.traces, task.metrics, task.callback),
            ("a-$pid", True, False, print))
        task = TakeSnapshotTask(filename_template="b", traces=True,
                                metrics=False, callback=print)
        self.assertEqual(
            (task.filename_template, task.traces, task.metrics, task.callback),
            ("b", True, False, print))

    def test_take_snapshot(self):
        # Return (snapshot, filename).
        task = TakeSnapshotTask()
        snapshot, name = task.take_snapshot()
        self.assertIsInstance(snapshot, Snapshot)
        self.assertEqual(name, "tracemalloc-0001.pickle")
        self.assertIsNone(snapshot.traces)
        loaded = Snapshot.load(name)
        self.assertEqual(loaded.stats, snapshot.stats)
        self.assertEqual(loaded.metrics, snapshot.metrics)
        self.assertEqual(loaded.timestamp, snapshot.timestamp)

    def test_counter(self):
        # Starts at 1, incremented at each snapshot, 4 digits.
        task = TakeSnapshotTask("s-$counter")
        names = [task.take_snapshot()[1] for _ in range(3)]
        self.assertEqual(names, ["s-0001", "s-0002", "s-0003"])
        self.assertEqual(sorted(os.listdir()), names)
        self.assertEqual(TakeSnapshotTask("t-$counter").take_snapshot()[1],
                         "t-0001")

    def test_pid_and_timestamp(self):
        task = TakeSnapshotTask("$pid_$timestamp.x")
        snapshot, name = task.take_snapshot()
        time = f"{snapshot.timestamp:%Y-%m-%d-%H-%M-%S}"
        self.assertEqual(name, f"{os.getpid()}_{time}.x")
        self.assertTrue(os.path.exists(name))

    def test_other_text_is_untouched(self):
        for template, expected in (
                ("100$", "100$"), ("a$$", "a$$"), ("$$pid", f"${os.getpid()}"), ("$1", "$1"),
                ("{counter}%d%s", "{counter}%d%s"), ("$counter$counter",
                                                     "00010001"),
                ("$counter2", "00012"), ("x$counter_y", "x0001_y")):
            with self.subTest(template=template):
                _, name = TakeSnapshotTask(template).take_snapshot()
                self.assertEqual(name, expected)
                self.assertTrue(os.path.exists(expected))

    def test_unknown_variable(self):
        for template in ("$nothing", "a-$counters", "$PID", "$x$pid"):
            with self.subTest(template=template):
                self.assertRaises(ValueError, TakeSnapshotTask, template)
        task = TakeSnapshotTask("a")
        with self.assertRaises(ValueError):
            task.filename_template = "$nothing"
        self.assertEqual(task.filename_template, "a")
        self.assertRaises(TypeError, TakeSnapshotTask, 5)

    def test_path(self):
        task = TakeSnapshotTask(pathlib.Path("p-$counter"))
        self.assertEqual(task.take_snapshot()[1], "p-0001")

    def test_traces_and_metrics(self):
        # Parameters passed to Snapshot.create().
        task = TakeSnapshotTask("a", traces=True, metrics=False)
        snapshot, name = task.take_snapshot()
        self.assertIsNotNone(snapshot.traces)
        self.assertEqual(snapshot.metrics, {})
        self.assertEqual(Snapshot.load(name).traces, snapshot.traces)
        task.traces, task.metrics = False, True
        snapshot, _ = task.take_snapshot()
        self.assertIsNone(snapshot.traces)
        self.assertTrue(snapshot.metrics)

    def test_callback(self):
        # Called with the new snapshot, which may get metrics.
        seen = []

        def callback(snapshot):
            seen.append(snapshot)
            snapshot.add_metric("mine", 12, "int")

        snapshot, name = TakeSnapshotTask(
            "a", callback=callback).take_snapshot()
        self.assertEqual(seen, [snapshot])
        self.assertEqual(Snapshot.load(name).get_metric("mine"), 12)

    def test_needs_tracing(self):
        tracemalloc.disable()
        self.assertRaises(RuntimeError, TakeSnapshotTask("a").take_snapshot)
        self.assertEqual(os.listdir(), [])

    def test_number_is_not_used_up_by_a_failure(self):
        task = TakeSnapshotTask("no/such/folder/$counter")
        self.assertRaises(OSError, task.take_snapshot)
        task.filename_template = "$counter"
        self.assertEqual(task.take_snapshot()[1], "0001")

    def test_scheduled(self):
        keep = []
        task = TakeSnapshotTask("s-$counter", traces=True)
        task.set_memory_threshold(1 << 20)
        task.schedule(repeat=2)
        for name in ("s-0001", "s-0002"):
            keep.append(bytearray(2 << 20))
            self.assertTrue(util.wait_for(lambda: os.path.exists(name)))
        self.assertTrue(util.wait_for(lambda: not task.is_scheduled()))
        first, second = map(Snapshot.load, ("s-0001", "s-0002"))
        place = second.compare_to(first, "lineno")[0].traceback[0]
        self.assertEqual(place.filename, __file__)

    def test_call(self):
        _, name = TakeSnapshotTask("a-$counter").call()
        self.assertEqual(name, "a-0001")

    def test_subclass(self):
        class Mine(TakeSnapshotTask):
            def take_snapshot(self):
                return "taken"

        self.assertEqual(Mine().call(), "taken")


if __name__ == "__main__":
    unittest.main()
