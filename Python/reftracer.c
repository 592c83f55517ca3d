/* Reference tracers: the functions of C programs that hear of every object
   that is created or destroyed (PyRefTracer_SetTracer() and its relatives).

   The data is `_PyRuntime.ref_tracer`; this file owns all of it but the bit
   of memory tracing in `watched` (see pycore_reftracer.h).

       field         written by                              read by
       tracer_func   the holder of `mutex`, inside `version`  any thread
       tracer_data   the same                                 any thread
       version       the holder of `mutex`; odd: being written any thread
       watched       atomically, each bit by its owner        any thread
       remover       the holder of `mutex`                    any thread

   A reader never waits: what it reads between two equal, even values of
   `version` belongs together, and when they differ the tracer is just being
   exchanged, so there is nobody to tell.  That makes the pair whole even
   where several interpreters run in parallel with a GIL each.  In the
   free-threaded build the world is stopped for the exchange too, so that no
   thread is still on its way into the old tracer when a setter returns. */

#include "Python.h"
#include "pycore_lock.h"          // _PyMutex_TryUnlock()
#include "pycore_pyerrors.h"      // _PyErr_Occurred()
#include "pycore_pystate.h"       // _PyEval_StopTheWorldAll()
#include "pycore_reftracer.h"
#include "pycore_runtime.h"       // _PyRuntime
#include "pycore_tracemalloc.h"   // _PyTraceMalloc_NewReference()

#define SLOT (&_PyRuntime.ref_tracer)

#if defined(__GNUC__) || defined(__clang__)
#  define UNCHECKED_FOR_RACES __attribute__((no_sanitize("thread")))
#else
#  define UNCHECKED_FOR_RACES
#endif


/* --- telling --------------------------------------------------------- */

void
_Py_WatchObjects(int bit, int on)
{
    int old = _Py_atomic_load_int_relaxed(&SLOT->watched);
    int wanted;
    do {
        wanted = on ? (old | bit) : (old & ~bit);
    } while (!_Py_atomic_compare_exchange_int(&SLOT->watched, &old, wanted));
}

void
_PyRefTracer_Emit(PyObject *op, PyRefTracerEvent event)
{
    uint32_t before = _Py_atomic_load_uint32_acquire(&SLOT->version);
    PyRefTracer func = (PyRefTracer)_Py_atomic_load_ptr_acquire(
        (void *)&SLOT->tracer_func);
    void *data = _Py_atomic_load_ptr_acquire(&SLOT->tracer_data);
    uint32_t after = _Py_atomic_load_uint32_acquire(&SLOT->version);
    if (func != NULL && before == after && !(before & 1)) {
        func(op, event, data);
    }
}

void
_Py_ObjectCreated(PyObject *op)
{
    const int watched = _Py_WATCHED();
    if (watched == _Py_WATCH_TRACEMALLOC) {
        _PyTraceMalloc_NewReference(op);
        return;
    }
    if (watched & _Py_WATCH_TRACEMALLOC) {
        _PyTraceMalloc_NewReference(op);
    }
    if (watched & _Py_WATCH_REFTRACER) {
        _PyRefTracer_Emit(op, PyRefTracer_CREATE);
    }
}


/* --- changing -------------------------------------------------------- */

static uintptr_t
me(void)
{
    return (uintptr_t)PyThread_get_thread_ident();
}

/* Has this very thread stopped the world?  Only a thread itself enters itself
   as the requester, so what other threads write at the same time does not
   matter, and the thread sanitizer need not know. */
static int UNCHECKED_FOR_RACES
has_stopped_others(PyThreadState *tstate)
{
    return _PyRuntime.stoptheworld.requester == tstate
           || tstate->interp->stoptheworld.requester == tstate;
}

/* Stop the other threads of the free-threaded build, unless they are stopped
   for the caller already: a tracer may be called, and change the tracer, just
   then, and stopping them twice would wait for ever.
   Returns what resume() needs. */
static int
pause_others(PyThreadState *tstate)
{
    if (has_stopped_others(tstate)) {
        return 0;
    }
    _PyEval_StopTheWorldAll(&_PyRuntime);
    return 1;
}

