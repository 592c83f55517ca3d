/* Reference tracers: the functions of C programs that hear of every object
   that is created or destroyed (PyRefTracer_SetTracer() and its relatives),
   and who else is told when an object is made.

   The data is `_PyRuntime.ref_tracer` (pycore_reftracer.h):

       field               written by                     read by
       told, current       the holder of `mutex`          any thread
       remover             the holder of `mutex`          any thread
       retired             the holder of `mutex`          the same
       watched, created    the holder of `watch_mutex`    any thread

   `told` and `current` are the same but while a tracer is being removed.

   A reader never waits.  It fetches one pointer, and what that leads to is
   never changed, so a function is not called with the data of another one even
   where several interpreters run in parallel with a GIL each.  In the free-
   threaded build the world is stopped for a change, so that no thread is still
   on its way into the old tracer when a setter returns.

   `watch_mutex` is a leaf, held for a few instructions.  `mutex` is held while
   the old tracer is told of its removal, which may take as long as it likes;
   whoever waits for it has detached its thread state. */

#include "Python.h"
#include "pycore_lock.h"          // _PyMutex_LockTimed(), _PyMutex_TryUnlock()
#include "pycore_object.h"        // _PyReftracerTrack(), _PyObject_IS_GC()
#include "pycore_pyerrors.h"      // _PyErr_Occurred()
#include "pycore_pystate.h"       // _PyEval_StopTheWorldAll()
#include "pycore_reftracer.h"
#include "pycore_runtime.h"       // _PyRuntime
#include "pycore_tracemalloc.h"   // _PyTraceMalloc_NewReference()

#include <stdlib.h>               // malloc()

#define SLOT (&_PyRuntime.ref_tracer)
#define PATIENCE_NS 1000000000    /* with a mutex that nobody may release */

#if defined(__GNUC__) || defined(__clang__)
#  define UNCHECKED_FOR_RACES __attribute__((no_sanitize("thread")))
#else
#  define UNCHECKED_FOR_RACES
#endif


/* --- who is told of new objects ---------------------------------------- */

static void
tell_tracer(PyObject *op)
{
    _PyReftracerTrack(op, PyRefTracer_CREATE);
}

static void
tell_both(PyObject *op)
{
    _PyTraceMalloc_NewReference(op);
    _PyReftracerTrack(op, PyRefTracer_CREATE);
}

void
_Py_WatchObjects(int bit, int on)
{
    static void (*const listeners[])(PyObject *) = {
        [0] = NULL,
        [_Py_WATCH_REFTRACER] = tell_tracer,
        [_Py_WATCH_TRACEMALLOC] = _PyTraceMalloc_NewReference,
        [_Py_WATCH_REFTRACER | _Py_WATCH_TRACEMALLOC] = tell_both,
    };
    PyMutex_LockFlags(&SLOT->watch_mutex, _Py_LOCK_DONT_DETACH);
    SLOT->watched = on ? (SLOT->watched | bit) : (SLOT->watched & ~bit);
    _Py_atomic_store_ptr_release((void *)&SLOT->created,
                                 (void *)listeners[SLOT->watched]);
    PyMutex_Unlock(&SLOT->watch_mutex);
}


/* --- who is told of dying objects --------------------------------------- */

/* The tracer may detach the thread state: on its own account, or because it
   sets another tracer, which waits for other threads.  A collection that one
   of them makes meanwhile must not come upon an object without references:
   it would take it for garbage, and destroy it a second time.  So the
   collector does not know of the object as long as the tracer is told of it.
   What the object refers to counts as reachable, which it is.  Deallocators
   expect to find the object as it was.
   When the collector has been taken down already, its lists are not to be
   touched, and it will not run: it has no list of garbage any more. */
void
_Py_TellOfDestruction(struct _Py_reftracer *tracer, PyObject *op)
{
    int tracked = _PyObject_IS_GC(op) && _PyObject_GC_IS_TRACKED(op)
                  && _PyInterpreterState_GET()->gc.garbage != NULL;
    if (tracked) {
        _PyObject_GC_UNTRACK(op);
    }
    tracer->func(op, PyRefTracer_DESTROY, tracer->data);
    if (tracked) {
        _PyObject_GC_TRACK(op);
    }
}


/* --- stopping the others ------------------------------------------------ */

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
   Returns what resume_others() needs. */
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
resume_others(int paused)
{
    if (paused) {
        _PyEval_StartTheWorldAll(&_PyRuntime);
    }
}


/* --- changing the tracer; the caller holds the mutex --------------------- */

static void
tell(PyThreadState *tstate, struct _Py_reftracer *tracer)
{
    int paused = pause_others(tstate);
    _Py_atomic_store_ptr_release(&SLOT->told, tracer);
    _Py_WatchObjects(_Py_WATCH_REFTRACER, tracer != NULL);
    resume_others(paused);
}

/* Is it certain that there is one interpreter only?  The lock of their list is
   not waited for: a tracer may change the tracer from inside code that holds it
   and makes objects, as sys._current_frames() does. */
