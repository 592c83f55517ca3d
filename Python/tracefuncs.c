/* Setting and removing profile and trace functions, of one thread or of all.

   Both kinds work the same way, so the code is written once and a `kind` says
   where things are.  What belongs to a kind:

       in the thread state   the function and its object (a strong reference)
       in the interpreter    how many of its threads have a function, and
                             whether the monitoring callbacks are registered
       in the monitoring     the events, on while that count is not zero

   Guards: the GIL; in the free-threaded build sys_trace_profile_mutex, held
   until the events agree with the count again, and while a thread state is
   written to the other threads of the interpreter are stopped, so that they
   read their own without a lock.  The old object may run code when it goes,
   so it is released last, with nothing held. */

#include "Python.h"
#include "pycore_ceval.h"         // _PyEval_SetProfile()
#include "pycore_frame.h"         // PyFrameObject
#include "pycore_interp.h"        // sys_profiling_threads
#include "pycore_pyerrors.h"      // PyErr_FormatUnraisable()
#include "pycore_pystate.h"       // HEAD_LOCK()
#include "pycore_runtime.h"       // _PyRuntime
#include "pycore_sysmodule.h"     // _PySys_Audit()
#include "pycore_tracefuncs.h"

typedef struct {
    int tool;                                  /* of the monitoring */
    _PyMonitoringEventSet events;              /* wanted when in use */
    const char *audit_event;
    const struct _Py_trace_handler *handlers;
    size_t func, obj;                          /* in PyThreadState */
    size_t threads, initialized;               /* in PyInterpreterState */
} kind_t;

#define EVENT(name) (1 << PY_MONITORING_EVENT_ ## name)
#define CALL_EVENTS (EVENT(PY_START) | EVENT(PY_RESUME) | EVENT(PY_RETURN) \
                     | EVENT(PY_YIELD) | EVENT(PY_UNWIND) | EVENT(PY_THROW))

static const kind_t profiling = {
    .tool = PY_MONITORING_SYS_PROFILE_ID,
    .events = CALL_EVENTS | EVENT(CALL),
    .audit_event = "sys.setprofile",
    .handlers = _Py_profile_handlers,
    .func = offsetof(PyThreadState, c_profilefunc),
    .obj = offsetof(PyThreadState, c_profileobj),
    .threads = offsetof(PyInterpreterState, sys_profiling_threads),
    .initialized = offsetof(PyInterpreterState, sys_profile_initialized),
};

static const kind_t tracing = {
    .tool = PY_MONITORING_SYS_TRACE_ID,
    .events = CALL_EVENTS | EVENT(LINE) | EVENT(JUMP) | EVENT(RAISE)
              | EVENT(STOP_ITERATION),
    .audit_event = "sys.settrace",
    .handlers = _Py_trace_handlers,
    .func = offsetof(PyThreadState, c_tracefunc),
    .obj = offsetof(PyThreadState, c_traceobj),
    .threads = offsetof(PyInterpreterState, sys_tracing_threads),
    .initialized = offsetof(PyInterpreterState, sys_trace_initialized),
};

#define FIELD(type, base, offset) ((type *)((char *)(base) + (offset)))
#define FUNC(kind, tstate) FIELD(Py_tracefunc, tstate, (kind)->func)
#define OBJ(kind, tstate) FIELD(PyObject *, tstate, (kind)->obj)
#define THREADS(kind, interp) FIELD(Py_ssize_t, interp, (kind)->threads)
#define INITIALIZED(kind, interp) FIELD(bool, interp, (kind)->initialized)

/* When the runtime is finalized the other threads end, and one of them may have
   the mutex, for ever.  The one that finalizes needs none: what still runs
   belongs to other interpreters, whose functions it does not touch. */
#ifdef Py_GIL_DISABLED
static int
is_last(void)
{
    return _PyRuntimeState_GetFinalizingID(&_PyRuntime)
           == PyThread_get_thread_ident();
}
#endif

static void
lock(void)
{
#ifdef Py_GIL_DISABLED
    if (!is_last()) {
        PyMutex_Lock(&_PyRuntime.ceval.sys_trace_profile_mutex);
    }
#endif
}

static void
unlock(void)
{
#ifdef Py_GIL_DISABLED
    if (!is_last()) {
        PyMutex_Unlock(&_PyRuntime.ceval.sys_trace_profile_mutex);
    }
#endif
}


/* --- with the guards held --------------------------------------------- */

/* Register the callbacks of a kind, once an interpreter.  When there is no
   memory for all of them, the next attempt starts again. */
static int
prepare(const kind_t *kind, PyInterpreterState *interp)
{
    if (*INITIALIZED(kind, interp)) {
        return 0;
    }
    for (const struct _Py_trace_handler *h = kind->handlers; h->call; h++) {
        if (_Py_RegisterTraceHandler(kind->tool, h) < 0) {
            return -1;
        }
    }
    *INITIALIZED(kind, interp) = true;
    return 0;
}

/* Give a thread another function; the object it had before is returned, and
   the reference to it with it.  The threads are stopped, nothing runs. */
static PyObject *
exchange(const kind_t *kind, PyThreadState *tstate,
         Py_tracefunc func, PyObject *obj)
{
    PyObject *old = *OBJ(kind, tstate);
    *THREADS(kind, tstate->interp) +=
        (func != NULL) - (*FUNC(kind, tstate) != NULL);
    assert(*THREADS(kind, tstate->interp) >= 0);
    *FUNC(kind, tstate) = func;
    *OBJ(kind, tstate) = Py_XNewRef(obj);
    return old;
}

/* Let the events agree with the number of threads that want them. */
static int
adjust_events(const kind_t *kind, PyInterpreterState *interp)
{
    return _PyMonitoring_SetEvents(
        kind->tool, *THREADS(kind, interp) ? kind->events : 0);
}

