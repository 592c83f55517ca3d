"""enable, disable, is_enabled, clear_traces, get_stats, tasks in bulk."""

import os
import tracemalloc
import unittest
from test import support
from test.support.script_helper import assert_python_ok
from test.test_tracemalloc_pep454 import util


class EnableTests(util.Untraced):
    def test_switch(self):
        self.assertIs(tracemalloc.is_enabled(), False)
        self.assertIsNone(tracemalloc.enable())
        self.assertIs(tracemalloc.is_enabled(), True)
        self.assertIsNone(tracemalloc.disable())
        self.assertIs(tracemalloc.is_enabled(), False)

    def test_twice_is_fine(self):
        tracemalloc.enable()
        block = util.allocate()
        tracemalloc.enable()
        self.assertIsNotNone(tracemalloc.get_object_trace(block))
        tracemalloc.disable()
        tracemalloc.disable()

    def test_both_vocabularies_mean_the_same_engine(self):
        tracemalloc.enable()
        self.assertTrue(tracemalloc.is_tracing())
        tracemalloc.stop()
        self.assertFalse(tracemalloc.is_enabled())
        tracemalloc.start(7)
        self.assertTrue(tracemalloc.is_enabled())
        self.assertEqual(tracemalloc.get_traceback_limit(), 7)

    def test_traces_only_while_enabled(self):
        before = util.allocate()
        tracemalloc.enable()
        while_enabled = util.allocate()
        self.assertIsNone(tracemalloc.get_object_trace(before))
        self.assertIsNotNone(tracemalloc.get_object_trace(while_enabled))
        tracemalloc.disable()
        self.assertIsNone(tracemalloc.get_object_trace(while_enabled))

    def test_disable_drops_all_traces(self):
        tracemalloc.enable()
        util.allocate()
        tracemalloc.disable()
        tracemalloc.enable()
        lines = tracemalloc.get_stats().get(util.PLACE[0], {})
        self.assertNotIn(util.PLACE[1], lines)

    def test_enable_uses_the_limit_that_was_set(self):
        tracemalloc.set_traceback_limit(3)
        tracemalloc.enable()
        block = util.deep(6)
        self.assertEqual(len(tracemalloc.get_object_trace(block)[1]), 3)

    def test_start_up_options(self):
        code = ("import tracemalloc as t; print(t.is_enabled(), "
                "t.get_traceback_limit())")
        for arguments, environment, expected in (
                ((), {}, b"False 1"),
                (("-X", "tracemalloc"), {}, b"True 1"),
                (("-X", "tracemalloc=4"), {}, b"True 4"),
                ((), {"PYTHONTRACEMALLOC": "1"}, b"True 1"),
                ((), {"PYTHONTRACEMALLOC": "5"}, b"True 5"),
                ((), {"PYTHONTRACEMALLOC": "0"}, b"False 1"),
                (("-X", "tracemalloc=4"), {"PYTHONTRACEMALLOC": "5"},
                 b"True 4")):
            with self.subTest(arguments=arguments, environment=environment):
                result = assert_python_ok(*arguments, "-c", code,
                                          __isolated=False, **environment)
                self.assertEqual(result.out.strip(), expected)


class ClearTests(util.Traced):
    def test_traces_and_statistics_go(self):
        block = util.allocate()
        tracemalloc.clear_traces()
        self.assertIsNone(tracemalloc.get_object_trace(block))
        self.assertNotIn(util.PLACE[0], tracemalloc.get_stats())

    def test_counters_start_anew(self):
        keep = [util.allocate(1 << 20)]
        self.assertGreaterEqual(tracemalloc.get_traced_memory()[0], 1 << 20)
        tracemalloc.clear_traces()
        size, peak = tracemalloc.get_traced_memory()
        self.assertLess(size, 1 << 19)
        self.assertLess(peak, 1 << 19)
        del keep

    def test_arena_size_starts_anew(self):
        if not hasattr(tracemalloc, "get_pymalloc_stats"):
            self.skipTest("no pymalloc")
        keep = [bytes(400) for _ in range(20_000)]
        grown = tracemalloc.get_arena_size()
        tracemalloc.clear_traces()
        self.assertLess(tracemalloc.get_arena_size(), grown or 1)
        del keep

    def test_tracing_goes_on(self):
        tracemalloc.clear_traces()
        block = util.allocate()
        self.assertIsNotNone(tracemalloc.get_object_trace(block))


