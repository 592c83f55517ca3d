"""Tracebacks of code that others call or move: trace functions that jump,
profile and monitoring functions, Python called from C, what the interpreter
enters without a call."""

import functools
import gc
import itertools
import operator
import re
import sys
import unittest
import weakref

from test.support import import_helper

from .util import Probe, Tracing, below


def probe():
    """A block made here, for whoever calls."""
    return Probe(bytearray(1), sys._getframe())


class Jumps(Tracing):
    """Setting f_lineno from a trace function moves a suspended caller: its
    cached line must not go stale."""

    def traced(self, call, code, at, act):
        """Call under a trace function that notes blocks at each event of code,
        and acts once: act(frame), when its line number `at` is reached."""
        self.found = []
        line = code.co_firstlineno + at
        left = [1]

        def tracer(frame, event, arg):
            if frame.f_code is code:
                self.found.append(probe())
                if event == "line" and frame.f_lineno == line and left:
                    left.pop()
                    act(frame)
                    self.found.append(probe())
                    self.found.append(below(3, probe))
            return tracer

        previous = sys.gettrace()
        sys.settrace(tracer)
        try:
            call(self.found)
        finally:
            sys.settrace(previous)
        self.assertEqual(left, [])
        self.assertNotIn("not here", self.found)
        for one in self.found:
            one.check(self)

    def jump(self, to):
        """Something that moves a frame to a line of its function."""
        def move(frame):
            frame.f_lineno = frame.f_code.co_firstlineno + to
        return move

    def test_forward(self):
        def jumper(found):
            found.append(probe())
            found.append("not here")
            found.append("not here")
            return found.append(probe())

        self.traced(jumper, jumper.__code__, 2, self.jump(4))

    def test_backward(self):
        def jumper(found):
            found.append(probe())
            found.append(probe())
            found.append(probe())
            return found.append(probe())

        self.traced(jumper, jumper.__code__, 4, self.jump(1))
        line = jumper.__code__.co_firstlineno + 2
        self.assertEqual([one.expected[1][1] for one in self.found].count(line),
                         2)

    def test_into_and_out_of_a_loop(self):
        def jumper(found):
            for _ in range(2):
                found.append(probe())
                found.append(probe())
            return found.append(probe())

        self.traced(jumper, jumper.__code__, 3, self.jump(4))

    def test_below_a_generator(self):
        def jumper(found):
            found.append(probe())
            found.append("not here")
            return found.append(probe())

        def generator(found):
            yield jumper(found)
            yield found.append(probe())

        self.traced(lambda found: list(generator(found)), jumper.__code__, 2,
                    self.jump(3))

    def test_with_frames_above_the_one_that_moves(self):
        # The frame moves while a callee of its callee (the tracer) runs.
        def jumper(found):
            found.append(probe())
            found.append("not here")
            found.append(probe())

        def act(frame):
            self.found.append(probe())
            below(5, lambda: self.jump(3)(frame))
            self.found.append(probe())

        self.traced(jumper, jumper.__code__, 2, act)


class Watched(Tracing):
    """Trace, profile and monitoring functions run on top of what they watch."""

    def work(self):
        found = [probe()]
        for _ in range(2):
            found.append(probe())
        found += (probe() for _ in range(2))
        try:
            raise KeyError
        except KeyError:
            found.append(probe())
        found += map(lambda _: probe(), range(2))
        return found

    def check_all(self, found):
        self.assertGreater(len(found), 20)
        for one in found:
            one.check(self)

    def test_settrace(self):
        found = []

        def tracer(frame, event, arg):
            frame.f_trace_opcodes = True
            found.append(probe())
            return tracer

        previous = sys.gettrace()
        sys.settrace(tracer)
        try:
            result = self.work()
        finally:
            sys.settrace(previous)
        self.check_all(found)
        self.check_all(result + found)

    def test_setprofile(self):
        found = []
        busy = []

        def profile(frame, event, arg):
            if not busy:
                busy.append(1)
                found.append(probe())
                busy.clear()

        previous = sys.getprofile()
        sys.setprofile(profile)
        try:
            result = self.work()
        finally:
            sys.setprofile(previous)
        self.check_all(result + found)

    def test_monitoring(self):
        monitoring = sys.monitoring
        tool = monitoring.PROFILER_ID
        if monitoring.get_tool(tool) is not None:
            self.skipTest("the tool id is in use")
        found = []
        monitoring.use_tool_id(tool, "test_stack")
        self.addCleanup(monitoring.free_tool_id, tool)
        events = monitoring.events
        for event in (events.PY_START, events.PY_RETURN, events.PY_YIELD,
                      events.PY_RESUME, events.LINE, events.CALL):
            monitoring.register_callback(
                tool, event, lambda *args: found.append(probe()))
            self.addCleanup(monitoring.register_callback, tool, event, None)
        code = self.work.__func__.__code__
        monitoring.set_local_events(
            tool, code, events.PY_START | events.PY_RETURN | events.LINE
            | events.CALL)
        result = self.work()
        monitoring.set_local_events(tool, code, 0)
        self.check_all(result + found)


