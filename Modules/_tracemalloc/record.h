/* The corridor: the order of steps for alloc, realloc and free.
 *
 *   alloc:   below allocates ─► capture ─► verdict ─► trace ─► totals
 *   free:    trace forgotten ─► totals ─► below frees     (the address may be
 *            handed to another thread as soon as it is freed)
 *   realloc: old forgotten ─► new recorded, or the peak would be too high;
 *            a realloc that fails leaves the old trace
 *
 * The inline halves answer when nothing is new; everything else is one call.
 * Guard: the GIL, or the world lock when tm_hot.gate has TM_GATE_SHARED.
 * Nothing here raises, runs Python or allocates through Python.
 */
#ifndef TM_RECORD_H
#define TM_RECORD_H

#include "context.h"
#include "sampler.h"
#include "schedule.h"
#include "stack.h"
#include "stats.h"
#include "sync.h"
#include "traces.h"
#include "types.h"

#include "pycore_pystate.h"       // _PyThreadState_GET()

/* Non-zero while this thread is inside an allocator hook that may call other
   allocator functions: those are part of the outer block. */
extern _Py_thread_local int tm_nested;

/* Non-zero while this thread is muted; TM_GATE_MUTED is set meanwhile, so that
   the inline halves need not look. */
extern _Py_thread_local int tm_muted;

/* What is kept for a thread or for all, depending on the build.  tstate: the
   current one. */
#ifdef Py_GIL_DISABLED

TM_INLINE struct tm_local *
tm_record_local(PyThreadState *tstate)
{
    tm_thread *th = tstate != NULL ? tm_stack_thread(tstate) : NULL;
    return th != NULL ? &th->local : NULL;
}

TM_INLINE void
tm_record_grow(size_t size)
{
    tm_stats_change(tm_record_local(_PyThreadState_GET()), (ptrdiff_t)size);
}

TM_INLINE void
tm_record_shrink(size_t size)
{
    tm_stats_change(tm_record_local(_PyThreadState_GET()), -(ptrdiff_t)size);
}

TM_INLINE void
tm_record_count_one(PyThreadState *tstate)
{
    tm_schedule_count(tm_record_local(tstate));
}

TM_INLINE void
tm_record_set_fresh(PyThreadState *tstate, const void *block)
{
    struct tm_local *local = tm_record_local(tstate);
    if (local != NULL) {
        local->fresh = block;
    }
}

/* Is this the block recorded last?  Once. */
TM_INLINE bool
tm_record_take_fresh(PyThreadState *tstate, const void *block)
{
    struct tm_local *local = tm_record_local(tstate);
    if (local == NULL || local->fresh != block) {
        return false;
    }
    local->fresh = NULL;
    return true;
}

#else

#define tm_record_grow(size) tm_stats_grow(size)
#define tm_record_shrink(size) tm_stats_shrink(size)
#define tm_record_count_one(tstate) ((void)(tstate), tm_schedule_count_one())
#define tm_record_set_fresh(tstate, block) \
    ((void)(tstate), (void)(tm_hot.fresh = (block)))

TM_INLINE bool
tm_record_take_fresh(PyThreadState *Py_UNUSED(tstate), const void *block)
{
    if (tm_hot.fresh != block) {
        return false;
    }
    tm_hot.fresh = NULL;
    return true;
}

#endif

/* Context of the running code of `tstate`, TM_CTX_NONE for lack of memory,
   with TM_CTX_DROPPED when the live filters reject it. */
tm_ctx_t tm_record_capture_slow(PyThreadState *tstate);
/* The slow half of tm_record_resolve(): the first entry of the set is another one.
   The names lock is not held. */
tm_ctx_t tm_record_resolve_slow(tm_thread *th, _PyInterpreterFrame *frame,
                                tm_ctx_t parent);

/* The context of a frame whose callers have the context `parent`. */
TM_INLINE tm_ctx_t
tm_record_resolve(tm_thread *th, _PyInterpreterFrame *frame, tm_ctx_t parent,
                  uint32_t parent_hash)
{
    const void *ip = frame->instr_ptr;
    const struct tm_cached *hit = tm_stack_cached(th, ip, parent_hash);
    if (TM_LIKELY(tm_stack_hit(hit, ip, parent))) {
        return hit->ctx;
    }
    return tm_record_resolve_slow(th, frame, parent);
}

/* When nothing is new: the context of the running code, which fits a slot, into
   *ctx. */
TM_INLINE bool
tm_record_capture_fast(PyThreadState *tstate, tm_ctx_t *ctx)
{
    tm_thread *th = tm_stack_thread(tstate);
    if (TM_UNLIKELY(th == NULL)) {
        return false;
    }
    _PyInterpreterFrame *frame = tstate->current_frame;
    const struct tm_known *known = tm_stack_known(th, frame);
    if (TM_UNLIKELY(known == NULL)) {
        return false;
    }
    const void *ip = frame->instr_ptr;
    const struct tm_cached *hit = tm_stack_cached(th, ip, known->hash);
    if (TM_UNLIKELY(TM_GET(hit->ip) != (uintptr_t)ip
                    || hit->parent != known->parent)) {
        return false;
    }
    *ctx = hit->ctx;
    return true;
}

