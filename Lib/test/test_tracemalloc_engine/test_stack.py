"""Tracebacks are captured step by step: whatever the program does with its
frames, they must be those that the interpreter itself shows."""

import asyncio
import contextlib
import functools
import gc
import itertools
import operator
import random
import re
import sys
import threading
import unittest
import weakref

import _tracemalloc as engine
from test import support
from test.support import import_helper, threading_helper

from .util import (GIL_DISABLED, Probe, Tracing, below, child_says, here,
                   made_in, walk)


def probe():
    """A block made here, for whoever calls."""
    return Probe(bytearray(1), sys._getframe())


class Plain(Tracing):
    """Calls, returns, loops and recursion."""

    def test_one_function_many_lines(self):
        found = [probe()]
        found.append(probe())
        for _ in range(3):
            found.append(probe())
        found += [probe() for _ in range(3)]
        for one in found:
            one.check(self)

    def test_siblings(self):
        def left():
            return [probe(), probe()]

        def right():
            return left() + left()

        for one in right() + left() + right():
            one.check(self)

    def test_lambda_and_nested_call_arguments(self):
        both = lambda *args: (*args, probe())
        for one in both(probe(), *both(probe(), probe())):
            one.check(self)

    def test_way_down_and_way_up(self):
        found = []

        def down(n):
            found.append(probe())
            if n:
                down(n - 1)
                found.append(probe())

        down(200)
        for limit in (100,):
            for one in found:
                one.check(self, limit)

    def test_deep_stack(self):
        # Deeper than any stretch in which an unknown stack is walked.
        def deep(n):
            return probe() if n == 0 else deep(n - 1)

        for depth in (1, 62, 63, 64, 65, 66, 127, 128, 129, 1000):
            with support.infinite_recursion(5000):
                one = deep(depth)
            one.check(self)
            self.assertEqual(one.trace().total, len(one.expected))

    def test_many_calls_in_one_frame_of_a_deep_stack(self):
        def work():
            return [probe() for _ in range(3)] + [probe()]

        with support.infinite_recursion(5000):
            for one in below(700, work):
                one.check(self)
                self.assertEqual(one.trace().total, len(one.expected))

    def test_frame_memory_is_used_again(self):
        # Different functions whose frames lie at the same address.
        names = made_in("<same place>", "\n".join(
            f"def f{i}(probe):\n    return probe()" for i in range(30)))
        for i in range(30):
            names[f"f{i}"](probe).check(self)
            names[f"f{i}"](names["f3"].__get__(probe)).check(self)

    def test_exec_and_eval(self):
        code = compile("\n\nout.append(probe())\n\nout.append(probe())",
                       "<exec>", "exec")
        out = []
        for _ in range(3):
            exec(code, {"out": out, "probe": probe})
        out.append(eval("(\n\nprobe())", {"probe": probe}))
        exec("exec('out.append(probe())')", {"out": out, "probe": probe})
        for one in out:
            one.check(self)

    def test_class_bodies(self):
        found = []

        class Namespace(dict):
            def __setitem__(self, name, value):
                found.append(probe())
                super().__setitem__(name, value)

        class Meta(type):
            @classmethod
            def __prepare__(cls, *args, **kwargs):
                found.append(probe())
                return Namespace()

            def __new__(cls, *args, **kwargs):
                found.append(probe())
                return super().__new__(cls, *args)

            def __call__(cls):
                found.append(probe())
                return super().__call__()

        class Descriptor:
            def __set_name__(self, owner, name):
                found.append(probe())

        def decorate(thing):
            found.append(probe())
            return thing

        @decorate
        class Base(metaclass=Meta):
            found.append(probe())
            d = Descriptor()

            class Inner(metaclass=Meta):
                found.append(probe())

            def __init_subclass__(cls):
                found.append(probe())

            @decorate
            def method(self, default=found.append(probe())):
                pass

        class Derived(Base):
            found.append(probe())

        Derived()
        self.assertGreater(len(found), 20)
        for one in found:
            one.check(self)

    def test_unknown_when_no_python_runs(self):
        # The outermost traceback is cut by the limit or ends at the module;
        # it never holds what is not on the stack.
        names = made_in("<top>", "x = bytearray(5)")
        frames = engine._get_object_traceback(names["x"])
        self.assertEqual(frames[0], ("<top>", 1))
        self.assertEqual(frames[1][0], made_in.__code__.co_filename)