class FromC(Tracing):
    """Python called from C: a C-stack frame lies in between."""

    def check_all(self, found, count):
        self.assertGreaterEqual(len(found), count)
        for one in found:
            one.check(self)

    def test_functions_given_to_c(self):
        found = []

        def note(*args):
            found.append(probe())
            return 1

        sorted(range(4), key=note)
        sorted(range(4), key=functools.cmp_to_key(note))
        max(range(3), key=note)
        list(map(note, range(3)))
        list(filter(note, range(3)))
        functools.reduce(note, range(4))
        re.sub("a", lambda m: str(note()), "aaa")
        itertools.islice(iter(note, 2), 3)
        next(iter(note, 2))
        list(itertools.takewhile(note, range(3)))
        list(itertools.accumulate(range(3), note))
        functools.partial(note, 1)(2)
        functools.lru_cache(note)(3)
        operator.methodcaller("__call__")(note)
        below(9, functools.partial(sorted, range(3), key=note))
        self.check_all(found, 30)

    def test_special_methods(self):
        found = []

        def note(*args):
            found.append(probe())

        class Thing:
            def __hash__(self):
                note()
                return 1

            def __eq__(self, other):
                note()
                return True

            def __lt__(self, other):
                note()
                return False

            def __add__(self, other):
                note()
                return self

            def __iter__(self):
                note()
                return iter(())

            def __len__(self):
                note()
                return 0

            def __bool__(self):
                note()
                return True

            def __repr__(self):
                note()
                return ""

            def __format__(self, spec):
                note()
                return ""

            def __index__(self):
                note()
                return 0

            def __contains__(self, other):
                note()
                return True

            def __call__(self):
                note()

            def __reduce__(self):
                note()
                return list, ()

        for _ in range(3):
            d = {Thing(): 1}
            d[Thing()]
            {Thing(), Thing()}
            sorted([Thing(), Thing()])
            Thing() + 1
            list(Thing())
            bool(Thing())
            f"{Thing()} {Thing()!r} %s" % Thing()
            [1][Thing()]
            1 in Thing()
            Thing()()
            import_helper.import_module("pickle").dumps(Thing())
        self.check_all(found, 30)

    def test_inlined_special_methods(self):
        # Warm enough to be specialised: property, subscript and attribute
        # functions then get their frames without a C call.
        found = []

        class Thing:
            @property
            def value(self):
                return found.append(probe())

            def __getitem__(self, key):
                return found.append(probe())

        class Getter:
            def __getattribute__(self, name):
                return found.append(probe())

        thing, getter = Thing(), Getter()
        for _ in range(60):
            thing.value
            thing[1]
            getter.anything
        self.check_all(found[-30:], 30)
        found.clear()
        for _ in range(3):
            below(2, lambda: (thing.value, thing[1], getter.other))
        self.check_all(found, 9)

    def test_init_frames(self):
        # CALL_ALLOC_AND_ENTER_INIT pushes a shim and the frame of __init__.
        found = []

        class Inner:
            def __init__(self):
                found.append(probe())

        class Outer:
            def __init__(self, n):
                found.append(probe())
                self.inner = Inner()
                if n:
                    self.next = Outer(n - 1)
                found.append(probe())

        class Failing:
            def __init__(self):
                found.append(probe())
                raise KeyError

        for _ in range(60):
            Outer(2)
            try:
                Failing()
            except KeyError:
                found.append(probe())
        for n in (0, 5, 40):
            below(n, lambda: Outer(n))
        self.check_all(found[-200:], 150)

    def test_finalizers(self):
        found = []

        class Thing:
            def __del__(self):
                found.append(probe())

        def drop():
            Thing()
            thing = Thing()
            thing.cycle = thing
            del thing
            reference = Thing()
            ref = weakref.ref(reference, lambda ref: found.append(probe()))
            del reference
            gc.collect()

        drop()
        below(20, drop)
        # Locals die after their frame has left the stack.
        self.check_all(found, 8)

    def test_import_from_an_importer_of_ours(self):
        found = []

        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == "no_such_module_tm":
                    found.append(probe())

        finder = Finder()
        sys.meta_path.insert(0, finder)
        try:
            with self.assertRaises(ImportError):
                import no_such_module_tm  # noqa: F401
        finally:
            sys.meta_path.remove(finder)
        self.check_all(found, 1)

    def test_other_frame_evaluation(self):
        # PEP 523: frames are evaluated by somebody's function.
        internal = import_helper.import_module("_testinternalcapi")
        names = []
        found = []

        def outer():
            found.append(probe())
            below(5, lambda: found.append(probe()))
            found.extend(probe() for _ in range(2))

        internal.set_eval_frame_record(names)
        try:
            outer()
        finally:
            internal.set_eval_frame_default()
        outer()
        self.check_all(found, 8)


if __name__ == "__main__":
    unittest.main()
