/* Interrupting what the main thread calls, for a reserved signal: passing it on,
 * and a timer that sends it once more while its request waits.
 *
 * The main thread may find no signal, and be on its way into a system call that
 * blocks, when one comes: the handler has run, nothing interrupts the call, and
 * the request would wait for as long as the program does.  So the handler arms
 * a timer, whose signal interrupts the call; it waits twice as long each time.
 *
 * All but tm_nudge_disarm() is async-signal-safe.  The timer is the kernel's
 * own, not the C library's, whose timer_create() may allocate; it belongs to
 * one process, and a child makes one of its own.  Where there are none, or the
 * process may have no more, nobody is nudged.
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
   to the main thread looks the same otherwise.  *forwarded and *on, whether it
   is still reserved, are atomic. */
static inline void
tm_forward(int *forwarded, const int *on, pthread_t main, int signum)
{
    int before = _Py_atomic_exchange_int(forwarded, 1);
    if (!_Py_atomic_load_int(on)) {
        _Py_atomic_store_int(forwarded, 0);
        return;
    }
#ifdef __GLIBC__
    (void)before;
    union sigval mark = {.sival_int = TM_FORWARDS};
    (void)pthread_sigqueue(main, signum, mark);
#else
    if (!before) {
        (void)pthread_kill(main, signum);
    }
#endif
}

/* Is it the one that was passed on? */
static inline int
tm_forward_came(int *forwarded, const siginfo_t *info, int on_main)
{
#ifdef __GLIBC__
    int came = on_main && info->si_code == SI_QUEUE
               && info->si_value.sival_int == TM_FORWARDS
               && info->si_pid == getpid();
    if (came) {
        _Py_atomic_store_int(forwarded, 0);
    }
    return came;
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

struct tm_nudge {
    int armed;                  /* its signal may come yet; atomic */
    int pid;                    /* the process that it belongs to; atomic */
    int id;                     /* the kernel's */
    int wait;                   /* milliseconds, the next time */
};

static inline int
tm_nudge_in_flight(struct tm_nudge *nudge)
{
    return _Py_atomic_load_int(&nudge->armed)
           && _Py_atomic_load_int(&nudge->pid) == (int)getpid();
}

#ifdef TM_HAS_NUDGES

static inline int
tm_nudge_create(struct tm_nudge *nudge, int signum)
{
    struct sigevent event;
    memset(&event, 0, sizeof(event));
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = signum;
    event.sigev_value.sival_int = TM_NUDGES;
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &nudge->id) < 0) {
        return -1;
    }
    _Py_atomic_store_int(&nudge->pid, (int)getpid());
    return 0;
}

/* Send the signal in `wait` milliseconds, unless it is to come anyway. */
static inline void
tm_nudge_arm(struct tm_nudge *nudge, int signum, int wait)
{
    int mine = _Py_atomic_load_int(&nudge->pid) == (int)getpid();
    if (_Py_atomic_exchange_int(&nudge->armed, 1) && mine) {
        return;
    }
    if (!mine && tm_nudge_create(nudge, signum) < 0) {
        _Py_atomic_store_int(&nudge->armed, 0);
        return;
    }
    struct itimerspec when;
    memset(&when, 0, sizeof(when));
    when.it_value.tv_sec = wait / 1000;
    when.it_value.tv_nsec = wait % 1000 * 1000000L;
    nudge->wait = wait < TM_NUDGE_LAST ? wait * 2 : wait;
    (void)syscall(SYS_timer_settime, nudge->id, 0, &when, NULL);
}

/* None is wanted any more.  One that is on its way stays in flight. */
static inline void
tm_nudge_disarm(struct tm_nudge *nudge)
{
    struct itimerspec never, left;
    if (!tm_nudge_in_flight(nudge)) {
        return;
    }
    memset(&never, 0, sizeof(never));
    if (syscall(SYS_timer_settime, nudge->id, 0, &never, &left) == 0
        && (left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0))
    {
        _Py_atomic_store_int(&nudge->armed, 0);
    }
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

static inline void
tm_nudge_disarm(struct tm_nudge *Py_UNUSED(nudge))
{
}

static inline int
tm_nudge_came(struct tm_nudge *Py_UNUSED(nudge),
              const siginfo_t *Py_UNUSED(info))
{
    return 0;
}

#endif

#endif /* TM_NUDGE_H */