class Limits(Tracing):
    """Every limit cuts the same stack."""

    def test_limits(self):
        engine.stop()
        for limit in (1, 2, 3, 25, 60, 10_000):
            with self.subTest(limit=limit):
                engine.start(limit)
                with support.infinite_recursion(3000):
                    found = below(300, lambda: [probe(), probe()])
                for one in found:
                    one.check(self, limit)
                    self.assertEqual(one.trace().total, len(one.expected))
                self.check_engine()
                engine.stop()


class Anew(Tracing):
    """All that is known of a deep stack may be dropped while it stands."""

    def deep(self, change):
        found = []

        def at_the_bottom():
            found.append(probe())
            change()
            found.append(probe())
            found.append(below(100, probe))
            found.append(probe())

        with support.infinite_recursion(5000):
            below(500, at_the_bottom)
            found.append(probe())
        return found

    def test_clear(self):
        first, *others = self.deep(engine.clear_traces)
        self.assertIsNone(engine._get_object_traceback(first.block))
        for one in others:
            one.check(self)

    def test_stop_and_start(self):
        def again():
            engine.stop()
            engine.start(3)

        first, *others = self.deep(again)
        self.assertIsNone(engine._get_object_traceback(first.block))
        for one in others:
            one.check(self, 3)

    def test_other_limit(self):
        first, *others = self.deep(lambda: engine.set_traceback_limit(7))
        first.check(self, 100)
        for one in others:
            one.check(self, 7)

    def test_limit_one_and_back(self):
        def switch():
            engine.set_traceback_limit(1)
            bytearray(1)
            engine.set_traceback_limit(80)

        first, *others = self.deep(switch)
        first.check(self, 100)
        for one in others:
            one.check(self, 80)


