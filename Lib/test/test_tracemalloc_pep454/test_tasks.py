"""Task: what it is made of, when it is called, and what ends it."""

import decimal
import fractions
import gc
import math
import os
import subprocess
import sys
import threading
import time
import tracemalloc
import unittest
import weakref
from test import support
from test.test_tracemalloc_pep454 import util
from tracemalloc import Task

BIG = 10 << 20


class AttributeTests(util.Traced):
    def test_call(self):
        # Call func(*args, **kw) and return the result.
        task = Task(lambda *args, **kw: (args, kw), 1, 2, a=3)
        self.assertEqual(task.call(), ((1, 2), {"a": 3}))

    def test_attributes(self):
        task = Task(max, 1, 2, key=abs)
        self.assertIs(task.func, max)
        self.assertEqual(task.func_args, (1, 2))
        self.assertEqual(task.func_kwargs, {"key": abs})
        self.assertIsNone(Task(max).func_kwargs)
        self.assertEqual(Task(max).func_args, ())

    def test_attributes_can_be_changed(self):
        task = Task(max, 1, 2)
        task.func = min
        task.func_args = (7, 5)
        task.func_kwargs = {"key": lambda x: -x}
        self.assertEqual(task.call(), 7)
        task.func_kwargs = None
        self.assertEqual(task.call(), 5)

    def test_attributes_are_checked(self):
        task = Task(max, 1, 2)
        for name, values in (("func", (None, 5, "x")),
                             ("func_args", (None, [1, 2], "ab")),
                             ("func_kwargs", ([], "x", 5))):
            for value in values:
                with self.subTest(name=name, value=value):
                    self.assertRaises(TypeError, setattr, task, name, value)
        self.assertRaises(TypeError, Task)
        self.assertRaises(TypeError, Task, 5)
        self.assertEqual(task.call(), 2)

    def test_any_keyword(self):
        task = Task(dict, func=1, self=2)
        self.assertEqual(task.call(), {"func": 1, "self": 2})

    def test_delay(self):
        task = Task(int)
        self.assertIsNone(task.get_delay())
        for given, kept in ((1, 1), (60, 60), (1.9, 1), (2.0, 2),
                            (fractions.Fraction(7, 2), 3),
                            (decimal.Decimal("4.5"), 4), (None, None)):
            task.set_delay(given)
            self.assertEqual(task.get_delay(), kept)
            self.assertIn(type(task.get_delay()), (int, type(None)))

    def test_wrong_delay(self):
        task = Task(int)
        task.set_delay(5)
        for value in (0, 0.99, -1, -math.inf, math.inf, math.nan):
            self.assertRaises(ValueError, task.set_delay, value)
        for value in ("5", b"5", [], 1j, object()):
            self.assertRaises(TypeError, task.set_delay, value)
        self.assertEqual(task.get_delay(), 5)

    def test_threshold(self):
        task = Task(int)
        self.assertIsNone(task.get_memory_threshold())
        for size in (1, 4096, 1 << 40, None):
            task.set_memory_threshold(size)
            self.assertEqual(task.get_memory_threshold(), size)

    def test_wrong_threshold(self):
        task = Task(int)
        task.set_memory_threshold(5)
        for value in (0, -1, -(1 << 70)):
            self.assertRaises(ValueError, task.set_memory_threshold, value)
        for value in (1.0, "5", []):
            self.assertRaises(TypeError, task.set_memory_threshold, value)
        self.assertEqual(task.get_memory_threshold(), 5)


