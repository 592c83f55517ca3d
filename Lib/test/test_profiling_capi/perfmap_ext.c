/* Perf maps for the tests: public C API only, and valid as C and as C++.
   Built by _build.py when the tests run.  `flood` writes from threads that
   have no thread state, which the functions do not ask for. */

#include <Python.h>
#include <errno.h>
#include <stdint.h>

static PyObject *
result(int value, int error)
{
    return Py_BuildValue("ii", value, value ? error : 0);
}

/* (result, errno) */
static PyObject *
init(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    errno = 0;
    int value = PyUnstable_PerfMapState_Init();
    return result(value, errno);
}

static PyObject *
fini(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyUnstable_PerfMapState_Fini();
    Py_RETURN_NONE;
}

/* write(address, size, name: bytes or None, hold_gil=False)
   -> (result, errno) */
static PyObject *
write_entry(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned long long address;
    unsigned int size;
    PyObject *bytes;
    int hold = 0, value, error;
    if (!PyArg_ParseTuple(args, "KIO|p", &address, &size, &bytes, &hold)) {
        return NULL;
    }
    const char *name = bytes == Py_None ? NULL : PyBytes_AsString(bytes);
    if (name == NULL && PyErr_Occurred()) {
        return NULL;
    }
    PyThreadState *tstate = hold ? NULL : PyEval_SaveThread();
    errno = 0;
    value = PyUnstable_WritePerfMapEntry((void *)(uintptr_t)address, size,
                                         name);
    error = errno;
    if (!hold) {
        PyEval_RestoreThread(tstate);
    }
    return result(value, error);
}

#define MOST_THREADS 32

struct job {
    int number;
    long count;
    int failed;
    PyThread_type_lock done;
};

static void
write_many(void *arg)
{
    struct job *job = (struct job *)arg;
    char name[64];
    for (long i = 0; i < job->count; i++) {
        PyOS_snprintf(name, sizeof(name), "flood_%d_%ld:/x.py", job->number, i);
        if (PyUnstable_WritePerfMapEntry(
                (void *)(uintptr_t)(0x10000000L * (job->number + 1) + i),
                16, name)) {
            job->failed++;
        }
    }
    PyThread_release_lock(job->done);
}

/* flood(threads, count) -> (seconds, failed calls) */
static PyObject *
flood(PyObject *self, PyObject *args)
{
    (void)self;
    int threads;
    long count;
    struct job jobs[MOST_THREADS];
    PyTime_t begin, end;
    if (!PyArg_ParseTuple(args, "il", &threads, &count)) {
        return NULL;
    }
    if (threads > MOST_THREADS) {
        return PyErr_Format(PyExc_ValueError, "too many threads");
    }
    int failed = 0;
    Py_BEGIN_ALLOW_THREADS
    (void)PyTime_PerfCounterRaw(&begin);
    for (int i = 0; i < threads; i++) {
        jobs[i].number = i;
        jobs[i].count = count;
        jobs[i].failed = 0;
        jobs[i].done = PyThread_allocate_lock();
        PyThread_acquire_lock(jobs[i].done, WAIT_LOCK);
        if (PyThread_start_new_thread(write_many, &jobs[i])
            == PYTHREAD_INVALID_THREAD_ID)
        {
            jobs[i].failed = (int)count;
            PyThread_release_lock(jobs[i].done);
        }
    }
    for (int i = 0; i < threads; i++) {
        PyThread_acquire_lock(jobs[i].done, WAIT_LOCK);
        PyThread_release_lock(jobs[i].done);
        PyThread_free_lock(jobs[i].done);
        failed += jobs[i].failed;
    }
    (void)PyTime_PerfCounterRaw(&end);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("di", PyTime_AsSecondsDouble(end - begin), failed);
}

/* copy_map(path: bytes) -> (result, errno) */
static PyObject *
copy_map(PyObject *self, PyObject *path)
{
    (void)self;
    const char *name = PyBytes_AsString(path);
    if (name == NULL) {
        return NULL;
    }
    errno = 0;
    int value = PyUnstable_CopyPerfMapFile(name);
    return result(value, errno);
}

static PyObject *
compile_code(PyObject *self, PyObject *code)
{
    (void)self;
    return PyLong_FromLong(
        PyUnstable_PerfTrampoline_CompileCode((PyCodeObject *)code));
}

static PyObject *
persist_after_fork(PyObject *self, PyObject *flag)
{
    (void)self;
    return PyLong_FromLong(
        PyUnstable_PerfTrampoline_SetPersistAfterFork(PyObject_IsTrue(flag)));
}

static PyMethodDef methods[] = {
    {"init", init, METH_NOARGS, NULL},
    {"fini", fini, METH_NOARGS, NULL},
    {"write", write_entry, METH_VARARGS, NULL},
    {"flood", flood, METH_VARARGS, NULL},
    {"copy_map", copy_map, METH_O, NULL},
    {"compile_code", compile_code, METH_O, NULL},
    {"persist_after_fork", persist_after_fork, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "perfmap_ext", NULL, 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit_perfmap_ext(void)
{
    return PyModuleDef_Init(&definition);
}