class Generators(Tracing):
    """A generator's frame goes from one stack to another (the captured flag
    is cleared where a frame is linked, not where it is made)."""

    @staticmethod
    def numbers(n):
        for _ in range(n):
            yield probe()

    def test_resumed_from_other_lines(self):
        g = self.numbers(4)
        found = [next(g)]
        found.append(next(g))
        found += [next(g) for _ in range(1)]
        found += g
        for one in found:
            one.check(self)

    def test_resumed_at_other_depths(self):
        g = self.numbers(100)
        found = [next(g)]
        for depth in (30, 3, 0, 70, 70, 1):
            found.append(below(depth, lambda: next(g)))
            found.append(below(depth, g.__next__))
            found.append(below(depth, functools.partial(g.send, None)))
        for one in found:
            one.check(self)

    def test_suspended_between_allocations(self):
        def allocating():
            while True:
                one = probe()
                yield one
                another = probe()
                yield another

        found = []
        many = [allocating() for _ in range(5)]
        for round in range(4):
            for g in many:
                found.append(next(g))
            for g in reversed(many):
                found.append(below(round * 7, lambda: next(g)))
        for one in found:
            one.check(self)

    def test_yield_from(self):
        def inner(n):
            for _ in range(n):
                yield probe()
            return probe()

        def middle(n):
            value = yield from inner(n)
            yield value
            yield probe()

        def outer(n):
            yield from middle(n)
            yield from inner(2)
            yield probe()

        g = outer(3)
        found = [next(g), below(9, lambda: next(g))]
        found += g
        for one in found:
            one.check(self)
        self.assertEqual(len(found), 3 + 2 + 2 + 1)

    def test_for_loop_enters_without_a_call(self):
        # Specialised after a few rounds: the loop links the frame itself.
        found = []
        for _ in range(50):
            for one in self.numbers(3):
                found.append(one)
        for one in found[::7]:
            one.check(self)

    def test_throw_into_a_delegating_generator(self):
        # throw() puts the outer frames on the stack by itself.
        def inner():
            while True:
                try:
                    yield probe()
                except KeyError:
                    yield probe()

        def outer():
            yield from inner()

        def outermost():
            yield from outer()

        g = outermost()
        found = [next(g)]
        for depth in (0, 5, 2):
            found.append(below(depth, lambda: g.throw(KeyError)))
            found.append(next(g))
        for one in found:
            one.check(self)

    def test_throw_meets_a_foreign_iterator(self):
        found = []

        class Foreign:
            def __iter__(self):
                return self

            def __next__(self):
                return probe()

            def throw(self, *args):
                found.append(probe())
                return probe()

        def outer():
            yield from Foreign()

        def outermost():
            yield from outer()

        g = outermost()
        found.append(next(g))
        found.append(below(4, lambda: g.throw(ValueError)))
        found.append(g.throw(ValueError))
        found.append(next(g))
        for one in found:
            one.check(self)

    def test_close_runs_finally(self):
        found = []

        def careful():
            try:
                yield probe()
            finally:
                found.append(probe())

        def outer():
            try:
                yield from careful()
            finally:
                found.append(probe())

        g = outer()
        found.append(next(g))
        below(6, g.close)
        g = outer()
        next(g)
        del g
        gc.collect()
        self.assertEqual(len(found), 5)
        for one in found:
            one.check(self)

    def test_generator_expression_and_send(self):
        def echo():
            got = None
            while True:
                got = yield (probe(), got)

        g = echo()
        found = [next(g)[0]]
        found += [g.send(i)[0] for i in range(3)]
        found += list(probe() for _ in range(3))
        found += [one for one in (probe() for _ in range(3)) if probe()]
        for one in found:
            one.check(self)

    def test_generator_moves_to_another_thread(self):
        g = self.numbers(10)
        found = [next(g)]
        thread = threading.Thread(target=lambda: found.append(next(g)))
        thread.start()
        thread.join()
        found.append(below(3, lambda: next(g)))
        for one in found:
            one.check(self)

    def test_recursive_generators(self):
        def tree(n):
            if n:
                yield from tree(n - 1)
                yield probe()
                for one in tree(n - 1):
                    yield one

        for one in tree(6):
            one.check(self)


class Coroutines(Tracing):
    """Await chains are linked anew at every step."""

    class Pause:
        def __await__(self):
            return (yield)

    def drive(self, coroutine, *depths):
        depths = itertools.cycle(depths or (0,))
        with self.assertRaises(StopIteration) as caught:
            while True:
                below(next(depths), lambda: coroutine.send(None))
        return caught.exception.value

    def test_await_chain(self):
        found = []

        async def leaf(n):
            for _ in range(n):
                found.append(probe())
                await self.Pause()
                found.append(probe())

        async def branch(n):
            await leaf(n)
            found.append(probe())
            await leaf(1)

        async def root():
            for n in (1, 2):
                await branch(n)
            return probe()

        found.append(self.drive(root(), 0, 12, 3))
        for one in found:
            one.check(self)

    def test_throw_and_close(self):
        found = []

        async def leaf():
            try:
                await self.Pause()
            except KeyError:
                found.append(probe())
                await self.Pause()
            finally:
                found.append(probe())

        async def root():
            try:
                await leaf()
            finally:
                found.append(probe())

        c = root()
        c.send(None)
        below(5, lambda: c.throw(KeyError))
        below(2, c.close)
        self.assertEqual(len(found), 3)
        for one in found:
            one.check(self)

    def test_async_generators(self):
        found = []

        async def numbers(n):
            try:
                for _ in range(n):
                    found.append(probe())
                    await self.Pause()
                    try:
                        yield probe()
                    except LookupError:
                        found.append(probe())
            finally:
                found.append(probe())

        async def root():
            async for one in numbers(3):
                found.append(one)
            found.extend([one async for one in numbers(3)])
            g = numbers(9)
            found.append(await g.__anext__())
            found.append(await anext(g))
            found.append(await g.asend(None))
            found.append(await g.athrow(LookupError))
            await g.aclose()

        self.drive(root(), 0, 7)
        self.assertGreater(len(found), 20)
        for one in found:
            one.check(self)

    def test_async_context_managers(self):
        found = []

        class Manager:
            async def __aenter__(this):
                await self.Pause()
                found.append(probe())

            async def __aexit__(this, *exc):
                found.append(probe())
                await self.Pause()
                return True

        @contextlib.asynccontextmanager
        async def written():
            found.append(probe())
            try:
                yield
            finally:
                await self.Pause()
                found.append(probe())

        async def root():
            async with Manager(), written():
                found.append(probe())
                raise KeyError

        self.drive(root(), 4, 0)
        self.assertEqual(len(found), 5)
        for one in found:
            one.check(self)

    def test_asyncio_tasks(self):
        found = []

        async def worker(n):
            for _ in range(3):
                found.append(probe())
                await asyncio.sleep(0)
            if n:
                await worker(n - 1)

        async def main():
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: found.append(probe()))
            async with asyncio.TaskGroup() as group:
                for n in range(4):
                    group.create_task(worker(n))

        asyncio.run(main(), loop_factory=asyncio.new_event_loop)
        self.assertGreater(len(found), 20)
        for one in found:
            one.check(self)