class ScheduleTests(util.Traced):
    def task(self, *args):
        task = Task(*args or (int,))
        task.set_delay(1000)
        return task

    def test_needs_tracing(self):
        task = self.task()
        tracemalloc.disable()
        with self.assertRaises(RuntimeError) as caught:
            task.schedule()
        self.assertEqual(str(caught.exception), "the tracemalloc module must "
                                                "be enabled to schedule a task")
        self.assertFalse(task.is_scheduled())

    def test_needs_delay_or_threshold(self):
        task = Task(int)
        self.assertRaises(ValueError, task.schedule)
        task.set_memory_threshold(BIG)
        task.schedule()
        task = Task(int)
        task.set_delay(1000)
        task.schedule()

    def test_is_scheduled(self):
        task = self.task()
        self.assertIs(task.is_scheduled(), False)
        self.assertIsNone(task.schedule())
        self.assertIs(task.is_scheduled(), True)
        self.assertEqual(tracemalloc.get_tasks(), [task])
        self.assertIsNone(task.cancel())
        self.assertIs(task.is_scheduled(), False)
        self.assertEqual(tracemalloc.get_tasks(), [])

    def test_cancel_twice(self):
        # Do nothing if the task is not scheduled.
        task = self.task()
        task.cancel()
        task.schedule()
        task.cancel()
        task.cancel()

    def test_schedule_twice(self):
        task = self.task()
        task.schedule()
        task.schedule()
        self.assertEqual(tracemalloc.get_tasks(), [task])

    def test_repeat_is_checked(self):
        task = self.task()
        for value in (0, -1):
            self.assertRaises(ValueError, task.schedule, value)
        for value in ("1", 1.0, []):
            self.assertRaises(TypeError, task.schedule, value)
        self.assertFalse(task.is_scheduled())
        task.schedule(repeat=None)
        task.schedule(3)

    def test_still_scheduled_after_a_change(self):
        task = self.task()
        task.schedule()
        task.set_memory_threshold(BIG)
        task.set_delay(None)
        self.assertTrue(task.is_scheduled())
        # Nothing would be left to wait for.
        self.assertRaises(ValueError, task.set_memory_threshold, None)
        self.assertTrue(task.is_scheduled())
        self.assertEqual(task.get_memory_threshold(), BIG)
        task.cancel()
        task.set_memory_threshold(None)
        self.assertFalse(task.is_scheduled())

    def test_kept_alive_while_scheduled(self):
        task = self.task()
        reference = weakref.ref(task)
        task.schedule()
        del task
        gc.collect()
        self.assertIsNotNone(reference())
        tracemalloc.cancel_tasks()
        gc.collect()
        self.assertIsNone(reference())

    def test_tasks_that_compare_equal(self):
        class Same(Task):
            def __eq__(self, other):
                return True
            __hash__ = None

        one, two = Same(int), Same(int)
        one.set_delay(1000)
        one.schedule()
        self.assertFalse(two.is_scheduled())
        two.cancel()
        self.assertTrue(one.is_scheduled())


