"""The end of the interpreter, with tracing on, and its life after that."""

import os
import subprocess
import sys
import unittest
from test import support
from test.support import import_helper, threading_helper


from . import blocks
from .util import clean_env, child_says, run_child

WAYS = ((), ("-X", "tracemalloc"), ("-X", "tracemalloc=25"), ("-X", "dev",
        "-X", "tracemalloc=5"))
MALLOCS = ({}, {"PYTHONMALLOC": "debug"}, {"PYTHONMALLOC": "malloc"})


class Exit(unittest.TestCase):
    """A program that ends while it is traced ends as any other."""

    def check_ways(self, code, wanted, before="", ways=WAYS, mallocs=MALLOCS):
        import textwrap
        code = textwrap.dedent(code)
        for options in ways:
            for env in mallocs:
                if support.Py_GIL_DISABLED and "malloc" in env.values():
                    continue
                with self.subTest(options=options, env=env):
                    done = run_child(
                        "import _tracemalloc as engine\n"
                        "engine.is_tracing() or engine.start(5)\n" + code,
                        *options, env=env, before=before)
                    self.assertEqual((done.status, done.out.strip(), done.err),
                                     (0, wanted, ""))

    def test_plain(self):
        self.check_ways("kept = [bytearray(n) for n in range(1000)]", "")

    def test_with_what_survives_until_the_end(self):
        self.check_ways("""
            import sys, builtins, threading, json, asyncio, ctypes
            class Thing: pass
            cycle = Thing(); cycle.cycle = cycle; cycle.data = bytearray(9999)
            builtins.cycle = sys.cycle = cycle
            def generator():
                try:
                    yield bytearray(5)
                finally:
                    kept = [bytearray(n) for n in range(50)]
            g = generator(); next(g); sys.g = g
        """, "", mallocs=MALLOCS[:2])

    def test_atexit(self):
        self.check_ways("""
            import atexit
            def last():
                block = bytearray(1)
                assert engine._get_object_traceback(block) is not None
                assert engine._check() is None
                print("last")
            atexit.register(last)
        """, "last", mallocs=MALLOCS[:2])

    def test_stop_at_exit(self):
        self.check_ways("""
            import atexit
            atexit.register(engine.stop)
            class Late:
                def __del__(self, engine=engine):
                    engine.stop()
                    engine.start(2)
                    engine.clear_traces()
                    bytearray(5)
                    engine._get_traces()
            late = Late(); late.cycle = late
        """, "", mallocs=MALLOCS[:2])

    def test_start_while_finalizing(self):
        self.check_ways("""
            engine.stop()
            import sys
            class Late:
                def __del__(self, engine=engine):
                    engine.start(3)
                    assert engine.is_tracing()
                    self.data = bytearray(100)
            sys.late = Late(); sys.late.cycle = sys.late
            late = Late()
        """, "", mallocs=MALLOCS[:2])

    def test_warnings_at_the_end(self):
        # They ask for the traceback of the object when little is left.
        for code in ("import sys; f = open(sys.executable, 'rb')",
                     "import sys; sys.f = open(sys.executable, 'rb')",
                     "import sys, tracemalloc, warnings\n"
                     "f = open(sys.executable, 'rb'); f.cycle = [f]"):
            done = run_child(code.replace("f.cycle = [f]", "g = [f]"),
                             "-X", "tracemalloc=3", "-W", "default")
            self.assertEqual((done.status, done.out), (0, ""))
            self.assertNotIn("Traceback", done.err)
            self.assertNotIn("Exception ignored", done.err)

    def test_exceptions_and_hard_ends(self):
        for code, status in (("raise SystemExit(3)", 3), ("1/0", 1),
                             ("import os; os._exit(4)", 4),
                             ("import sys; sys.exit('bye')", 1)):
            done = run_child(code, "-X", "tracemalloc=9")
            self.assertEqual(done.status, status, done)

    @threading_helper.requires_working_threading()
    @unittest.skipIf(support.check_sanitizer(address=True, thread=True),
                     "3.13's drop_gil() reads a daemon thread's state that "
                     "the end of the interpreter frees, traced or not")
    def test_daemon_threads(self):
        # They go on while the interpreter ends.
        self.check_ways("""
            import threading
            ready = threading.Barrier(4)
            def work():
                first = True
                while True:
                    kept = [bytearray(n * 5) for n in range(100)]
                    kept.sort(key=len)
                    if first:
                        first = False
                        ready.wait()
            for _ in range(3):
                threading.Thread(target=work, daemon=True).start()
            ready.wait()
        """, "", ways=WAYS[:2], mallocs=MALLOCS[:2])

    @unittest.skipIf(support.Py_DEBUG, "debug builds, stock's too, set the RAW "
                     "allocator anew at the end, under native threads")
    def test_native_threads_to_the_end(self):
        # They track and allocate raw memory during and after finalization.
        blocks.load()
        for _ in range(4):
            self.check_ways("""
                tm_blocks.native_start(4, 2_000_000_000)
                kept = [bytearray(n) for n in range(1000)]
            """, "", before=blocks.loading(), ways=WAYS[:2],
                mallocs=MALLOCS[:1])

    def test_track_at_the_very_end(self):
        child_says(self, "0 0\n-2 -2", """
            import _tracemalloc as engine
            engine.start(3)
            print(tm_late.track(), tm_late.untrack(), flush=True)
            tm_late.at_exit()
        """, before=loading_late())