class Exceptions(Tracing):
    """Frames that are unwound."""

    def test_caught_above(self):
        found = []

        def fall(n):
            if n == 0:
                found.append(probe())
                raise KeyError
            try:
                fall(n - 1)
            finally:
                found.append(probe())

        for depth in (0, 1, 40):
            try:
                fall(depth)
            except KeyError:
                found.append(probe())
            found.append(probe())
        for one in found:
            one.check(self)

    def test_context_managers(self):
        found = []

        class Manager:
            def __enter__(self):
                found.append(probe())

            def __exit__(self, *exc):
                found.append(probe())
                return True

        @contextlib.contextmanager
        def written():
            found.append(probe())
            try:
                yield
            except KeyError:
                found.append(probe())
                raise

        with Manager():
            with written():
                below(8, functools.partial(operator.getitem, {}, 1))
        found.append(probe())
        self.assertEqual(len(found), 5)
        for one in found:
            one.check(self)

    def test_traceback_keeps_frames_alive(self):
        # The frames of a traceback have left the stack for the heap.
        kept = []

        def fall(n):
            local = probe()
            if n:
                fall(n - 1)
            raise KeyError(local)

        for _ in range(3):
            try:
                fall(10)
            except KeyError as exc:
                kept.append(exc)
                exc.args[0].check(self)
                probe().check(self)

    def test_exception_groups_and_chains(self):
        found = []
        try:
            try:
                raise ExceptionGroup("g", [KeyError(1), ValueError(2)])
            except* KeyError:
                found.append(probe())
                raise OSError
            except* ValueError:
                found.append(probe())
        except BaseException:
            found.append(probe())
        for one in found:
            one.check(self)


