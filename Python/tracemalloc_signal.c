/* Signals that memory tracing has reserved: catching them, keeping them, and
 * doing the work at a safe point of the main thread.
 *
 * This file owns the table of reserved signals.  Who changes dispositions asks
 * here first; what a request means is known to tracemalloc._services, called
 * through the worker.
 *
 *   kill ──► on_signal()          flags, the eval breaker; what interrupts the
 *              │                    main thread: nudge.h
 *              └► _PyErr_CheckSignalsTstate() ──► _PyTraceMalloc_SignalArrived()
 *                                                   └► worker(signum, kinds)
 *
 * The handler runs in any thread and between any two instructions: it touches
 * what is atomic below.  The rest of an entry is guarded by `changes`.
 */
#include "Python.h"
#include "pycore_ceval.h"         // _PyEval_SignalReceived()
#include "pycore_fileutils.h"     // _Py_write_noraise()
#include "pycore_interp.h"        // _PyInterpreterState_GetFinalizing()
#include "pycore_pystate.h"       // _PyThreadState_GET()
#include "pycore_runtime.h"       // _PyRuntime
#include "pycore_tracemalloc.h"
#include "pycore_tracemalloc_signal.h"

#include <signal.h>
#ifdef HAVE_UNISTD_H
#  include <unistd.h>             // getpid()
#endif
#ifdef HAVE_PTHREAD_H
#  include <pthread.h>
#endif

#include "../Modules/_tracemalloc/engine.h"
#include "../Modules/_tracemalloc/signals.h"

#define PLAIN _PyTraceMalloc_SIGNAL_PLAIN
#define ASKED _PyTraceMalloc_SIGNAL_ASKED
/* What has been passed on to the main thread came after the signal was given
   back.  Not for the worker. */
#define LATE 4

/* Frames that the worker may use when the program has used up all of its own. */
#define SPARE_FRAMES 200

#ifdef TM_CAN_RESERVE

#include "../Modules/_tracemalloc/nudge.h"

/* --- the table --- */

struct reserved {
    int on;                 /* reserved; atomic */
    int held;               /* our handler is in place: on, or given back while
                               one of ours is on its way; atomic */
    int pinned;             /* by an option: until the process ends */
    void *handler;          /* the application's view: SIG_DFL, SIG_IGN or a
                               function; atomic */
    int flags;              /* sa_flags that go with it; atomic */
    struct sigaction before;/* what was there before us */
    void *marker;           /* the mapping that shows others what we are */
    uint32_t arrived;       /* set of kinds; atomic */
    int answered;           /* the request being worked on; main thread only */
    int pid;                /* of the process that it arrived in; atomic */
    int forwarded;          /* passed on to the main thread, which has not
                               caught that yet; atomic */
    struct tm_nudge nudge;
    int inside;             /* threads in the handler; atomic */
};

static struct reserved table[Py_NSIG];
static PyMutex changes;

/* Only the main thread writes these. */
static int busy;
static unsigned long busy_thread;    /* its ident, while busy */
static int worked;          /* since the last look at all flags began */
static struct _tracemalloc_signal_counts counts;

/* Guard: changes.  How many threads are about to exec or to spawn. */
static int leaving;

static struct reserved *
entry_of(int signum)
{
    if (signum < 1 || signum >= Py_NSIG
        || !_Py_atomic_load_int(&table[signum].on))
    {
        return NULL;
    }
    return &table[signum];
}

/* Nothing but our handler may change the disposition. */
static int
is_held(int signum)
{
    return signum >= 1 && signum < Py_NSIG
           && _Py_atomic_load_int(&table[signum].held);
}

static int
is_function(void *handler)
{
    return handler != (void *)SIG_DFL && handler != (void *)SIG_IGN;
}

/* --- the handler --- */

/* Without a byte for the wakeup descriptor, whose readers would call the
   application's handler. */
static void
flag_silently(int signum)
{
    _Py_atomic_store_int(&_PyRuntime.signals.handlers[signum].tripped, 1);
    _Py_atomic_store_int(&_PyRuntime.signals.is_tripped, 1);
    _PyEval_SignalReceived();
}

/* For the application's handler, which may be one of one argument. */
static void
call_next(void *next, int signum, siginfo_t *info, void *context)
{
    ((void (*)(int, siginfo_t *, void *))next)(signum, info, context);
}