LATE = r"""
#include <Python.h>
#include <stdio.h>

static int track_it(void) { return PyTraceMalloc_Track(5, 4096, 10); }
static int untrack_it(void) { return PyTraceMalloc_Untrack(5, 4096); }

static PyObject *
track(PyObject *self, PyObject *none)
{
    return PyLong_FromLong(track_it());
}

static PyObject *
untrack(PyObject *self, PyObject *none)
{
    return PyLong_FromLong(untrack_it());
}

/* Called when the interpreter is gone. */
static void
last(void)
{
    void *p = PyMem_RawMalloc(100);
    p = PyMem_RawRealloc(p, 2000);
    int t = track_it(), u = untrack_it();
    PyMem_RawFree(p);
    printf("%d %d\n", t, u);
    fflush(stdout);
}

static PyObject *
at_exit(PyObject *self, PyObject *none)
{
    return PyLong_FromLong(Py_AtExit(last));
}

static PyMethodDef methods[] = {
    {"track", track, METH_NOARGS, 0},
    {"untrack", untrack, METH_NOARGS, 0},
    {"at_exit", at_exit, METH_NOARGS, 0},
    {0},
};
static PyModuleDef_Slot slots[] = {{Py_mod_gil, Py_MOD_GIL_NOT_USED}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tm_late", NULL, 0, methods, slots,
};

PyMODINIT_FUNC
PyInit_tm_late(void)
{
    return PyModuleDef_Init(&module);
}
"""


def loading_late():
    from .util import loading
    return loading("tm_late", LATE)


class Embedded(unittest.TestCase):
    """Initialised, finalized, and initialised again, in one process."""

    def setUp(self):
        # It takes the folder where it is started for that of the interpreter.
        self.folder = os.path.dirname(os.path.abspath(sys.executable))
        self.program = os.path.join(self.folder, "Programs", "_testembed")
        if not os.access(self.program, os.X_OK):
            self.skipTest("no _testembed: not run from a build folder")

    def run_program(self, *arguments, env=None):
        return subprocess.run(
            [self.program, *arguments], env=clean_env(env), cwd=self.folder,
            capture_output=True, text=True, timeout=support.LONG_TIMEOUT)

    def run_each(self, *codes, env=None):
        """Run each code in an interpreter of its own; what all print."""
        done = self.run_program("test_repeated_init_exec", *codes, env=env)
        noise = [line for line in done.stderr.splitlines()
                 if not line.startswith("--- Loop #")]
        self.assertEqual((done.returncode, noise), (0, []))
        return done.stdout.split("\n")[:-1]

    STATE = ("import _tracemalloc as t; print(t.is_tracing(), "
             "t.get_traceback_limit(), t.get_traced_memory(), "
             "t.get_fork_policy(), t._lost())")
    FRESH = "False 1 (0, 0) None 0"
    WORK = ("kept = [bytearray(n) for n in range(2000)]\n"
            "def deep(n): return deep(n - 1) if n else bytearray(1)\n"
            "b = deep(40)\n"
            "assert len(t._get_object_traceback(b)) == t.get_traceback_limit()\n"
            "assert t._check() is None, t._check()\n"
            "import sys; sys.kept = kept\n")

    def test_state_is_fresh_each_time(self):
        out = self.run_each(
            self.STATE,
            self.STATE + "; t.start(9); t.set_fork_policy('follow')\n" + self.WORK,
            self.STATE + "; t.set_traceback_limit(30)\n",
            self.STATE + "; t.enable()\n" + self.WORK + "t.stop()\n",
            self.STATE)
        self.assertEqual(out, [self.FRESH] * 5)

    def test_tracing_on_at_each_end(self):
        code = "import _tracemalloc as t; t.start(7)\n" + self.WORK
        for env in MALLOCS:
            if support.Py_GIL_DISABLED and "malloc" in env.values():
                continue
            self.assertEqual(self.run_each(*[code] * 5, env=env), [])

    def test_turned_on_by_the_environment_each_time(self):
        code = ("import _tracemalloc as t\n" + self.WORK
                + "print(t.is_tracing(), t.get_traceback_limit())")
        out = self.run_each(*[code] * 4, env={"PYTHONTRACEMALLOC": "6"})
        self.assertEqual(out, ["True 6"] * 4)

    def test_memory_of_the_engine_does_not_grow(self):
        code = ("import _tracemalloc as t; t.start(7)\n" + self.WORK
                + "print(t._memory()[0])")
        sizes = list(map(int, self.run_each(*[code] * 6)))
        self.assertLess(sizes[-1], sizes[1] + 500_000, sizes)

    def test_threads_and_interpreters(self):
        import_helper.import_module("_interpreters")
        code = """if True:
            import _tracemalloc as t, threading, _interpreters
            t.start(5)
            threads = [threading.Thread(target=bytearray, args=(n,))
                       for n in range(5)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            for kind in ("legacy", "isolated"):
                i = _interpreters.create(kind)
                assert _interpreters.exec(i, "x = bytearray(9)") is None
                _interpreters.destroy(i)
            assert t._check() is None
        """
        self.assertEqual(self.run_each(*[code] * 3), [])

    def test_repeated_simple_init(self):
        for name in ("test_repeated_simple_init",
                     "test_repeated_init_and_subinterpreters"):
            done = self.run_program(name, env={"PYTHONTRACEMALLOC": "5"})
            self.assertEqual(done.returncode, 0, done)


if __name__ == "__main__":
    unittest.main()
