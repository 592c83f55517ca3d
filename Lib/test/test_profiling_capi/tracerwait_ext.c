/* A reference tracer for the tests that lets other threads run while an object
   is being destroyed: public C API only, and valid as C and as C++.  Built by
   _build.py when the tests run.

   One object is watched at a time.  Its owner lets it go; the tracer then stops
   in the middle, without a thread state, until another thread has called
   await_destruction() and go_on().  No wait is longer than PATIENCE. */

#include <Python.h>

#define PATIENCE 60000000          /* microseconds */

enum way {
    DETACHES,                      /* when told of the destruction */
    SETS_TRACER                    /* sets a tracer then, and detaches when told
                                      that it is removed */
};

static struct {
    void *victim;                  /* its address; NULL: nothing is watched */
    enum way way;
    int lost_patience, set_result;
    PyThread_type_lock reached, go;    /* both held, but to let one through */
} scene;

static void
await(PyThread_type_lock gate)
{
    Py_BEGIN_ALLOW_THREADS
    if (PyThread_acquire_lock_timed(gate, PATIENCE, 0) != PY_LOCK_ACQUIRED) {
        scene.lost_patience = 1;
    }
    Py_END_ALLOW_THREADS
}

static void
stop_here(void)
{
    PyThread_release_lock(scene.reached);
    await(scene.go);
}

static int
tracer(PyObject *op, PyRefTracerEvent event, void *data)
{
    (void)data;
    if (event == PyRefTracer_TRACKER_REMOVED) {
        if (scene.victim != NULL && scene.way == SETS_TRACER) {
            stop_here();
        }
        return 0;
    }
    if (event != PyRefTracer_DESTROY || (void *)op != scene.victim) {
        return 0;
    }
    if (scene.way == DETACHES) {
        stop_here();
    }
    else {
        scene.set_result = PyRefTracer_SetTracer(tracer, NULL);
    }
    scene.victim = NULL;
    return 0;
}

/* watch(object, way): the tracer is set, and knows the object. */
static PyObject *
watch(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *op;
    int way;
    if (!PyArg_ParseTuple(args, "Oi", &op, &way)
        || PyRefTracer_SetTracer(tracer, NULL) < 0)
    {
        return NULL;
    }
    scene.way = (enum way)way;
    scene.victim = op;
    Py_RETURN_NONE;
}

/* Return when the object is being destroyed. */
static PyObject *
await_destruction(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    await(scene.reached);
    Py_RETURN_NONE;
}

/* Let the destruction go on. */
static PyObject *
go_on(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyThread_release_lock(scene.go);
    Py_RETURN_NONE;
}

/* No tracer any more.  Did everything happen as it should? */
static PyObject *
done(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    int good = scene.victim == NULL && !scene.lost_patience
               && scene.set_result == 0;
    if (PyRefTracer_SetTracer(NULL, NULL) < 0) {
        return NULL;
    }
    return PyBool_FromLong(good);
}

static PyMethodDef methods[] = {
    {"watch", watch, METH_VARARGS, NULL},
    {"await_destruction", await_destruction, METH_NOARGS, NULL},
    {"go_on", go_on, METH_NOARGS, NULL},
    {"done", done, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int
exec_module(PyObject *module)
{
    scene.reached = PyThread_allocate_lock();
    scene.go = PyThread_allocate_lock();
    if (scene.reached == NULL || scene.go == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyThread_acquire_lock(scene.reached, WAIT_LOCK);
    PyThread_acquire_lock(scene.go, WAIT_LOCK);
    if (PyModule_AddIntConstant(module, "DETACHES", DETACHES) < 0
        || PyModule_AddIntConstant(module, "SETS_TRACER", SETS_TRACER) < 0)
    {
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)exec_module},
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tracerwait_ext", NULL, 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit_tracerwait_ext(void)
{
    return PyModuleDef_Init(&definition);
}
