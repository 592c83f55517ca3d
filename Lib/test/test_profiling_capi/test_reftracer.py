"""Reference tracers: one after another, beside memory tracing, in threads and interpreters."""

import gc
import sys
import threading
import unittest

from test.support import import_helper

from . import _build
from .util import BusyThreads, CapiTestCase, wait_while

ext = None


def setUpModule() -> None:
    global ext
    ext = _build.load("reftracer_ext")


class TracerTestCase(unittest.TestCase):
    def setUp(self) -> None:
        self.addCleanup(ext.remove_tracer)
        ext.tag_removals()


class RemovedTests(TracerTestCase):
    """PyRefTracer_TRACKER_REMOVED, and what PyRefTracer_SetTracer() returns."""

    def test_values_of_the_events(self) -> None:
        self.assertEqual((ext.CREATE, ext.DESTROY, ext.TRACKER_REMOVED), (0, 1, 2))

    def test_replaced(self) -> None:
        ext.tag_on(0)
        ext.tag_on(1)
        self.assertEqual(ext.tag_current(), 1)
        # told with no object, its own data, and while it was still the current one
        self.assertEqual(ext.tag_removals(), [(0, True, 0, 0)])
        ext.tag_off()
        self.assertEqual(ext.tag_removals(), [(1, True, 1, 0)])

    def test_first_and_none(self) -> None:
        self.assertEqual(ext.tag_current(), -1)     # none, and no data
        ext.tag_on(0)
        self.assertEqual(ext.tag_removals(), [])
        ext.tag_off()
        self.assertEqual(ext.tag_removals(), [(0, True, 0, 0)])
        ext.tag_off()
        self.assertEqual(ext.tag_removals(), [])
        self.assertEqual(ext.tag_current(), -1)

    def test_no_data_without_a_tracer(self) -> None:
        ext.remove_tracer()                         # passes a data pointer with NULL
        self.assertEqual(ext.tag_current(), -1)

    def test_by_itself(self) -> None:
        ext.tag_on(0)
        ext.tag_on(0)
        self.assertEqual(ext.tag_removals(), [(0, True, 0, 0)])
        self.assertEqual(ext.tag_current(), 0)

    def test_nothing_is_heard_afterwards(self) -> None:
        ext.tag_on(0, ext.MAKES_OBJECTS)
        [[] for _ in range(10)]
        ext.tag_off()
        [[] for _ in range(10)]
        made, gone, after = ext.tag_events(0)
        self.assertGreaterEqual(made, 10)
        self.assertEqual(after, 0)

    def test_exception_keeps_the_tracer(self) -> None:
        self.addCleanup(ext.tag_on, 0)              # told to behave, so that it can be removed
        ext.tag_on(0, ext.RAISES)
        with self.assertRaisesRegex(LookupError, "I stay"):
            ext.tag_off()
        self.assertEqual(ext.tag_current(), 0)
        with self.assertRaisesRegex(LookupError, "I stay"):
            ext.tag_on(1)
        self.assertEqual(ext.tag_current(), 0)
        before = ext.tag_events(0)[0]
        [[] for _ in range(10)]
        self.assertGreaterEqual(ext.tag_events(0)[0], before + 10)

    def test_result_of_the_tracer_is_not_an_error(self) -> None:
        ext.tag_on(0, ext.RETURNS_ERROR)
        ext.tag_off()
        self.assertEqual(ext.tag_current(), -1)

    def test_pending_exception_survives(self) -> None:
        ext.tag_on(0)
        ext.tag_off_with_error()
        self.assertEqual(ext.tag_current(), -1)

    def test_cannot_set_another_while_it_is_removed(self) -> None:
        ext.tag_on(0, ext.SETS_TRACER)
        ext.tag_on(1)
        self.assertEqual(ext.tag_current(), 1)
        self.assertEqual(ext.tag_removals(), [(0, True, 0, -1)])

    def test_replaces_itself_from_inside_a_call(self) -> None:
        ext.tag_on(0, ext.QUIET, 50, 1)
        [[] for _ in range(100)]
        self.assertEqual(ext.tag_current(), 1)
        ext.tag_off()
        self.assertEqual(ext.tag_removals(), [(0, True, 0, 0), (1, True, 1, 0)])
        self.assertEqual(ext.tag_events(0)[0], 50)
        self.assertGreaterEqual(ext.tag_events(1)[0], 49)

    def test_removes_itself_from_inside_a_call(self) -> None:
        ext.tag_on(0, ext.QUIET, 50, -1)
        [[] for _ in range(100)]
        self.assertEqual(ext.tag_current(), -1)
        made, gone, after = ext.tag_events(0)
        self.assertEqual((made, after), (50, 0))

    def test_removes_itself_at_every_kind_of_place(self) -> None:
        """Wherever an object is made, a tracer can go: in imports, in C code that holds locks, while the world is stopped."""
        for nth in range(1, 400, 3):
            ext.tag_on(0, ext.QUIET, nth, -1)
            sys._current_frames()
            sys.intern(f"self-removal {nth}")
            type(f"T{nth}", (), {"x": 1}).x
            gc.get_objects()
            ext.tag_off()
        self.assertEqual(ext.tag_current(), -1)


