"""
Source : numpy/numpy#30900 and numpy/numpy#30902
Kind   : wrong count, C extension with its own domain
Seen   : array memory taken with PyMem_RawMalloc() and also reported with
         PyTraceMalloc_Track() in the library's own domain was counted twice;
         the library's cure is to untrack it from the default domain (0).
Right  : PyTraceMalloc_Untrack(0, ptr) on a block the raw hook traced removes
         that trace once; the block is then counted once, in the library's
         domain; freeing it later (raw free + untrack) brings both to zero, and
         an untrack of something unknown returns 0 and changes nothing.
"""
from _case import build_ext, child, clean

C = r"""
#include <Python.h>
#define DOM 389047
static PyObject *get(PyObject *s, PyObject *a) {
    Py_ssize_t n = PyLong_AsSsize_t(a);
    void *p = PyMem_RawMalloc(n);
    int r1 = PyTraceMalloc_Untrack(0, (uintptr_t)p);
    int r2 = PyTraceMalloc_Track(DOM, (uintptr_t)p, n);
    return Py_BuildValue("Kii", (unsigned long long)(uintptr_t)p, r1, r2);
}
static PyObject *put(PyObject *s, PyObject *a) {
    void *p = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(a);
    int r = PyTraceMalloc_Untrack(DOM, (uintptr_t)p);
    PyMem_RawFree(p);
    int again = PyTraceMalloc_Untrack(DOM, (uintptr_t)p);
    int other = PyTraceMalloc_Untrack(DOM + 1, (uintptr_t)p);
    return Py_BuildValue("iii", r, again, other);
}
static PyMethodDef m[] = {{"get", get, METH_O, 0}, {"put", put, METH_O, 0}, {0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "casemod", 0, -1, m};
PyMODINIT_FUNC PyInit_casemod(void) { return PyModule_Create(&d); }
"""
where = build_ext(C)
CODE = """
    import sys; sys.path.insert(0, sys.argv[1])
    import casemod, tracemalloc as tm
    tm.start(3)
    BIG = 40_000_000
    a = tm.get_traced_memory()[0]
    ptr, r1, r2 = casemod.get(BIG)
    assert (r1, r2) == (0, 0), (r1, r2)
    b, peak = tm.get_traced_memory()
    assert abs(b - a - BIG) < 5000, b - a
    assert peak < a + 2 * BIG + 5000
    snap = tm.take_snapshot()
    mine = snap.filter_traces([tm.DomainFilter(True, 389047)])
    assert [t.size for t in mine.traces] == [BIG], list(mine.traces)
    rest = snap.filter_traces([tm.DomainFilter(False, 389047)])
    assert not [t for t in rest.traces if t.size >= BIG]
    assert len(rest.traces) + 1 == len(snap.traces)
    assert casemod.put(ptr) == (0, 0, 0)
    c = tm.get_traced_memory()[0]
    assert abs(c - a) < 20_000, c - a
    tm.stop()
    ptr, r1, r2 = casemod.get(100)
    assert (r1, r2) == (-2, -2)
    assert casemod.put(ptr) == (-2, -2, -2)
    print("done")
"""
for env in ({}, {"PYTHONMALLOC": "debug"}, {"PYTHONMALLOC": "malloc"}):
    clean(child(CODE, env=env, argv=[where]), f"own domain {env}", "done")
print("OK")