class ThresholdTests(util.Traced):
    def setUp(self):
        super().setUp()
        self.calls = []
        self.keep = []

    def task(self, size=BIG, function=None):
        task = Task(function or (lambda: self.calls.append(
            tracemalloc.get_traced_memory()[0])))
        task.set_memory_threshold(size)
        return task

    def called(self, times):
        return util.wait_for(lambda: len(self.calls) >= times)

    def test_increase(self):
        self.task().schedule()
        for _ in range(5):
            self.keep.append(bytearray(BIG // 10))
        self.assertEqual(self.calls, [])
        self.keep.append(bytearray(BIG))
        self.assertTrue(self.called(1))
        self.assertEqual(len(self.calls), 1)

    def test_decrease(self):
        self.keep.append(bytearray(3 * BIG))
        self.task().schedule()
        self.keep.append(bytearray(BIG // 2))
        self.assertEqual(self.calls, [])
        self.keep.clear()
        self.assertTrue(self.called(1))

    def test_measured_from_the_last_call(self):
        self.task().schedule()
        self.keep.append(bytearray(BIG + BIG // 4))
        self.assertTrue(self.called(1))
        # Not yet as far from there as from the start.
        self.keep.append(bytearray(BIG - BIG // 4))
        for _ in range(1000):
            bytearray(500)
        self.assertEqual(len(self.calls), 1)
        self.keep.append(bytearray(BIG // 2))
        self.assertTrue(self.called(2))

    def test_measured_from_scheduling(self):
        self.keep.append(bytearray(5 * BIG))
        self.task().schedule()
        for _ in range(1000):
            bytearray(500)
        self.assertEqual(self.calls, [])

    def test_many_small_blocks(self):
        self.task(size=100_000).schedule(repeat=1)
        for n in range(100_000):
            if self.calls:
                break
            self.keep.append(bytes(100))
        self.assertEqual(len(self.calls), 1)
        self.assertLess(n, 10_000)

    def test_repeat(self):
        # Schedule the task repeat times.
        task = self.task()
        task.schedule(repeat=2)
        for expected in (1, 2):
            self.assertTrue(task.is_scheduled())
            self.keep.append(bytearray(2 * BIG))
            self.assertTrue(self.called(expected))
        self.assertTrue(util.wait_for(lambda: not task.is_scheduled()))
        self.keep.append(bytearray(2 * BIG))
        for _ in range(1000):
            bytearray(500)
        self.assertEqual(len(self.calls), 2)

    def test_no_repeat_means_for_ever(self):
        task = self.task()
        task.schedule()
        for expected in range(1, 6):
            self.keep.append(bytearray(2 * BIG))
            self.assertTrue(self.called(expected))
        self.assertTrue(task.is_scheduled())

    def test_rescheduled_with_new_repeat(self):
        task = self.task()
        task.schedule(repeat=1)
        task.schedule(repeat=3)
        for expected in (1, 2, 3):
            self.keep.append(bytearray(2 * BIG))
            self.assertTrue(self.called(expected))
        self.assertTrue(util.wait_for(lambda: not task.is_scheduled()))

    def test_change_of_threshold_reschedules(self):
        task = self.task(1 << 40)
        task.schedule()
        task.set_memory_threshold(BIG)
        self.keep.append(bytearray(2 * BIG))
        self.assertTrue(self.called(1))

    def test_cancelled_task_is_not_called(self):
        task = self.task()
        task.schedule()
        task.cancel()
        self.keep.append(bytearray(3 * BIG))
        for _ in range(1000):
            bytearray(500)
        self.assertEqual(self.calls, [])

    def test_cancel_itself(self):
        def function():
            self.calls.append(1)
            task.cancel()

        task = self.task(function=function)
        task.schedule()
        self.keep.append(bytearray(2 * BIG))
        self.assertTrue(self.called(1))
        self.assertTrue(util.wait_for(lambda: not task.is_scheduled()))
        self.keep.append(bytearray(2 * BIG))
        for _ in range(1000):
            bytearray(500)
        self.assertEqual(len(self.calls), 1)

    def test_schedule_itself(self):
        def function():
            self.calls.append(1)
            if len(self.calls) < 3:
                task.schedule(repeat=1)

        task = self.task(function=function)
        task.schedule(repeat=1)
        for expected in (1, 2, 3):
            self.keep.append(bytearray(2 * BIG))
            self.assertTrue(self.called(expected))
        self.assertTrue(util.wait_for(lambda: not task.is_scheduled()))

    def test_change_in_its_last_call(self):
        def function():
            task.set_delay(1000)
            self.calls.append(1)

        task = self.task(function=function)
        task.schedule(repeat=1)
        self.keep.append(bytearray(2 * BIG))
        self.assertTrue(self.called(1))
        self.assertTrue(util.wait_for(lambda: not task.is_scheduled()))
        self.assertEqual(task.get_delay(), 1000)

    def test_exception(self):
        # Goes to the hook, and the task is cancelled.
        def function():
            self.calls.append(1)
            raise KeyError("from the task")

        task = self.task(function=function)
        with support.catch_unraisable_exception() as caught:
            task.schedule()
            self.keep.append(bytearray(2 * BIG))
            self.assertTrue(util.wait_for(
                lambda: caught.unraisable is not None))
            self.assertIs(caught.unraisable.exc_type, KeyError)
        self.assertFalse(task.is_scheduled())
        self.keep.append(bytearray(2 * BIG))
        for _ in range(1000):
            bytearray(500)
        self.assertEqual(len(self.calls), 1)

    def test_may_do_anything(self):
        # The call may allocate, lock, do input and output, trace.
        lock = threading.Lock()

        def function():
            with lock:
                data = [bytearray(1000) for _ in range(1000)]
                with open(os.devnull, "wb") as file:
                    file.write(data[0])
                gc.collect()
                snapshot = tracemalloc.Snapshot.create(traces=True)
                self.calls.append(len(snapshot.traces))

        self.task(function=function).schedule()
        self.keep.append(bytearray(2 * BIG))
        self.assertTrue(self.called(1))
        self.assertGreater(self.calls[0], 1000)

    def test_not_called_again_while_it_runs(self):
        depth = []

        def function():
            depth.append(1)
            self.calls.append(len(depth))
            more = [bytearray(2 * BIG) for _ in range(3)]
            for _ in range(1000):
                bytearray(500)
            del more
            depth.pop()

        self.task(function=function).schedule()
        self.keep.append(bytearray(2 * BIG))
        self.assertTrue(self.called(1))
        for _ in range(1000):
            bytearray(500)
        self.assertEqual(set(self.calls), {1})

    def test_what_it_keeps_does_not_call_it_again(self):
        def function():
            self.calls.append(1)
            self.keep.append(bytearray(2 * BIG))

        self.task(function=function).schedule()
        self.keep.append(bytearray(2 * BIG))
        self.assertTrue(self.called(1))
        for _ in range(2000):
            bytearray(500)
        self.assertEqual(len(self.calls), 1)

    def test_many_tasks(self):
        names = []
        for n in range(50):
            self.task(function=lambda n=n: names.append(n)).schedule(repeat=1)
        self.keep.append(bytearray(2 * BIG))
        self.assertTrue(util.wait_for(lambda: len(names) >= 50))
        self.assertEqual(sorted(names), list(range(50)))
        self.assertEqual(tracemalloc.get_tasks(), [])

    def test_one_that_fails_does_not_stop_the_others(self):
        with support.catch_unraisable_exception():
            for n in range(6):
                self.task(function=lambda n=n: self.calls.append(1 / (n % 2))
                          ).schedule(repeat=1)
            self.keep.append(bytearray(2 * BIG))
            self.assertTrue(self.called(3))
            self.assertTrue(util.wait_for(
                lambda: not tracemalloc.get_tasks()))

    def test_disable_from_a_task(self):
        def function():
            tracemalloc.disable()
            self.calls.append(1)

        self.task(function=function).schedule()
        self.task().schedule()
        self.keep.append(bytearray(2 * BIG))
        self.assertTrue(util.wait_for(
            lambda: not tracemalloc.is_enabled()))
        self.assertEqual(tracemalloc.get_tasks(), [])

    def test_in_the_thread_that_allocated(self):
        # ... or any other that reaches a safe point; never twice at a time
        running, overlaps, threads = [], [], set()

        def function():
            running.append(1)
            overlaps.append(len(running) > 1)
            threads.add(threading.get_ident())
            bytearray(500)
            running.pop()
            self.calls.append(1)

        self.task(size=100_000, function=function).schedule()

        def work():
            mine = []
            for n in range(3000):
                mine.append(bytes(500))

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertTrue(self.called(3))
        self.assertFalse(any(overlaps))

    def test_under_gc_pressure(self):
        old = gc.get_threshold()
        gc.set_threshold(1)
        try:
            self.task(size=200_000).schedule()
            for _ in range(20_000):
                cell = [bytearray(100)]
                cell.append(cell)
                self.keep.append(bytes(100))
            self.assertTrue(self.called(2))
        finally:
            gc.set_threshold(*old)


class DelayTests(util.Traced):
    def test_called_after_the_delay(self):
        calls = []
        task = Task(lambda: calls.append(time.monotonic()))
        task.set_delay(1)
        start = time.monotonic()
        task.schedule(repeat=2)
        self.assertTrue(util.wait_for(lambda: len(calls) == 2))
        # At least delay seconds, with a resolution of one second.
        self.assertGreaterEqual(calls[1] - start, 1.0)
        self.assertTrue(util.wait_for(lambda: not task.is_scheduled()))

    def test_an_idle_program_calls_nothing(self):
        code = ("import time, tracemalloc\n"
                "tracemalloc.enable()\n"
                "task = tracemalloc.Task(print, 'called', flush=True)\n"
                "task.set_delay(1)\n"
                "task.schedule(1)\n"
                "time.sleep(2.5)\n"
                "tracemalloc.cancel_tasks()\n")
        done = subprocess.run([sys.executable, "-I", "-c", code],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # Waking up may allocate; before that nothing is called.
        self.assertIn(done.stdout, ("", "called\n"))

    def test_both(self):
        # The threshold is reached long before the delay.
        calls, keep = [], []
        task = Task(calls.append, 1)
        task.set_delay(1000)
        task.set_memory_threshold(BIG)
        task.schedule(repeat=1)
        keep.append(bytearray(2 * BIG))
        self.assertTrue(util.wait_for(lambda: calls))

    def test_change_of_delay_reschedules(self):
        calls = []
        task = Task(calls.append, 1)
        task.set_delay(1000)
        task.schedule()
        task.set_delay(1)
        self.assertTrue(util.wait_for(lambda: calls))


class ExitTests(unittest.TestCase):
    def run_code(self, code):
        done = subprocess.run([sys.executable, "-I", "-c", code],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_interpreter_exit_cancels(self):
        self.assertEqual(self.run_code(
            "import tracemalloc\n"
            "tracemalloc.enable()\n"
            "task = tracemalloc.Task(print, 'called')\n"
            "task.set_memory_threshold(1 << 40)\n"
            "task.set_delay(1000)\n"
            "task.schedule()\n"
            "print('end')\n"), "end\n")

    def test_exit_with_due_tasks(self):
        self.run_code(
            "import tracemalloc\n"
            "tracemalloc.enable()\n"
            "tasks = [tracemalloc.Task(list, range(100)) for _ in range(20)]\n"
            "for task in tasks:\n"
            "    task.set_memory_threshold(1)\n"
            "    task.schedule()\n"
            "keep = [bytearray(9999) for _ in range(99)]\n")


class SubclassTests(util.Traced):
    def test_call_can_be_overridden(self):
        calls, keep = [], []

        class Mine(Task):
            def call(self):
                calls.append(self)
                return super().call()

        task = Mine(int)
        task.set_memory_threshold(BIG)
        task.schedule(repeat=1)
        keep.append(bytearray(2 * BIG))
        self.assertTrue(util.wait_for(lambda: calls))
        self.assertIs(calls[0], task)


if __name__ == "__main__":
    unittest.main()
