"""Filters, tasks and snapshots under threads, fork, the collector's pressure, and without memory."""

import gc
import io
import os
import threading
import tracemalloc
import unittest

import _tracemalloc
from test import support
from test.support import import_helper, script_helper, threading_helper, warnings_helper
from . import util


class Pressure(util.Traced):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.check_engine)

    def check_engine(self):
        self.assertIsNone(_tracemalloc._check())

    def run_threads(self, *functions):
        """Run functions, each in a thread, to their ends; what one raises fails the test."""
        with threading_helper.catch_threading_exception() as caught:
            threads = [threading.Thread(target=function) for function in functions]
            with threading_helper.start_threads(threads):
                pass
            self.assertIsNone(caught.exc_type, caught.exc_value)

    def in_child(self, function):
        """Whether a function answers with something true in the child of a fork."""
        with warnings_helper.ignore_fork_in_thread_deprecation_warnings() if hasattr(
                warnings_helper, "ignore_fork_in_thread_deprecation_warnings") else warnings_helper.check_warnings(quiet=True):
            pid = os.fork()
        if pid == 0:
            try:
                os._exit(0 if function() else 1)
            finally:
                os._exit(2)
        support.wait_process(pid, exitcode=0)


class FilterTests(Pressure):
    def test_changed_while_threads_allocate(self):
        stop = threading.Event()

        def allocating():
            while not stop.is_set():
                kept = [util.allocate(50) for _ in range(50)]
                util.deep(20, 50)
            del kept

        def changing():
            try:
                for n in range(200):
                    tracemalloc.add_exclude_filter(util.PLACE[0], None, n % 2 == 0)
                    tracemalloc.add_include_filter("*")
                    tracemalloc.clear_filters()
            finally:
                stop.set()
        self.run_threads(allocating, allocating, changing)
        self.assertEqual(tracemalloc.get_filters(), [])
        tracemalloc.clear_traces()
        block = util.allocate()
        self.assertEqual(tracemalloc.get_object_trace(block)[1], (util.PLACE,))

    def test_added_and_cleared_in_many_threads(self):
        def work():
            for n in range(100):
                tracemalloc.add_exclude_filter(f"no-such-file-{n}.py")
                if n % 10 == 9:
                    tracemalloc.clear_filters()
                for filter in tracemalloc.get_filters():
                    filter.match("x", 1)
        self.run_threads(*[work] * 4)
        tracemalloc.clear_filters()
        tracemalloc.add_exclude_filter(util.PLACE[0])
        self.assertIsNone(tracemalloc.get_object_trace(util.allocate()))

    @support.requires_fork()
    def test_in_the_child_of_a_fork(self):
        tracemalloc.add_exclude_filter(util.PLACE[0])

        def holds():
            return (len(tracemalloc.get_filters()) == 1
                    and tracemalloc.get_object_trace(util.allocate()) is None
                    and tracemalloc.get_object_trace([]) is not None)

        def holds_when_enabled_again():
            disabled = not tracemalloc.is_enabled()
            tracemalloc.enable()
            return disabled and holds()
        self.in_child(holds_when_enabled_again)
        tracemalloc.set_fork_policy("follow")
        self.in_child(holds)

        def changes():
            tracemalloc.clear_filters()
            return tracemalloc.get_object_trace(util.allocate()) is not None
        self.in_child(changes)
        self.assertTrue(holds())

    @support.requires_fork()
    def test_fork_while_a_thread_changes_filters(self):
        tracemalloc.set_fork_policy("follow")
        stop = threading.Event()

        def changing():
            while not stop.is_set():
                tracemalloc.add_exclude_filter("no-such-file.py")
                tracemalloc.clear_filters()

        def works():
            tracemalloc.clear_filters()
            tracemalloc.add_exclude_filter(util.PLACE[0])
            return tracemalloc.get_object_trace(util.allocate()) is None

        def forking():
            try:
                for _ in range(20):
                    self.in_child(works)
            finally:
                stop.set()
        self.run_threads(changing, forking)

    def test_collector(self):
        old = gc.get_threshold()
        self.addCleanup(gc.set_threshold, *old)
        gc.set_threshold(1)
        for n in range(100):
            tracemalloc.add_filter(tracemalloc.Filter(False, f"{n}.py", traceback=True))
            cell = [util.allocate(50)]
            cell.append(cell)
        self.assertEqual([f.pattern for f in tracemalloc.get_filters()], [f"{n}.py" for n in range(100)])
        tracemalloc.clear_filters()


