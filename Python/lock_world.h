/* Stopping the world, and the threads that end while they wait to do it.
   Included at the end of lock.c, whose constants it needs; pycore_lockworld.h
   says what the locks are, and who owns them.

   A thread that attaches ends right there when the interpreter is being
   finalized, whatever it holds.  PyMutex_Lock() attaches last: a lock that was
   handed to such a thread is never released, and the program waits for ever as
   soon as it collects garbage.  So a thread waits for both locks detached,
   looks whether it must end, and attaches only then.  The finalizing thread
   says that the others must end while it has stopped the world, so the answer
   cannot change between looking and attaching. */

#ifdef Py_GIL_DISABLED

#include "pycore_interp.h"        // PyInterpreterState
#include "pycore_lockworld.h"
#include "pycore_pystate.h"       // _PyThreadState_MustExit()
#include "pycore_runtime.h"       // _PyRuntime

/* As _PyRWMutex_Lock() and _PyRWMutex_RLock(), unless they would wait. */
static int
try_rwmutex(_PyRWMutex *rwmutex, int writer)
{
    uintptr_t bits = _Py_atomic_load_uintptr_relaxed(&rwmutex->bits);
    for (;;) {
        if (writer ? bits != 0 : bits & (_Py_WRITE_LOCKED | _Py_HAS_PARKED)) {
            return 0;
        }
        uintptr_t locked = writer ? _Py_WRITE_LOCKED
                                  : bits + (1 << _PyRWMutex_READER_SHIFT);
        if (_Py_atomic_compare_exchange_uintptr(&rwmutex->bits, &bits, locked)) {
            return 1;
        }
    }
}

static int
try_world(PyMutex *mutex, int global)
{
    if (_PyMutex_LockTimed(mutex, 0, _Py_LOCK_DONT_DETACH) != PY_LOCK_ACQUIRED) {
        return 0;
    }
    if (!try_rwmutex(&_PyRuntime.stoptheworld_mutex, global)) {
        PyMutex_Unlock(mutex);
        return 0;
    }
    return 1;
}

/* Without a thread state, so that neither wait attaches one. */
static void
wait_for_world(PyMutex *mutex, int global)
{
    PyMutex_LockFlags(mutex, _Py_LOCK_DONT_DETACH);
    if (global) {
        _PyRWMutex_Lock(&_PyRuntime.stoptheworld_mutex);
    }
    else {
        _PyRWMutex_RLock(&_PyRuntime.stoptheworld_mutex);
    }
}

static void
unlock_world(PyMutex *mutex, int global)
{
    if (global) {
        _PyRWMutex_Unlock(&_PyRuntime.stoptheworld_mutex);
    }
    else {
        _PyRWMutex_RUnlock(&_PyRuntime.stoptheworld_mutex);
    }
    PyMutex_Unlock(mutex);
}

void
_Py_LockWorld(PyMutex *mutex, int global)
{
    if (try_world(mutex, global)) {
        return;
    }
    PyThreadState *tstate = _PyThreadState_GET();
    if (tstate == NULL) {
        wait_for_world(mutex, global);
        return;
    }
    PyEval_ReleaseThread(tstate);
    wait_for_world(mutex, global);
    if (_PyThreadState_MustExit(tstate)) {
        unlock_world(mutex, global);
    }
    PyEval_AcquireThread(tstate);
}

void
_Py_LockWorldAfterFork(void)
{
    for (PyInterpreterState *interp = _PyRuntime.interpreters.head;
         interp != NULL; interp = interp->next)
    {
        _PyMutex_at_fork_reinit(&interp->stoptheworld.mutex);
    }
}

#endif   /* Py_GIL_DISABLED */
