/* The engine's locks; see sync.h for what each one guards. */
#include "Python.h"
#include "sync.h"

tm_mutex_t tm_locks[TM_NRANKS] = {
    TM_MUTEX_INIT, TM_MUTEX_INIT, TM_MUTEX_INIT, TM_MUTEX_INIT, TM_MUTEX_INIT,
};

_Py_thread_local bool tm_raw_held;

#ifdef Py_DEBUG
static _Thread_local unsigned held_ranks;

void
tm_rank_enter(enum tm_rank rank)
{
    /* No lock of the same or an inner rank may be held already. */
    assert((held_ranks >> rank) == 0);
    held_ranks |= 1u << rank;
}

void
tm_rank_leave(enum tm_rank rank)
{
    assert(held_ranks & (1u << rank));
    held_ranks &= ~(1u << rank);
}
#endif

void
tm_sync_before_fork(void)
{
    for (int rank = TM_WORLD; rank < TM_NRANKS; rank++) {
        tm_lock((enum tm_rank)rank);
    }
}

void
tm_sync_after_fork_parent(void)
{
    for (int rank = TM_NRANKS - 1; rank >= TM_WORLD; rank--) {
        tm_unlock((enum tm_rank)rank);
    }
}

void
tm_sync_after_fork_child(void)
{
    const tm_mutex_t fresh = TM_MUTEX_INIT;
    for (int rank = TM_NRANKS - 1; rank >= TM_WORLD; rank--) {
        tm_locks[rank] = fresh;
        tm_rank_leave((enum tm_rank)rank);
    }
}
