"""
Source : python/cpython#130382, python/cpython#125703, python/cpython#126076
Kind   : PyRefTracer, missing events
Seen   : objects released by the interpreter loop itself, or moved by a resize,
         sent no DESTROY event, so creations and destructions did not match.
Right  : for lists, tuples, dicts, floats, str and bytes made and dropped in
         Python code, the number of CREATE events equals that of DESTROY events,
         with tracemalloc off, and after it has been started and stopped.
"""
from _case import build_ext, child, clean

C = r"""
#include <Python.h>
static PyTypeObject *want;
static Py_ssize_t made, gone;
static int tr(PyObject *o, PyRefTracerEvent ev, void *data) {
    if (o != NULL && Py_TYPE(o) == want) {      /* NULL: the tracer is removed */
        if (ev == PyRefTracer_CREATE) made++; else if (ev == PyRefTracer_DESTROY) gone++;
    }
    return 0;
}
static PyObject *on(PyObject *s, PyObject *t) {
    want = (PyTypeObject *)t; made = gone = 0;
    if (PyRefTracer_SetTracer(tr, &made) < 0) return NULL;
    Py_RETURN_NONE;
}
static PyObject *off(PyObject *s, PyObject *a) {
    void *d = NULL;
    int mine = PyRefTracer_GetTracer(&d) == tr && d == &made;
    PyRefTracer_SetTracer(NULL, NULL);
    return Py_BuildValue("nni", made, gone, mine);
}
static PyMethodDef m[] = {{"on", on, METH_O, 0}, {"off", off, METH_NOARGS, 0}, {0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "casemod", 0, -1, m};
PyMODINIT_FUNC PyInit_casemod(void) { return PyModule_Create(&d); }
"""
where = build_ext(C)
CODE = '''
    import sys; sys.path.insert(0, sys.argv[1])
    import casemod, gc
    if sys.argv[2] == "tm":
        import tracemalloc
        tracemalloc.start(4); x = [[] for _ in range(99)]; tracemalloc.stop(); del x
    gc.disable()
    TESTS = {
        list: "for i in range(N): x = [i]\\nx = None",
        dict: "for i in range(N): x = {i: i}\\nx = None",
        tuple: "for i in range(N): x = (i, i)\\nx = None",
        float: "for i in range(N): x = i * 1.5\\nx = None",
        bytes: "for i in range(N): x = b'ab' * (i + 2)\\nx = None",
        str: "for i in range(N):\\n    x = 'a'\\n    for k in range(5): x += 'b' * 40\\nx = None",
        set: "for i in range(N): x = {i}\\nx = None",
    }
    bad = []
    for typ, src in TESTS.items():
        code = compile(src, "balance", "exec")
        ns = {"N": 500}
        exec(code, ns)                     # warm up, let the loop specialise
        exec(code, ns)
        on, off = casemod.on, casemod.off
        on(typ)
        exec(code, ns)
        made, gone, mine = off()
        if not mine: bad.append((typ.__name__, "tracer was replaced"))
        if made < 500: bad.append((typ.__name__, "made", made))
        if abs(made - gone) > 5: bad.append((typ.__name__, made, gone))
    assert not bad, bad
    print("done")
'''
for how in ("plain", "tm"):
    clean(child(CODE, argv=[where, how]), f"create/destroy balance, {how}", "done")
print("OK")
