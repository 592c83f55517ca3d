"""
Source : stackless-dev/stackless#67, mhammond/pywin32#1579 (memory calls from
         places with no ordinary Python frame crashed the tracer)
Kind   : allocation with no Python frame
Seen   : the walk over the frames met something it did not expect: crash.
Right  : a native thread that never ran Python, and one whose thread state has
         no frame, may allocate: the trace has one frame "<unknown>" line 0 (or
         none at all is made), snapshots and statistics work; blocks made there
         and freed elsewhere leave the totals right.
"""
from _case import build_ext, child, clean

C = r"""
#include <Python.h>
#include <pthread.h>
static void *blocks[3][200];
static void *raw_only(void *a) {
    for (int i = 0; i < 200; i++) blocks[0][i] = PyMem_RawMalloc(6000 + i);
    return NULL;
}
static void *with_state(void *a) {
    PyGILState_STATE g = PyGILState_Ensure();
    for (int i = 0; i < 200; i++) { blocks[1][i] = PyMem_Malloc(6000 + i); blocks[2][i] = PyObject_Malloc(6000 + i); }
    PyObject *l = PyList_New(0);
    for (int i = 0; i < 100; i++) { PyObject *s = PyUnicode_FromFormat("item %d", i); PyList_Append(l, s); Py_DECREF(s); }
    Py_DECREF(l);
    PyGILState_Release(g);
    return NULL;
}
static PyObject *make(PyObject *s, PyObject *x) {
    pthread_t a, b;
    Py_BEGIN_ALLOW_THREADS
    pthread_create(&a, NULL, raw_only, NULL); pthread_create(&b, NULL, with_state, NULL);
    pthread_join(a, NULL); pthread_join(b, NULL);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
static PyObject *drop(PyObject *s, PyObject *x) {
    for (int i = 0; i < 200; i++) { PyMem_RawFree(blocks[0][i]); PyMem_Free(blocks[1][i]); PyObject_Free(blocks[2][i]); }
    Py_RETURN_NONE;
}
static PyMethodDef m[] = {{"make", make, METH_NOARGS, 0}, {"drop", drop, METH_NOARGS, 0}, {0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "casemod", 0, -1, m};
PyMODINIT_FUNC PyInit_casemod(void) { return PyModule_Create(&d); }
"""
where = build_ext(C)
CODE = """
    import sys; sys.path.insert(0, sys.argv[1])
    import casemod, gc, tracemalloc as tm
    tm.start(int(sys.argv[2]))
    gc.collect(); base = tm.get_traced_memory()[0]
    for rnd in range(5):
        casemod.make()
        s = tm.take_snapshot()
        un = [t for t in s.traces if t.traceback[0].filename == "<unknown>"]
        assert all(len(t.traceback) == 1 and t.traceback[0].lineno == 0 and t.traceback.total_nframe == 1 for t in un)
        mine = [t for t in s.traces if 6000 <= t.size < 6200]
        assert len(mine) == 600, len(mine)
        assert all(t.traceback[0].filename == "<unknown>" for t in mine)
        for k in ("traceback", "lineno", "filename"): s.statistics(k)
        assert len(s.filter_traces([tm.Filter(True, "<unknown>")]).traces) == len(un)
        del s, un, mine
        casemod.drop()
    gc.collect()
    now = tm.get_traced_memory()[0]
    assert abs(now - base) < 30000, now - base
    print("done")
"""
for n in ("1", "40"):
    for env in ({}, {"PYTHONMALLOC": "debug"}):
        clean(child(CODE, env=env, argv=[where, n]), f"no Python frame {n} {env}", "done")
print("OK")