/* A frame that is being executed can ask for opcode events beforehand. */
static int
adjust_opcode_events(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    if (frame != NULL && frame->f_trace_opcodes) {
        return _PyEval_SetOpcodeTrace(frame, true);
    }
    return 0;
}


/* --- one thread ------------------------------------------------------- */

static int
set_one(const kind_t *kind, PyThreadState *tstate,
        Py_tracefunc func, PyObject *obj)
{
    PyInterpreterState *interp = tstate->interp;
    if (_PySys_Audit(_PyThreadState_GET(), kind->audit_event, NULL) < 0) {
        return -1;
    }
    lock();
    PyObject *old = NULL;
    int err = prepare(kind, interp);
    if (err == 0) {
        _PyEval_StopTheWorld(interp);
        old = exchange(kind, tstate, func, obj);
        _PyEval_StartTheWorld(interp);
        err = adjust_events(kind, interp);
    }
    unlock();
    Py_XDECREF(old);
    if (err == 0 && func != NULL && kind == &tracing) {
        err = adjust_opcode_events();
    }
    return err;
}

int
_PyEval_SetProfile(PyThreadState *tstate, Py_tracefunc func, PyObject *arg)
{
    return set_one(&profiling, tstate, func, arg);
}

int
_PyEval_SetTrace(PyThreadState *tstate, Py_tracefunc func, PyObject *arg)
{
    return set_one(&tracing, tstate, func, arg);
}

void
PyEval_SetProfile(Py_tracefunc func, PyObject *arg)
{
    if (set_one(&profiling, _PyThreadState_GET(), func, arg) < 0) {
        PyErr_FormatUnraisable("Exception ignored in PyEval_SetProfile");
    }
}

void
PyEval_SetTrace(Py_tracefunc func, PyObject *arg)
{
    if (set_one(&tracing, _PyThreadState_GET(), func, arg) < 0) {
        PyErr_FormatUnraisable("Exception ignored in PyEval_SetTrace");
    }
}

static PyObject *
forget(const kind_t *kind, PyThreadState *tstate)
{
    return exchange(kind, tstate, NULL, NULL);
}

/* From here on no function can be set for the thread: set_all() passes by
   thread states that are being cleared. */
void
_PyEval_ForgetTraceFuncs(PyThreadState *tstate)
{
    lock();
    PyObject *profile_obj = forget(&profiling, tstate);
    PyObject *trace_obj = forget(&tracing, tstate);
    unlock();
    Py_XDECREF(profile_obj);
    Py_XDECREF(trace_obj);
}


/* --- all threads of the interpreter ----------------------------------- */

/* Exchange the functions of all threads in one go, so that no thread can end
   in the middle; their old objects are put into `old`, which has room for
   `room`.  Returns how many threads there are; when they are more than there
   is room for, nothing has been done.  HEAD_LOCK is held. */
static Py_ssize_t
exchange_all(const kind_t *kind, PyInterpreterState *interp,
             Py_tracefunc func, PyObject *obj,
             PyObject **old, Py_ssize_t room)
{
    Py_ssize_t n = 0;
    for (PyThreadState *t = interp->threads.head; t != NULL; t = t->next) {
        n++;
    }
    if (n > room) {
        return n;
    }
    n = 0;
    for (PyThreadState *t = interp->threads.head; t != NULL; t = t->next) {
        if (func != NULL && t->_status.finalizing) {
            old[n++] = NULL;
        }
        else {
            old[n++] = exchange(kind, t, func, obj);
        }
    }
    return n;
}

/* As set_one(), for all threads; the guards are held.  The old objects are in
   *old, an array of *count for the caller to release. */
static int
set_all_guarded(const kind_t *kind, PyInterpreterState *interp,
                Py_tracefunc func, PyObject *obj,
                PyObject ***old, Py_ssize_t *count)
{
    Py_ssize_t room = 0, found = 16;
    *old = NULL;
    *count = 0;
    if (prepare(kind, interp) < 0) {
        return -1;
    }
    while (found > room) {
        room = found;
        PyMem_RawFree(*old);
        *old = PyMem_RawCalloc((size_t)room, sizeof(PyObject *));
        if (*old == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        _PyEval_StopTheWorld(interp);
        HEAD_LOCK(&_PyRuntime);
        found = exchange_all(kind, interp, func, obj, *old, room);
        HEAD_UNLOCK(&_PyRuntime);
        _PyEval_StartTheWorld(interp);
    }
    *count = found;
    return adjust_events(kind, interp);
}

static int
set_all(const kind_t *kind, Py_tracefunc func, PyObject *obj)
{
    PyThreadState *tstate = _PyThreadState_GET();
    if (_PySys_Audit(tstate, kind->audit_event, NULL) < 0) {
        return -1;
    }
    PyObject **old;
    Py_ssize_t count;
    lock();
    int err = set_all_guarded(kind, tstate->interp, func, obj, &old, &count);
    unlock();
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_XDECREF(old[i]);
    }
    PyMem_RawFree(old);
    if (err == 0 && func != NULL && kind == &tracing) {
        err = adjust_opcode_events();
    }
    return err;
}

void
PyEval_SetProfileAllThreads(Py_tracefunc func, PyObject *arg)
{
    if (set_all(&profiling, func, arg) < 0) {
        PyErr_FormatUnraisable(
            "Exception ignored in PyEval_SetProfileAllThreads");
    }
}

void
PyEval_SetTraceAllThreads(Py_tracefunc func, PyObject *arg)
{
    if (set_all(&tracing, func, arg) < 0) {
        PyErr_FormatUnraisable(
            "Exception ignored in PyEval_SetTraceAllThreads");
    }
}