class TaskTests(Pressure):
    def grow(self, size=300_000):
        """Hold more memory for a moment, and reach a safe point."""
        for _ in range(2):
            block = bytearray(size)
            del block

    def test_scheduled_and_cancelled_in_many_threads(self):
        calls = []

        def work():
            tasks = [tracemalloc.Task(calls.append, None) for _ in range(10)]
            for task in tasks:
                task.set_memory_threshold(100_000)
            for _ in range(30):
                for task in tasks:
                    task.schedule()
                self.grow()
                for task in tasks:
                    task.cancel()
                    self.assertFalse(task.is_scheduled())
        self.run_threads(*[work] * 4)
        self.assertEqual(tracemalloc.get_tasks(), [])
        self.assertTrue(calls)

    def test_cancel_tasks_beside_other_threads(self):
        def scheduling():
            for _ in range(300):
                task = tracemalloc.Task(len, "")
                task.set_memory_threshold(1 << 40)
                task.schedule()

        def cancelling():
            for _ in range(300):
                tracemalloc.cancel_tasks()
                tracemalloc.get_tasks()
        self.run_threads(scheduling, scheduling, cancelling)
        tracemalloc.cancel_tasks()
        self.assertEqual(tracemalloc.get_tasks(), [])

    def test_disabled_and_enabled_beside_tasks(self):
        def switching():
            for _ in range(100):
                tracemalloc.disable()
                tracemalloc.enable()

        def scheduling():
            for _ in range(300):
                task = tracemalloc.Task(len, "")
                task.set_memory_threshold(1000)
                try:
                    task.schedule()
                except RuntimeError:
                    pass            # just then it was disabled
                self.grow(5000)
        self.run_threads(switching, scheduling, scheduling)

    @support.requires_fork()
    def test_in_the_child_of_a_fork(self):
        calls = []
        task = tracemalloc.Task(calls.append, None)
        task.set_memory_threshold(100_000)
        task.schedule()
        tracemalloc.set_fork_policy("follow")

        def child():
            before = len(calls)
            if task.is_scheduled() or tracemalloc.get_tasks():
                return False
            self.grow()
            if len(calls) != before:
                return False
            task.schedule(1)
            self.grow()
            return util.wait_for(lambda: len(calls) == before + 1) and not task.is_scheduled()
        self.in_child(child)
        self.assertTrue(task.is_scheduled())
        self.grow()
        self.assertTrue(util.wait_for(lambda: calls))

    @support.requires_fork()
    def test_fork_from_a_task(self):
        statuses = []

        def fork():
            pid = os.fork()
            if pid == 0:
                os._exit(0 if tracemalloc.get_tasks() == [] else 1)
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        task = tracemalloc.Task(fork)
        task.set_memory_threshold(100_000)
        task.schedule(1)
        block = bytearray(300_000)
        self.assertTrue(util.wait_for(lambda: statuses))
        self.assertEqual(statuses, [0])
        del block

    @support.requires_fork()
    def test_fork_while_threads_schedule(self):
        tracemalloc.set_fork_policy("follow")
        stop = threading.Event()

        def scheduling():
            while not stop.is_set():
                task = tracemalloc.Task(len, "")
                task.set_memory_threshold(10_000)
                task.schedule()
                self.grow(20_000)
                task.cancel()

        def works():
            task = tracemalloc.Task(len, "")
            task.set_memory_threshold(1 << 40)
            task.schedule()
            return tracemalloc.get_tasks() == [task]

        def forking():
            try:
                for _ in range(20):
                    self.in_child(works)
            finally:
                stop.set()
        self.run_threads(scheduling, forking)

    def test_subinterpreters_with_a_gil_of_their_own(self):
        import_helper.import_module("_interpreters")
        code = """if True:
            import _interpreters, threading, tracemalloc
            tracemalloc.enable()
            mine = tracemalloc.Task(len, "")
            mine.set_memory_threshold(1 << 40)
            mine.schedule()
            def run():
                interp = _interpreters.create("isolated")
                failed = _interpreters.run_string(interp, '''if True:
                    import time, tracemalloc
                    calls = []
                    assert tracemalloc.get_tasks() == [], "tasks of another interpreter"
                    task = tracemalloc.Task(calls.append, None)
                    task.set_memory_threshold(100_000)
                    task.schedule()
                    end = time.monotonic() + 60
                    while not calls and time.monotonic() < end:
                        block = bytearray(1_000_000); del block
                    assert calls and tracemalloc.get_tasks() == [task]
                ''')
                assert failed is None, failed.formatted
                _interpreters.destroy(interp)
            threads = [threading.Thread(target=run) for _ in range(3)]
            for t in threads: t.start()
            for t in threads: t.join()
            assert tracemalloc.get_tasks() == [mine]
            print("done")
        """
        self.assertEqual(script_helper.assert_python_ok("-c", code).out.strip(), b"done")

    def test_collector(self):
        old = gc.get_threshold()
        self.addCleanup(gc.set_threshold, *old)
        gc.set_threshold(1)
        kept = []
        task = tracemalloc.Task(kept.append, None)
        task.set_memory_threshold(50_000)
        task.schedule(3)
        # Those that are in a cycle with what they call go when they are cancelled.
        for _ in range(100):
            other = tracemalloc.Task(len, "")
            other.func_kwargs = {"itself": other}
            other.set_memory_threshold(1 << 40)
            other.schedule()
            other.cancel()
        del other
        self.assertTrue(util.wait_for(lambda: self.grow() or len(kept) == 3))
        gc.collect()
        self.assertFalse([x for x in gc.get_objects() if isinstance(x, tracemalloc.Task) and x is not task])