static void
resume(int paused)
{
    if (paused) {
        _PyEval_StartTheWorldAll(&_PyRuntime);
    }
}

static void
listen(PyThreadState *tstate, int on)
{
    int paused = pause_others(tstate);
    _Py_WatchObjects(_Py_WATCH_REFTRACER, on);
    resume(paused);
}

/* Tell the tracer in the slot that it is about to go.  It hears nothing more
   from the moment at which it is told, whatever it does.  When it objects by
   setting an exception it stays.  Returns 0, or -1 with that exception.
   The caller holds the mutex. */
static int
dismiss(PyThreadState *tstate)
{
    PyObject *pending = _PyErr_GetRaisedException(tstate);
    listen(tstate, 0);
    _Py_atomic_store_uintptr_relaxed(&SLOT->remover, me());
    SLOT->tracer_func(NULL, PyRefTracer_TRACKER_REMOVED, SLOT->tracer_data);
    _Py_atomic_store_uintptr_relaxed(&SLOT->remover, 0);
    if (_PyErr_Occurred(tstate)) {
        listen(tstate, 1);
        _PyErr_ChainExceptions1(pending);
        return -1;
    }
    _PyErr_SetRaisedException(tstate, pending);
    return 0;
}

/* Put a pair into the slot; the caller holds the mutex. */
static void
install(PyThreadState *tstate, PyRefTracer tracer, void *data)
{
    int paused = pause_others(tstate);
    uint32_t version = SLOT->version;
    _Py_atomic_store_uint32(&SLOT->version, version + 1);
    _Py_atomic_store_ptr_release((void *)&SLOT->tracer_func, (void *)tracer);
    _Py_atomic_store_ptr_release(&SLOT->tracer_data, data);
    _Py_atomic_store_uint32(&SLOT->version, version + 2);
    _Py_WatchObjects(_Py_WATCH_REFTRACER, tracer != NULL);
    resume(paused);
}

int
PyRefTracer_SetTracer(PyRefTracer tracer, void *data)
{
    PyThreadState *tstate = _PyThreadState_GET();
    _Py_EnsureTstateNotNULL(tstate);

    if (_Py_atomic_load_uintptr_relaxed(&SLOT->remover) == me()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "a reference tracer that is being removed "
                        "cannot set another one");
        return -1;
    }
    PyMutex_Lock(&SLOT->mutex);
    int err = 0;
    if (SLOT->tracer_func != NULL) {
        err = dismiss(tstate);
    }
    if (err == 0) {
        install(tstate, tracer, tracer != NULL ? data : NULL);
    }
    /* A tracer that forked leaves the child with a fresh mutex. */
    (void)_PyMutex_TryUnlock(&SLOT->mutex);
    return err;
}

PyRefTracer
PyRefTracer_GetTracer(void **data)
{
    _Py_EnsureTstateNotNULL(_PyThreadState_GET());

    PyRefTracer func;
    void *found;
    uint32_t before;
    do {
        before = _Py_atomic_load_uint32_acquire(&SLOT->version);
        func = (PyRefTracer)_Py_atomic_load_ptr_acquire(
            (void *)&SLOT->tracer_func);
        found = _Py_atomic_load_ptr_acquire(&SLOT->tracer_data);
    } while ((before & 1)
             || before != _Py_atomic_load_uint32_acquire(&SLOT->version));
    if (data != NULL) {
        *data = found;
    }
    return func;
}

void
_PyRefTracer_AfterFork(void)
{
    _PyMutex_at_fork_reinit(&SLOT->mutex);
    if (SLOT->version & 1) {
        /* Half written by a thread that the child does not have. */
        SLOT->tracer_func = NULL;
        SLOT->tracer_data = NULL;
        SLOT->version++;
    }
    if (SLOT->remover != me()) {
        SLOT->remover = 0;
        _Py_WatchObjects(_Py_WATCH_REFTRACER, SLOT->tracer_func != NULL);
    }
}
