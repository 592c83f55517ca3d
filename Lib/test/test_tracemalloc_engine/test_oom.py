"""Every allocation of the engine fails in turn: the program's own work always
succeeds, what is not recorded is counted as lost, the engine stays sound, and
later tracing works."""

import sys
import threading
import unittest

import _tracemalloc as engine
from test import support
from test.support import import_helper

from . import blocks
from .util import (GIL_DISABLED, Untraced, below, child_says, made_in,
                   objects_are_announced, walk)

RAW, MEM, OBJ = blocks.RAW, blocks.MEM, blocks.OBJ


class Work:
    """Makes blocks and remembers what their traces should be."""

    def __init__(self):
        self.made = []
        self.serial = 0

    def note(self):
        block = bytearray(40), walk(sys._getframe())
        self.made.append(block)

    def deep(self, depth):
        below(depth, self.note)

    def new_code(self, count=1, lines=3):
        for _ in range(count):
            self.serial += 1
            source = "def make(note):\n" + "    note()\n" * lines
            made_in(f"<oom {self.serial}>", source)["make"](self.note)


class Failing(Untraced):
    limit = 20
    # How many failures to try: all of the first, which are the interesting
    # ones, and some of the long tail that repeats them.
    first, tail = 40, 25

    def setUp(self):
        super().setUp()
        self.module = blocks.load()

    def begin(self):
        engine.stop()
        engine.start(self.limit)

    def count(self, work):
        """How many allocations of the engine a piece of work needs."""
        self.begin()
        engine._fail_after(0)
        work()
        return engine._fail_after(0)

    def every(self, work, sure_to_lose=True):
        """Do a piece of work while each allocation in turn fails."""
        needed = self.count(work)
        lost = 0
        for sticky in (False, True):
            step = max(1, (needed - self.first) // self.tail)
            for n in (*range(1, min(needed, self.first) + 1),
                      *range(self.first + 1, needed + 1, step)):
                self.begin()
                engine._fail_after(n, sticky)
                try:
                    result = work()
                finally:
                    engine._fail_after(0)
                with self.subTest(n=n, sticky=sticky):
                    lost += engine._lost()
                    self.check_engine()
                    if result is not None:
                        self.check_made(result)
                    self.check_alive()
        if needed and sure_to_lose:
            self.assertGreater(lost, 0)
        return needed

    def check_made(self, made):
        """Each block has its right traceback, or is one of the lost."""
        missing = 0
        for block, frames in made:
            found = engine._get_object_traceback(block)
            if found is None:
                missing += 1
            else:
                limit = engine.get_traceback_limit()
                self.assertEqual(found, frames[:limit])
        self.assertLessEqual(missing, engine._lost())

    def check_alive(self):
        """Tracing works again when there is memory."""
        work = Work()
        work.deep(30)
        work.new_code()
        before = engine._lost()
        for block, frames in work.made:
            found = engine._get_object_traceback(block)
            self.assertEqual(found, frames[:engine.get_traceback_limit()])
        self.assertEqual(engine._lost(), before)


class Allocating(Failing):
    """The program allocates; only traces may be missing."""

    def test_first_allocations(self):
        def work():
            work = Work()
            work.note()
            work.note()
            return work.made

        self.assertGreater(self.every(work), 3)

    def test_new_code_and_new_files(self):
        def work():
            work = Work()
            work.new_code(60, 10)
            return work.made

        self.assertGreater(self.every(work), 60)

    def test_many_contexts(self):
        # One line below many different callers: nodes and their index grow.
        def tree(work, n):
            work.note()
            if n:
                tree(work, n - 1)
                tree(work, n - 1)

        def work():
            work = Work()
            tree(work, 9)
            return work.made

        self.every(work)

    def test_deep_stack(self):
        def work():
            work = Work()
            work.deep(500)
            work.note()
            work.deep(100)
            return work.made

        with support.infinite_recursion(5000):
            self.every(work)

    def test_generators(self):
        def work():
            work = Work()

            def numbers(n):
                for _ in range(n):
                    work.note()
                    yield

            def nested(n):
                yield from numbers(n)
                work.note()

            g, h = numbers(5), nested(3)
            for depth in (0, 9, 3):
                below(depth, lambda: next(g))
                below(depth, lambda: next(h))
            list(h)
            return work.made

        self.every(work)

    def test_blocks_of_all_sizes(self):
        sizes = [n * 37 % 520 for n in range(400)] + [600, 5000, 100_000] * 40

        def work():
            made = []
            for i, size in enumerate(sizes):
                made.append((i % 3, self.module.malloc(i % 3, size)))
            for i, (domain, address) in enumerate(made):
                moved = self.module.realloc(domain, address,
                                            sizes[i - 7] + 10)
                made[i] = domain, moved
            engine._fail_after(0)           # to ask is to need memory
            known = sum(engine.get_trace(a) is not None for _, a in made)
            lost = engine._lost()
            for domain, address in made:
                self.module.free(domain, address)
            self.assertGreaterEqual(known + lost, len(made))

        self.every(work)

    def test_limit_one(self):
        self.limit = 1

        def work():
            work = Work()
            work.deep(80)
            work.new_code(10)
            return work.made

        with support.infinite_recursion(5000):
            self.every(work)

    def test_tracked_domains(self):
        def work():
            answers = []
            for domain in range(1, 20):
                for i in range(9):
                    answers.append(self.module.track(
                        domain, 4096 + 64 * i, 1000, i % 2))
            answers.append(self.module.track(5, 4096, 5 << 30))
            self.assertLessEqual(set(answers), {0, -1})
            # What could not be tracked is reported and counted.
            self.assertGreaterEqual(engine._lost(), answers.count(-1))
            kept = sum(t[0] != 0 for t in engine._get_traces())
            for domain in range(1, 20):
                for i in range(9):
                    self.assertEqual(
                        self.module.untrack(domain, 4096 + 64 * i, i % 2), 0)
            self.assertEqual([t for t in engine._get_traces() if t[0]], [])
            return None

        # The questions inside may fail as well.
        def careful():
            try:
                work()
            except MemoryError:
                pass

        self.every(careful)

    def test_threads(self):
        def work():
            works = [Work() for _ in range(3)]
            threads = [threading.Thread(target=one.deep, args=(20,))
                       for one in works]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            made = [block for one in works for block in one.made]
            self.assertEqual(len(made), 3)
            return made

        self.first = 25
        self.every(work)

    def test_without_the_gil(self):
        def work():
            addresses = self.module.without_gil([100, 5000, 20_000])
            self.module.native_start(2, 50)
            self.assertEqual(self.module.native_join(), 0)
            for address in addresses:
                self.module.free(RAW, address)

        # Track() answers -1 in native threads: that is no error here.
        def careful():
            try:
                work()
            except AssertionError:
                pass

        self.first = 25
        self.every(careful)

    def test_objects_of_many_kinds(self):
        def work():
            kept = []
            for i in range(60):
                kept += [i * 1.5, (i, i), [i], {i: i}, {i}, str(i) * 20,
                         lambda: i, (j for j in kept), object(), 10**i,
                         bytes(i * 20), slice(i), range(i)]
            self.assertEqual(len(kept), 60 * 13)

        self.every(work)

    def test_objects_from_free_lists(self):
        # An object made in a block of before is traced as its own, or lost;
        # never blamed on the code that had the block.
        made_in("<free>", "x = 1.5")        # whatever that needs

        def work():
            first = made_in("<first>", """
                def make(x):
                    return [i * x for i in range(50)]
            """)["make"]
            second = made_in("<second>", """
                def make(x):
                    return [i * x for i in range(50)]
            """)["make"]
            kept = first(1.5)
            del kept
            kept = second(2.5)
            engine._fail_after(0)
            missing = 0
            for number in kept:
                frames = engine._get_object_traceback(number)
                if frames is None:
                    missing += 1
                else:
                    self.assertEqual(frames[0], ("<second>", 3))
            return None

        if not objects_are_announced():
            self.skipTest("the interpreter does not tell of new objects")
        self.every(work)

    def test_code_that_dies(self):
        def work():
            work = Work()
            for _ in range(5):
                work.new_code(10)
                del work.made[::2]
            return work.made

        self.every(work)


class Asking(Failing):
    """Calls of the engine may fail themselves, with a clean error."""

    def every_call(self, call, *errors):
        """Let each allocation fail in a call of the engine; it says so by an
        exception, or does its work."""
        def work():
            try:
                call()
            except errors:
                pass

        return self.every(work, sure_to_lose=False)

    def test_start(self):
        def restart():
            engine.stop()
            try:
                engine.start(7)
            except MemoryError:
                self.assertFalse(engine.is_tracing())
                self.assertEqual(engine.get_traced_memory(), (0, 0))
                engine._fail_after(0)
                engine.start(7)
            bytearray(1)

        self.assertGreater(self.every_call(restart), 2)

    def test_enable(self):
        def restart():
            engine.stop()
            try:
                engine.enable()
            except MemoryError:
                self.assertFalse(engine.is_tracing())
                engine._fail_after(0)
                engine.enable()

        self.every_call(restart)

    def test_clear(self):
        # After a clear that could not even make the first context nothing is
        # recorded, and the program goes on.
        def clear():
            work = Work()
            work.new_code(3)
            engine.clear_traces()
            work.made.clear()
            work.new_code(3)
            work.deep(9)
            self.check_engine()
            made = work.made
            engine._fail_after(0)
            engine.set_traceback_limit(self.limit)
            self.check_made(made)

        self.every_call(clear)

    def test_clear_without_any_memory(self):
        # Every way to allocate, when clearing has left the engine with nothing
        # and does not get anything back.
        self.begin()
        engine._fail_after(1, True)
        try:
            engine.clear_traces()
            kept = [bytearray(n) for n in (1, 100, 500, 600, 5000)]
            below(20, lambda: kept.append(object()))
            kept += self.module.without_gil([100, 5000])
            answers = [self.module.track(5, 4096, 10, nogil)
                       for nogil in (0, 1)]
            made_in("<new>", "x = [1.5 * i for i in range(10)]")
            lost = engine._lost()
        finally:
            engine._fail_after(0)
        for address in kept[-2:]:
            self.module.free(RAW, address)
        self.assertEqual(answers, [-1, -1])
        self.assertGreater(lost, 5)
        self.check_engine()
        engine.set_traceback_limit(self.limit)
        self.check_alive()

    def test_set_traceback_limit(self):
        limits = iter(range(2, 100_000))

        def change():
            limit = next(limits) % 100 + 30
            try:
                engine.set_traceback_limit(limit)
            except RuntimeError:
                self.assertEqual(engine.get_traceback_limit(), self.limit)
            bytearray(1)

        self.every_call(change)

    def test_answers(self):
        kept = [bytearray(n) for n in range(300)]

        def ask():
            block = bytearray(1)
            for question in (engine._get_traces, engine.get_traces,
                             engine.get_stats, engine._freeze,
                             lambda: engine._freeze(False),
                             lambda: engine._get_object_traceback(block),
                             lambda: engine.get_object_trace(block),
                             engine._memory, engine.get_traced_memory):
                try:
                    question()
                except MemoryError:
                    pass

        self.every_call(ask)
        self.assertEqual(len(kept), 300)

    def test_lost_is_told_by_the_frozen_copy(self):
        self.begin()
        self.assertEqual(engine._freeze().lost, 0)
        engine._fail_after(1, True)
        made_in("<lost>", "x = bytearray(1)")
        engine._fail_after(0)
        lost = engine._lost()
        self.assertGreater(lost, 0)
        self.assertGreaterEqual(engine._freeze().lost, lost)
        engine.clear_traces()
        self.assertEqual(engine._lost(), 0)

    def test_stop(self):
        # Nothing is needed to stop.
        self.begin()
        engine._fail_after(1, True)
        bytearray(1)
        engine.stop()
        self.assertEqual(engine.get_traced_memory(), (0, 0))
        engine._fail_after(0)
        self.begin()
        self.check_alive()

    def test_tasks(self):
        class Task:
            def _fire(self):
                return True

        tasks = [Task() for _ in range(20)]

        def schedule():
            for task in tasks:
                try:
                    engine._task_schedule(task, 1000, 0)
                except MemoryError:
                    pass
            engine.cancel_tasks()
            self.assertEqual(engine._task_list(), [])

        self.every_call(schedule)

    def test_filters(self):
        if not hasattr(engine, "_set_filters"):
            self.skipTest("no live filters")
        filters = [(False, f"<dropped {i}>", 0, True, -1) for i in range(10)]

        def change():
            try:
                engine._set_filters(filters)
                bytearray(1)
                made_in("<dropped 3>", "x = bytearray(1)")
                below(50, lambda: bytearray(1))
            except MemoryError:
                pass
            finally:
                engine._set_filters(())

        self.every_call(change)


class OtherPlaces(unittest.TestCase):
    def test_over_other_allocators(self):
        # The same, where every trace is in a table.
        code = """
            import unittest, sys
            from test.test_tracemalloc_engine import test_oom
            suite = unittest.defaultTestLoader.loadTestsFromNames(
                ["Allocating.test_new_code_and_new_files",
                 "Allocating.test_blocks_of_all_sizes",
                 "Allocating.test_objects_of_many_kinds",
                 "Asking.test_clear_without_any_memory"], test_oom)
            result = unittest.TestResult()
            suite.run(result)
            problems = result.errors + result.failures
            for case, text in problems:
                print(case, text, file=sys.stderr)
            assert not problems and result.testsRun == 4
            print("ok")
        """
        blocks.load()
        names = ["debug"] if GIL_DISABLED else ["malloc", "debug"]
        for name in names:
            child_says(self, "ok", code, env={"PYTHONMALLOC": name})

    def test_subinterpreters(self):
        import_helper.import_module("_interpreters")
        child_says(self, "ok", """
            import _interpreters, _tracemalloc as engine
            code = ("import _tracemalloc as engine\\n"
                    "x = [bytearray(i) for i in range(50)]\\n"
                    "engine._check()\\n")
            def run():
                interp = _interpreters.create("isolated")
                try:
                    excinfo = _interpreters.exec(interp, code)
                    assert excinfo is None, excinfo
                finally:
                    _interpreters.destroy(interp)
            run()
            engine.start(5)
            engine._fail_after(0)
            run()
            needed = engine._fail_after(0)
            assert needed > 5, needed
            for sticky in (False, True):
                for n in range(1, needed, max(1, needed // 12)):
                    engine.stop(); engine.start(5)
                    engine._fail_after(n, sticky)
                    run()
                    engine._fail_after(0)
                    assert engine._check() is None, engine._check()
            print("ok")
        """)

    @unittest.skipUnless(support.has_fork_support, "needs fork()")
    def test_fork(self):
        child_says(self, "ok", """
            import _tracemalloc as engine, os
            for policy in ("follow", "disable"):
                engine.start(5)
                engine.set_fork_policy(policy)
                engine._fail_after(1, True)
                pid = os.fork()
                if pid == 0:
                    kept = [bytearray(n) for n in range(1000)]
                    ok = engine.is_tracing() == (policy == "follow")
                    ok = ok and engine._check() is None
                    os._exit(0 if ok else 1)
                engine._fail_after(0)
                assert os.waitpid(pid, 0)[1] == 0
                engine.stop()
            print("ok")
        """, "-W", "ignore::DeprecationWarning")

    def test_from_start_to_end(self):
        # No engine allocation succeeds for the whole life of a program.
        child_says(self, "ok", """
            import _tracemalloc as engine, sys
            engine._fail_after(1, True)
            try:
                engine.start(5)
            except MemoryError:
                pass
            else:
                raise AssertionError
            assert not engine.is_tracing()
            engine._fail_after(0)
            engine.start(5)
            engine._fail_after(1, True)
            import json, re, collections, threading
            json.loads(json.dumps({"a": [1.5] * 100}))
            t = threading.Thread(target=list, args=(range(1000),))
            t.start(); t.join()
            print("ok")
        """)

    @unittest.skipUnless(sys.platform == "linux", "needs /proc")
    @support.skip_if_sanitizer("sanitizers need much address space",
                               address=True, memory=True, thread=True)
    def test_an_address_space_that_is_full(self):
        resource = import_helper.import_module("resource")
        if not hasattr(resource, "RLIMIT_AS"):
            self.skipTest("no limit of the address space")
        child_says(self, "ok", """
            import _tracemalloc as engine, resource
            engine.start(5)
            with open("/proc/self/statm") as f:
                pages = int(f.read().split()[0])
            limit = pages * resource.getpagesize() + 120_000_000
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            for size in (16, 100, 300, 1000, 100_000):
                kept = None
                made = []
                try:
                    # The free-threaded build has reserved more than this.
                    while len(made) < 3_000_000:
                        made.append(bytes(size))
                except MemoryError:
                    pass
                count = len(made)
                lost = engine._lost()
                # All is there, but for what was lost.
                assert engine.get_traced_memory()[0] + lost * (size + 64) > (
                    count * size), (size, count, lost)
                del made
                assert engine._check() is None, engine._check()
            block = bytearray(1)
            assert engine._get_object_traceback(block) is not None
            print("ok")
        """)

    def test_set_nomemory(self):
        # The program's own allocations fail while it is traced.  One call of
        # C code at a time: more than that the interpreter itself may not stand.
        import_helper.import_module("_testcapi")
        child_says(self, "ok", """
            import _testcapi, _tracemalloc as engine
            from functools import partial
            calls = [partial(bytearray, 600), partial(list, range(1000)),
                     partial(dict.fromkeys, range(100)), partial(object),
                     partial(pow, 10, 900), partial(engine.start, 5),
                     engine._get_traces, engine.get_traces, engine.get_stats,
                     engine._freeze, partial(engine.set_traceback_limit, 4),
                     engine.clear_traces, engine.stop]
            def attempt(call, n):
                _testcapi.set_nomemory(n, n + 2)
                try:
                    call()
                except MemoryError:
                    pass
                finally:
                    _testcapi.remove_mem_hooks()
            for n in range(60):
                for call in calls:
                    attempt(call, n)
                    if engine.is_tracing():
                        assert engine._check() is None, engine._check()
            engine.stop()
            engine.start(3)
            block = bytearray(700)
            assert engine._get_object_traceback(block) is not None
            assert engine._check() is None
            print("ok")
        """)


if __name__ == "__main__":
    unittest.main()