class TogetherTests(CapiTestCase):
    """A user's tracer and memory tracing do not notice each other, in whatever order they come and go."""

    extensions = ("reftracer_ext",)

    def test_every_order(self) -> None:
        self.run_code("""
            import itertools, tracemalloc, reftracer_ext as ext
            def live():
                return [bytearray(100) for _ in range(50)]
            ON, OFF, START, STOP = "tracer on", "tracer off", "tracing on", "tracing off"
            for order in itertools.permutations((ON, OFF, START, STOP)):
                if order.index(ON) > order.index(OFF) or order.index(START) > order.index(STOP):
                    continue
                tracer = tracing = False
                for step in order:
                    if step == ON: ext.counter_on(bytearray); tracer = True
                    elif step == OFF: made, gone, removed = ext.counter_off(); tracer = False; assert removed == 1
                    elif step == START: tracemalloc.start(3); tracing = True
                    else: tracemalloc.stop(); tracing = False
                    assert (ext.tag_current() == -3) == tracer, (order, step)
                    assert tracemalloc.is_tracing() == tracing, (order, step)
                    before = tracemalloc.get_traced_memory()[0]
                    things = live()
                    size = tracemalloc.get_traced_memory()[0] - before
                    assert (size > 5000) == tracing, (order, step, size)
                    assert (tracemalloc.get_object_traceback(things[7]) is not None) == tracing, (order, step)
                    del things
                assert made == gone and made % 50 == 0 and made, (order, made, gone)
            print("done")
        """, wanted="done")

    def test_second_start_steals_nothing(self) -> None:
        self.run_code("""
            import tracemalloc, reftracer_ext as ext
            ext.tag_on(2)
            for _ in range(3):
                tracemalloc.start(); tracemalloc.start(5); tracemalloc.clear_traces(); tracemalloc.stop(); tracemalloc.stop()
            assert ext.tag_current() == 2 and ext.tag_removals() == []
            ext.tag_off()
            print("done")
        """, wanted="done")

    def test_objects_of_free_lists_are_traced_anew(self) -> None:
        """The trace of a block that a free list hands out again belongs to the line that asks for it, tracer or not."""
        self.run_code("""
            import tracemalloc, reftracer_ext as ext
            def first(): return [[] for _ in range(300)]    # more than were free when tracing began
            def second(): return [[] for _ in range(10)]
            tracemalloc.start(5)
            for tracer in False, True:
                if tracer: ext.nothing_on()
                first()
                names = {tracemalloc.get_object_traceback(x)[-1].lineno for x in second()}
                assert names == {second.__code__.co_firstlineno}, names
            ext.remove_tracer()
            print("done")
        """, wanted="done")

    def test_same_traces_with_and_without(self) -> None:
        self.run_code("""
            import sys, tracemalloc, reftracer_ext as ext
            def work():
                return [[i, str(i), {i: float(i)}] for i in range(500)]
            def traces(tracer):
                if tracer: ext.nothing_on()
                tracemalloc.start(4)
                keep = work()
                snapshot = tracemalloc.take_snapshot()
                tracemalloc.stop()
                if tracer: ext.remove_tracer()
                return sorted((t.size, str(t.traceback)) for t in snapshot.traces)
            work(); traces(False)
            a, b = traces(False), traces(True)
            a, b = ([t for t in x if t[0] > 0] for x in (a, b))
            common = sum(size for size, _ in a), sum(size for size, _ in b)
            assert abs(common[0] - common[1]) < 2000, common
            print("done")
        """, wanted="done")


class ThreadTests(TracerTestCase):
    """Tracers and threads."""

    class Thing:
        pass

    def work(self) -> None:
        [[i, str(i), (i,), self.Thing()] for i in range(50)]

    def test_objects_of_all_threads(self) -> None:
        ext.counter_on(self.Thing)
        with BusyThreads(self.work, 4):
            pass
        made, gone, removed = ext.counter_off()
        self.assertGreaterEqual(made, 4 * 50)
        self.assertEqual(made, gone)

    def test_set_while_others_run(self) -> None:
        with BusyThreads(self.work):
            for i in range(300):
                ext.tag_on(i % 2)
            ext.tag_off()
            removals = ext.tag_removals()
        self.assertTrue(all(null for tag, null, current, result in removals), removals)
        self.assertTrue(all(tag == current for tag, null, current, result in removals), removals)

    def test_set_from_c_while_python_code_runs(self) -> None:
        ext.tag_on(0)
        ext.tag_on(1)
        for _ in range(2):
            ext.toggle_start(300)
        def running():
            self.work()
            return ext.toggle_running()
        wait_while(running)
        ext.tag_off()

    def test_set_in_many_threads(self) -> None:
        def work():
            for i in range(30):
                ext.tag_on(i % 2)
                self.work()
                ext.tag_off()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(ext.tag_current(), -1)


