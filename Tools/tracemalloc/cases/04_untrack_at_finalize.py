"""
Source : python/cpython#129185
Kind   : crash at interpreter exit, C extension
Seen   : an object that lives until modules are torn down calls
         PyTraceMalloc_Untrack() in its destructor (as array libraries do):
         segmentation fault at exit, even when tracing was never started.
Right  : Track/Untrack during late finalization and from Py_AtExit() return
         0 or -2 and the process exits with status 0.
"""
from _case import build_ext, child, clean, need

C = r"""
#include <Python.h>
static PyObject *keep;
static void gone(PyObject *cap) {
    int a = PyTraceMalloc_Track(5, (uintptr_t)cap, 64);
    int b = PyTraceMalloc_Untrack(5, (uintptr_t)cap);
    fprintf(stderr, "capsule gone %d %d\n", a, b);
}
static PyObject *hold(PyObject *s, PyObject *a) {
    PyObject *cap = PyCapsule_New((void *)&keep, NULL, gone);
    if (!cap) return NULL;
    PyTraceMalloc_Track(5, (uintptr_t)cap, 64);
    return cap;
}
static PyMethodDef m[] = {{"hold", hold, METH_NOARGS, 0}, {0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "casemod", 0, -1, m};
PyMODINIT_FUNC PyInit_casemod(void) {
    PyObject *mod = PyModule_Create(&d);
    /* two owners: the module dict and a C global that nobody clears */
    PyObject *cap = hold(NULL, NULL);
    PyModule_AddObject(mod, "cap", cap);
    return mod;
}
"""
where = build_ext(C)
PRE = "import sys; sys.path.insert(0, sys.argv[1]); import casemod\n"
TAILS = {
    "module dict only": "",
    "reached from sys": "sys.zz = casemod.hold()",
    "reached from a builtin": "import builtins; builtins.zz = [casemod.hold()]",
    "in a cycle": "a = [casemod.hold()]; a.append(a)",
    "started at run time": "import tracemalloc; tracemalloc.start(4); sys.zz = casemod.hold()",
    "started and stopped": "import tracemalloc; tracemalloc.start(4); sys.zz = casemod.hold(); tracemalloc.stop()",
    "in a type": "class T: pass\nT.x = casemod.hold(); sys.zz = T",
}
for what, tail in TAILS.items():
    for opts in ((), ("-X", "tracemalloc=3")):
        res = child(PRE + tail, *opts, argv=[where])
        clean(res, f"{what} {opts}")
        need("capsule gone" in res[2], what, "destructor did not run", res[2])
        for line in res[2].splitlines():
            if line.startswith("capsule gone"):
                need(set(line.split()[2:]) <= {"0", "-2"}, what, line)
print("OK")
