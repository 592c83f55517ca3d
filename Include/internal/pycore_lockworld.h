/* The locks that whoever stops the world holds, in the free-threaded build:
   that of the request, of an interpreter or of the runtime, and then
   _PyRuntime.stoptheworld_mutex, as a reader or as the writer. */

#ifndef Py_INTERNAL_LOCKWORLD_H
#define Py_INTERNAL_LOCKWORLD_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#ifdef Py_GIL_DISABLED
/* Acquire `mutex`, which is that of a request, and the other one, as its
   writer if `global` is true.  A thread that has to wait is detached meanwhile,
   and one that must end with the interpreter ends without the locks.
   Upstream's functions release them. */
extern void _Py_LockWorld(PyMutex *mutex, int global);

/* In the child of a fork, before the world is started again: threads that are
   no more may have waited for the second lock. */
extern void _Py_LockWorldAfterFork(void);
#endif

#ifdef __cplusplus
}
#endif
#endif   /* !Py_INTERNAL_LOCKWORLD_H */
