/* Profile and trace functions: what Python/tracefuncs.c, which sets and
   removes them, shares with Python/legacy_tracing.c, which calls them. */

#ifndef Py_INTERNAL_TRACEFUNCS_H
#define Py_INTERNAL_TRACEFUNCS_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* A monitoring callback of the two tools that profile and trace functions
   are: which function handles the event, what it is called for the functions'
   `what` argument, and the one or two monitoring events (-1: none). */
struct _Py_trace_handler {
    vectorcallfunc call;
    int what;
    int event;
    int other_event;
};

/* Ended by an entry without `call`.  In legacy_tracing.c. */
extern const struct _Py_trace_handler _Py_profile_handlers[];
extern const struct _Py_trace_handler _Py_trace_handlers[];

/* Register `handler` with a monitoring tool of the current interpreter.
   0, or -1 with an exception.  In legacy_tracing.c. */
extern int _Py_RegisterTraceHandler(int tool,
                                    const struct _Py_trace_handler *handler);

/* Call a profile or trace function that was read from the thread state just
   now.  It may be gone (NULL: nothing happens), and it may be removed by
   another thread, and its object with it, while it runs. */
static inline int
_Py_CallTraceFunc(Py_tracefunc func, PyObject *obj,
                  PyFrameObject *frame, int what, PyObject *arg)
{
    if (func == NULL) {
        return 0;
    }
    Py_XINCREF(obj);
    int err = func(obj, frame, what, arg);
    Py_XDECREF(obj);
    return err;
}

/* Take the functions from a thread state that is being cleared. */
extern void _PyEval_ForgetTraceFuncs(PyThreadState *tstate);

#ifdef __cplusplus
}
#endif
#endif   /* !Py_INTERNAL_TRACEFUNCS_H */
