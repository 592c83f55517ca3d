"""
Source : gaogaotiantian/viztracer#688 (a profiler's thread exit hook ran after
         the interpreter was gone), python/cpython#128679
Kind   : exit of the process with live threads, atexit, tracing on
Seen   : threads that still allocate, or end, while the interpreter is being
         taken down enter the tracer after its state is gone: crash or hang.
Right  : exit code 0 and no hang with daemon threads that allocate, native
         threads that use raw memory until the very end, atexit functions that
         take snapshots, stop or start tracing, and objects whose finalizer
         calls the module.
"""
import sys

from _case import ADDRESS_SANITIZER, build_ext, child, clean

C = r"""
#include <Python.h>
#include <pthread.h>
#include <unistd.h>
static void *forever(void *arg) {
    for (;;) {
        void *p = PyMem_RawMalloc(300);
        p = PyMem_RawRealloc(p, 900);
        PyMem_RawFree(p);
    }
    return NULL;
}
static void *some(void *arg) {       /* only frees: needs no GIL at all */
    void **b = arg;
    for (int i = 0; i < 2000000; i++) { PyMem_RawFree(b[i % 1000]); b[i % 1000] = NULL; usleep(i < 3000 ? 20 : 0); }
    return NULL;
}
static PyObject *bg(PyObject *s, PyObject *a) {
    pthread_t t;
    void **b = malloc(1000 * sizeof(void *));
    for (int i = 0; i < 1000; i++) b[i] = PyMem_RawMalloc(40);
    pthread_create(&t, NULL, PyLong_AsLong(a) ? forever : some, b);
    pthread_detach(t);
    Py_RETURN_NONE;
}
static PyMethodDef m[] = {{"bg", bg, METH_O, 0}, {0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "casemod", 0, -1, m};
PyMODINIT_FUNC PyInit_casemod(void) { return PyModule_Create(&d); }
"""
where = build_ext(C)
PRE = """
import atexit, sys, threading, time, tracemalloc
sys.path.insert(0, sys.argv[1])
import casemod
tracemalloc.start(int(sys.argv[2]))
def loop():
    while True:
        x = [bytearray(700) for _ in range(50)]
class End:
    def __del__(self, tm=tracemalloc, sys=sys):
        tm.get_traced_memory(); tm.get_object_traceback(self)
        if tm.is_tracing(): tm.take_snapshot()
"""
TAILS = {
    "daemon threads": "for _ in range(6): threading.Thread(target=loop, daemon=True).start()\ntime.sleep(0.05)",
    "daemon threads and a snapshot at exit":
        "for _ in range(4): threading.Thread(target=loop, daemon=True).start()\n"
        "atexit.register(lambda: tracemalloc.take_snapshot().statistics('lineno'))\ntime.sleep(0.05)",
    "stop at exit": "for _ in range(4): threading.Thread(target=loop, daemon=True).start()\natexit.register(tracemalloc.stop)",
    "start again at exit": "atexit.register(tracemalloc.start, 9)\natexit.register(tracemalloc.stop)\nsys.zz = End()",
    "finalizers": "sys.zz = End(); import builtins; builtins.qq = [End()]; a = End(); a.a = a",
    "native malloc and free": "casemod.bg(1)\ncasemod.bg(1)\ntime.sleep(0.02)",
}
if hasattr(sys, "gettotalrefcount"):
    # A debug build, also stock's and untraced, sets its RAW allocator anew while it
    # ends, in two steps: what a native thread allocates in between has no debug header.
    del TAILS["native malloc and free"]
if ADDRESS_SANITIZER:
    # drop_gil() of 3.13 reads the state of a daemon thread that has just been freed.
    TAILS = {what: tail for what, tail in TAILS.items() if "daemon" not in tail}
for what, tail in TAILS.items():
    for n in ("1", "20"):
        for _ in range(4):
            clean(child(PRE + tail, argv=[where, n], timeout=30), f"exit with {what}")
print("OK")
