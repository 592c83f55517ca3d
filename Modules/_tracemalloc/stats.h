/* Totals: what is live, the peak, what was lost; and the marks at which tasks
 * become due.
 *
 * tm_hot.bytes changes under the GIL (world lock when shared), tm_hot.raw_bytes
 * under the raw lock.  Without a GIL a thread collects what it adds and publishes
 * it in batches (struct tm_local): with one thread totals and peak are exact,
 * with several the live size is exact when asked for, and the peak may miss
 * TM_BATCH bytes a thread.
 */
#ifndef TM_STATS_H
#define TM_STATS_H

#include "types.h"

/* `live` is above tm_hot.high, and no task is due. */
TM_INLINE void
tm_stats_new_peak(size_t live)
{
    tm_hot.high = live;
    tm_hot.peak_low = TM_PEAK_LOW(live);
    tm_hot.low = tm_hot.peak_low > tm_hot.task_low ? tm_hot.peak_low
                                                   : tm_hot.task_low;
}

#ifdef Py_GIL_DISABLED
#define TM_BATCH ((ptrdiff_t)64 * 1024)
/* The blocks of this thread grew (or shrank) by so much.  local: NULL when there
   was no memory for it. */
void tm_stats_change(struct tm_local *local, ptrdiff_t by);
/* Into the totals with it.  World lock held, or the world is stopped. */
void tm_stats_publish(struct tm_local *local);
#endif

TM_INLINE void
tm_stats_grow(size_t size)
{
    tm_hot.bytes += size;
    size_t live = tm_live();
    if (TM_UNLIKELY(live > tm_hot.task_high)) {
        tm_mark_crossed(live);
    }
    else if (live > tm_hot.high) {
        tm_stats_new_peak(live);
    }
}

TM_INLINE void
tm_stats_shrink(size_t size)
{
    tm_hot.bytes -= size;
    size_t live = tm_live();
    if (TM_UNLIKELY(live < tm_hot.low)) {
        tm_mark_crossed(live);
    }
}

/* Before a block of this size goes that is not small: is the peak past with it?
   Its copy must still hold the block. */
TM_INLINE bool
tm_stats_ends_peak(size_t size)
{
    return tm_live() - size < tm_hot.peak_low;
}

/* The same for raw_bytes; raw lock held.  Tasks are left to the next block of
   the other domains.  holder: does the caller hold what guards the marks?  If not
   it keeps a new peak apart (tm_hot.raw_peak), and the next holder that looks
   sets the marks from it. */
void tm_stats_grow_raw(size_t size, bool holder);
void tm_stats_shrink_raw(size_t size);

void tm_stats_reset(void);          /* clear: all to zero */
void tm_stats_reset_peak(void);

/* Traces that could not be recorded for lack of memory. */
void tm_stats_lose(void);           /* any thread */
uint64_t tm_stats_lost(void);

#endif /* TM_STATS_H */
