/* The incremental stack: what is known of the callers of a running frame.
 *
 * Frames carry a `captured` flag, cleared where a frame is linked into a stack.
 * A flagged frame has been linked ever since, so nothing below it can have
 * moved, and what its thread remembers of its callers still holds.
 *
 *   frames, linked        memory of the thread, a place for each frame address
 *   ┌─────────┐           ┌─────────────────────────────────────────────┐
 *   │ frame C │ captured  │ ...   (C, context of A and B)               │
 *   │ frame B │ captured  │ ...                   (A, root)             │
 *   │ frame A │ captured  │ ...        (B, context of A)                │
 *   └─────────┘           └─────────────────────────────────────────────┘
 *
 * A return needs nothing: the caller is still remembered.  Of two frames whose
 * places collide the older one is forgotten, and found anew from its callers.
 *
 * A context is looked up by (instruction, context of the callers) in a small cache
 * of the thread before the tree is asked.  A set of it has two entries; the inline
 * halves look at the first.
 *
 * Guard: a tm_thread belongs to its thread state: the holder of the GIL, or the
 * thread itself under the raw lock while it is in C code without the GIL.  Others
 * touch it only to make it forget, with exclusive access, and to
 * empty entries of the cache (tm_stack_forget_code) under the names lock, under
 * which entries are written, too.
 */
#ifndef TM_STACK_H
#define TM_STACK_H

#include "types.h"
#include "pycore_frame.h"         // _PyInterpreterFrame
#include "pycore_gc.h"            // what pycore_tstate.h takes for granted
#include "pycore_tstate.h"        // _PyThreadStateImpl

#define TM_CACHE_SETS 2048          /* a power of two */

struct tm_cached {
    _Alignas(16)
    uintptr_t ip;               /* address of an instruction, with TM_CACHED_SLOW;
                                   0: empty */
    tm_ctx_t parent;
    tm_ctx_t ctx;               /* with TM_CTX_DROPPED when filtered out */
};

/* Set when the context does not fit a slot, so that the inline halves pass over
   the entry and need not look at the context.  Instructions have even addresses. */
#define TM_CACHED_SLOW ((uintptr_t)1)

struct tm_known {
    _Alignas(16)
    const void *frame;          /* NULL: empty */
    tm_ctx_t parent;            /* context of the frame's callers */
    uint32_t hash;              /* of parent, see tm_stack_cached() */
};

struct _tm_thread {
    struct tm_known *known;     /* direct-mapped by the address of the frame */
    uintptr_t known_mask;       /* see tm_stack_place() */
    bool known_final;           /* no more places: no memory, or there are as
                                   many as there may be */
    const PyThreadState *tstate;
    struct _tm_thread *next, *prev;
#ifdef Py_GIL_DISABLED
    struct tm_local local;
#endif
    unsigned second;            /* how often second entries were right */
    struct tm_cached cache[2 * TM_CACHE_SETS];
};
typedef struct _tm_thread tm_thread;

static inline tm_thread *
tm_stack_thread(PyThreadState *tstate)
{
    return ((_PyThreadStateImpl *)tstate)->tracemalloc;
}

/* Offsets of the cache are bytes: what an index would be multiplied with is in
   the hash already. */
static inline uint32_t
tm_stack_hash(tm_ctx_t parent)
{
    return (parent * 0x9e3779b1u) >> 16 << 5;
}

/* The set of (instruction, parent) in the cache, given the parent's hash. */
static inline struct tm_cached *
tm_stack_cached(tm_thread *th, const void *ip, uint32_t parent_hash)
{
    Py_BUILD_ASSERT(2 * sizeof(struct tm_cached) == 32);
    uint32_t at = ((uint32_t)(uintptr_t)ip * 16 + parent_hash)
                  & ((TM_CACHE_SETS - 1) * 2 * sizeof(struct tm_cached));
    return (struct tm_cached *)((char *)th->cache + at);
}

static inline bool
tm_stack_hit(const struct tm_cached *cached, const void *ip, tm_ctx_t parent)
{
    return (TM_GET(cached->ip) & ~TM_CACHED_SLOW) == (uintptr_t)ip
           && cached->parent == parent;
}

/* The place of a frame: one for 64 bytes.  With pointers of 64 bits no frame is
   smaller, so that those of a stack, which lie side by side, do not collide.  The
   mask is in bytes of the array. */
static inline struct tm_known *
tm_stack_place(const tm_thread *th, const void *frame)
{
    Py_BUILD_ASSERT(sizeof(struct tm_known) == 16);
    uintptr_t at = ((uintptr_t)frame >> 2) & th->known_mask;
    return (struct tm_known *)((char *)th->known + at);
}

/* What is known of the callers of a frame, or NULL.  The answer is read before
   anything else is learnt. */
static inline const struct tm_known *
tm_stack_known(const tm_thread *th, const _PyInterpreterFrame *frame)
{
    const struct tm_known *known = tm_stack_place(th, frame);
    return TM_LIKELY(known->frame == frame && frame->captured) ? known : NULL;
}

/* Remember the callers of a linked, complete frame. */
static inline const struct tm_known *
tm_stack_learn(tm_thread *th, _PyInterpreterFrame *frame, tm_ctx_t parent)
{
    struct tm_known *known = tm_stack_place(th, frame);
    *known = (struct tm_known){frame, parent, tm_stack_hash(parent)};
    frame->captured = 1;
    return known;
}

/* A new tm_thread linked to tstate; NULL: no memory.  Names lock held. */
tm_thread *tm_stack_thread_new(PyThreadState *tstate);
/* Unlink and free that of a thread state that ends.  Names lock held. */
void tm_stack_thread_free(PyThreadState *tstate);
/* Is this the living thread state of some tm_thread?  Names lock held. */
bool tm_stack_thread_known(const PyThreadState *tstate);

/* More places, for a stack of so many frames.  Only for the owner of th.  False:
   no memory, or there are as many as there may be.  True: everything is forgotten. */
bool tm_stack_grow(tm_thread *th, size_t frames);
/* Are so many unknown frames more than the places are for? */
static inline bool
tm_stack_outgrown(const tm_thread *th, size_t unknown)
{
    return !th->known_final
           && unknown > th->known_mask / (4 * sizeof(struct tm_known));
}

/* Forget callers and cached contexts of every thread; frees nothing. */
void tm_stack_spoil_all(void);
/* Forget the callers that threads know; contexts of instructions stay. */
void tm_stack_forget_callers(void);
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
