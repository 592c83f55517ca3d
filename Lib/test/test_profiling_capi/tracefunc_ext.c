/* Profile and trace functions for the tests: public C API only, and valid as
   C and as C++.  Built by _build.py when the tests run.

   `record` puts what it is called with into the list that it was set with;
   set without a list it only counts.  `fail` raises at a chosen event.
   The counters are guarded by `guard`. */

#include <Python.h>
#include <stdint.h>
#include <string.h>

static PyThread_type_lock guard;
static Py_ssize_t counts[8];       /* by event, when there is no list */
static Py_ssize_t bad_arguments;   /* an `obj` that was not the one set */
static int fail_at = -1;           /* event */

/* (event, function name, line, argument); the argument of a RETURN that is
   caused by an exception is Ellipsis, which no test returns. */
static int
append_event(PyObject *list, PyFrameObject *frame, int what, PyObject *arg)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *name = PyObject_GetAttrString((PyObject *)code, "co_name");
    Py_DECREF(code);
    if (name == NULL) {
        return -1;
    }
    PyObject *item = Py_BuildValue("iNiO", what, name,
                                   PyFrame_GetLineNumber(frame),
                                   arg != NULL ? arg : Py_Ellipsis);
    int err = item == NULL ? -1 : PyList_Append(list, item);
    Py_XDECREF(item);
    return err;
}

static int
record(PyObject *obj, PyFrameObject *frame, int what, PyObject *arg)
{
    if (obj != NULL) {
        return append_event(obj, frame, what, arg);
    }
    PyThread_acquire_lock(guard, WAIT_LOCK);
    if (what >= 0 && what < 8) {
        counts[what]++;
    }
    else {
        bad_arguments++;
    }
    PyThread_release_lock(guard);
    return 0;
}

static int
fail(PyObject *obj, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)obj, (void)frame, (void)arg;
    if (what == fail_at) {
        fail_at = -1;              /* once */
        PyErr_SetString(PyExc_LookupError, "trace function");
        return -1;
    }
    return 0;
}

/* An object of its own for every call of the setter, to see that it lives
   while the function runs: the function uses it after others have run. */
static int
use_own(PyObject *obj, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)frame, (void)what, (void)arg;
    Py_ssize_t before = PyList_Size(obj);
    Py_BEGIN_ALLOW_THREADS
    Py_END_ALLOW_THREADS
    if (PyList_Size(obj) != before) {
        PyThread_acquire_lock(guard, WAIT_LOCK);
        bad_arguments++;
        PyThread_release_lock(guard);
    }
    return 0;
}

typedef void (*set_func)(Py_tracefunc, PyObject *);

static set_func
setter_of(const char *kind)
{
    return strcmp(kind, "profile") == 0 ? PyEval_SetProfile
           : strcmp(kind, "trace") == 0 ? PyEval_SetTrace
           : strcmp(kind, "profile_all") == 0 ? PyEval_SetProfileAllThreads
           : strcmp(kind, "trace_all") == 0 ? PyEval_SetTraceAllThreads
           : NULL;
}

/* set(kind, list): record into the list.  set(kind): remove.
   set(kind, None): count. */
static PyObject *
set(PyObject *self, PyObject *args)
{
    (void)self;
    const char *kind;
    PyObject *list = NULL;
    if (!PyArg_ParseTuple(args, "s|O", &kind, &list)) {
        return NULL;
    }
    set_func function = setter_of(kind);
    if (function == NULL) {
        return PyErr_Format(PyExc_ValueError, "no such kind");
    }
    function(list != NULL ? record : NULL, list != Py_None ? list : NULL);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
set_failing(PyObject *self, PyObject *args)
{
    (void)self;
    const char *kind;
    if (!PyArg_ParseTuple(args, "si", &kind, &fail_at)) {
        return NULL;
    }
    setter_of(kind)(fail, NULL);
    Py_RETURN_NONE;
}

static PyObject *
set_own(PyObject *self, PyObject *kind)
{
    (void)self;
    PyObject *own = Py_BuildValue("[iii]", 1, 2, 3);
    const char *name = PyUnicode_AsUTF8(kind);
    if (own != NULL && name != NULL) {
        setter_of(name)(use_own, own);
    }
    Py_XDECREF(own);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* The eight counters and the number of wrong arguments; all are reset. */
static PyObject *
take_counts(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyThread_acquire_lock(guard, WAIT_LOCK);
    Py_ssize_t c[8], bad = bad_arguments;
    memcpy(c, counts, sizeof(c));
    memset(counts, 0, sizeof(counts));
    bad_arguments = 0;
    PyThread_release_lock(guard);
    return Py_BuildValue("nnnnnnnnn", c[0], c[1], c[2], c[3], c[4], c[5],
                         c[6], c[7], bad);
}


/* --- from a thread that Python has not made ---------------------------- */

static int toggling;
static long toggle_rounds;
static set_func toggle_setter;

static void
toggle(void *unused)
{
    (void)unused;
    for (long i = 0; i < toggle_rounds; i++) {
        PyGILState_STATE state = PyGILState_Ensure();
        toggle_setter(i % 2 ? NULL : record, NULL);
        PyGILState_Release(state);
    }
    PyGILState_STATE state = PyGILState_Ensure();
    toggle_setter(NULL, NULL);
    PyGILState_Release(state);
    PyThread_acquire_lock(guard, WAIT_LOCK);
    toggling = 0;
    PyThread_release_lock(guard);
}

/* toggle_start(kind, rounds) */
static PyObject *
toggle_start(PyObject *self, PyObject *args)
{
    (void)self;
    const char *kind;
    if (!PyArg_ParseTuple(args, "sl", &kind, &toggle_rounds)) {
        return NULL;
    }
    toggle_setter = setter_of(kind);
    toggling = 1;
    if (PyThread_start_new_thread(toggle, NULL) == PYTHREAD_INVALID_THREAD_ID) {
        toggling = 0;
        return PyErr_Format(PyExc_RuntimeError, "cannot start a thread");
    }
    Py_RETURN_NONE;
}

static PyObject *
toggle_running(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyThread_acquire_lock(guard, WAIT_LOCK);
    int n = toggling;
    PyThread_release_lock(guard);
    return PyBool_FromLong(n);
}


/* --- the module ------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"set", set, METH_VARARGS, NULL},
    {"set_failing", set_failing, METH_VARARGS, NULL},
    {"set_own", set_own, METH_O, NULL},
    {"take_counts", take_counts, METH_NOARGS, NULL},
    {"toggle_start", toggle_start, METH_VARARGS, NULL},
    {"toggle_running", toggle_running, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int
exec_module(PyObject *module)
{
    if (guard == NULL) {
        guard = PyThread_allocate_lock();
    }
    static const struct { const char *name; int value; } constants[] = {
        {"CALL", PyTrace_CALL}, {"EXCEPTION", PyTrace_EXCEPTION},
        {"LINE", PyTrace_LINE}, {"RETURN", PyTrace_RETURN},
        {"C_CALL", PyTrace_C_CALL}, {"C_EXCEPTION", PyTrace_C_EXCEPTION},
        {"C_RETURN", PyTrace_C_RETURN}, {"OPCODE", PyTrace_OPCODE},
    };
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (PyModule_AddIntConstant(module, constants[i].name,
                                    constants[i].value) < 0) {
            return -1;
        }
    }
    return guard != NULL ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)exec_module},
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tracefunc_ext", NULL, 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit_tracefunc_ext(void)
{
    return PyModuleDef_Init(&definition);
}
