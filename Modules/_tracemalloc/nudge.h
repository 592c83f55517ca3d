/* Interrupting what the main thread calls, for a reserved signal: passing it on,
 * and a timer that sends it once more while its request waits.
 *
 * The main thread may find no signal, and be on its way into a system call that
 * blocks, when one comes: the handler has run, nothing interrupts the call, and
 * the request would wait for as long as the program does.  So the handler arms
 * a timer, whose signal interrupts the call; it waits twice as long each time.
 *
 * All of it is async-signal-safe.  The timer is the kernel's own, not the C
 * library's, whose timer_create() may allocate; it belongs to one process, and a
 * child makes one of its own.  Where there are none, or the process may have no
 * more, nobody is nudged.
 */
#ifndef TM_NUDGE_H
#define TM_NUDGE_H

#include "Python.h"

#include <signal.h>
#include <time.h>
#ifdef HAVE_UNISTD_H
#  include <unistd.h>
#endif
#include <pthread.h>
#ifdef __linux__
#  include <sys/syscall.h>
#endif

/* --- passing on --- */

/* Value of a queued signal that is only to interrupt a system call. */
#define TM_FORWARDS 0x746d7266

/* A system call of the main thread is interrupted only by a signal of its own.
   Where that can carry a mark, it does: one that the application itself sends
   to the main thread looks the same otherwise.  *forwarded is atomic. */
static inline void
tm_forward(int *forwarded, pthread_t main, int signum)
{
#ifdef __GLIBC__
    _Py_atomic_store_int(forwarded, 1);
    union sigval mark = {.sival_int = TM_FORWARDS};
    if (pthread_sigqueue(main, signum, mark) != 0) {
        _Py_atomic_store_int(forwarded, 0);
    }
#else
    if (!_Py_atomic_exchange_int(forwarded, 1)) {
        (void)pthread_kill(main, signum);
    }
#endif
}

/* Is it the one that was passed on? */
static inline int
tm_forward_came(int *forwarded, const siginfo_t *info, int on_main)
{
#ifdef __GLIBC__
    int queued = info->si_code == SI_QUEUE && info->si_pid == getpid();
    if (on_main && (queued || info->si_code == SI_TKILL)) {
        /* A thread has one of a number pending at most: ours may have become
           one with it. */
        _Py_atomic_store_int(forwarded, 0);
    }
    return on_main && queued && info->si_value.sival_int == TM_FORWARDS;
#else
#  ifdef SI_TKILL
    on_main = on_main && info->si_code == SI_TKILL;
#  endif
    return on_main && _Py_atomic_exchange_int(forwarded, 0);
#endif
}

/* --- the timer --- */

/* Where the kernel's struct itimerspec is the C library's. */
#if defined(SYS_timer_create) && SIZEOF_LONG == 8
#  define TM_HAS_NUDGES 1
#endif

/* Value of the timer's signal. */
#define TM_NUDGES 0x746d7273

#define TM_NUDGE_FIRST 10       /* milliseconds */
#define TM_NUDGE_LAST 1000000   /* a program that never looks is left alone */

/* All atomic. */
struct tm_nudge {
    int armed;                  /* its signal may come yet, or was dropped */
    int pid;                    /* the process that the timer belongs to */
    int making;                 /* a thread makes the timer */
    int id;                     /* the kernel's */
    int wait;                   /* milliseconds, the next time */
};

/* In the child of a fork, which has no timer. */
static inline void
tm_nudge_forget(struct tm_nudge *nudge)
{
    _Py_atomic_store_int(&nudge->armed, 0);
    _Py_atomic_store_int(&nudge->making, 0);
    _Py_atomic_store_int(&nudge->pid, 0);
}

#ifdef TM_HAS_NUDGES

static inline int
tm_nudge_make(struct tm_nudge *nudge, int signum)
{
    if (_Py_atomic_exchange_int(&nudge->making, 1)) {
        return -1;              /* that thread arms it */
    }
    struct sigevent event;
    memset(&event, 0, sizeof(event));
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = signum;
    event.sigev_value.sival_int = TM_NUDGES;
    int id, res;
    res = (int)syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id);
    if (res == 0) {
        _Py_atomic_store_int(&nudge->id, id);
        _Py_atomic_store_int(&nudge->pid, (int)getpid());
    }
    _Py_atomic_store_int(&nudge->making, 0);
    return res;
}

/* Send the signal in `wait` milliseconds. */
static inline void
tm_nudge_arm(struct tm_nudge *nudge, int signum, int wait)
{
    if (_Py_atomic_load_int(&nudge->pid) != (int)getpid()
        && tm_nudge_make(nudge, signum) < 0)
    {
        return;
    }
    struct itimerspec when;
    memset(&when, 0, sizeof(when));
    when.it_value.tv_sec = wait / 1000;
    when.it_value.tv_nsec = wait % 1000 * 1000000L;
    _Py_atomic_store_int(&nudge->wait,
                         wait < TM_NUDGE_LAST ? wait * 2 : wait);
    _Py_atomic_store_int(&nudge->armed, 1);
    (void)syscall(SYS_timer_settime, _Py_atomic_load_int(&nudge->id), 0, &when,
                  NULL);
}

/* None is wanted any more.  1: one may be on its way. */
static inline int
tm_nudge_disarm(struct tm_nudge *nudge)
{
    struct itimerspec never, left;
    if (_Py_atomic_load_int(&nudge->pid) != (int)getpid()
        || !_Py_atomic_load_int(&nudge->armed))
    {
        return 0;
    }
    memset(&never, 0, sizeof(never));
    memset(&left, 0, sizeof(left));
    (void)syscall(SYS_timer_settime, _Py_atomic_load_int(&nudge->id), 0, &never,
                  &left);
    if (left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0) {
        return 1;
    }
    _Py_atomic_store_int(&nudge->armed, 0);
    return 0;
}

static inline int
tm_nudge_came(struct tm_nudge *nudge, const siginfo_t *info)
{
    if (info->si_code != SI_TIMER || info->si_value.sival_int != TM_NUDGES) {
        return 0;
    }
    _Py_atomic_store_int(&nudge->armed, 0);
    return 1;
}

#else

static inline void
tm_nudge_arm(struct tm_nudge *Py_UNUSED(nudge), int Py_UNUSED(signum),
             int Py_UNUSED(wait))
{
}

static inline int
tm_nudge_disarm(struct tm_nudge *Py_UNUSED(nudge))
{
    return 0;
}

static inline int
tm_nudge_came(struct tm_nudge *Py_UNUSED(nudge),
              const siginfo_t *Py_UNUSED(info))
{
    return 0;
}

#endif

#endif /* TM_NUDGE_H */
