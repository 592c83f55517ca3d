"""
Source : python/cpython#128679 (and python/cpython#143143, #131566)
Kind   : race, crash
Seen   : threads that do not hold the GIL report their own memory with
         PyTraceMalloc_Track()/Untrack() while another thread calls
         tracemalloc.stop(): segmentation fault.
Right  : start/stop/clear in the main thread against native threads that track,
         untrack and use PyMem_Raw*: no crash, no hang, and at the end of each
         round, with all threads joined, the totals agree with the traces.
"""
from _case import build_ext, child, clean

C = r"""
#include <Python.h>
#include <pthread.h>
#include <stdatomic.h>
static atomic_int go, bad;
static void *work(void *arg) {
    uintptr_t base = ((uintptr_t)arg + 1) << 20;
    while (!atomic_load(&go)) { }
    for (int i = 0; i < 300; i++) {
        int r = PyTraceMalloc_Track(77, base + i, 10);
        if (r != 0 && r != -2) atomic_fetch_add(&bad, 1);
        void *p = PyMem_RawMalloc(100 + i);
        p = PyMem_RawRealloc(p, 3000);
        PyMem_RawFree(p);
        r = PyTraceMalloc_Untrack(77, base + i);
        if (r != 0 && r != -2) atomic_fetch_add(&bad, 1);
    }
    return NULL;
}
#define N 8
static pthread_t th[N];
static PyObject *launch(PyObject *s, PyObject *a) {
    atomic_store(&go, 0);
    for (uintptr_t i = 0; i < N; i++)
        pthread_create(&th[i], NULL, work, (void *)i);
    atomic_store(&go, 1);
    Py_RETURN_NONE;
}
static PyObject *join(PyObject *s, PyObject *a) {
    Py_BEGIN_ALLOW_THREADS
    for (int i = 0; i < N; i++) pthread_join(th[i], NULL);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(atomic_load(&bad));
}
static PyMethodDef m[] = {{"launch", launch, METH_NOARGS, 0},
                          {"join", join, METH_NOARGS, 0}, {0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "casemod", 0, -1, m};
PyMODINIT_FUNC PyInit_casemod(void) { return PyModule_Create(&d); }
"""
where = build_ext(C)
CODE = """
    import sys; sys.path.insert(0, sys.argv[1])
    import casemod, tracemalloc, time
    for rnd in range(60):
        tracemalloc.start(rnd % 3 + 1)
        casemod.launch()
        for _ in range(rnd % 7):
            x = [bytearray(600) for _ in range(20)]
            time.sleep(0.0002)
        tracemalloc.stop()
        if rnd % 2:
            tracemalloc.start()
            tracemalloc.clear_traces()
        bad = casemod.join()
        assert bad == 0, bad
        if tracemalloc.is_tracing():
            snap = tracemalloc.take_snapshot()
            left = [t for t in snap.traces if t.domain == 77]
            assert not left, len(left)
            tracemalloc.stop()
        assert tracemalloc.get_traced_memory() == (0, 0)
    print("done")
"""
for env in ({}, {"PYTHONMALLOC": "malloc"}):
    for _ in range(3):
        clean(child(CODE, env=env, argv=[where], timeout=120), f"track/stop race {env}", "done")
print("OK")
