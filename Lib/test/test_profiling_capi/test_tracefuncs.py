"""Profile and trace functions set from C: the eight events with their arguments, and the forms for all threads."""

import gc
import sys
import threading
import types
import unittest

from test.support import import_helper

from . import _build
from .util import BusyThreads, CapiTestCase, wait_while

ext = None
#: The argument of a RETURN event that an exception caused: NULL.
NULL = ...


def setUpModule() -> None:
    global ext
    ext = _build.load("tracefunc_ext")


def line_of(function, offset: int = 0) -> int:
    return function.__code__.co_firstlineno + offset


class TraceTestCase(unittest.TestCase):
    """Records what a function that is called without arguments does."""

    def setUp(self) -> None:
        previous = sys.gettrace(), sys.getprofile()       # of a coverage tool, say
        self.addCleanup(sys.settrace, previous[0])
        self.addCleanup(sys.setprofile, previous[1])
        ext.take_counts()

    def record(self, kind: str, function) -> list[tuple]:
        """The events of the function and what it calls, without those of the call that removes the recorder."""
        events: list[tuple] = []
        try:
            ext.set(kind, events)
            function()
        except Exception:
            pass
        finally:
            ext.set(kind)
        own = "record"
        return [event for event in events if event[1] != own]

    def arguments(self, kind: str, function, what: int) -> list:
        return [event[3] for event in self.record(kind, function) if event[0] == what]


