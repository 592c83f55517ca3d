"""
Source : python/cpython#130093
Kind   : deadlock, C API, tracing not even started
Seen   : after a race fix, PyTraceMalloc_Track()/Untrack() took the GIL before
         looking at whether tracing is on. A library whose native workers
         report every allocation hung when the Python thread waited for them
         with the GIL held, although nobody had called tracemalloc.start().
Right  : with tracing off both calls return -2 at once, from any thread,
         without needing the GIL.
"""
from _case import build_ext, child, clean

C = r"""
#include <Python.h>
#include <pthread.h>
static int results[64];
static void *native(void *arg) {
    int i = (int)(intptr_t)arg;
    int a = PyTraceMalloc_Track(9, 4096 + i, 8);
    int b = PyTraceMalloc_Untrack(9, 4096 + i);
    results[i] = (a == -2 && b == -2) ? 1 : -1;
    return NULL;
}
static PyObject *meet(PyObject *s, PyObject *a) {
    pthread_t t[8];
    int good = 0;
    for (intptr_t i = 0; i < 8; i++) pthread_create(&t[i], NULL, native, (void *)i);
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);   /* GIL held */
    for (int i = 0; i < 8; i++) good += results[i] == 1;
    return PyLong_FromLong(good);
}
static PyMethodDef m[] = {{"meet", meet, METH_NOARGS, 0}, {0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "casemod", 0, -1, m};
PyMODINIT_FUNC PyInit_casemod(void) { return PyModule_Create(&d); }
"""
where = build_ext(C)
for pre in ("", "import tracemalloc; tracemalloc.start(); tracemalloc.stop()\n"):
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import casemod\n" + pre
            + "print(casemod.meet())")
    clean(child(code, argv=[where], timeout=20),
          f"track with tracing off ({pre.strip() or 'never started'})", "8")
print("OK")