TM_INLINE tm_ctx_t
tm_record_capture(PyThreadState *tstate)
{
    tm_ctx_t ctx;
    return TM_LIKELY(tm_record_capture_fast(tstate, &ctx))
           ? ctx : tm_record_capture_slow(tstate);
}

/* Totals of sampled tracing count also what the live filters drop. */
TM_INLINE tm_ctx_t
tm_record_of_sample(tm_ctx_t ctx)
{
    return TM_UNLIKELY(tm_hot.sampling) && (ctx & TM_CTX_DROPPED)
           ? TM_CTX_UNSAMPLED : ctx;
}

/* Does sampling pass over a block of this size? */
#ifdef Py_GIL_DISABLED
bool tm_record_skips_new(PyThreadState *tstate, size_t size);

TM_INLINE bool
tm_record_skips(PyThreadState *tstate, size_t size)
{
    struct tm_local *local = tm_record_local(tstate);
    return TM_LIKELY(local != NULL) ? tm_sampler_skips(&local->until, size)
                                    : tm_record_skips_new(tstate, size);
}
#else
#define tm_record_skips(tstate, size) tm_sampler_skips(&tm_hot.until, size)
#endif

/* The context for a new block of this size: what was captured, or UNSAMPLED
   when sampling passes the block over. */
TM_INLINE tm_ctx_t
tm_record_choose(PyThreadState *tstate, size_t size)
{
    if (TM_UNLIKELY(tm_hot.sampling) && tm_record_skips(tstate, size)) {
        return TM_CTX_UNSAMPLED;
    }
    return tm_record_of_sample(tm_record_capture(tstate));
}

/* Record a block that has a slot, whatever its context turns out to be, and
   count it.  class_size: bytes of the block's size class.  World lock held if
   shared. */
void tm_record_in_slot(tm_slot_t *slot, const void *block, size_t size,
                       size_t class_size, tm_ctx_t ctx);
/* Forget what a slot says of its block. */
void tm_record_clear_slot(tm_slot_t *slot, const void *block,
                          size_t class_size);

/* Blocks of the MEM and OBJ domains without slots.  They take the world lock
   themselves and do nothing when tracing is off. */
void tm_record_big(PyThreadState *tstate, const void *block, size_t size);
bool tm_record_forget_big(const void *block, struct tm_trace *old);
/* What this thread forgot last, if it was the block at addr: debug allocators
   find a block broken while it is being freed. */
bool tm_record_find_leaving(uintptr_t addr, struct tm_trace *trace);
void tm_record_no_leaving(void);    /* contexts are dropped */
/* Undo tm_record_forget_big() after a failed realloc. */
void tm_record_restore_big(const void *block, const struct tm_trace *old);

/* The RAW domain: any thread, with or without the GIL. */
void tm_record_raw(const void *block, size_t size);
bool tm_record_forget_raw(const void *block, struct tm_trace *old);
void tm_record_restore_raw(const void *block, const struct tm_trace *old);

/* PyTraceMalloc_Track() and Untrack(): any thread.  0, -1 (no memory, or
   dropped by a filter: 0), -2 when tracing is off. */
int tm_record_track(unsigned int domain, uintptr_t addr, size_t size);
int tm_record_untrack(unsigned int domain, uintptr_t addr);

/* An object was made at `block`: its trace moves to the code that runs now. */
void tm_record_object(PyThreadState *tstate, const void *block);

/* The trace of a block in a domain; false when it is not traced. */
bool tm_record_find(unsigned int domain, uintptr_t addr, struct tm_trace *trace);
/* The same with its frames: how many, -1 when it is not traced, -2 when there
   is no memory (the list may hold some). */
int tm_record_find_frames(unsigned int domain, uintptr_t addr,
                          struct tm_trace *trace, struct tm_frame_copy **first);

/* --- between the files of this room --- */

/* Do the live filters keep a block of this context and domain?  Names lock
   held. */
bool tm_record_verdict(tm_ctx_t ctx, unsigned int domain);
/* The unknown context, with its verdict. */
tm_ctx_t tm_record_unknown(void);
/* Put a trace into `big`, or the reason why not into the totals; -1: lost. */
int tm_record_put_big(const void *block, size_t size, tm_ctx_t ctx);
/* Take a trace out of `big` and of the totals; false: there is none.  World lock
   held if shared. */
bool tm_record_take_big(const void *block, struct tm_trace *old);
/* Remember what has just left; NULL: a block without a trace. */
void tm_record_leave(const void *block, const struct tm_trace *trace);
/* The trace of a slot that is not 0, or of `big`, into *trace; false: none. */
bool tm_record_find_hooked(uintptr_t addr, struct tm_trace *trace);
/* A block of the MEM and OBJ hooks: its trace is replaced (ctx != NONE) or
   removed.  False: it is none. */
bool tm_record_change_hooked(uintptr_t addr, size_t size, tm_ctx_t ctx);

/* Limit of new contexts; exclusive access. */
int tm_record_set_limit(int limit);     /* -1: no memory or too many limits */
void tm_record_plan_limit(int limit);   /* while off: for the next start */
int tm_record_limit(void);
/* All contexts were dropped: begin again under the same limit.  False: no
   memory, each block counts as lost until a limit is set.  Exclusive access. */
bool tm_record_restart(void);

#endif /* TM_RECORD_H */
