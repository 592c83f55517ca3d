/* The incremental stack: what is known of the callers of a running frame.
 *
 * Frames carry a `captured` flag, cleared where a frame is linked into a stack.
 * A flagged frame has been linked ever since, so nothing below it can have
 * moved, and what its thread's shadow stack says of its callers still holds.
 *
 *   shadow stack of a thread (outermost first)
 *   ┌─────────────────┬─────────────────┬─────────────────┬──
 *   │ frame A, root   │ frame B, ctx(A) │ frame C, ctx(AB)│      top_* repeat
 *   └─────────────────┴─────────────────┴─────────────────┴──    the last one
 *
 * A context is looked up by (instruction, context of the callers) in a small
 * direct-mapped cache of the thread before the tree is asked.
 *
 * Guard: a tm_thread belongs to its thread state.  Others touch it only to
 * spoil it (tm_stack_spoil) with the GIL held, or under the world lock.
 */
#ifndef TM_STACK_H
#define TM_STACK_H

#include "types.h"
#include "pycore_frame.h"         // _PyInterpreterFrame
#include "pycore_gc.h"            // what pycore_tstate.h takes for granted
#include "pycore_tstate.h"        // _PyThreadStateImpl

#define TM_CACHE_SIZE 2048          /* entries, a power of two */

struct tm_cached {
    const void *ip;             /* instruction; NULL: empty */
    tm_ctx_t parent;
    tm_ctx_t ctx;               /* with TM_CTX_DROPPED when filtered out */
};

struct tm_shadow {
    const _PyInterpreterFrame *frame;
    tm_ctx_t parent;            /* context of the frame's callers */
};

struct _tm_thread {
    const void *top_frame;      /* frame of the last entry; never NULL, so that
                                   a thread without frames does not match */
    tm_ctx_t top_parent;
    uint32_t top_hash;          /* of top_parent, see tm_stack_cached() */
    uint32_t depth;             /* entries in use */
    uint32_t capacity;
    struct tm_shadow *shadow;
    const PyThreadState *tstate;
    struct _tm_thread *next, *prev;
#ifdef Py_GIL_DISABLED
    struct tm_local local;
#endif
    struct tm_cached cache[TM_CACHE_SIZE];
};
typedef struct _tm_thread tm_thread;

#define TM_NO_FRAME ((const void *)1)

static inline tm_thread *
tm_stack_thread(PyThreadState *tstate)
{
    return ((_PyThreadStateImpl *)tstate)->tracemalloc;
}

static inline uint32_t
tm_stack_hash(tm_ctx_t parent)
{
    return (parent * 0x9e3779b1u) >> 16;
}

/* The place of (instruction, parent) in the cache, given the parent's hash. */
static inline struct tm_cached *
tm_stack_cached(tm_thread *th, const void *ip, uint32_t parent_hash)
{
    uint32_t h = (uint32_t)((uintptr_t)ip >> 1) + parent_hash;
    return &th->cache[h & (TM_CACHE_SIZE - 1)];
}

static inline void
tm_stack_set_top(tm_thread *th, const void *frame, tm_ctx_t parent)
{
    th->top_frame = frame;
    th->top_parent = parent;
    th->top_hash = tm_stack_hash(parent);
}

/* A new tm_thread linked to tstate; NULL: no memory.  Names lock held. */
tm_thread *tm_stack_thread_new(PyThreadState *tstate);
/* Unlink and free that of a thread state that ends.  Names lock held. */
void tm_stack_thread_free(PyThreadState *tstate);
/* Is this the living thread state of some tm_thread?  Names lock held. */
bool tm_stack_thread_known(const PyThreadState *tstate);

/* Cut the shadow stack down to `frame`, which is flagged.  False when the
   frame is not in it (the stack was switched): then it is emptied. */
bool tm_stack_cut_slow(tm_thread *th, const _PyInterpreterFrame *frame);

static inline bool
tm_stack_cut(tm_thread *th, const _PyInterpreterFrame *frame)
{
    if (TM_LIKELY(th->top_frame == frame)) {
        return true;
    }
    uint32_t depth = th->depth;
    if (TM_LIKELY(depth >= 2 && th->shadow[depth - 2].frame == frame)) {
        th->depth = depth - 1;
        tm_stack_set_top(th, frame, th->shadow[depth - 2].parent);
        return true;
    }
    return tm_stack_cut_slow(th, frame);
}

/* Room for one more entry; -1: no memory, the stack is as before. */
int tm_stack_grow(tm_thread *th);

/* Append a frame; but the top is left as it was: more is pushed, or tm_stack_set_top()
   or tm_stack_find_top() called, before anything else happens.
   -1: no memory, the stack is as before. */
static inline int
tm_stack_push_below(tm_thread *th, _PyInterpreterFrame *frame, tm_ctx_t parent)
{
    if (TM_UNLIKELY(th->depth == th->capacity) && tm_stack_grow(th) < 0) {
        return -1;
    }
    th->shadow[th->depth++] = (struct tm_shadow){frame, parent};
    frame->captured = 1;
    return 0;
}

/* Append a frame. */
static inline int
tm_stack_push(tm_thread *th, _PyInterpreterFrame *frame, tm_ctx_t parent)
{
    if (tm_stack_push_below(th, frame, parent) < 0) {
        return -1;
    }
    tm_stack_set_top(th, frame, parent);
    return 0;
}

/* Set the top from the last entry. */
void tm_stack_find_top(tm_thread *th);

/* Forget callers and cached contexts of every thread; frees nothing. */
void tm_stack_spoil_all(void);
/* Forget the callers that one thread state knows. */
void tm_stack_spoil(PyThreadState *tstate);
/* Drop cached contexts of instructions in [start, end), in every thread. */
void tm_stack_forget_code(const void *start, const void *end);
/* Call for the thread state of every known thread.  Names lock held. */
void tm_stack_each(void (*call)(PyThreadState *));
/* Free every tm_thread (stop, finalization). */
void tm_stack_free_all(void);
/* In the child of a fork only the thread of `tstate` lives on. */
void tm_stack_keep_only(PyThreadState *tstate);

const char *tm_stack_check(tm_ctx_t ctx_end);

#endif /* TM_STACK_H */
