/* What the interpreter tells the memory-tracing engine and asks of it.
 *
 * The engine's own state is not here: it lives in Modules/_tracemalloc and is
 * reached through Python/tracemalloc.c.  Unless said otherwise a function needs
 * an attached thread state and raises nothing.
 */
#ifndef Py_INTERNAL_TRACEMALLOC_H
#define Py_INTERNAL_TRACEMALLOC_H

#ifndef Py_BUILD_CORE
#  error "only files of the interpreter itself may ask the engine directly"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the engine: that of the package tracemalloc, and what the second
   line of "python -VV" tells. */
#define _PyTraceMalloc_VERSION "1.0"

/* The place of the engine in _PyRuntime. */
struct _tracemalloc_runtime_state {
    int initialized;
};

#define _tracemalloc_runtime_state_INIT { .initialized = 0 }

/* Of a thread state: the callers of its frames (stack room), NULL until needed. */
struct _tm_thread;

/* --- start-up and end --- */

extern PyStatus _PyTraceMalloc_Init(void);

/* Read -X tracemalloc_fork and PYTHONTRACEMALLOC_FORK. */
extern PyStatus _PyTraceMalloc_ReadOptions(const PyConfig *config);

/* For -X tracemalloc and its like: tracing that a forked child turns off.
   -1 with an exception set: bad limit (1..65535), or no memory. */
extern int _PyTraceMalloc_Start(int max_nframe);

extern void _PyTraceMalloc_Stop(void);

/* --- events --- */

/* A new object, fully initialised: its block now belongs to the code that is
   running.  Called while tracing is on. */
extern void _PyTraceMalloc_NewReference(PyObject *op);

/* A code object is about to die, or its file name has changed. */
extern void _PyTraceMalloc_CodeGone(PyCodeObject *code);

/* A thread state is about to be freed; no thread state need be attached. */
extern void _PyTraceMalloc_ThreadGone(PyThreadState *tstate);

/* The instruction pointer of a suspended frame was set. */
extern void _PyTraceMalloc_FrameMoved(void);

/* An interpreter with a GIL or a pymalloc of its own will be made.  A thread
   state need not be attached. */
extern void _PyTraceMalloc_SecondHeap(void);

/* Around fork(); after PyOS_BeforeFork() has done its work, and before the
   others do theirs. */
extern void _PyTraceMalloc_BeforeFork(void);
extern void _PyTraceMalloc_AfterForkParent(void);
extern void _PyTraceMalloc_AfterForkChild(void);

/* A safe point was asked for: run the tasks that are due. */
extern void _PyTraceMalloc_RunTasks(PyThreadState *tstate);

/* --- questions --- */

// The frames of a traced block, most recent first, as a tuple of
// (filename, lineno) tuples; None when it is not traced.  New reference; NULL
// with an exception set when there is no memory.
// Export for '_testinternalcapi' shared extension.
PyAPI_FUNC(PyObject*) _PyTraceMalloc_GetTraceback(unsigned int domain,
                                                  uintptr_t ptr);

/* --- between the doors --- */

/* The frames of a traced block as a tuple, and its size; None when it is not
   traced; NULL with an exception set.  With `draft`, unknown names and lines
   are None. */
extern PyObject *_PyTraceMalloc_FindFrames(unsigned int domain, uintptr_t ptr,
                                           int draft, size_t *size);

/* The address of the block of an object, pre-header included. */
extern uintptr_t _PyTraceMalloc_ObjectBlock(PyObject *op);

/* Tasks of this interpreter. */
extern int _PyTraceMalloc_ScheduleTask(PyObject *task, uint64_t delay,
                                       size_t threshold);
extern void _PyTraceMalloc_CancelTask(PyObject *task);
extern PyObject *_PyTraceMalloc_ListTasks(void);
extern void _PyTraceMalloc_CancelTasks(PyInterpreterState *interp);
/* Those of all interpreters; others release theirs at their next safe point. */
extern void _PyTraceMalloc_CancelAllTasks(void);

/* Start tracing; by_enable: a forked child turns it off by default.  -1 with an
   exception set. */
extern int _PyTraceMalloc_StartTracing(int limit, int by_enable);

/* Set or clear the bit that makes object creation tell the engine. */
extern void _PyTraceMalloc_WatchObjects(int on);

#ifdef __cplusplus
}
#endif
#endif  // !Py_INTERNAL_TRACEMALLOC_H
