/* Totals of the engine (see stats.h).  Owner of its data: this room. */
#include "Python.h"
#include "pyatomic.h"
#include "stats.h"
#include "sync.h"

struct tm_hot tm_hot = {
#ifdef Py_GIL_DISABLED
    .gate = TM_GATE_OFF | TM_GATE_SHARED,
#else
    .gate = TM_GATE_OFF,
#endif
    .task_high = SIZE_MAX,
    .ticks = INT64_MAX,
};

static uint64_t lost;       /* atomic */

/* Without a GIL other threads' blocks may be freed before they are published, so
   that the sum is less than nothing: by no more than TM_BATCH a thread, whereas
   a large total may well be in the upper half of the numbers. */
static inline size_t
at_least_0(size_t live)
{
#ifdef Py_GIL_DISABLED
    return live > SIZE_MAX - SIZE_MAX / 16 ? 0 : live;
#else
    return live;
#endif
}

void
tm_stats_grow_raw(size_t size, bool holder)
{
    TM_SET(tm_hot.raw_bytes, tm_hot.raw_bytes + size);
    size_t live = at_least_0(tm_live());
    if (live <= tm_peak()) {
        return;
    }
    if (holder) {
        TM_SET(tm_hot.peak, live);
        tm_hot.peak_low = TM_PEAK_LOW(live);
        tm_marks_update();
    }
    else {
        TM_SET(tm_hot.raw_peak, live);
        TM_SET(tm_hot.low, TM_LOW_ASKS);
    }
}

void
tm_stats_shrink_raw(size_t size)
{
    TM_SET(tm_hot.raw_bytes, tm_hot.raw_bytes - size);
}

static void
peak_is(size_t live)
{
    tm_hot.peak = tm_hot.high = live;
    tm_hot.raw_peak = 0;
    tm_hot.peak_low = TM_PEAK_LOW(live);
    tm_marks_update();
}

void
tm_stats_reset(void)
{
    tm_hot.bytes = tm_hot.raw_bytes = 0;
    peak_is(0);
    _Py_atomic_store_uint64(&lost, 0);
}

void
tm_stats_reset_peak(void)
{
    peak_is(at_least_0(tm_live()));
}

#ifdef Py_GIL_DISABLED

void
tm_stats_publish(struct tm_local *local)
{
    __atomic_fetch_add(&tm_hot.bytes, (size_t)local->pending, __ATOMIC_RELAXED);
    local->pending = 0;
    tm_hot.ticks -= local->allocations;
    local->allocations = 0;
}

static TM_NOINLINE void
look_at_marks(struct tm_local *local)
{
    bool lock = tm_lock_marks();
    if (local != NULL) {
        tm_stats_publish(local);
    }
    size_t live = at_least_0(tm_live());
    if (live > tm_hot.task_high || live < tm_hot.low) {
        tm_mark_crossed(live);
    }
    else if (live > tm_peak()) {
        TM_SET(tm_hot.peak, live);
        tm_hot.peak_low = TM_PEAK_LOW(live);
        tm_marks_update();
    }
    if (tm_hot.several && tm_hot.high == tm_hot.peak) {
        /* Not at each block of a thread that grows: all others would wait for
           what it writes here. */
        TM_SET(tm_hot.high, Py_MIN(tm_hot.peak + TM_BATCH, tm_hot.task_high));
    }
    tm_unlock_marks(lock);
}

void
tm_stats_change(struct tm_local *local, ptrdiff_t by)
{
    size_t live;
    if (local == NULL) {
        __atomic_fetch_add(&tm_hot.bytes, (size_t)by, __ATOMIC_RELAXED);
        live = tm_live();
    }
    else {
        local->pending += by;
        live = tm_live() + (size_t)local->pending;
        if (local->pending >= TM_BATCH || local->pending <= -TM_BATCH) {
            __atomic_fetch_add(&tm_hot.bytes, (size_t)local->pending,
                               __ATOMIC_RELAXED);
            local->pending = 0;
        }
    }
    live = at_least_0(live);
    if (live > TM_GET(tm_hot.high) || live < TM_GET(tm_hot.low)) {
        look_at_marks(local);
    }
}

#endif /* Py_GIL_DISABLED */

void
tm_stats_lose(void)
{
    _Py_atomic_add_uint64(&lost, 1);
}

uint64_t
tm_stats_lost(void)
{
    return _Py_atomic_load_uint64_relaxed(&lost);
}