class EventTests(TraceTestCase):
    """Each event comes when it should and with the argument it should have."""

    def test_values(self) -> None:
        self.assertEqual((ext.CALL, ext.EXCEPTION, ext.LINE, ext.RETURN, ext.C_CALL, ext.C_EXCEPTION, ext.C_RETURN, ext.OPCODE),
                         tuple(range(8)))

    def test_call_and_return(self) -> None:
        def inner():
            return "value"
        def outer():
            inner()
        for kind in "profile", "trace":
            with self.subTest(kind=kind):
                events = [e for e in self.record(kind, outer) if e[0] in (ext.CALL, ext.RETURN)]
                self.assertEqual(events, [
                    (ext.CALL, "outer", line_of(outer), None), (ext.CALL, "inner", line_of(inner), None),
                    (ext.RETURN, "inner", line_of(inner, 1), "value"), (ext.RETURN, "outer", line_of(outer, 1), None)])

    def test_return_by_exception(self) -> None:
        def inner():
            raise ValueError
        def outer():
            try:
                inner()
            except ValueError:
                return "caught"
        for kind in "profile", "trace":
            with self.subTest(kind=kind):
                self.assertEqual(self.arguments(kind, outer, ext.RETURN), [NULL, "caught"])

    def test_generators(self) -> None:
        """A call is reported at each entry, none when the iterator is created; a yield is a return."""
        def generator():
            yield "one"
            yield "two"
        def create():
            return generator()
        def run():
            for _ in generator():
                pass
        for kind in "profile", "trace":
            with self.subTest(kind=kind):
                names = [e[1] for e in self.record(kind, create) if e[0] == ext.CALL]
                self.assertEqual(names, ["create"])
                events = [e[0::3] for e in self.record(kind, run) if e[1] == "generator" and e[0] in (ext.CALL, ext.RETURN)]
                self.assertEqual(events, [(ext.CALL, None), (ext.RETURN, "one"), (ext.CALL, None), (ext.RETURN, "two"),
                                          (ext.CALL, None), (ext.RETURN, None)])

    def test_thrown_into_generator(self) -> None:
        def generator():
            try:
                yield 1
            except KeyError:
                yield 2
        def run():
            g = generator()
            next(g)
            g.throw(KeyError)
            g.close()
        for kind in "profile", "trace":
            with self.subTest(kind=kind):
                events = [e[0::3] for e in self.record(kind, run) if e[1] == "generator" and e[0] in (ext.CALL, ext.RETURN)]
                self.assertEqual(events, [(ext.CALL, None), (ext.RETURN, 1), (ext.CALL, None), (ext.RETURN, 2),
                                          (ext.CALL, None), (ext.RETURN, NULL)])

    def test_coroutines(self) -> None:
        @types.coroutine
        def pause():
            yield "paused"
        async def work():
            await pause()
            return "done"
        def run():
            c = work()
            c.send(None)
            with self.assertRaises(StopIteration):
                c.send(None)
        events = [e[0::3] for e in self.record("profile", run) if e[1] == "work" and e[0] in (ext.CALL, ext.RETURN)]
        self.assertEqual(events, [(ext.CALL, None), (ext.RETURN, "paused"), (ext.CALL, None), (ext.RETURN, "done")])

    def test_exception(self) -> None:
        """With what sys.exc_info() gives, once in each frame that the exception passes."""
        def inner():
            raise ValueError("x")
        def outer():
            inner()
        events = [e for e in self.record("trace", outer) if e[0] == ext.EXCEPTION]
        self.assertEqual([e[1] for e in events], ["inner", "outer"])
        for name, (kind, value, traceback) in ((e[1], e[3]) for e in events):
            self.assertIs(kind, ValueError)
            self.assertEqual(value.args, ("x",))
            self.assertIsInstance(traceback, types.TracebackType)
        self.assertIs(events[0][3][1], events[1][3][1])

    def test_exception_of_a_c_function(self) -> None:
        def run():
            try:
                int("x")
            except ValueError:
                pass
        kinds = [argument[0] for argument in self.arguments("trace", run, ext.EXCEPTION)]
        self.assertEqual(kinds, [ValueError])

    def test_lines(self) -> None:
        def run():
            a = 1
            for i in range(2):
                a += i
            return a
        first = line_of(run)
        lines = [e[2] - first for e in self.record("trace", run) if e[0] == ext.LINE and e[1] == "run"]
        self.assertEqual(lines, [1, 2, 3, 2, 3, 2, 4])
        self.assertEqual(set(self.arguments("trace", run, ext.LINE)), {None})

    def test_lines_switched_off(self) -> None:
        def run():
            sys._getframe().f_trace_lines = False
            a = 1
            a = 2
            return a
        lines = [e[2] - line_of(run) for e in self.record("trace", run) if e[0] == ext.LINE and e[1] == "run"]
        self.assertEqual(lines, [1])
        def again():
            sys._getframe().f_trace_lines = False
            a = 1
            sys._getframe().f_trace_lines = True
            return a
        lines = [e[2] - line_of(again) for e in self.record("trace", again) if e[0] == ext.LINE and e[1] == "again"]
        self.assertEqual(lines, [1, 4])

    def test_opcodes(self) -> None:
        def without():
            a = 1
            return a
        def with_opcodes():
            sys._getframe().f_trace_opcodes = True
            a = 1
            return a
        def switched_off():
            sys._getframe().f_trace_opcodes = True
            a = 1
            sys._getframe().f_trace_opcodes = False
            a = 2
            a = 3
            return a
        self.assertEqual(self.arguments("trace", without, ext.OPCODE), [])
        found = self.arguments("trace", with_opcodes, ext.OPCODE)
        self.assertGreaterEqual(len(found), 4)
        self.assertEqual(set(found), {None})
        lines = [e[2] - line_of(switched_off) for e in self.record("trace", switched_off) if e[0] == ext.OPCODE]
        self.assertIn(2, lines)
        self.assertNotIn(5, lines)

    def test_opcodes_in_recursion(self) -> None:
        """A frame that asks for them gets them, whatever other frames of the same function do."""
        def run(depth):
            if depth == 0:
                sys._getframe().f_trace_opcodes = True
                run(1)
                a = 1
                return a
            b = 2
            return b
        lines = {e[2] - line_of(run) for e in self.record("trace", lambda: run(0)) if e[0] == ext.OPCODE}
        self.assertEqual(lines & {4, 5, 6, 7}, {4, 5})

    def test_opcodes_beside_other_threads(self) -> None:
        """A thread without a trace function that runs the same code does not switch them off."""
        def run(ask):
            if ask:
                sys._getframe().f_trace_opcodes = True
            a = 0
            for i in range(5):
                a += i
                if ask and i == 2:
                    thread = threading.Thread(target=run, args=(False,))
                    thread.start()
                    thread.join()
            return a
        events = self.record("trace", lambda: run(True))
        additions = [e for e in events if e[0] == ext.OPCODE and e[2] == line_of(run, 5)]
        self.assertEqual(len(additions) % 5, 0, "as many in each round")
        self.assertGreater(len(additions), 5)

    def test_opcodes_asked_for_before_the_function_is_set(self) -> None:
        def run():
            sys._getframe().f_trace_opcodes = True
            events = []
            ext.set("trace", events)
            a = 1
            ext.set("trace")
            return [e for e in events if e[0] == ext.OPCODE and e[1] == "run"]
        self.assertGreater(len(run()), 2)

    def test_c_functions(self) -> None:
        """A profile function sees C functions called, returning and raising, and is given the function."""
        items = [3, 1]
        def run():
            len(items)
            items.sort()
            "a".upper()
            max(1, 2, key=abs)
            dict.fromkeys("ab")
            try:
                ord("too long")
            except TypeError:
                pass
            try:
                items.index("missing")
            except ValueError:
                pass
        events = [e for e in self.record("profile", run) if e[0] in (ext.C_CALL, ext.C_RETURN, ext.C_EXCEPTION) and e[1] == "run"]
        names = [(e[0], e[3].__name__) for e in events]
        self.assertEqual(names, [
            (kind, name)
            for name, last in (("len", ext.C_RETURN), ("sort", ext.C_RETURN), ("upper", ext.C_RETURN), ("max", ext.C_RETURN),
                               ("fromkeys", ext.C_RETURN), ("ord", ext.C_EXCEPTION), ("index", ext.C_EXCEPTION))
            for kind in (ext.C_CALL, last)])
        self.assertTrue(all(isinstance(e[3], types.BuiltinFunctionType) for e in events))
        self.assertIs(events[0][3], len)
        self.assertIs(events[2][3].__self__, items)

    def test_every_c_call_ends(self) -> None:
        """Whatever way a C function is called, its call is followed by its return or its exception."""
        arguments, keywords = (1, 2), {"key": abs}
        class Callable:
            method = types.MethodType(len, "abc")
        def run():
            max(*arguments); max(*arguments, **keywords); max(*arguments, key=abs)
            Callable.method(); Callable().method()
            list(map(len, ["a"])); sorted([2, 1], key=abs); "".join(str(i) for i in range(3))
            getattr(object(), "missing", None); hasattr(1, "real"); isinstance(1, int); int
            try:
                max(*())
            except TypeError:
                pass
            try:
                "".join([1])
            except TypeError:
                pass
            try:
                getattr(1, **{})
            except TypeError:
                pass
        open_calls: list = []
        for event in self.record("profile", run):
            if event[0] == ext.C_CALL:
                open_calls.append(event[3])
            elif event[0] in (ext.C_RETURN, ext.C_EXCEPTION):
                self.assertEqual(open_calls.pop(), event[3])
        self.assertEqual(open_calls, [])

    def test_which_function_gets_which_events(self) -> None:
        def inner():
            sys._getframe().f_trace_opcodes = True
            raise KeyError
        def run():
            len("abc")
            try:
                inner()
            except KeyError:
                pass
            try:
                ord("ab")
            except TypeError:
                pass
        profile = {event[0] for event in self.record("profile", run)}
        trace = {event[0] for event in self.record("trace", run)}
        self.assertEqual(profile, {ext.CALL, ext.RETURN, ext.C_CALL, ext.C_RETURN, ext.C_EXCEPTION})
        self.assertEqual(trace, {ext.CALL, ext.RETURN, ext.LINE, ext.EXCEPTION, ext.OPCODE})

    def test_without_an_object(self) -> None:
        def inner():
            return len("abc")
        for kind in "profile", "trace":
            with self.subTest(kind=kind):
                ext.set(kind, None)
                inner()
                ext.set(kind)
                *counts, bad = ext.take_counts()
                self.assertGreaterEqual(counts[ext.CALL], 1)
                self.assertGreaterEqual(counts[ext.RETURN], 1)
                self.assertEqual(bad, 0)
                inner()
                self.assertEqual(sum(ext.take_counts()), 0)

    def test_both_at_once(self) -> None:
        def run():
            return len("abc")
        profiled, traced = [], []
        ext.set("profile", profiled)
        ext.set("trace", traced)
        run()
        ext.set("trace")
        ext.set("profile")
        self.assertIn((ext.C_CALL, "run", line_of(run, 1), len), profiled)
        self.assertIn((ext.LINE, "run", line_of(run, 1), None), traced)
        self.assertNotIn(ext.LINE, {e[0] for e in profiled})
        self.assertNotIn(ext.C_CALL, {e[0] for e in traced})

    def test_error_of_the_function(self) -> None:
        """What the function raises comes out of the code at that place."""
        def run():
            len("abc")
            return 1
        for kind, event in (("profile", ext.CALL), ("profile", ext.C_CALL), ("profile", ext.C_RETURN), ("profile", ext.RETURN),
                            ("trace", ext.CALL), ("trace", ext.LINE), ("trace", ext.RETURN)):
            with self.subTest(kind=kind, event=event):
                def attempt():
                    ext.set_failing(kind, event)
                    try:
                        run()
                    finally:
                        ext.set(kind)
                with self.assertRaisesRegex(LookupError, "trace function"):
                    attempt()


