/* Reserved signals: what Python/tracemalloc_signal.c, tracemalloc_signal_start.c
 * and the door for Python (pysignals.c) share.
 *
 * Nothing of the engine is needed for it.  Where a signal cannot be reserved,
 * all of it is left out.
 */
#ifndef TM_SIGNALS_H
#define TM_SIGNALS_H

#include "Python.h"

#include <signal.h>
#if defined(HAVE_SIGACTION) && defined(HAVE_PTHREAD_H) && defined(SIGUSR1)
#  define TM_CAN_RESERVE 1
#endif

/* Name of the memory file whose mapping shows that a process has reserved a
   signal; the number follows. */
#define TM_SIGNAL_MARKER "tracemalloc-signal-"

/* Value of a queued signal that says: look for requests, nothing else. */
#define TM_SIGNAL_ASKS 0x746d7271

/* --- tracemalloc_signal.c, where TM_CAN_RESERVE --- */

/* Catch a signal from now on.  pinned: until the process ends.  -1: errno. */
extern int _PyTraceMalloc_ReserveSignal(int signum, int pinned);
/* 1: given back; 0: it was not reserved; -1: it is pinned. */
extern int _PyTraceMalloc_ReleaseSignal(int signum);
extern int _PyTraceMalloc_SignalPinned(int signum);
/* Signals that came before there was a worker are seen to now. */
extern void _PyTraceMalloc_SignalFlagHeld(void);
/* The answer to the request that is being worked on is about to be seen: what
   comes from here on is the next one.  Main thread, from the worker. */
extern void _PyTraceMalloc_SignalAnswered(int signum);

/* --- tracemalloc_signal_start.c --- */

/* The number of "USR2", "SIGUSR2" or "12"; 0: no such signal.  `length` bytes
   of ASCII. */
extern int _PyTraceMalloc_SignalNumber(const char *name, size_t length);
/* Why a signal cannot be reserved; NULL: it can. */
extern const char *_PyTraceMalloc_SignalObjection(int signum);

/* The callable that does the work, kept by the interpreter.  It is called with
   the number of the signal and the kinds, in the main thread of the main
   interpreter. */
extern int _PyTraceMalloc_SetSignalWorker(PyObject *worker);
extern int _PyTraceMalloc_HasSignalWorker(void);
/* New reference or NULL, without an exception. */
extern PyObject *_PyTraceMalloc_SignalWorker(void);

/* What shows other processes that a signal is safe to send; NULL: it is not
   shown. */
extern void *_PyTraceMalloc_SignalMarkerNew(int signum);
extern void _PyTraceMalloc_SignalMarkerFree(void *marker);

/* --- pysignals.c --- */

/* Add the functions about signals to _tracemalloc. */
extern int _PyTraceMalloc_AddSignals(PyObject *module);

#endif /* TM_SIGNALS_H */
