"""Threads: native ones that Python has never seen, threads that let go of the
GIL, many that come and go, and tracing that is switched while they work."""

import gc
import random
import sys
import threading
import unittest

import _tracemalloc as engine
from test import support
from test.support import import_helper, threading_helper

from . import blocks
from .util import (ODD, Probe, Tracing, Untraced, below,
                   child_says, made_in, walk)

RAW, MEM, OBJ = blocks.RAW, blocks.MEM, blocks.OBJ

threading_helper.requires_working_threading(module=True)


def probe():
    return Probe(bytearray(1), sys._getframe())


class WithoutTheGil(Tracing):
    """RAW calls arrive without the GIL, without a thread state, from threads
    that Python has never seen."""

    limit = 10

    def setUp(self):
        self.module = blocks.load()
        super().setUp()

    def test_native_threads(self):
        before = engine.get_traced_memory()[0]
        for _ in range(3):
            self.module.native_start(8, 1500)
            while_they_run = [bytearray(n) for n in range(2000)]
            self.assertEqual(self.module.native_join(), 0)
            self.check_engine()
            del while_they_run
        traces = engine._get_traces()
        self.assertEqual([t for t in traces if t[0] == 77], [])
        self.assertLess(engine.get_traced_memory()[0] - before, 1_000_000)

    def test_traceback_of_a_thread_that_let_go_of_the_gil(self):
        sizes = [ODD * 1000 + i for i in range(8)]

        def work():
            return self.module.without_gil(sizes), walk(sys._getframe())

        for depth in (0, 3, 70):
            addresses, frames = below(depth, work)
            for address, size in zip(addresses, sizes):
                got, found = engine.get_trace(address)
                self.assertEqual(got, size)
                self.assertEqual(found, frames[:10])
                self.module.free(RAW, address)
                self.assertIsNone(engine.get_trace(address))

    def test_many_threads_without_the_gil_in_new_code(self):
        # New code, new files and new callers all the time: their tables grow
        # while other threads, with and without the GIL, look into them.
        kept = [[] for _ in range(4)]
        failures = []

        def work(me):
            source = ("def make(module, sizes):\n" + "\n" * 5
                      + "    return module.without_gil(sizes), bytearray(1)\n")
            for i in range(150):
                name = f"<{me}.{i}>"
                make = made_in(name, "\n" * (i % 30) + source)["make"]
                addresses, block = make(self.module, [5000 + i, 10 + i])
                line = i % 30 + 7
                for address in addresses:
                    frames = engine.get_trace(address)[1]
                    if frames[0] != (name, line):
                        failures.append((frames, name, line))
                    self.module.free(RAW, address)
                kept[me].append((name, line, block))

        with threading_helper.start_threads(
                threading.Thread(target=work, args=(me,))
                for me in range(len(kept))):
            pass
        self.assertEqual(failures, [])
        for mine in kept:
            self.assertEqual(len(mine), 150)
            for name, line, block in mine:
                frames = engine._get_object_traceback(block)
                self.assertEqual(frames[0], (name, line))
        self.check_engine()

    def test_limits_change_while_raw_blocks_are_made(self):
        done = threading.Event()

        def work():
            while not done.is_set():
                for address in below(9, lambda: self.module.without_gil(
                        [100 + i for i in range(20)])):
                    self.module.free(RAW, address)

        with threading_helper.start_threads(
                (threading.Thread(target=work) for _ in range(3)),
                unlock=done.set):
            for i in range(300):
                engine.set_traceback_limit(i % 5 + 1)
                if i % 10 == 0:
                    engine.clear_traces()
                below(i % 7, probe).check(self)
        self.check_engine()

    def test_lock_of_somebody_else(self):
        # A raw call never waits for the GIL: a thread that holds the GIL may
        # be waiting for a lock of the raw caller.
        child_says(self, "ok", """
            import _tracemalloc, threading
            _tracemalloc.start(5)
            for _ in range(3):
                tm_meet.meet()
            print("ok")
        """, before=loading_meet(), timeout=support.SHORT_TIMEOUT)