class AllThreadsTests(TraceTestCase):
    """The forms for all threads that are running."""

    @staticmethod
    def work() -> None:
        def inner():
            return len("abc")
        for _ in range(10):
            inner()

    def tearDown(self) -> None:
        ext.set("profile_all")
        ext.set("trace_all")

    def test_other_threads_are_seen(self) -> None:
        for kind, event in (("profile", ext.C_CALL), ("trace", ext.LINE)):
            with self.subTest(kind=kind), BusyThreads(self.work):
                seen: list = []
                ext.set(kind + "_all", seen)
                wait_while(lambda: len([e for e in list(seen) if e[0] == event and e[1] == "inner"]) < 20)
                ext.set(kind + "_all")

    def test_silence_after_removal(self) -> None:
        for kind in "profile", "trace":
            with self.subTest(kind=kind), BusyThreads(self.work):
                ext.set(kind + "_all", None)
                wait_while(lambda: not ext.take_counts()[ext.CALL])
                ext.set(kind + "_all")
                # A call that was under way may still be reported.
                wait_while(lambda: sum(ext.take_counts()))
                for _ in range(50):
                    self.work()
                self.assertEqual(sum(ext.take_counts()), 0)

    def test_one_thread_only(self) -> None:
        """The forms without AllThreads leave other threads alone."""
        for kind in "profile", "trace":
            seen: list = []
            ready, go, done = threading.Event(), threading.Event(), threading.Event()
            def other():
                ready.set()
                go.wait()
                self.work()
                done.set()
            thread = threading.Thread(target=other)
            thread.start()
            ready.wait()
            ext.set(kind, seen)
            go.set()
            done.wait()
            ext.set(kind)
            thread.join()
            self.assertNotIn("inner", {e[1] for e in seen}, kind)

    def test_toggled_while_threads_come_and_go(self) -> None:
        def short():
            threads = [threading.Thread(target=self.work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        with BusyThreads(short, 2):
            for i in range(100):
                for kind in "profile_all", "trace_all":
                    ext.set_own(kind)
                    ext.set(kind)
        self.assertEqual(ext.take_counts()[-1], 0)

    def test_object_lives_while_the_function_runs(self) -> None:
        """Another thread that sets the next one releases the object of the one that is running."""
        with BusyThreads(self.work):
            for i in range(200):
                ext.set_own("profile_all")
                gc.collect(0)
            ext.set("profile_all")
        self.assertEqual(ext.take_counts()[-1], 0)

    def test_set_from_c_while_python_code_runs(self) -> None:
        for kind in "profile", "trace", "profile_all", "trace_all":
            with self.subTest(kind=kind), BusyThreads(self.work, 2):
                ext.toggle_start(kind, 100)
                def running():
                    self.work()
                    return ext.toggle_running()
                wait_while(running)

    def test_ended_threads_leave_nothing_behind(self) -> None:
        """Threads that end while a function is set take it with them; the next one is set and seen as ever."""
        for _ in range(5):
            ext.set("profile_all", None)
            thread = threading.Thread(target=lambda: ext.set("profile", None))
            thread.start()
            thread.join()
            ext.set("profile_all")
        ext.take_counts()
        self.work()
        self.assertEqual(sum(ext.take_counts()), 0)
        self.assertTrue(self.record("profile", self.work))


class ErrorTests(CapiTestCase):
    """What goes wrong while a function is set."""

    extensions = ("tracefunc_ext",)

    def test_refused_by_an_audit_hook(self) -> None:
        """These functions cannot report it: it goes to sys.unraisablehook, and nothing is set."""
        self.run_code("""
            import sys, threading, tracefunc_ext as ext
            refuse = True
            def hook(event, args):
                if refuse and event in ("sys.setprofile", "sys.settrace"):
                    raise PermissionError(event)
            sys.addaudithook(hook)
            seen = []
            sys.unraisablehook = lambda args: seen.append((str(args.exc_value), args.err_msg))
            def work():
                return len("abc")
            for kind in "profile", "trace", "profile_all", "trace_all":
                events = []
                refuse = True
                ext.set(kind, events); work()
                assert seen and events == [], (kind, seen, events)
                seen.clear()
                refuse = False
                ext.set(kind, events); work(); ext.set(kind)
                assert events and not seen, kind
            print("done")
        """, wanted="done")

    def test_out_of_memory(self) -> None:
        """A failed attempt does not spoil the next."""
        import_helper.import_module("_testcapi")
        self.run_code("""
            import _testcapi, sys, tracefunc_ext as ext
            def ignore(args):
                pass
            sys.unraisablehook = ignore
            def work():
                return len("abc")
            for kind in "profile", "trace", "profile_all", "trace_all":
                for start in range(1, 60):
                    _testcapi.set_nomemory(start, start + 1)
                    try:
                        ext.set(kind, None)
                    except MemoryError:
                        pass
                    finally:
                        _testcapi.remove_mem_hooks()
                    ext.set(kind)
                ext.take_counts()
                events = []
                ext.set(kind, events); work(); ext.set(kind)
                assert {e[0] for e in events} >= {ext.CALL, ext.RETURN}, (kind, events)
            print("done")
        """, wanted="done")

    def test_out_of_memory_the_first_time(self) -> None:
        """The same in fresh interpreters, in which nothing has been prepared."""
        import_helper.import_module("_testcapi")
        code = """
            import _testcapi, sys, tracefunc_ext as ext
            sys.unraisablehook = lambda args: None
            def work():
                return len("abc")
            _testcapi.set_nomemory(int(sys.argv[2]), int(sys.argv[2]) + 1)
            try:
                ext.set(sys.argv[1], None)
            except (MemoryError, SystemError):
                pass
            try:
                _testcapi.remove_mem_hooks()
            except (MemoryError, SystemError):
                _testcapi.remove_mem_hooks()    # the call itself was what failed
            ext.set(sys.argv[1])
            events = []
            ext.set(sys.argv[1], events); work(); ext.set(sys.argv[1])
            wanted = {ext.CALL, ext.RETURN} | ({ext.C_CALL, ext.C_RETURN} if "profile" in sys.argv[1] else {ext.LINE})
            assert {e[0] for e in events} >= wanted, events
            print("done")
        """
        for kind in "profile", "trace_all":
            for start in range(1, 14):
                with self.subTest(kind=kind, start=start):
                    self.run_code(code, kind, str(start), wanted="done")

    def test_subinterpreters(self) -> None:
        """A function belongs to the threads of one interpreter."""
        import_helper.import_module("_interpreters")
        self.run_code("""
            import _interpreters, tracefunc_ext as ext
            interp = _interpreters.create("legacy")
            ext.set("profile_all", None)
            ext.take_counts()
            _interpreters.run_string(interp, "def f(): return len('abc')\\nfor _ in range(1000): f()")
            counts = ext.take_counts()
            assert counts[ext.CALL] < 500, counts
            ext.set("profile_all")
            _interpreters.run_string(interp, '''if True:
                import tracefunc_ext as ext
                events = []
                def f(): return len('abc')
                ext.set("profile", events); f(); ext.set("profile")
                assert (ext.C_CALL, "f", 4, len) in events, events
            ''')
            _interpreters.destroy(interp)
            print("done")
        """, wanted="done")

    def test_until_the_end(self) -> None:
        self.run_code("""
            import tracefunc_ext as ext, threading
            class Late:
                def __del__(self):
                    print("late", flush=True)
            keep = [Late()]
            keep.append(keep)
            ext.set("profile_all", None)
            ext.set("trace_all", None)
        """, wanted="late")


if __name__ == "__main__":
    unittest.main()