lists_survive = unittest.skipIf(
    support.Py_GIL_DISABLED,
    "PyList_New() of the free-threaded 3.13.5: a list from the free list that gets no memory "
    "for its items is deallocated with the items that it had before")


class NoMemoryTests(Pressure):
    """Every allocation fails in turn.  A MemoryError may come of it, and nothing else; afterwards all is as it was, or done."""

    limit = 2

    def every_allocation(self, function, least=1):
        """Call a function with the n-th of Python's allocations failing, for all n until it succeeds; the n."""
        testcapi = import_helper.import_module("_testcapi")
        function()                  # imports, caches, specialised code
        for n in range(1, 3000):
            failed = True
            testcapi.set_nomemory(n, n + 1)
            try:
                function()
                failed = False
            except MemoryError:
                pass
            finally:
                testcapi.remove_mem_hooks()
            yield n
            if not failed and n > least:
                return
        self.fail("it never succeeds")

    def test_filters(self):
        before = [tracemalloc.Filter(False, "old.py")]

        def change():
            tracemalloc.add_filter(new)
        new = tracemalloc.Filter(False, "new.py", 7, True)
        for _ in self.every_allocation(change):
            self.assertIn(len(tracemalloc.get_filters()), (0, 1, 2))
            tracemalloc.clear_filters()
            tracemalloc.add_filter(before[0])
        for _ in self.every_allocation(tracemalloc.clear_filters):
            pass
        self.assertEqual(tracemalloc.get_filters(), [])

    def test_tasks(self):
        task = tracemalloc.Task(len, "")
        task.set_memory_threshold(1 << 40)
        for _ in self.every_allocation(task.schedule):
            self.assertEqual(tracemalloc.get_tasks(), [task] if task.is_scheduled() else [])
            task.cancel()
        task.schedule()
        for _ in self.every_allocation(tracemalloc.get_tasks):
            self.assertEqual(tracemalloc.get_tasks(), [task])
        for _ in self.every_allocation(lambda: task.set_delay(5)):
            self.assertTrue(task.is_scheduled())
        for _ in self.every_allocation(tracemalloc.cancel_tasks):
            pass
        self.assertFalse(task.is_scheduled())

    def test_answers(self):
        block = util.deep(3)
        for function in (tracemalloc.get_stats, tracemalloc.get_traces, lambda: tracemalloc.get_object_trace(block),
                         lambda: tracemalloc.get_trace(tracemalloc.get_object_address(block)), tracemalloc.get_traced_memory,
                         tracemalloc.get_tracemalloc_memory, tracemalloc.get_process_memory, tracemalloc.get_unicode_interned,
                         getattr(tracemalloc, "get_pymalloc_stats", int), tracemalloc.get_filters):
            with self.subTest(function=function):
                for n in self.every_allocation(function):
                    if n > 60:
                        break       # get_traces() makes an object for each trace

    @lists_survive
    def test_snapshots(self):
        old = tracemalloc.Snapshot.create(traces=True)
        util.deep(3)
        filters = [tracemalloc.Filter(False, "*nothing*", traceback=True)]

        def work():
            snapshot = tracemalloc.Snapshot.create(traces=True, metrics=False)
            snapshot.apply_filters(filters)
            stats = snapshot.top_by("line", True)
            stats.compare_to(old.top_by("line")).sort()
        for n in self.every_allocation(work):
            if n > 400:
                break
        self.assertTrue(tracemalloc.Snapshot.create(traces=True).traces)

    def test_display(self):
        top = tracemalloc.DisplayTop()
        for n in self.every_allocation(lambda: top.display(3, file=io.StringIO())):
            if n > 200:
                break
        file = io.StringIO()
        top.display(3, file=file)
        self.assertIn("Traced Python memory", file.getvalue())

    @lists_survive
    def test_files(self):
        snapshot, _ = util.two_snapshots()
        from test.support import os_helper
        self.addCleanup(os_helper.unlink, os_helper.TESTFN)
        snapshot.write(os_helper.TESTFN)
        for function in (lambda: snapshot.write(os_helper.TESTFN), lambda: tracemalloc.Snapshot.load(os_helper.TESTFN)):
            for n in self.every_allocation(function):
                if n > 300:
                    break
            loaded = tracemalloc.Snapshot.load(os_helper.TESTFN)
            self.assertEqual(dict(loaded.traces), dict(snapshot.traces))


if __name__ == "__main__":
    unittest.main()