MEET = r"""
#include <Python.h>
#include <pthread.h>
#include <stdatomic.h>

/* A native thread takes `mine` and makes raw blocks, once the thread with the
   GIL is about to wait for `mine`. */
static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
static atomic_int step;

static void *
native(void *arg)
{
    pthread_mutex_lock(&mine);
    atomic_store(&step, 1);
    while (atomic_load(&step) != 2) {
        sched_yield();
    }
    for (int i = 0; i < 100; i++) {
        void *p = PyMem_RawMalloc(64 + i);
        p = PyMem_RawRealloc(p, 5000);
        PyTraceMalloc_Track(3, (uintptr_t)p, 10);
        PyTraceMalloc_Untrack(3, (uintptr_t)p);
        PyMem_RawFree(p);
        PyMem_RawFree(PyMem_RawCalloc(3, 100));
    }
    pthread_mutex_unlock(&mine);
    return NULL;
}

static PyObject *
meet(PyObject *self, PyObject *none)
{
    pthread_t thread;
    atomic_store(&step, 0);
    pthread_create(&thread, NULL, native, NULL);
    while (atomic_load(&step) != 1) {
        sched_yield();
    }
    atomic_store(&step, 2);
    pthread_mutex_lock(&mine);
    pthread_mutex_unlock(&mine);
    pthread_join(thread, NULL);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"meet", meet, METH_NOARGS, 0}, {0}};
static PyModuleDef_Slot slots[] = {{Py_mod_gil, Py_MOD_GIL_NOT_USED}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tm_meet", NULL, 0, methods, slots,
};

PyMODINIT_FUNC
PyInit_tm_meet(void)
{
    return PyModuleDef_Init(&module);
}
"""


def loading_meet():
    from .util import loading
    return loading("tm_meet", MEET)


class FreshThreads(Tracing):
    """Threads that enter Python by PyGILState_Ensure()."""

    limit = 10

    def test_gilstate(self):
        module = blocks.load()
        kept = []
        names = made_in("<fresh>", "def hit(): kept.append(bytearray(900))",
                        kept=kept)
        for _ in range(10):
            self.assertEqual(module.gilstate(names["hit"], 10), 0)
        self.assertEqual(len(kept), 100)
        for block in kept:
            self.assertEqual(engine._get_object_traceback(block),
                             (("<fresh>", 1),))
        self.check_engine()
        kept.clear()
        base = engine.get_traced_memory()[0]
        for _ in range(10):
            module.gilstate(names["hit"], 10)
            kept.clear()
        grown = engine.get_traced_memory()[0] - base
        self.assertLess(abs(grown), 50_000)

    def test_temporary_c_thread(self):
        _testcapi = import_helper.import_module("_testcapi")
        found = []
        for _ in range(10):
            _testcapi.call_in_temporary_c_thread(
                lambda: found.append(below(5, probe)), True)
        for one in found:
            one.check(self)
            self.assertEqual(len(one.expected), 8)


class Churn(Tracing):
    limit = 4

    def test_threads_come_and_go(self):
        def work(out):
            out.append(below(5, probe))

        engine._freeze()
        found = []
        for _ in range(40):
            with threading_helper.start_threads(
                    threading.Thread(target=work, args=(found,))
                    for _ in range(10)):
                pass
        self.assertEqual(len(found), 400)
        for one in found[::9]:
            one.check(self)
        self.check_engine()

    def test_memory_of_ended_threads_is_given_back(self):
        def round():
            with threading_helper.start_threads(
                    threading.Thread(target=below, args=(5, probe))
                    for _ in range(10)):
                pass

        round()
        before, _ = engine._memory()
        for _ in range(20):
            round()
        after, _ = engine._memory()
        # A thread's own tables take some kilobytes: 200 threads would show.
        self.assertLess(after - before, 500_000)

    def test_thread_that_ends_after_tracing(self):
        started, go = threading.Event(), threading.Event()

        def work():
            probe()
            started.set()
            go.wait(support.SHORT_TIMEOUT)

        thread = threading.Thread(target=work)
        thread.start()
        started.wait()
        engine.stop()
        go.set()
        thread.join()
        engine.start(4)
        probe().check(self)

    def test_threads_of_before_tracing(self):
        engine.stop()
        started, go = threading.Event(), threading.Event()
        found = []

        def work():
            started.set()
            go.wait(support.SHORT_TIMEOUT)
            found.append(below(3, probe))

        thread = threading.Thread(target=work)
        thread.start()
        started.wait()
        engine.start(4)
        go.set()
        thread.join()
        found[0].check(self)


