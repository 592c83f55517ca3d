#ifndef Py_LIMITED_API
#ifndef Py_TRACEMALLOC_H
#define Py_TRACEMALLOC_H
#ifdef __cplusplus
extern "C" {
#endif

/* Memory that a C extension manages itself can be traced beside Python's own.
 *
 * Both functions may be called from any thread, with or without the GIL, with
 * or without a thread state, and during finalization.  They never wait for the
 * GIL, never run Python code and never set an exception.  The traceback is
 * that of the Python code which the calling thread is running.
 *
 * A domain keeps the addresses of one kind of memory apart from those of
 * others.  Domain 0 is that of Python's own allocators. */

/* Record that `size` bytes live at `ptr`.  A trace that is already there is
   replaced.  0: recorded (or dropped by a live filter); -1: no memory for the
   trace, which then counts as lost; -2: tracing is off. */
PyAPI_FUNC(int) PyTraceMalloc_Track(unsigned int domain, uintptr_t ptr, size_t size);

/* Forget what is recorded at `ptr`, if anything.  0, or -2: tracing is off. */
PyAPI_FUNC(int) PyTraceMalloc_Untrack(unsigned int domain, uintptr_t ptr);

#ifdef __cplusplus
}
#endif
#endif  // !Py_TRACEMALLOC_H
#endif  // !Py_LIMITED_API
