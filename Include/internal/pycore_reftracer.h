/* Who wants to hear of objects coming and going.

   Two parties can: a reference tracer that somebody registered with
   PyRefTracer_SetTracer(), and memory tracing, which must learn of objects
   that are made in a block it already knows (a free list, a resize).  Neither
   uses the place of the other.  `_PyRuntime.ref_tracer.watched` says with one
   bit each who is listening; code that makes or destroys an object tests that
   field alone, so a program that nobody watches pays for a single test.

   struct _reftracer_runtime_state (pycore_runtime.h) is owned by
   Python/reftracer.c, except for the bit of memory tracing, which the engine
   switches with _Py_WatchObjects(). */

#ifndef Py_INTERNAL_REFTRACER_H
#define Py_INTERNAL_REFTRACER_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#include "pycore_pyatomic_ft_wrappers.h"  // FT_ATOMIC_LOAD_INT_RELAXED()

/* Bits of `watched`. */
#define _Py_WATCH_REFTRACER 1      /* a tracer is registered */
#define _Py_WATCH_TRACEMALLOC 2    /* memory tracing is on */

/* The field as code reads it: with a GIL as plainly as any other. */
#define _Py_WATCHED() FT_ATOMIC_LOAD_INT_RELAXED(_PyRuntime.ref_tracer.watched)

/* Set (on != 0) or clear `bit` of `watched`.  Any thread, no lock needed. */
extern void _Py_WatchObjects(int bit, int on);

/* Tell the registered tracer, if there is one.  The caller has a thread
   state; `op` is NULL only for PyRefTracer_TRACKER_REMOVED. */
PyAPI_FUNC(void) _PyRefTracer_Emit(PyObject *op, PyRefTracerEvent event);

/* Somebody is watching, and `op` has just been made: reference count and type
   are set, nothing else needs to be. */
extern void _Py_ObjectCreated(PyObject *op);

/* In the child of a fork: a change that another thread had begun is undone. */
extern void _PyRefTracer_AfterFork(void);

#ifdef __cplusplus
}
#endif
#endif   /* !Py_INTERNAL_REFTRACER_H */
