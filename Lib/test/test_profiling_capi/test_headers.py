"""The public headers are valid C and C++, and what is built with them works in both."""

import os
import tempfile
import textwrap
import unittest

from . import _build
from .util import CapiTestCase, GIL_DISABLED

EVERYTHING = textwrap.dedent("""
    #include <Python.h>

    static int tracer(PyObject *, PyRefTracerEvent event, void *);
    static int tracer(PyObject *op, PyRefTracerEvent event, void *data) {
        (void)op, (void)data;
        switch (event) {            /* all events: a warning when one is missing */
        case PyRefTracer_CREATE: return 1;
        case PyRefTracer_DESTROY: return 2;
        case PyRefTracer_TRACKER_REMOVED: return 3;
        }
        return 0;
    }

    static int func(PyObject *obj, PyFrameObject *frame, int what, PyObject *arg) {
        (void)obj, (void)frame, (void)arg;
        switch (what) {
        case PyTrace_CALL: case PyTrace_EXCEPTION: case PyTrace_LINE: case PyTrace_RETURN:
        case PyTrace_C_CALL: case PyTrace_C_EXCEPTION: case PyTrace_C_RETURN: case PyTrace_OPCODE: return 0;
        default: return -1;
        }
    }

    PyMODINIT_FUNC PyInit_everything(void);
    PyMODINIT_FUNC PyInit_everything(void) {
        void *data = NULL;
        PyRefTracer old = PyRefTracer_GetTracer(&data);
        Py_tracefunc function = func;
        if (PyRefTracer_SetTracer(tracer, NULL) < 0 || PyRefTracer_SetTracer(old, data) < 0) return NULL;
        PyEval_SetProfile(function, NULL);
        PyEval_SetTrace(function, NULL);
        PyEval_SetProfileAllThreads(NULL, NULL);
        PyEval_SetTraceAllThreads(NULL, NULL);
        if (PyUnstable_PerfMapState_Init() == 0) (void)PyUnstable_WritePerfMapEntry(data, 1, "x");
        PyUnstable_PerfMapState_Fini();
        if (PyTraceMalloc_Track(1, 2, 3) == 0) (void)PyTraceMalloc_Untrack(1, 2);
        return PyErr_Occurred() ? NULL : PyModule_Create(NULL);
    }
""")


class HeaderTests(unittest.TestCase):
    """Warnings are errors here, those that the headers cause included."""

    def compile_everything(self, language: str, *options: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "everything.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write(EVERYTHING)
            includes = [f"-I{name}" for name in _build.include_folders()]
            _build.compile_source(source, os.path.join(folder, "everything.so"), language, *includes, *options)

    def test_c(self) -> None:
        self.compile_everything("c")

    def test_newer_c(self) -> None:
        self.compile_everything("c", "-std=gnu17")

    def test_cxx(self) -> None:
        self.compile_everything("c++")

    def test_newer_cxx(self) -> None:
        self.compile_everything("c++", "-std=c++17")


class LanguageTests(CapiTestCase):
    """The test extensions built as C++ do what they do when they are built as C."""

    def smoke(self, name: str, code: str) -> None:
        folder = _build.folder_of(name, "c++")
        options = ("-X", "gil=0") if GIL_DISABLED else ()
        self.run_code(f"import sys; sys.path.insert(0, sys.argv[1])\nimport {name} as ext\n{code}\nprint('done')", folder,
                      wanted="done", options=options)

    def test_reference_tracer(self) -> None:
        self.smoke("reftracer_ext", "ext.counter_on(list); x = [1]; del x\n"
                                    "made, gone, removed = ext.counter_off()\n"
                                    "assert (made, gone, removed) == (1, 1, 1), (made, gone, removed)")

    def test_trace_function(self) -> None:
        self.smoke("tracefunc_ext", "seen = []\ndef f(): return 5\next.set('profile', seen)\nf()\next.set('profile')\n"
                                    "assert (ext.RETURN, 'f', f.__code__.co_firstlineno, 5) in seen, seen")

    def test_perf_map(self) -> None:
        self.smoke("perfmap_ext", "import os\npath = '/tmp/perf-%d.map' % os.getpid()\n"
                                  "assert ext.write(16, 5, b'name') == (0, 0)\next.fini()\n"
                                  "assert open(path).read() == '10 5 name\\n'\nos.remove(path)")


if __name__ == "__main__":
    unittest.main()