/* A signal that is ours, and perhaps the application's too. */
static void
arrive(int signum, siginfo_t *info, void *context)
{
    struct reserved *entry = &table[signum];
    int asked = info->si_code == SI_QUEUE
                && info->si_value.sival_int == TM_SIGNAL_ASKS;
    void *next = _Py_atomic_load_ptr(&entry->handler);
    _Py_atomic_store_int(&entry->pid, (int)getpid());
    uint32_t waiting = _Py_atomic_or_uint32(&entry->arrived,
                                            asked ? ASKED : PLAIN);
    PyOS_sighandler_t python = _PySignal_Handler();
    if (asked && is_function(next)) {
        /* Not meant for the application. */
        flag_silently(signum);
    }
    else {
        python(signum);
    }
    if (!asked && is_function(next) && next != (void *)python) {
        call_next(next, signum, info, context);
    }
    if (waiting == 0) {
        tm_nudge_arm(&entry->nudge, signum, TM_NUDGE_FIRST);
    }
}

/* A signal that has been given back, but not its disposition. */
static void
arrive_late(int signum, siginfo_t *info, void *context)
{
    void *next = _Py_atomic_load_ptr(&table[signum].handler);
    if (is_function(next)) {
        _Py_atomic_or_uint32(&table[signum].arrived, PLAIN);
        call_next(next, signum, info, context);
    }
    else if (next == (void *)SIG_DFL) {
        _Py_atomic_store_int(&table[signum].held, 0);
        (void)signal(signum, SIG_DFL);
        (void)raise(signum);
    }
}

/* The timer's signal has interrupted a thread. */
static void
nudged(struct reserved *entry, int signum, pthread_t main, int on_main)
{
    if (_Py_atomic_load_uint32(&entry->arrived) != 0
        && !_Py_atomic_load_int(&busy))
    {
        if (!on_main) {
            tm_forward(&entry->forwarded, main, signum);
        }
        tm_nudge_arm(&entry->nudge, signum,
                     _Py_atomic_load_int(&entry->nudge.wait));
    }
}

static void
on_signal(int signum, siginfo_t *info, void *context)
{
    int saved = errno;
    struct reserved *entry = &table[signum];
    pthread_t main = (pthread_t)_PyRuntime.main_thread;
    int on_main = pthread_equal(pthread_self(), main);
    /* Before the look at `on`: whoever gives the signal back sees this, and
       leaves the disposition to the main thread. */
    _Py_atomic_add_int(&entry->inside, 1);
    int forwarded = tm_forward_came(&entry->forwarded, info, on_main);
    if (forwarded || tm_nudge_came(&entry->nudge, info)) {
        if (!forwarded && _Py_atomic_load_int(&entry->on)) {
            nudged(entry, signum, main, on_main);
        }
    }
    else if (!_Py_atomic_load_int(&entry->on)) {
        arrive_late(signum, info, context);
    }
    else {
        arrive(signum, info, context);
        if (!on_main) {
            tm_forward(&entry->forwarded, main, signum);
        }
    }
    _Py_atomic_add_int(&entry->inside, -1);
    if (!_Py_atomic_load_int(&entry->on)
        && _Py_atomic_load_int(&entry->held))
    {
        _Py_atomic_or_uint32(&entry->arrived, LATE);
        flag_silently(signum);
    }
    errno = saved;
}

static int
is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO)
           && action->sa_sigaction == on_signal;
}

/* Put our handler in place; what was there goes into *old.  Async-signal-safe.
   A handler that raises the signal for the one before it needs SA_NODEFER. */
static int
install(int signum, struct sigaction *old)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_SIGINFO | SA_ONSTACK
                      | (_Py_atomic_load_int(&table[signum].flags)
                         & SA_NODEFER);
    return sigaction(signum, &action, old);
}

/* --- reserving --- */

/* A signal of our own making that has not been caught, or one that is being. */
static int
on_its_way(struct reserved *entry)
{
    return _Py_atomic_load_int(&entry->forwarded)
           || _Py_atomic_load_int(&entry->inside);
}

/* Guard of these three: changes. */

static int
take_over(int signum, int pinned)
{
    struct reserved *entry = &table[signum];
    struct sigaction *before = &entry->before;
    if (sigaction(signum, NULL, before) < 0) {
        return -1;
    }
    /* A parent ignores it for us, see below. */
    void *seen = pinned && before->sa_handler == SIG_IGN
                 ? (void *)SIG_DFL : (void *)before->sa_handler;
    _Py_atomic_store_ptr(&entry->handler, seen);
    _Py_atomic_store_int(&entry->flags, before->sa_flags);
    _Py_atomic_store_int(&entry->forwarded, 0);
    _Py_atomic_store_int(&entry->held, 1);
    _Py_atomic_store_int(&entry->on, 1);
    if (install(signum, before) < 0) {
        _Py_atomic_store_int(&entry->on, 0);
        _Py_atomic_store_int(&entry->held, 0);
        return -1;
    }
    return 0;
}