class DestructionTests(CapiTestCase):
    """Other threads run while a tracer is told of a destruction."""

    extensions = ("tracerwait_ext",)

    def test_collection_meanwhile(self) -> None:
        """A collection by another thread does not find the object that has no references left, and so does not destroy it, too."""
        self.run_code("""
            import collections, gc, sys, threading, tracerwait_ext as ext
            deaths = 0
            class Thing:
                def __del__(self):
                    global deaths
                    deaths += 1
            class Holder:
                def __init__(self): self.thing = Thing()
                def __del__(self): pass
            def generator():
                thing = Thing()
                try: yield
                finally: del thing
            def started():
                it = generator(); next(it)
                return it
            def function():
                thing = Thing()
                return lambda: thing
            makers = (Thing, Holder, started, function, lambda: [Thing()], lambda: (Thing(),), lambda: {"a": Thing()},
                      lambda: {Thing()}, lambda: collections.deque([Thing()]), lambda: Thing().__init__)
            def other():
                ext.await_destruction()
                for _ in range(2):
                    gc.collect()
                gc.get_objects(), gc.freeze(), gc.unfreeze()
                ext.go_on()
            for way in ext.DETACHES, ext.SETS_TRACER:
                for number, make in enumerate(makers):
                    deaths = 0
                    victim = make()
                    thread = threading.Thread(target=other)
                    thread.start()
                    ext.watch(victim, way)
                    del victim
                    thread.join()
                    assert ext.done(), (way, number)
                    gc.collect()
                    assert deaths == 1, (way, number, deaths)
            print("done")
        """, wanted="done")

    def test_not_tracked_meanwhile(self) -> None:
        """What is being destroyed cannot be found by means of the collector, what it refers to can."""
        self.run_code("""
            import gc, threading, tracerwait_ext as ext
            class Outer: pass
            class Inner: pass
            found = []
            def other():
                ext.await_destruction()
                found.append([sum(type(op) is kind for op in gc.get_objects()) for kind in (Outer, Inner)])
                ext.go_on()
            victim = Outer()
            victim.inner = Inner()
            thread = threading.Thread(target=other)
            thread.start()
            ext.watch(victim, ext.DETACHES)
            del victim
            thread.join()
            assert ext.done() and found == [[0, 1]], found
            print("done")
        """, wanted="done")


