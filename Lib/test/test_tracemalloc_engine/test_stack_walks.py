"""Tracebacks in long random walks over everything that moves frames, and in
places where there are few frames or none."""

import os
import random
import sys
import unittest

import _tracemalloc as engine
from test import support
from test.support import os_helper

from .util import Probe, Tracing, child_says


def probe():
    """A block made here, for whoever calls."""
    return Probe(bytearray(1), sys._getframe())


class Machine:
    """A random walk over everything that moves frames.

    Each step makes a block or changes the stack: calls, calls from C,
    generators that are made, resumed, thrown into and closed at random depths,
    exceptions.  The same seed makes the same walk.
    """

    def __init__(self, seed, steps):
        self.random = random.Random(seed)
        self.left = steps
        self.found = []
        self.generators = []

    def note(self):
        self.found.append(probe())

    def step(self, depth=0):
        while self.left > 0:
            self.left -= 1
            what = self.random.randrange(16)
            if what < 5:
                self.note()
            elif what == 5 and depth < 80:
                self.step(depth + 1)
            elif what == 6 and depth < 80:
                list(map(lambda _: self.step(depth + 1), range(1)))
            elif what == 7 and depth < 80:
                sorted([1], key=lambda _: self.step(depth + 1))
            elif what == 8:
                self.generators.append(self.generator(depth))
            elif what in (9, 10):
                self.resume(depth, lambda g: next(g))
            elif what == 11:
                self.resume(depth, lambda g: g.throw(KeyError))
            elif what == 12:
                self.resume(depth, lambda g: g.close())
            elif what == 13 and depth:
                return
            elif what == 14 and depth:
                raise LookupError
            elif what == 15 and depth < 80:
                try:
                    self.Child(self, depth)
                except LookupError:
                    self.note()

    class Child:
        def __init__(self, machine, depth):
            machine.note()
            machine.step(depth + 1)
            machine.note()

    def resume(self, depth, how):
        if not self.generators:
            return
        i = self.random.randrange(len(self.generators))
        g = self.generators[i]
        try:
            how(g)
        except (StopIteration, LookupError):
            # It is at its end.
            if g in self.generators:
                self.generators.remove(g)
            self.note()
        except ValueError:
            self.note()             # already running, below us

    def generator(self, depth):
        self.note()
        while self.left > 0:
            try:
                if self.random.randrange(3):
                    yield
                else:
                    yield from self.generator(depth)
            except KeyError:
                self.note()
            if depth < 80 and self.random.randrange(4) == 0:
                self.step(depth + 1)
            else:
                self.note()


class RandomWalks(Tracing):
    def walk(self, seed, steps, limit):
        machine = Machine(seed, steps)
        while machine.left > 0:
            try:
                machine.step()
            except LookupError:
                machine.note()
            except RecursionError:
                machine.generators.clear()
        for one in machine.found:
            one.check(self, limit)
        return len(machine.found)

    def test_walks(self):
        with support.infinite_recursion(4000):
            notes = sum(self.walk(seed, 1500, self.limit)
                        for seed in range(12))
        self.assertGreater(notes, 5000)

    def test_walks_at_limit_one(self):
        engine.set_traceback_limit(1)
        with support.infinite_recursion(4000):
            for seed in range(100, 104):
                self.walk(seed, 1500, 1)

    def test_walk_while_limits_change_and_traces_are_dropped(self):
        machine = Machine(7, 6000)
        note = machine.note
        limits = {}

        def changing():
            note()
            limits[id(machine.found[-1])] = engine.get_traceback_limit()
            n = len(machine.found)
            if n % 97 == 0:
                engine.set_traceback_limit(n % 7 + 1)
            elif n % 400 == 0:
                machine.found.clear()
                engine.clear_traces()

        machine.note = changing
        with support.infinite_recursion(4000):
            while machine.left > 0:
                try:
                    machine.step()
                except LookupError:
                    pass
        for one in machine.found:
            one.check(self, limits[id(one)])


class Walked(unittest.TestCase):
    """In a process of its own."""

    def test_trampolines(self):
        # -X perf puts a C trampoline between Python frames.
        if not hasattr(sys, "activate_stack_trampoline"):
            self.skipTest("no trampolines")
        path = f"/tmp/perf-{os.getpid()}.map"
        if not os.path.exists(path):
            self.addCleanup(os_helper.unlink, path)
        try:
            sys.activate_stack_trampoline("perf")
        except (ValueError, OSError) as exc:
            self.skipTest(str(exc))
        else:
            sys.deactivate_stack_trampoline()
        child_says(self, "ok", """
            import atexit, os, sys
            atexit.register(os.remove, f"/tmp/perf-{os.getpid()}.map")
            sys.activate_stack_trampoline("perf")
            import unittest
            from test.test_tracemalloc_engine import (
                test_stack, test_stack_calls)
            from test.support import Py_DEBUG
            tests_of = unittest.defaultTestLoader.loadTestsFromTestCase
            names = (test_stack.Plain, test_stack.Generators,
                     test_stack_calls.FromC)
            # Each call takes C stack here, and debug builds allow little; no
            # build allows what is very deep.
            tests = [test for name in names for test in tests_of(name)
                     if not (Py_DEBUG and "deep_stack" in test.id()
                             or "very_deep" in test.id())]
            result = unittest.TestResult()
            unittest.TestSuite(tests).run(result)
            assert result.wasSuccessful(), (result.failures, result.errors)
            assert result.testsRun > 20
            print("ok")
        """)

    def test_no_frames_at_all(self):
        # A thread that runs no Python, and the end of the interpreter, where
        # the current frame is NULL.
        child_says(self, "ok", """
            import _tracemalloc, os, sys
            _tracemalloc.start(10)
            class Late:
                # The builtins are gone by then.
                def __del__(self, get=_tracemalloc._get_object_traceback,
                            frame=sys._getframe, write=os.write,
                            make=bytearray):
                    block = make(5)
                    line = frame().f_lineno - 1
                    name = frame().f_code.co_filename
                    if get(block)[0] == (name, line):
                        write(1, b"ok")
            sys.late = Late()
            sys.late.cycle = sys.late
        """)


if __name__ == "__main__":
    unittest.main()
