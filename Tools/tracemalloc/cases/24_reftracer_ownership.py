"""
Source : bloomberg/memray#1023, python/cpython#129258 (review)
Kind   : PyRefTracer ownership
Seen   : there is one reference tracer per process. tracemalloc.start() takes it
         from whoever had it, stop() sets it to NULL even if somebody else has
         taken it in the meantime, and neither tells the loser.
Right  : stop() leaves alone a tracer that is not its own; a second start() while
         tracing does not steal it back. If the tracer engine does not need the
         reference tracer it must not touch it at all. (Stock 3.13.5 fails.)
"""
from _case import build_ext, child, clean

C = r"""
#include <Python.h>
static Py_ssize_t made;
static int tr(PyObject *o, PyRefTracerEvent ev, void *data) {
    if (ev == PyRefTracer_CREATE) ++*(Py_ssize_t *)data;
    return 0;
}
static PyObject *on(PyObject *s, PyObject *a) {
    if (PyRefTracer_SetTracer(tr, &made) < 0) return NULL;
    Py_RETURN_NONE;
}
static PyObject *state(PyObject *s, PyObject *a) {
    void *d = NULL;
    PyRefTracer f = PyRefTracer_GetTracer(&d);
    return PyUnicode_FromString(f == NULL ? "none" : (f == tr && d == &made) ? "mine" : "other");
}
static PyMethodDef m[] = {{"on", on, METH_NOARGS, 0}, {"state", state, METH_NOARGS, 0}, {0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "casemod", 0, -1, m};
PyMODINIT_FUNC PyInit_casemod(void) { return PyModule_Create(&d); }
"""
where = build_ext(C)
CODE = """
    import sys; sys.path.insert(0, sys.argv[1])
    import casemod, tracemalloc
    tracemalloc.start()
    casemod.on()
    tracemalloc.start(5)            # already tracing: a no-op
    a = casemod.state()
    tracemalloc.stop()
    b = casemod.state()
    x = [[] for _ in range(100)]    # must not crash
    tracemalloc.start(); tracemalloc.stop()
    x = [[] for _ in range(100)]
    print(a, b)
"""
clean(child(CODE, argv=[where]), "who owns the reference tracer", "mine mine")
print("OK")
