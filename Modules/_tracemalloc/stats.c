/* Totals of the engine (see stats.h).  Owner of its data: this room. */
#include "Python.h"
#include "pyatomic.h"
#include "stats.h"

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

void
tm_stats_grow_raw(size_t size)
{
    tm_hot.raw_bytes += size;
    size_t live = tm_live();
    if (live > tm_peak()) {
        tm_hot.peak = live;
        tm_hot.peak_low = TM_PEAK_LOW(live);
        tm_marks_update();
    }
}

void
tm_stats_shrink_raw(size_t size)
{
    tm_hot.raw_bytes -= size;
}

static void
peak_is(size_t live)
{
    tm_hot.peak = tm_hot.high = live;
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
    peak_is(tm_live());
}

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
