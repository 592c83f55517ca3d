"""Tracebacks are captured step by step: whatever the program does with its
frames, they must be those that the interpreter itself shows.  Here: calls,
generators, coroutines, exceptions, threads.  See also test_stack_calls and
test_stack_walks."""

import asyncio
import contextlib
import functools
import gc
import itertools
import operator
import sys
import threading
import unittest

import _tracemalloc as engine
from test import support
from test.support import threading_helper

from .util import Probe, Tracing, below, made_in


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

    def test_very_deep_stack_way_up(self):
        # Deeper than what is remembered of a stack at first: on the way up the
        # callers have to be found again.
        found = []

        def down(n):
            if n % 50 == 0:
                found.append(probe())
            if n:
                down(n - 1)
                if n % 50 < 3:
                    found.append(probe())

        with support.infinite_recursion(5000):
            for _ in range(2):
                down(2500)
        for one in found:
            one.check(self)
            self.assertEqual(one.trace().total, len(one.expected))

    def test_very_deep_stack_that_is_not_known(self):
        def work():
            engine.clear_traces()
            return [probe(), *below(3, lambda: [probe()]), probe()]

        with support.infinite_recursion(5000):
            for one in below(4000, work):
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

    def test_more_than_are_remembered(self):
        # Their frames lie anywhere; some are taken for one another's place.
        def ask():
            while True:
                found.append(probe())
                yield

        found = []
        many = [ask() for _ in range(3000)]
        for generator in many:
            next(generator)
        found.clear()
        for generator in many[::7]:
            next(generator)
            found.append(probe())
        for generator in reversed(many[::7]):
            below(3, generator.__next__)
        for one in found:
            one.check(self)

    def test_recursive_generators(self):
        def tree(n):
            if n:
                yield from tree(n - 1)
                yield probe()
                for one in tree(n - 1):         # noqa: UP028
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


if __name__ == "__main__":
    unittest.main()