static void
give_back(int signum)
{
    struct reserved *entry = &table[signum];
    struct sigaction action = entry->before;
    void *handler = _Py_atomic_load_ptr(&entry->handler);
    int flags = _Py_atomic_load_int(&entry->flags);
    if (handler != (void *)action.sa_handler || flags != action.sa_flags) {
        /* The application has set another one since. */
        memset(&action, 0, sizeof(action));
        action.sa_handler = (PyOS_sighandler_t)handler;
        action.sa_flags = flags;
    }
    if (tm_nudge_disarm(&entry->nudge)) {
        /* What is ignored is not left pending. */
        (void)signal(signum, SIG_IGN);
    }
    (void)sigaction(signum, &action, NULL);
    _Py_atomic_store_int(&entry->held, 0);
}

static int
reserve_locked(int signum, int pinned)
{
    struct reserved *entry = &table[signum];
    if (!entry->on) {
        _Py_atomic_store_uint32(&entry->arrived, 0);
        if (entry->held) {
            _Py_atomic_store_int(&entry->on, 1);
        }
        else if (take_over(signum, pinned) < 0) {
            return -1;
        }
        entry->marker = _PyTraceMalloc_SignalMarkerNew(signum);
    }
    entry->pinned |= pinned;
    return 0;
}

int
_PyTraceMalloc_ReserveSignal(int signum, int pinned)
{
    PyMutex_Lock(&changes);
    int res = reserve_locked(signum, pinned);
    PyMutex_Unlock(&changes);
    return res;
}

int
_PyTraceMalloc_ReleaseSignal(int signum)
{
    int res = 0;
    PyMutex_Lock(&changes);
    struct reserved *entry = entry_of(signum);
    if (entry != NULL && entry->pinned) {
        res = -1;
    }
    else if (entry != NULL) {
        _Py_atomic_store_int(&entry->on, 0);
        if (!on_its_way(entry)) {
            give_back(signum);
        }
        /* Else the application would catch what has been passed on, or die of
           it: settle(). */
        _PyTraceMalloc_SignalMarkerFree(entry->marker);
        entry->marker = NULL;
        res = 1;
    }
    PyMutex_Unlock(&changes);
    return res;
}

int
_PyTraceMalloc_SignalPinned(int signum)
{
    struct reserved *entry = entry_of(signum);
    return entry != NULL && entry->pinned;
}

void
_PyTraceMalloc_SignalFini(void)
{
    for (int signum = 1; signum < Py_NSIG; signum++) {
        if (!is_held(signum)) {
            continue;
        }
        /* What is left of the process must not die of it. */
        struct reserved *entry = &table[signum];
        struct sigaction action = entry->before;
        (void)tm_nudge_disarm(&entry->nudge);
        _Py_atomic_store_int(&entry->forwarded, 0);
        if (!is_function((void *)action.sa_handler)) {
            action.sa_handler = SIG_IGN;
        }
        (void)sigaction(signum, &action, NULL);
        _PyTraceMalloc_SignalMarkerFree(entry->marker);
        _Py_atomic_store_int(&entry->on, 0);
        _Py_atomic_store_int(&entry->held, 0);
        entry->marker = NULL;
        entry->pinned = 0;
    }
}

/* --- dispositions --- */

int
_PyTraceMalloc_SignalReserved(int signum)
{
    return is_held(signum);
}

int
_PyTraceMalloc_SetSignal(int signum, PyOS_sighandler_t handler,
                         PyOS_sighandler_t *old)
{
    if (!is_held(signum)) {
        return 0;
    }
    struct reserved *entry = &table[signum];
    *old = (PyOS_sighandler_t)_Py_atomic_exchange_ptr(&entry->handler,
                                                      (void *)handler);
    _Py_atomic_store_int(&entry->flags, SA_ONSTACK);
    return 1;
}

int
_PyTraceMalloc_GetSignal(int signum, PyOS_sighandler_t *handler)
{
    if (!is_held(signum)) {
        return 0;
    }
    *handler = (PyOS_sighandler_t)_Py_atomic_load_ptr(&table[signum].handler);
    return 1;
}