class Together(Tracing):
    """Threads that trade blocks."""

    limit = 2

    def test_blocks_made_here_and_dropped_there(self):
        before = engine.get_traced_memory()[0]
        bins = [[] for _ in range(4)]
        stop = threading.Event()

        def work(me):
            rnd = random.Random(me)
            for _ in range(3000):
                n = rnd.randrange(4)
                bins[n].append(bytearray(rnd.randrange(1200)))
                try:
                    while len(bins[me]) > 50:
                        bins[me].pop()
                except IndexError:
                    pass

        with threading_helper.start_threads(
                (threading.Thread(target=work, args=(me,)) for me in range(4)),
                unlock=stop.set):
            for _ in range(10):
                engine._freeze()
        self.check_engine()
        for one in bins:
            one.clear()
        gc.collect()            # without a GIL some blocks wait to be freed
        self.assertLess(abs(engine.get_traced_memory()[0] - before), 200_000)


class Switching(Untraced):
    """Start, stop and clear at any time, from any thread."""

    def storm(self, rounds, work, native):
        """Switch tracing on and off under threads that do some work."""
        module = blocks.load()
        done = threading.Event()
        problems = []

        def worker(me):
            rnd = random.Random(me)
            try:
                while not done.is_set():
                    work(rnd)
            except BaseException as exc:
                problems.append(exc)
                raise

        with threading_helper.start_threads(
                (threading.Thread(target=worker, args=(me,))
                 for me in range(3)), unlock=done.set):
            for i in range(rounds):
                if native:
                    module.native_start(4, 300)
                engine.start(i % 4 + 1)
                kept = [bytearray(n * 50) for n in range(20)]
                if i % 3 == 0:
                    engine.clear_traces()
                if i % 5 == 0:
                    engine._freeze()
                if i % 7 == 0:
                    self.check_engine()
                engine.stop()
                if native:
                    self.assertEqual(module.native_join(), 0)
                self.assertEqual(engine.get_traced_memory(), (0, 0))
        self.assertEqual(problems, [])
        engine.start(3)
        below(9, probe).check(self, 3)

    def test_under_threads(self):
        def work(rnd):
            kept = [bytearray(rnd.randrange(3000)) for _ in range(20)]
            below(rnd.randrange(100), lambda: kept.append(object()))
            kept.sort(key=id)

        self.storm(150, work, native=False)

    def test_under_native_threads(self):
        self.storm(60, lambda rnd: bytearray(rnd.randrange(3000)), native=True)

    def test_from_many_threads(self):
        rounds = 60

        def switch(me):
            rnd = random.Random(me)
            for _ in range(rounds):
                what = rnd.randrange(8)
                if what < 3:
                    engine.start(rnd.randrange(1, 6))
                elif what < 5:
                    engine.stop()
                elif what == 5:
                    engine.clear_traces()
                elif what == 6:
                    engine._freeze()
                else:
                    engine.get_traced_memory()
                    engine._get_object_traceback(what)
                kept = [bytearray(n) for n in (3, 300, 3000)]
                below(rnd.randrange(90), lambda: kept.append([1]))

        with threading_helper.start_threads(
                threading.Thread(target=switch, args=(me,)) for me in range(6)):
            pass
        self.check_engine()
        engine.stop()
        self.assertEqual(engine.get_traced_memory(), (0, 0))
        engine.start(3)
        below(9, probe).check(self, 3)
        self.check_engine()

    def test_questions_while_traces_are_dropped(self):
        # Answers are built from copies: another thread may clear meanwhile.
        engine.start(30)
        done = threading.Event()
        problems = []

        def ask():
            try:
                while not done.is_set():
                    block = below(20, lambda: bytearray(100))
                    frames = engine._get_object_traceback(block)
                    if frames is not None and len(frames) < 20:
                        problems.append(frames)
                    engine.get_object_trace(block)
                    engine._get_traces()
                    engine.get_stats()
            except BaseException as exc:
                problems.append(exc)
                raise

        with threading_helper.start_threads(
                (threading.Thread(target=ask) for _ in range(3)),
                unlock=done.set):
            for _ in range(200):
                engine.clear_traces()
                bytearray(500)
        self.assertEqual(problems, [])

    def test_race_of_track_and_stop(self):
        child_says(self, "ok", """
            import _testcapi, _tracemalloc
            for _ in range(20):
                _testcapi.tracemalloc_track_race()
                assert not _tracemalloc.is_tracing()
            print("ok")
        """)


if __name__ == "__main__":
    unittest.main()
