/* Scheduled tasks: when is one due?
 *
 * A threshold is two marks around the traced size (tm_hot.task_high and
 * task_low are the nearest of all tasks); a delay is a time of the monotonic
 * clock, looked at every so many allocations, so that a busy program asks the
 * clock ten times a second or so and an idle one never.  Crossing a mark or a
 * time only requests a safe point; the door calls the task there.
 *
 * Handles are opaque here (the door's references).  Guard: the GIL, or the
 * world lock when shared, for all functions but tm_schedule_request().
 */
#ifndef TM_SCHEDULE_H
#define TM_SCHEDULE_H

#include "types.h"

/* Add a task, or replace the delay (seconds, 0: none) and threshold (bytes,
   0: none) of one that is there.  The threshold counts from the traced size
   now, the delay from now.  1 when the handle is new (the room now holds it),
   0 when it was there, -1: no memory. */
int tm_schedule_add(void *handle, void *owner, uint64_t delay, size_t threshold);
/* Take a task out; true when it was there and the caller gets the handle back. */
bool tm_schedule_remove(void *handle);
/* The i-th handle of an owner, or NULL. */
void *tm_schedule_get(void *owner, size_t i);
/* Cancel the tasks of all owners.  Each owner takes its handles back at its
   next safe point: tm_schedule_gone() names one, tm_schedule_remove() ends it. */
void tm_schedule_cancel_all(void);
void *tm_schedule_gone(void *owner);

/* At a safe point: next due task of this owner, marked as running (it does not
   become due again until tm_schedule_rearm), or NULL. */
void *tm_schedule_take_due(void *owner);
/* Its call has returned and it goes on. */
void tm_schedule_called(void *handle);
/* Let the owner's tasks that were called wait anew, from the size and the time
   now.  Once after all due ones: tasks must not set each other off. */
void tm_schedule_rearm(void *owner);
/* Asks every thread for a safe point; set by the door at start-up. */
extern void (*tm_schedule_request)(void);

/* tm_hot.ticks ran out: look at the clock. */
void tm_schedule_tick(void);
/* The traced size has crossed a mark: is a task due? */
void tm_schedule_look(size_t live);
/* Allocations of the MEM and OBJ domains recorded since tracing started. */
uint64_t tm_schedule_allocations(void);
void tm_schedule_start(void);       /* tracing starts: count from zero */

/* A block of the MEM or OBJ domain was recorded.  Without a GIL the thread
   counts, and looks at the clock every so often when a task waits for it. */
#ifdef Py_GIL_DISABLED
void tm_schedule_count_batch(struct tm_local *local);

TM_INLINE void
tm_schedule_count(struct tm_local *local)
{
    if (local != NULL
        && TM_UNLIKELY(++local->allocations >= 1 << 20
                       || (TM_GET(tm_hot.timers) && local->allocations >= 64)))
    {
        tm_schedule_count_batch(local);
    }
}
#else
TM_INLINE void
tm_schedule_count_one(void)
{
    if (TM_UNLIKELY(--tm_hot.ticks < 0)) {
        tm_schedule_tick();
    }
}
#endif

#endif /* TM_SCHEDULE_H */