int
_PyTraceMalloc_Sigaction(int signum, const struct sigaction *action,
                         struct sigaction *old)
{
    if (!is_held(signum)) {
        return sigaction(signum, action, old);
    }
    struct reserved *entry = &table[signum];
    void *seen = _Py_atomic_load_ptr(&entry->handler);
    int flags = _Py_atomic_load_int(&entry->flags);
    if (action != NULL) {
        _Py_atomic_store_ptr(&entry->handler, (void *)action->sa_handler);
        _Py_atomic_store_int(&entry->flags, action->sa_flags);
        if ((action->sa_flags ^ flags) & SA_NODEFER) {
            (void)install(signum, NULL);
        }
    }
    if (old != NULL) {
        memset(old, 0, sizeof(*old));
        old->sa_handler = (PyOS_sighandler_t)seen;
        old->sa_flags = flags;
    }
    return 0;
}

/* --- arrival --- */

static int
application_handles(int signum)
{
    PyObject *func = (PyObject *)_Py_atomic_load_ptr(
        &_PyRuntime.signals.handlers[signum].func);
    return func != NULL && PyCallable_Check(func);
}

int
_PyTraceMalloc_SignalBusy(void)
{
    return busy;
}

int
_PyTraceMalloc_SignalAgain(void)
{
    if (!worked) {
        return 0;
    }
    worked = 0;
    return _Py_atomic_load_int(&_PyRuntime.signals.is_tripped);
}

static void
complain(int signum)
{
    char line[80];
    PyOS_snprintf(line, sizeof(line),
                  "tracemalloc: signal %d: the request failed\n", signum);
    (void)_Py_write_noraise(STDERR_FILENO, line, strlen(line));
}

void
_PyTraceMalloc_SignalAnswered(int signum)
{
    struct reserved *entry = entry_of(signum);
    if (entry != NULL) {
        _Py_atomic_and_uint32(&entry->arrived, ASKED);
        entry->answered = 1;
    }
}

/* One call.  Whatever goes wrong stays here. */
static void
call_worker(PyObject *worker, int signum, uint32_t kinds)
{
    PyObject *res = PyObject_CallFunction(worker, "ii", signum, (int)kinds);
    if (res == NULL) {
        PyErr_Clear();
        complain(signum);
    }
    Py_XDECREF(res);
}

/* Handlers of other signals wait, trace functions do not see it, and what it
   allocates is in no snapshot. */
static void
work(PyThreadState *tstate, int signum, uint32_t kinds)
{
    struct reserved *entry = &table[signum];
    PyObject *raised = PyErr_GetRaisedException();
    PyObject *worker = _PyTraceMalloc_SignalWorker();
    PyThreadState_EnterTracing(tstate);
    tstate->py_recursion_remaining += SPARE_FRAMES;
    tm_mute_begin();
    _Py_atomic_store_int(&busy, 1);
    busy_thread = PyThread_get_thread_ident();
    while (kinds != 0 && worker != NULL) {
        entry->answered = 0;
        call_worker(worker, signum, kinds);
        kinds = _Py_atomic_exchange_uint32(&entry->arrived, 0);
        if (!entry->answered) {
            /* A burst is one request; a question may be a new one. */
            kinds &= ASKED;
        }
    }
    _Py_atomic_store_int(&busy, 0);
    worked = 1;
    tm_mute_end();
    tstate->py_recursion_remaining -= SPARE_FRAMES;
    PyThreadState_LeaveTracing(tstate);
    Py_XDECREF(worker);
    PyErr_SetRaisedException(raised);
    if (_Py_atomic_load_int(&_PyRuntime.signals.is_tripped)) {
        _PyEval_SignalReceived();
    }
}

/* The signal was given back, its disposition now can be. */
static void
settle(int signum)
{
    PyMutex_Lock(&changes);
    struct reserved *entry = &table[signum];
    if (entry->held && !entry->on && !on_its_way(entry)) {
        give_back(signum);
    }
    PyMutex_Unlock(&changes);
}

/* Whether the application has a part in a signal that came for these reasons. */
static int
for_application(int signum, uint32_t kinds)
{
    if (kinds == 0) {
        /* Simulated, or flagged twice. */
        return entry_of(signum) == NULL || application_handles(signum);
    }
    return (kinds & PLAIN) && application_handles(signum);
}

static int
arrived_for(PyThreadState *tstate, int signum)
{
    struct reserved *entry = &table[signum];
    /* Before the look: what comes from here on arms it anew. */
    (void)tm_nudge_disarm(&entry->nudge);
    uint32_t kinds = _Py_atomic_exchange_uint32(&entry->arrived, 0);
    if (kinds & LATE) {
        settle(signum);
        kinds &= ~(uint32_t)LATE;
        if (kinds == 0) {
            return 0;
        }
    }
    if (kinds != 0 && entry_of(signum) != NULL
        && _PyInterpreterState_GetFinalizing(tstate->interp) == NULL)
    {
        if (_PyTraceMalloc_HasSignalWorker()) {
            work(tstate, signum, kinds);
        }
        else {
            /* Kept until _PyTraceMalloc_SignalReady(). */
            _Py_atomic_or_uint32(&entry->arrived, kinds);
        }
    }
    return for_application(signum, kinds);
}

