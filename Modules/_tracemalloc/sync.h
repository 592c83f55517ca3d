/* Locks and build variants: the one place that knows what protects what.
 *
 * One GIL (the usual case): the GIL is the lock of everything that the MEM and
 * OBJ hooks touch.  The RAW hook and PyTraceMalloc_Track() may run without it,
 * so their tables have the raw lock; new sites and contexts are made under the
 * names lock, because both kinds of callers make them.
 *
 * More than one GIL (own-GIL subinterpreters), or more than one pymalloc:
 * TM_GATE_SHARED is set in tm_hot.gate and every step takes the world lock.
 * It is set by a thread that holds the only GIL, before the second one can run,
 * and never cleared while the process lives.
 *
 * No GIL (free-threaded build): the gate is always set, but what a thread
 * records of its blocks meets others only in the shard of the table that the
 * address falls into, which has a lock of its own (traces.h), taken last and
 * for the look-up alone.  Totals are kept by thread and published in batches.
 * The world lock guards marks, tasks and the peak.
 *
 * Ranks, outermost first: world (1), raw (2), names (3), arenas (4).  A thread
 * takes them in this order only; debug builds assert it.  No Python code, no
 * Python allocation and no wait for the GIL happens under any of them.
 */
#ifndef TM_SYNC_H
#define TM_SYNC_H

#include "types.h"

#ifdef MS_WINDOWS
#  include <windows.h>
typedef SRWLOCK tm_mutex_t;
#  define TM_MUTEX_INIT SRWLOCK_INIT
#  define tm_mutex_acquire(m) AcquireSRWLockExclusive(m)
#  define tm_mutex_release(m) ReleaseSRWLockExclusive(m)
#else
#  include <pthread.h>
typedef pthread_mutex_t tm_mutex_t;
#  define TM_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#  define tm_mutex_acquire(m) ((void)pthread_mutex_lock(m))
#  define tm_mutex_release(m) ((void)pthread_mutex_unlock(m))
#endif

enum tm_rank { TM_WORLD = 1, TM_RAW = 2, TM_NAMES = 3, TM_ARENAS = 4, TM_NRANKS = 5 };

extern tm_mutex_t tm_locks[TM_NRANKS];

#ifdef Py_DEBUG
void tm_rank_enter(enum tm_rank rank);
void tm_rank_leave(enum tm_rank rank);
#else
#  define tm_rank_enter(rank) ((void)0)
#  define tm_rank_leave(rank) ((void)0)
#endif

static inline void
tm_lock(enum tm_rank rank)
{
    tm_rank_enter(rank);
    tm_mutex_acquire(&tm_locks[rank]);
}

static inline void
tm_unlock(enum tm_rank rank)
{
    tm_mutex_release(&tm_locks[rank]);
    tm_rank_leave(rank);
}

/* The lock of the MEM and OBJ tables: nothing under one GIL.  Returns whether
   it was taken, for tm_unlock_world(): the answer may change in between for a
   thread that does not hold the GIL. */
static inline bool
tm_lock_world(void)
{
    bool shared = TM_GET(tm_hot.gate) & TM_GATE_SHARED;
    if (TM_UNLIKELY(shared)) {
        tm_lock(TM_WORLD);
    }
    return shared;
}

static inline void
tm_unlock_world(bool taken)
{
    if (TM_UNLIKELY(taken)) {
        tm_unlock(TM_WORLD);
    }
}

/* The same around what the MEM and OBJ hooks do: without a GIL the shards have
   their own locks. */
static inline bool
tm_lock_blocks(void)
{
#ifdef Py_GIL_DISABLED
    return false;
#else
    return tm_lock_world();
#endif
}

static inline void
tm_unlock_blocks(bool taken)
{
    tm_unlock_world(taken);
}

/* This thread is inside tm_lock_raw() and may be changing totals. */
extern _Py_thread_local bool tm_raw_held;

/* World (when shared) and raw lock; returns what tm_unlock_raw() needs. */
static inline bool
tm_lock_raw(void)
{
    bool world = tm_lock_world();
    tm_lock(TM_RAW);
    tm_raw_held = true;
    return world;
}

static inline void
tm_unlock_raw(bool world)
{
    tm_raw_held = false;
    tm_unlock(TM_RAW);
    tm_unlock_world(world);
}

#ifdef Py_GIL_DISABLED
/* What the world lock guards when a hook gets there: marks, tasks, the peak.
   Returns whether it was taken. */
static inline bool
tm_lock_marks(void)
{
    bool lock = !tm_raw_held;
    if (lock) {
        tm_lock(TM_WORLD);
    }
    return lock;
}

static inline void
tm_unlock_marks(bool taken)
{
    if (taken) {
        tm_unlock(TM_WORLD);
    }
}
#else
#  define tm_lock_marks() false     /* the caller has it already */
#  define tm_unlock_marks(taken) ((void)(taken))
#endif

/* Fork: the parent holds every lock across fork() so that the child sees whole
   tables; the child makes them anew, since their owners are gone. */
void tm_sync_before_fork(void);
void tm_sync_after_fork_parent(void);
void tm_sync_after_fork_child(void);

#endif /* TM_SYNC_H */
