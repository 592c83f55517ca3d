/* Who wants to hear of objects coming and going.

   Two parties can: a reference tracer that somebody registered with
   PyRefTracer_SetTracer(), and memory tracing, which must learn of objects
   that are made in a block it already knows (a free list, a resize).  Neither
   uses the place of the other.  Where an object is made, and where one dies,
   a single pointer is looked at, so a program that nobody watches pays what it
   has always paid.

   Python/reftracer.c owns the state and describes its guards. */

#ifndef Py_INTERNAL_REFTRACER_H
#define Py_INTERNAL_REFTRACER_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#include "pycore_pyatomic_ft_wrappers.h"  // FT_ATOMIC_LOAD_PTR_ACQUIRE()

/* A tracer and what is passed to it.  Never changed once it can be seen, so
   whoever has got hold of one has a function and the data that belongs to it. */
struct _Py_reftracer {
    PyRefTracer func;
    void *data;
    struct _Py_reftracer *next;    /* of those that wait to be freed */
};

/* Member of _PyRuntime. */
struct _reftracer_runtime_state {
    struct _Py_reftracer *told;    /* hears of objects; NULL: nobody does */
    void (*created)(PyObject *);   /* for new objects; NULL: nobody listens */
    struct _Py_reftracer *current; /* the registered one; NULL: none is */
    struct _Py_reftracer *retired;
    uintptr_t remover;             /* thread that is removing it, or 0 */
    int watched;                   /* bits, see below */
    PyMutex watch_mutex;
    PyMutex mutex;
};

/* Bits of `watched`. */
#define _Py_WATCH_REFTRACER 1      /* a tracer is told */
#define _Py_WATCH_TRACEMALLOC 2    /* memory tracing is on */

/* Set (on != 0) or clear `bit`.  Any thread; no lock is waited for long. */
extern void _Py_WatchObjects(int bit, int on);

/* Tell the reference tracer, if there is one.  The caller has a thread state. */
#define _Py_TELL_REFTRACER(op, event) \
    do { \
        struct _Py_reftracer *told = (struct _Py_reftracer *) \
            FT_ATOMIC_LOAD_PTR_ACQUIRE(_PyRuntime.ref_tracer.told); \
        if (told != NULL && (event) == PyRefTracer_DESTROY) { \
            _Py_TellOfDestruction(told, (op)); \
        } \
        else if (told != NULL) { \
            told->func((op), (event), told->data); \
        } \
    } while (0)

/* Tell `tracer` that `op`, which has no references left or is moved, goes. */
PyAPI_FUNC(void) _Py_TellOfDestruction(struct _Py_reftracer *tracer,
                                       PyObject *op);

/* `op` has just been made: its reference count and its type are set. */
#define _Py_TELL_CREATED(op) \
    do { \
        void (*created)(PyObject *) = (void (*)(PyObject *)) \
            FT_ATOMIC_LOAD_PTR_ACQUIRE(_PyRuntime.ref_tracer.created); \
        if (created != NULL) { \
            created(op); \
        } \
    } while (0)

/* In the child of a fork: a change that another thread had begun is undone. */
extern void _PyRefTracer_OthersGone(void);

#ifdef __cplusplus
}
#endif
#endif   /* !Py_INTERNAL_REFTRACER_H */
