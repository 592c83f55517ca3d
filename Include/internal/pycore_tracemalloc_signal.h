/* Signals that memory tracing has reserved: what the interpreter's own files
 * ask and tell.
 *
 * A reserved signal is caught by a handler of ours.  What the application, or
 * a library that goes through these functions, sets for it is remembered as
 * the application's view, shown to it, and called after ours.
 *
 * Where a signal number is out of range, or the system has no sigaction(),
 * nothing is reserved.  Functions need the main interpreter's thread state
 * unless said otherwise, and raise nothing unless said otherwise.
 */
#ifndef Py_INTERNAL_TRACEMALLOC_SIGNAL_H
#define Py_INTERNAL_TRACEMALLOC_SIGNAL_H

#ifndef Py_BUILD_CORE
#  error "this header belongs to the interpreter and its own modules"
#endif

#include "pycore_signal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a signal can have arrived for; a set of these. */
enum {
    _PyTraceMalloc_SIGNAL_PLAIN = 1,    /* sent by anybody: kill -USR2 */
    _PyTraceMalloc_SIGNAL_ASKED = 2,    /* by _signal_ask(): see to requests */
};

/* --- start-up and end: Python/pylifecycle.c, Modules/signalmodule.c --- */

/* Read -X tracemalloc_signal and PYTHONTRACEMALLOC_SIGNAL, and reserve the
   signal at once, so that it kills nobody from here on. */
extern PyStatus _PyTraceMalloc_SignalOptions(const PyConfig *config);

/* Modules can be imported: load what does the work, check the other options. */
extern PyStatus _PyTraceMalloc_SignalReady(void);

/* No more signals: all that are reserved are ignored from here on. */
extern void _PyTraceMalloc_SignalFini(void);

/* --- dispositions: whoever sets or asks for a handler --- */

/* Whether the signal is reserved.  Async-signal-safe; needs no thread state. */
extern int _PyTraceMalloc_SignalReserved(int signum);

/* As PyOS_setsig() and PyOS_getsig() for a reserved signal: change or tell the
   application's view, and return 1.  0: not reserved, nothing done.  No thread
   state is needed. */
extern int _PyTraceMalloc_SetSignal(int signum, PyOS_sighandler_t handler,
                                    PyOS_sighandler_t *old);
extern int _PyTraceMalloc_GetSignal(int signum, PyOS_sighandler_t *handler);

#ifdef HAVE_SIGACTION
/* As sigaction() in every way; of a reserved signal the view.
   Async-signal-safe. */
struct sigaction;
extern int _PyTraceMalloc_Sigaction(int signum, const struct sigaction *action,
                                    struct sigaction *old);
#endif

/* --- arrival: Modules/signalmodule.c --- */

/* The C function that runs when a signal with a Python handler comes. */
extern PyOS_sighandler_t _PySignal_Handler(void);

/* A request is being worked on: other handlers of signals have to wait. */
extern int _PyTraceMalloc_SignalBusy(void);

/* A signal was flagged: do our work if it is for us.  1: the application has no
   part in it. */
extern int _PyTraceMalloc_SignalArrived(PyThreadState *tstate, int signum);

/* At the end of a look at all flags: signals had to wait for our work, and the
   system call that was interrupted must not be taken up again before they are
   seen to. */
extern int _PyTraceMalloc_SignalAgain(void);

/* How many signals the application has had a part in, and how many were for us
   alone: pause() has to go on if only the latter has grown. */
struct _tracemalloc_signal_counts {
    unsigned long application, ours;
};
extern struct _tracemalloc_signal_counts _PyTraceMalloc_SignalCounts(void);
extern int _PyTraceMalloc_SignalOnlyOurs(
    struct _tracemalloc_signal_counts before);

/* --- processes --- */

/* In a forked child, after the interpreter's own signal flags were cleared. */
extern void _PyTraceMalloc_SignalAfterFork(void);

// Ignore signals reserved by an option, so that they stay harmless until the
// new program's interpreter reserves them again.  In a child that is about to
// exec, perhaps one by vfork(): async-signal-safe, no thread state is needed.
// Export for '_posixsubprocess' shared extension.
PyAPI_FUNC(void) _PyTraceMalloc_SignalChildExec(void);

/* The same in a process that goes on if it fails; errno is kept.  Calls nest
   and may come from several threads. */
extern void _PyTraceMalloc_SignalBeforeExec(void);
extern void _PyTraceMalloc_SignalAfterExec(void);

#ifndef MS_WINDOWS
/* Take the signals reserved by an option out of a set. */
extern void _PyTraceMalloc_SignalSpare(sigset_t *set);
#endif

#ifdef __cplusplus
}
#endif
#endif  // !Py_INTERNAL_TRACEMALLOC_SIGNAL_H