static int
is_only_interpreter(void)
{
    PyMutex *lock = &_PyRuntime.interpreters.mutex;
    if (_PyMutex_LockTimed(lock, 0, _Py_LOCK_DONT_DETACH) != PY_LOCK_ACQUIRED) {
        return 0;
    }
    PyInterpreterState *first = _PyRuntime.interpreters.head;
    int only = first != NULL && first->next == NULL;
    PyMutex_Unlock(lock);
    return only;
}

/* Another interpreter's thread can have fetched the pointer just before it was
   changed.  As long as there are several, or may be, the pair is kept.  One that
   comes into being after this has looked finds the new pointer. */
static void
retire(struct _Py_reftracer *tracer)
{
    if (tracer != NULL) {
        tracer->next = SLOT->retired;
        SLOT->retired = tracer;
    }
    if (!is_only_interpreter()) {
        return;
    }
    while (SLOT->retired != NULL) {
        struct _Py_reftracer *next = SLOT->retired->next;
        free(SLOT->retired);
        SLOT->retired = next;
    }
}

/* Tell the tracer that it is about to go.  It hears nothing more from the
   moment at which it is told, whatever it does.  When it objects by setting an
   exception it stays.  Returns 0, or -1 with that exception. */
static int
dismiss(PyThreadState *tstate, struct _Py_reftracer *tracer)
{
    PyObject *pending = _PyErr_GetRaisedException(tstate);
    tell(tstate, NULL);
    _Py_atomic_store_uintptr_relaxed(&SLOT->remover, me());
    tracer->func(NULL, PyRefTracer_TRACKER_REMOVED, tracer->data);
    _Py_atomic_store_uintptr_relaxed(&SLOT->remover, 0);
    if (_PyErr_Occurred(tstate)) {
        tell(tstate, tracer);
        _PyErr_ChainExceptions1(pending);
        return -1;
    }
    _PyErr_SetRaisedException(tstate, pending);
    return 0;
}

/* Put `tracer` (NULL: nobody) in the place of the current one.  0, or -1 with
   an exception, and `tracer` is not used then. */
static int
replace(PyThreadState *tstate, struct _Py_reftracer *tracer)
{
    struct _Py_reftracer *old = SLOT->current;
    if (old != NULL && dismiss(tstate, old) < 0) {
        return -1;
    }
    _Py_atomic_store_ptr_release(&SLOT->current, tracer);
    tell(tstate, tracer);
    retire(old);
    return 0;
}

/* Acquire the mutex.  When the runtime is finalized the other threads end, and
   one of them may have it, for ever.  Those of this interpreter have ended; what
   runs in others is given some time. */
static void
lock(void)
{
    if (_PyRuntimeState_GetFinalizingID(&_PyRuntime) != me()) {
        PyMutex_Lock(&SLOT->mutex);
        return;
    }
    PyTime_t patience = is_only_interpreter() ? 0 : PATIENCE_NS;
    if (_PyMutex_LockTimed(&SLOT->mutex, patience, _PY_LOCK_DETACH)
        != PY_LOCK_ACQUIRED)
    {
        _PyRefTracer_OthersGone();
        PyMutex_Lock(&SLOT->mutex);
    }
}


/* --- the interface ------------------------------------------------------ */

int
PyRefTracer_SetTracer(PyRefTracer func, void *data)
{
    PyThreadState *tstate = _PyThreadState_GET();
    _Py_EnsureTstateNotNULL(tstate);

    if (_Py_atomic_load_uintptr_relaxed(&SLOT->remover) == me()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "a reference tracer that is being removed "
                        "cannot set another one");
        return -1;
    }
    struct _Py_reftracer *tracer = NULL;
    if (func != NULL) {
        /* Not from Python's allocators: they may be traced. */
        tracer = malloc(sizeof(*tracer));
        if (tracer == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        tracer->func = func;
        tracer->data = data;
    }
    lock();
    int err = replace(tstate, tracer);
    /* A tracer that forked leaves the child with a fresh mutex. */
    (void)_PyMutex_TryUnlock(&SLOT->mutex);
    if (err < 0) {
        free(tracer);
    }
    return err;
}

PyRefTracer
PyRefTracer_GetTracer(void **data)
{
    _Py_EnsureTstateNotNULL(_PyThreadState_GET());

    struct _Py_reftracer *tracer = (struct _Py_reftracer *)
        _Py_atomic_load_ptr_acquire(&SLOT->current);
    if (data != NULL) {
        *data = tracer != NULL ? tracer->data : NULL;
    }
    return tracer != NULL ? tracer->func : NULL;
}

void
_PyRefTracer_OthersGone(void)
{
    _PyMutex_at_fork_reinit(&SLOT->mutex);
    _PyMutex_at_fork_reinit(&SLOT->watch_mutex);
    if (SLOT->remover != me()) {
        SLOT->remover = 0;
        SLOT->told = SLOT->current;
        _Py_WatchObjects(_Py_WATCH_REFTRACER, SLOT->current != NULL);
    }
}
