"""PyTraceMalloc_Track() and PyTraceMalloc_Untrack() from a C extension that
includes nothing but Python.h."""

import os
import subprocess
import sys
import sysconfig
import tempfile
import unittest
from test.support import threading_helper

import _tracemalloc as engine

from . import blocks
from .util import (Tracing, Untraced, _include_folders, below, child_says, walk)

ADDRESS = 0x5000_0000


class Results(Untraced):
    def setUp(self):
        self.module = blocks.load()
        super().setUp()

    def test_off(self):
        for nogil in (False, True):
            for domain in (0, 1, 2**32 - 1):
                self.assertEqual(
                    self.module.track(domain, ADDRESS, 10, nogil), -2)
                self.assertEqual(
                    self.module.untrack(domain, ADDRESS, nogil), -2)
        # And after tracing was on.
        engine.start()
        engine.stop()
        self.assertEqual(self.module.track(1, ADDRESS, 10), -2)
        self.assertEqual(self.module.untrack(1, ADDRESS), -2)

    def test_on(self):
        engine.start()
        for nogil in (False, True):
            for domain in (0, 1, 2**32 - 1):
                for _ in range(2):
                    self.assertEqual(
                        self.module.track(domain, ADDRESS, 10, nogil), 0)
                for _ in range(2):
                    self.assertEqual(
                        self.module.untrack(domain, ADDRESS, nogil), 0)

    def test_no_memory(self):
        engine.start()
        lost = engine._lost()
        engine._fail_after(1, True)
        try:
            results = [self.module.track(9, ADDRESS, 10, nogil)
                       for nogil in (False, True)]
            untracked = self.module.untrack(9, ADDRESS)
        finally:
            engine._fail_after(0)
        self.assertEqual(results, [-1, -1])
        self.assertEqual(untracked, 0)
        self.assertGreaterEqual(engine._lost(), lost + 2)
        self.assertEqual(self.module.track(9, ADDRESS, 10), 0)

    def test_no_exception_is_set_or_lost(self):
        # Called with an exception set, they leave it alone.
        for on in (True, False):
            if on:
                engine.start()
            try:
                raise KeyError("mine")
            except KeyError:
                self.module.track(9, ADDRESS, 10)
                self.module.untrack(9, ADDRESS)
                self.assertIsInstance(sys.exception(), KeyError)
            engine.stop()


class Tracebacks(Tracing):
    limit = 50

    def setUp(self):
        self.module = blocks.load()
        super().setUp()

    def traceback_of(self, domain, address):
        found = [t[2] for t in engine._get_traces() if t[0] == domain]
        self.assertEqual(len(found), 1)
        return found[0]

    def test_of_the_calling_code(self):
        def work(nogil):
            self.module.track(7, ADDRESS, 10, nogil); return walk(sys._getframe())

        for nogil in (False, True):
            for depth in (0, 3, 40):
                frames = below(depth, lambda: work(nogil))
                self.assertEqual(self.traceback_of(7, ADDRESS), frames[:50])
                self.module.untrack(7, ADDRESS, nogil)

    @threading_helper.requires_working_threading()
    def test_of_a_thread_without_python(self):
        # There is no code to name: one frame of an unknown file.
        self.module.native_start(1, 1)
        self.module.native_join()
        child_says(self, "(('<unknown>', 0),) 1", """
            import _tracemalloc as engine
            engine.start(5)
            tm_lone.track()
            (trace,) = [t for t in engine._get_traces() if t[0] == 3]
            print(trace[2], trace[3])
        """, before=loading_lone())


LONE = r"""
#include <Python.h>
#include <pthread.h>

static void *
work(void *arg)
{
    *(int *)arg = PyTraceMalloc_Track(3, 4096, 10);
    return NULL;
}

static PyObject *
track(PyObject *self, PyObject *none)
{
    pthread_t thread;
    int result = -3;
    pthread_create(&thread, NULL, work, &result);
    pthread_join(thread, NULL);
    return PyLong_FromLong(result);
}

static PyMethodDef methods[] = {{"track", track, METH_NOARGS, 0}, {0}};
static PyModuleDef_Slot slots[] = {{Py_mod_gil, Py_MOD_GIL_NOT_USED}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tm_lone", NULL, 0, methods, slots,
};

PyMODINIT_FUNC
PyInit_tm_lone(void)
{
    return PyModuleDef_Init(&module);
}
"""


def loading_lone():
    from .util import loading
    return loading("tm_lone", LONE)


class Headers(unittest.TestCase):
    """The declarations are there for C and for C++, and not in the limited
    API, as in the standard headers."""

    CALLS = r"""
        #include <Python.h>
        int use(void);
        int use(void)
        {
            return PyTraceMalloc_Track(1u, (uintptr_t)1, (size_t)2)
                   + PyTraceMalloc_Untrack(1u, (uintptr_t)1);
        }
    """

    def compile(self, source, suffix, *options):
        name = "CXX" if suffix == ".cpp" else "CC"
        compiler = (sysconfig.get_config_var(name) or "").split()
        if not compiler:
            self.skipTest("no compiler")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "use" + suffix)
            with open(path, "w") as f:
                f.write(source)
            includes = [f"-I{path}" for path in _include_folders()]
            try:
                done = subprocess.run(
                    [*compiler, "-fsyntax-only", *includes, *options, path],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            except OSError as exc:
                self.skipTest(f"no compiler: {exc}")
        if "No such file" in done.stdout and "Python.h" in done.stdout:
            self.skipTest("no headers")
        return done

    def test_c(self):
        for standard in ("-std=c11", "-std=c99"):
            done = self.compile(self.CALLS, ".c", standard, "-Wall", "-Werror")
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_cxx(self):
        for standard in ("-std=c++11", "-std=c++17"):
            done = self.compile(self.CALLS, ".cpp", standard, "-Wall")
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_not_in_the_limited_api(self):
        done = self.compile("#define Py_LIMITED_API 0x030d0000\n" + self.CALLS,
                            ".c", "-Werror=implicit-function-declaration")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("PyTraceMalloc_Track", done.stdout)


if __name__ == "__main__":
    unittest.main()