class GetStatsTests(util.Traced):
    def test_form(self):
        # {filename (str): {line_number (int): (size: int, count: int)}},
        # each name and line may be None
        keep = [util.allocate() for _ in range(10)]
        stats = tracemalloc.get_stats()
        self.assertIs(type(stats), dict)
        for name, lines in stats.items():
            self.assertIn(type(name), (str, type(None)))
            self.assertIs(type(lines), dict)
            self.assertTrue(lines)
            for number, (size, count) in lines.items():
                self.assertIn(type(number), (int, type(None)))
                self.assertIs(type(size), int)
                self.assertIs(type(count), int)
                self.assertGreater(count, 0)
                self.assertNotEqual(number, 0)
        del keep

    def test_sums(self):
        keep = [util.allocate(5000 + n) for n in range(10)]
        size, count = tracemalloc.get_stats()[util.PLACE[0]][util.PLACE[1]]
        self.assertEqual(count, 10)
        self.assertEqual(size, sum(b.__sizeof__() for b in keep))
        del keep[5:]
        size, count = tracemalloc.get_stats()[util.PLACE[0]][util.PLACE[1]]
        self.assertEqual(count, 5)
        self.assertEqual(size, sum(b.__sizeof__() for b in keep))

    def test_agrees_with_the_total(self):
        keep = [util.allocate() for _ in range(100)]
        total = sum(size for lines in tracemalloc.get_stats().values()
                    for size, _ in lines.values())
        now, _ = tracemalloc.get_traced_memory()
        self.assertAlmostEqual(total, now, delta=200_000)
        self.assertGreater(total, 500_000)
        del keep

    def test_empty_when_disabled(self):
        tracemalloc.disable()
        self.assertEqual(tracemalloc.get_stats(), {})


class TasksInBulkTests(util.Traced):
    def test_get_tasks(self):
        self.assertEqual(tracemalloc.get_tasks(), [])
        tasks = [tracemalloc.Task(int) for _ in range(3)]
        for task in tasks:
            task.set_delay(1000)
            task.schedule()
        listed = tracemalloc.get_tasks()
        self.assertIs(type(listed), list)
        self.assertCountEqual(map(id, listed), map(id, tasks))
        listed.clear()
        self.assertEqual(len(tracemalloc.get_tasks()), 3)

    def test_cancel_tasks(self):
        tasks = [tracemalloc.Task(int) for _ in range(3)]
        for task in tasks:
            task.set_memory_threshold(1 << 40)
            task.schedule()
        self.assertIsNone(tracemalloc.cancel_tasks())
        self.assertEqual(tracemalloc.get_tasks(), [])
        self.assertFalse(any(task.is_scheduled() for task in tasks))
        tracemalloc.cancel_tasks()

    def test_disable_cancels(self):
        task = tracemalloc.Task(int)
        task.set_delay(1000)
        task.schedule()
        tracemalloc.disable()
        self.assertEqual(tracemalloc.get_tasks(), [])
        tracemalloc.enable()
        self.assertEqual(tracemalloc.get_tasks(), [])


@support.requires_fork()
class ForkTests(util.Untraced):
    def in_child(self, function):
        """Return what a function returns (a small number) in a child."""
        pid = os.fork()
        if not pid:
            status = 99
            try:
                status = int(function())
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)

    def test_disabled_in_the_child(self):
        tracemalloc.enable()
        block = util.allocate()
        self.assertEqual(self.in_child(tracemalloc.is_enabled), 0)
        self.assertTrue(tracemalloc.is_enabled())
        self.assertIsNotNone(tracemalloc.get_object_trace(block))

    def test_start_goes_on_in_the_child(self):
        tracemalloc.start(2)
        self.assertEqual(self.in_child(tracemalloc.is_enabled), 1)

    def test_can_be_enabled_again(self):
        tracemalloc.enable()
        old = util.allocate()

        def child():
            tracemalloc.enable()
            new = util.allocate()
            return (tracemalloc.get_object_trace(new) is not None
                    and tracemalloc.get_object_trace(old) is None)
        self.assertEqual(self.in_child(child), 1)

    def test_tasks_are_cancelled_in_the_child(self):
        tracemalloc.enable()
        task = tracemalloc.Task(int)
        task.set_delay(1000)
        task.schedule()
        self.assertEqual(
            self.in_child(lambda: len(tracemalloc.get_tasks())), 0)
        self.assertEqual(len(tracemalloc.get_tasks()), 1)

    def test_policy(self):
        self.assertIsNone(tracemalloc.get_fork_policy())
        for policy, switch, expected in (
                ("follow", tracemalloc.enable, 1),
                ("disable", tracemalloc.start, 0),
                (None, tracemalloc.enable, 0),
                (None, tracemalloc.start, 1)):
            with self.subTest(policy=policy, switch=switch):
                tracemalloc.set_fork_policy(policy)
                self.assertEqual(tracemalloc.get_fork_policy(), policy)
                switch()
                self.assertEqual(self.in_child(tracemalloc.is_enabled),
                                 expected)
                tracemalloc.disable()

    def test_policy_is_checked(self):
        self.assertRaises(ValueError, tracemalloc.set_fork_policy, "perhaps")
        self.assertRaises(TypeError, tracemalloc.set_fork_policy, 1)

    def test_start_up(self):
        code = ("import os, tracemalloc\n"
                "pid = os.fork()\n"
                "if not pid: os._exit(tracemalloc.is_enabled())\n"
                "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n")
        for arguments, environment, expected in (
                (("-X", "tracemalloc"), {}, b"0"),
                ((), {"PYTHONTRACEMALLOC": "1"}, b"0"),
                (("-X", "tracemalloc", "-X", "tracemalloc_fork=follow"), {},
                 b"1"),
                (("-X", "tracemalloc"),
                 {"PYTHONTRACEMALLOC_FORK": "follow"}, b"1")):
            with self.subTest(arguments=arguments, environment=environment):
                result = assert_python_ok(*arguments, "-c", code,
                                          __isolated=False, **environment)
                self.assertEqual(result.out.strip(), expected)


if __name__ == "__main__":
    unittest.main()