class Jumps(Tracing):
    """Setting f_lineno from a trace function moves a suspended caller: its
    cached line must not go stale."""

    def run_with_jump(self, function, jump_from, jump_to):
        first = function.__code__.co_firstlineno

        def tracer(frame, event, arg):
            if frame.f_code is function.__code__:
                # Before and after the jump, above the frame that moves.
                self.found.append(probe())
                if event == "line" and frame.f_lineno == first + jump_from:
                    frame.f_lineno = first + jump_to
                    self.found.append(probe())
                    self.found.append(below(3, probe))
            return tracer

        self.found = []
        previous = sys.gettrace()
        sys.settrace(tracer)
        try:
            result = function(self.found)
        finally:
            sys.settrace(previous)
        for one in self.found:
            one.check(self)
        return result

    def test_forward(self):
        def jumper(found):
            found.append(probe())
            found.append("not here")
            found.append("nor here")
            return found.append(probe())

        self.run_with_jump(jumper, 2, 4)
        self.assertNotIn("not here", self.found)

    def test_backward(self):
        def jumper(found):
            again = iter(range(1))
            found.append(probe())
            for _ in again:
                found.append(probe())
            again = None
            found.append(probe())

        # Only once: the tracer compares lines, so jump from a line that the
        # second pass does not reach.
        first = jumper.__code__.co_firstlineno
        done = []

        def tracer(frame, event, arg):
            if frame.f_code is jumper.__code__:
                found.append(probe())
                if (event == "line" and frame.f_lineno == first + 5
                        and not done):
                    done.append(1)
                    frame.f_lineno = first + 2
                    found.append(probe())
            return tracer

        found = []
        previous = sys.gettrace()
        sys.settrace(tracer)
        try:
            jumper(found)
        finally:
            sys.settrace(previous)
        self.assertTrue(done)
        for one in found:
            one.check(self)

    def test_in_a_generator(self):
        def jumper(found):
            found.append(probe())
            found.append("not here")
            return found.append(probe())

        def generator(found):
            yield jumper(found)

        def all_of(found):
            return list(generator(found))

        all_of.__code__ = all_of.__code__
        first = jumper.__code__.co_firstlineno

        def tracer(frame, event, arg):
            if (frame.f_code is jumper.__code__ and event == "line"
                    and frame.f_lineno == first + 2):
                found.append(probe())
                frame.f_lineno = first + 3
                found.append(probe())
            return tracer

        found = []
        previous = sys.gettrace()
        sys.settrace(tracer)
        try:
            all_of(found)
        finally:
            sys.settrace(previous)
        self.assertNotIn("not here", found)
        for one in found:
            one.check(self)

    def test_caller_of_the_tracer_moved_by_its_callee(self):
        # The frame moves while its callee (the tracer) has one more above.
        def jumper(found):
            found.append(probe())
            found.append("not here")
            found.append(probe())

        first = jumper.__code__.co_firstlineno

        def move(frame):
            found.append(probe())
            frame.f_lineno = first + 3
            found.append(probe())

        def tracer(frame, event, arg):
            if (frame.f_code is jumper.__code__ and event == "line"
                    and frame.f_lineno == first + 2):
                found.append(probe())
                move(frame)
                found.append(probe())
            return tracer

        found = []
        previous = sys.gettrace()
        sys.settrace(tracer)
        try:
            jumper(found)
        finally:
            sys.settrace(previous)
        self.assertEqual(len(found), 6)
        for one in found:
            one.check(self)


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
                import no_such_module_tm
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


@threading_helper.requires_working_threading()
class Threads(Tracing):
    """Each thread has a stack of its own."""

    def test_threads_at_work_together(self):
        found = [[] for _ in range(6)]
        barrier = threading.Barrier(len(found))

        def work(mine, n):
            barrier.wait()
            for i in range(30):
                mine.append(below(i * n % 50, probe))
                mine.extend(probe() for _ in range(2))

        with threading_helper.start_threads(
                threading.Thread(target=work, args=(mine, n))
                for n, mine in enumerate(found)):
            pass
        for mine in found:
            self.assertEqual(len(mine), 90)
            for one in mine[::5]:
                one.check(self)

    def test_two_threads_take_turns_with_one_generator(self):
        def numbers():
            for _ in range(40):
                yield probe()

        g = numbers()
        found = []
        turn = [threading.Semaphore(1), threading.Semaphore(0)]

        def work(me):
            for i in range(20):
                turn[me].acquire()
                found.append(below(i % 5 + me, lambda: next(g)))
                turn[1 - me].release()

        with threading_helper.start_threads(
                threading.Thread(target=work, args=(me,)) for me in (0, 1)):
            pass
        self.assertEqual(len(found), 40)
        for one in found:
            one.check(self)


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
        try:
            sys.activate_stack_trampoline("perf")
        except (ValueError, OSError) as exc:
            self.skipTest(str(exc))
        else:
            sys.deactivate_stack_trampoline()
        child_says(self, "ok", """
            import sys
            sys.activate_stack_trampoline("perf")
            import unittest
            from test.test_tracemalloc_engine import test_stack
            suite = unittest.defaultTestLoader.loadTestsFromTestCase
            names = (test_stack.Plain, test_stack.Generators, test_stack.FromC)
            result = unittest.TestResult()
            unittest.TestSuite(map(suite, names)).run(result)
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