class InterpreterTests(CapiTestCase):
    """Subinterpreters, processes and shortage of memory."""

    extensions = ("reftracer_ext",)

    def test_subinterpreters(self) -> None:
        import_helper.import_module("_interpreters")
        self.run_code("""
            import _interpreters, reftracer_ext as ext
            for config in "legacy", "isolated":
                ext.ledger_on()
                interp = _interpreters.create(config)
                _interpreters.run_string(interp, "x = [[i] for i in range(1000)]; import json; json.dumps(x)")
                _interpreters.destroy(interp)
                book = ext.ledger_off()
                assert book["made"] > 1000 and book["twice_made"] == book["null_events"] == 0, book
            print("done")
        """, wanted="done")

    def test_subinterpreters_in_parallel(self) -> None:
        """One tracer for the process, called in all interpreters, also in such that have a GIL of their own."""
        import_helper.import_module("_interpreters")
        self.run_code("""
            import _interpreters, threading, reftracer_ext as ext
            def run():
                interp = _interpreters.create("isolated")
                for _ in range(5):
                    _interpreters.run_string(interp, "x = [[i] for i in range(2000)]; del x")
                _interpreters.destroy(interp)
            threads = [threading.Thread(target=run) for _ in range(3)]
            for t in threads: t.start()
            rounds = 0
            while any(t.is_alive() for t in threads):
                ext.tag_on(0); ext.tag_on(1); ext.tag_off(); ext.tag_removals()
                rounds += 1
            for t in threads: t.join()
            assert rounds and ext.tag_current() == -1
            print("done")
        """, wanted="done")

    def test_set_in_a_subinterpreter(self) -> None:
        import_helper.import_module("_interpreters")
        self.run_code("""
            import _interpreters, reftracer_ext as ext
            interp = _interpreters.create("isolated")
            _interpreters.run_string(interp, "import reftracer_ext; reftracer_ext.tag_on(3)")
            assert ext.tag_current() == 3
            _interpreters.destroy(interp)
            x = [[] for _ in range(100)]
            assert ext.tag_events(3)[0] >= 100
            ext.tag_off()
            print("done")
        """, wanted="done")

    def test_ends_with_tracer_and_functions(self) -> None:
        """Interpreters end while they, and others, set tracers and functions; functions that are left set go with them, a tracer stays."""
        import_helper.import_module("_interpreters")
        code = """
            import _interpreters, sys, threading, reftracer_ext as ext
            code = '''if True:
                import sys, threading, reftracer_ext as ext
                def nothing(*unused): pass
                def work():
                    for i in range(10):
                        ext.tag_on(i % 3)
                        sys.setprofile(nothing); sys.settrace(nothing); [[j] for j in range(20)]
                        threading.setprofile_all_threads(nothing); threading.settrace_all_threads(None)
                        ext.tag_off()
                        sys.setprofile(None)
                thread = threading.Thread(target=work)
                thread.start(); work(); thread.join()
                threading.setprofile_all_threads(nothing); sys.settrace(nothing); ext.tag_on(4)
            '''
            failed = []
            def run():
                for _ in range(3):
                    interp = _interpreters.create(sys.argv[1])
                    failed.append(_interpreters.run_string(interp, code))
                    _interpreters.destroy(interp)
            threads = [threading.Thread(target=run) for _ in range(3)]
            for thread in threads: thread.start()
            while any(thread.is_alive() for thread in threads):
                ext.tag_on(5); ext.tag_off(); ext.tag_removals()
            for thread in threads: thread.join()
            assert failed == [None] * 9, failed
            ext.tag_on(6)
            seen = [[] for _ in range(100)]
            assert ext.tag_current() == 6 and ext.tag_events(6)[0] >= 100
            ext.tag_off()
            print("done")
        """
        for config in "legacy", "isolated":
            with self.subTest(config):
                self.run_code(code, config, wanted="done")

    def test_fork(self) -> None:
        self.run_code("""
            import os, reftracer_ext as ext
            if not hasattr(os, "fork"):
                print("no fork"); os._exit(77)
            ext.tag_on(1)
            pid = os.fork()
            if pid == 0:
                before = ext.tag_events(1)[0]
                x = [[] for _ in range(100)]
                ok = ext.tag_current() == 1 and ext.tag_events(1)[0] >= before + 100
                ext.tag_on(2); ext.tag_off()
                os._exit(0 if ok and len(ext.tag_removals()) == 2 else 3)
            _, status = os.waitpid(pid, 0)
            assert status == 0, status
            assert ext.tag_current() == 1
            print("done")
        """, wanted="done")

    def test_fork_while_other_threads_set_tracers(self) -> None:
        self.run_code("""
            import os, sys, reftracer_ext as ext
            if not hasattr(os, "fork"):
                print("no fork"); os._exit(77)
            for _ in range(20):
                ext.toggle_start(200)
                pid = os.fork()
                if pid == 0:
                    ext.tag_on(5); x = [[] for _ in range(10)]; ext.tag_off()
                    os._exit(0 if ext.tag_current() == -1 else 3)
                _, status = os.waitpid(pid, 0)
                assert status == 0, status
                while ext.toggle_running(): pass
            print("done")
        """, wanted="done", options=("-W", "ignore"))

    def test_out_of_memory(self) -> None:
        """A tracer and every allocation failing in turn: no crash, and the books are right."""
        import_helper.import_module("_testcapi")
        code = """
            import _testcapi, gc, sys, reftracer_ext as ext
            if sys.argv[1] == "traced":
                import tracemalloc; tracemalloc.start(3)
            class C:
                pass
            # 3.13.5 crashes when there is no memory for the frame of a caller: all is done in this one.  Its free-threaded build does
            # when there is none for the items of a list that is made with a size: lists begin empty.
            frame = sys._getframe()
            for start in range(0, 150):
                gc.collect(); gc.disable()
                ext.ledger_on()
                if start:               # the first time without, to prepare and to specialise
                    _testcapi.set_nomemory(start, start + 1)
                try:
                    c = C(); c.x = [*(1.5 * len("ab"), {"k": (1, len("a"))}, "a" * len("abc") + "b")]
                    s = ""
                    for i in range(3): s += "longer and longer" * 10
                    t = tuple(map(str, range(30))); b = b"".join([*(b"xyz",)] * 20); d = dict(zip(t, t)); e = {*t}
                    f = [float(x) for x in t]; g = "".join(t).encode().decode() + s; del c, t, b, d, e, f, g
                except MemoryError:
                    pass
                finally:
                    _testcapi.remove_mem_hooks()
                book = ext.ledger_off()
                assert book["twice_made"] == book["twice_gone"] == 0, (start, book)
            print("done")
        """
        for how in "plain", "traced":
            with self.subTest(how):
                self.run_code(code, how, wanted="done")


if __name__ == "__main__":
    unittest.main()
