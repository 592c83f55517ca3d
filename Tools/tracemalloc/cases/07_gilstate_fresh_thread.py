"""
Source : python/cpython#96071
Kind   : deadlock, native thread
Seen   : PyGILState_Ensure() in a brand-new C thread allocated its thread state
         under an internal lock; the tracing hook then took the GIL again for
         that allocation and the thread hung.
Right  : with tracing on, many fresh C threads can enter Python, allocate, call
         a Python function and leave; nothing hangs, the Python file name is in
         the trace, and memory returns to where it was.
"""
from _case import build_ext, child, clean

C = r"""
#include <Python.h>
#include <pthread.h>
static PyObject *cb;
static void *native(void *arg) {
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *r = PyObject_CallNoArgs(cb);
    if (!r) PyErr_Print();
    Py_XDECREF(r);
    PyGILState_Release(g);
    return NULL;
}
static PyObject *spin(PyObject *s, PyObject *f) {
    pthread_t t[10];
    cb = f;
    Py_BEGIN_ALLOW_THREADS
    for (int r = 0; r < 20; r++) {
        for (int i = 0; i < 10; i++) pthread_create(&t[i], NULL, native, NULL);
        for (int i = 0; i < 10; i++) pthread_join(t[i], NULL);
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
static PyMethodDef m[] = {{"spin", spin, METH_O, 0}, {0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "casemod", 0, -1, m};
PyMODINIT_FUNC PyInit_casemod(void) { return PyModule_Create(&d); }
"""
where = build_ext(C)
CODE = """
    import sys; sys.path.insert(0, sys.argv[1])
    import casemod, gc, tracemalloc
    if not tracemalloc.is_tracing(): tracemalloc.start(6)
    kept = []
    ns = {"kept": kept}
    exec(compile("def hit():\\n    kept.append(bytearray(900))\\n", "fresh_thread.py", "exec"), ns)
    casemod.spin(ns["hit"])
    assert len(kept) == 200
    tb = tracemalloc.get_object_traceback(kept[57])
    assert (tb[-1].filename, tb[-1].lineno) == ("fresh_thread.py", 2), tb
    kept.clear(); gc.collect()
    base = tracemalloc.get_traced_memory()[0]
    for _ in range(5):
        casemod.spin(ns["hit"]); kept.clear()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - base
    assert abs(grown) < 20000, grown
    print("done")
"""
for opts in ((), ("-X", "tracemalloc"), ("-X", "tracemalloc=25")):
    for env in ({}, {"PYTHONMALLOC": "debug"}):
        clean(child(CODE, *opts, env=env, argv=[where], timeout=60), f"fresh threads {opts}", "done")
print("OK")