int
_PyTraceMalloc_SignalArrived(PyThreadState *tstate, int signum)
{
    int application = arrived_for(tstate, signum);
    *(application ? &counts.application : &counts.ours) += 1;
    return !application;
}

struct _tracemalloc_signal_counts
_PyTraceMalloc_SignalCounts(void)
{
    return counts;
}

int
_PyTraceMalloc_SignalOnlyOurs(struct _tracemalloc_signal_counts before)
{
    return counts.ours != before.ours
           && counts.application == before.application;
}

void
_PyTraceMalloc_SignalFlagHeld(void)
{
    for (int signum = 1; signum < Py_NSIG; signum++) {
        if (entry_of(signum) != NULL
            && _Py_atomic_load_uint32(&table[signum].arrived) != 0)
        {
            flag_silently(signum);
        }
    }
}

/* --- processes --- */

void
_PyTraceMalloc_SignalAfterFork(void)
{
    memset(&changes, 0, sizeof(changes));
    leaving = 0;
    if (busy && busy_thread != PyThread_get_thread_ident()) {
        /* The thread that was at work is not in this process. */
        busy = worked = 0;
    }
    /* Else a signal sets the eval breaker of a thread that is gone. */
    _PyRuntime.main_tstate = _PyThreadState_GET();
    for (int signum = 1; signum < Py_NSIG; signum++) {
        struct reserved *entry = &table[signum];
        struct sigaction now;
        if (!is_held(signum)) {
            continue;
        }
        _Py_atomic_store_int(&entry->forwarded, 0);
        _Py_atomic_store_int(&entry->inside, 0);
        tm_nudge_forget(&entry->nudge);
        if (!entry->on) {
            give_back(signum);
            continue;
        }
        if (_Py_atomic_load_int(&entry->pid) != (int)getpid()) {
            /* The parent's, and for the parent to see to. */
            _Py_atomic_store_uint32(&entry->arrived, 0);
        }
        if (sigaction(signum, NULL, &now) == 0 && !is_ours(&now)) {
            /* A library has taken it, or another thread was about to exec. */
            if (is_function((void *)now.sa_handler)) {
                _Py_atomic_store_ptr(&entry->handler, (void *)now.sa_handler);
            }
            (void)install(signum, NULL);
        }
    }
    _PyTraceMalloc_SignalFlagHeld();
}

/* Those of an option, and those that the application ignores: exec keeps only
   that of a disposition. */
static void
ignore_for_exec(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = SIG_IGN;
    for (int signum = 1; signum < Py_NSIG; signum++) {
        if (is_held(signum)
            && (table[signum].pinned
                || _Py_atomic_load_ptr(&table[signum].handler)
                   == (void *)SIG_IGN))
        {
            (void)sigaction(signum, &action, NULL);
        }
    }
}

void
_PyTraceMalloc_SignalChildExec(void)
{
    ignore_for_exec();
}

void
_PyTraceMalloc_SignalBeforeExec(void)
{
    PyMutex_Lock(&changes);
    if (leaving++ == 0) {
        ignore_for_exec();
    }
    PyMutex_Unlock(&changes);
}

void
_PyTraceMalloc_SignalAfterExec(void)
{
    int saved = errno;
    PyMutex_Lock(&changes);
    if (--leaving == 0) {
        for (int signum = 1; signum < Py_NSIG; signum++) {
            if (is_held(signum)) {
                struct reserved *entry = &table[signum];
                /* What was on its way has been ignored. */
                _Py_atomic_store_int(&entry->forwarded, 0);
                (void)install(signum, NULL);
                if (_Py_atomic_load_uint32(&entry->arrived) != 0) {
                    tm_nudge_arm(&entry->nudge, signum, TM_NUDGE_FIRST);
                }
            }
        }
    }
    PyMutex_Unlock(&changes);
    errno = saved;
}

#ifndef MS_WINDOWS
void
_PyTraceMalloc_SignalSpare(sigset_t *set)
{
    for (int signum = 1; signum < Py_NSIG; signum++) {
        if (_PyTraceMalloc_SignalPinned(signum)) {
            sigdelset(set, signum);
        }
    }
}
#endif

#endif /* TM_CAN_RESERVE */
