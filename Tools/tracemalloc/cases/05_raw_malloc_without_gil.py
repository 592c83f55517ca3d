"""
Source : python/cpython#155725
Kind   : deadlock, raw allocator contract
Seen   : while tracing, PyMem_RawMalloc()/RawFree() called by a native thread
         waited for the GIL. The raw domain is documented as usable without the
         GIL, so a native thread that holds its own lock and allocates raw
         memory deadlocks with a Python thread that wants that lock.
Right  : PyMem_Raw* never waits for the GIL; the exchange below finishes, with
         tracing off and with tracing on.
"""
from _case import build_ext, child, clean

C = r"""
#include <Python.h>
#include <pthread.h>
#include <stdatomic.h>
static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
static atomic_int step;
static void *native(void *arg) {
    pthread_mutex_lock(&mine);
    atomic_store(&step, 1);
    while (atomic_load(&step) != 2) { }
    /* the Python thread now holds the GIL and is about to wait for `mine` */
    for (int i = 0; i < 50; i++) {
        void *p = PyMem_RawMalloc(64 + i);
        p = PyMem_RawRealloc(p, 4096);
        void *q = PyMem_RawCalloc(3, 100);
        PyMem_RawFree(p);
        PyMem_RawFree(q);
    }
    pthread_mutex_unlock(&mine);
    return NULL;
}
static PyObject *meet(PyObject *s, PyObject *a) {
    pthread_t t;
    atomic_store(&step, 0);
    pthread_create(&t, NULL, native, NULL);
    Py_BEGIN_ALLOW_THREADS
    while (atomic_load(&step) != 1) { }
    Py_END_ALLOW_THREADS
    atomic_store(&step, 2);
    pthread_mutex_lock(&mine);      /* waits with the GIL held */
    pthread_mutex_unlock(&mine);
    Py_BEGIN_ALLOW_THREADS
    pthread_join(t, NULL);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
static PyMethodDef m[] = {{"meet", meet, METH_NOARGS, 0}, {0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "casemod", 0, -1, m};
PyMODINIT_FUNC PyInit_casemod(void) { return PyModule_Create(&d); }
"""
where = build_ext(C)
CODE = """
    import sys; sys.path.insert(0, sys.argv[1])
    import casemod
    for _ in range(3): casemod.meet()
    print("done")
"""
clean(child(CODE, argv=[where], timeout=20), "raw malloc, tracing off", "done")
clean(child(CODE, "-X", "tracemalloc=5", argv=[where], timeout=20),
      "raw malloc, tracing on", "done")
print("OK")
