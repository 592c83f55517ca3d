/* What lives beside pymalloc: trace slots of pools (obmalloc_slots.h), and the
 * allocator hooks fused with pymalloc's inner halves.  Included once, at the end
 * of obmalloc.c, whose static functions it calls.
 *
 * A wrapper around pymalloc would look each block's pool up twice; here the
 * slot is reached from the pool header that pymalloc has just touched.
 *
 * The fields that a patch adds to struct pool_header:
 *      trace_slots     first slot of the pool (traces.h), or NULL
 *      trace_divide    what divides by the pool's size class, once it has slots
 * They fill the header up to one cache line.  Guard: the GIL of the
 * interpreter whose pymalloc it is; slots themselves: see traces.h.
 */
#ifndef Py_OBMALLOC_TRACE_H
#define Py_OBMALLOC_TRACE_H

#include "../Modules/_tracemalloc/hook.h"
#include "../Modules/_tracemalloc/record.h"

/* The allocator functions of PyMemAllocatorEx take a context; pymalloc has
   none. */
#define NO_CTX NULL

/* Without a GIL objects come from mimalloc: nothing is fused. */
#if defined(WITH_PYMALLOC) && !defined(Py_GIL_DISABLED)

#include "obmalloc_slots.h"

/* --- malloc and calloc --- */

static TM_NOINLINE void *
recorded_ticks(void *block, size_t size)
{
    tm_schedule_tick();
    tm_stats_grow(size);
    return block;
}

static TM_NOINLINE void *
recorded_marks(void *block, size_t live)
{
    tm_mark_crossed(live);
    return block;
}

/* Count a block that was recorded. */
TM_INLINE void *
recorded_counts(void *block, size_t size)
{
    if (TM_UNLIKELY(--tm_hot.ticks < 0)) {
        return recorded_ticks(block, size);
    }
    tm_hot.bytes += size;
    size_t live = tm_live();
    if (TM_UNLIKELY(live > tm_hot.high)) {
        if (TM_UNLIKELY(live > tm_hot.task_high)) {
            return recorded_marks(block, live);
        }
        tm_stats_new_peak(live);
    }
    return block;
}

#include "obmalloc_sampled.h"

/* Any block, whatever has to be found out first. */
static TM_NOINLINE void
record_small_slow(PyThreadState *tstate, void *block, size_t size)
{
    poolp pool = POOL_ADDR(block);
    bool world = tm_lock_world();
    if (tm_muted) {
        /* the slot says so already */
    }
    else if (tm_hot.gate & TM_GATE_OFF) {
        tm_hook_seen();
    }
    else if (tm_hot.sampling) {
        sampled_record(tstate, pool, block, size);
    }
    else {
        tm_ctx_t ctx = tm_record_capture(tstate);
        if (pool_ignores(pool, block, ctx)) {
            /* nothing to remember */
        }
        else if (pool_need_slots(pool)) {
            tm_record_count_one(tstate);
            tm_record_in_slot(slot_of_block(pool, block), block, size,
                              INDEX2SIZE(pool->szidx), ctx);
        }
        else {
            tm_stats_lose();
        }
    }
    tm_unlock_world(world);
}

/* Write the slot and count the block. */
TM_INLINE void *
recorded_in_slot(poolp pool, void *block, size_t size, tm_ctx_t slot_ctx)
{
    *slot_of_block(pool, block) =
        TM_SLOT_MAKE(slot_ctx, -(uint32_t)size & (ALIGNMENT - 1));
    tm_hot.fresh = block;
    return recorded_counts(block, size);
}

/* The slow half as a tail call, so that the fast half of a hook calls nothing
   and keeps its registers.  Mostly a new frame has to be captured. */
static TM_NOINLINE void *
recorded_slow(void *block, size_t size)
{
    PyThreadState *tstate = _PyThreadState_GET();
    poolp pool = POOL_ADDR(block);
    if (tm_hot.gate || tm_hot.sampling || pool->trace_slots == NULL) {
        record_small_slow(tstate, block, size);
        return block;
    }
    tm_ctx_t ctx = tm_record_capture_slow(tstate);
    if (TM_LIKELY(TM_CTX_FITS_SLOT(ctx))) {
        return recorded_in_slot(pool, block, size, ctx);
    }
    tm_schedule_count_one();
    tm_record_in_slot(slot_of_block(pool, block), block, size,
                      INDEX2SIZE(pool->szidx), ctx);
    return block;
}

/* What a new block of a pool needs when nothing is new about it. */
TM_INLINE void *
recorded(poolp pool, void *block, size_t size)
{
    if (TM_UNLIKELY(pool->trace_slots == NULL)) {
        return recorded_slow(block, size);
    }
    tm_ctx_t ctx;
    if (TM_UNLIKELY(!tm_record_capture_fast(_PyThreadState_GET(), &ctx))) {
        return recorded_slow(block, size);
    }
    return recorded_in_slot(pool, block, size, ctx);
}

/* The RAW hook when upstream's RAW functions are below it, else empty.  As long as
   nobody has put a function above that, memory that is part of a block is asked
   for directly.  Guard: the GIL. */
static PyMemAllocatorEx raw_over_plain;

void
_PyTraceMalloc_RawLinked(const PyMemAllocatorEx *ours,
                         const PyMemAllocatorEx *below)
{
    bool plain = below->malloc == _PyMem_RawMalloc
                 && below->calloc == _PyMem_RawCalloc
                 && below->free == _PyMem_RawFree;
    raw_over_plain = plain ? *ours : (PyMemAllocatorEx){0};
}

static void *
large_new(size_t count, size_t size, int zero)
{
    if (zero && _PyMem_Raw.calloc == raw_over_plain.calloc) {
        return _PyMem_RawCalloc(NO_CTX, count, size);
    }
    if (!zero && _PyMem_Raw.malloc == raw_over_plain.malloc) {
        return _PyMem_RawMalloc(NO_CTX, size);
    }
    tm_nested++;
    void *block = zero ? PyMem_RawCalloc(count, size) : PyMem_RawMalloc(size);
    tm_nested--;
    return block;
}

static void
large_free(void *block)
{
    if (TM_LIKELY(_PyMem_Raw.free == raw_over_plain.free)) {
        _PyMem_RawFree(NO_CTX, block);
        return;
    }
    tm_nested++;
    PyMem_RawFree(block);
    tm_nested--;
}

/* Not served from a pool: pymalloc asks the RAW domain, as part of this
   block. */
static TM_NOINLINE void *
malloc_large(OMState *state, size_t count, size_t size, int zero)
{
    void *block = large_new(count, size, zero);
    if (block != NULL) {
        raw_allocated_blocks++;
        tm_record_big(_PyThreadState_GET(), block, count * size);
    }
    return block;
}

/* pymalloc's most frequent case, a block of a pool that is in use while no gate
   is shut; NULL in all others.  When *last, the caller has to extend the pool.
   A gate that is shut makes `small` 0.  Interpreters with a pymalloc of their own
   shut one: until then there is no need to ask the thread state for it. */
TM_INLINE void *
alloc_fast(size_t size, poolp *from, bool *last)
{
    OMState *state = &obmalloc_state_main;
    if (TM_UNLIKELY(size - 1 >= tm_hot.small)) {
        return NULL;
    }
    assert(tm_hot.gate == 0 && get_state() == state);
    size_t szidx = (size - 1) >> ALIGNMENT_SHIFT;
    poolp pool = usedpools[szidx + szidx];
    if (TM_UNLIKELY(pool == pool->nextpool)) {
        return NULL;
    }
    pymem_block *block = pool->freeblock;
    pymem_block *next = *(pymem_block **)block;
    pool->ref.count++;
    pool->freeblock = next;
    *from = pool;
    *last = next == NULL;
    return block;
}

static TM_NOINLINE void *
malloc_slow(size_t size)
{
    if (size > SMALL_REQUEST_THRESHOLD && !tm_hot.gate) {
        return malloc_large(&obmalloc_state_main, 1, size, 0);
    }
    OMState *state = get_state();
    void *block = pymalloc_alloc(state, NO_CTX, size);
    if (block == NULL) {
        return malloc_large(state, 1, size, 0);
    }
    return recorded_slow(block, size);
}

static TM_NOINLINE void *
calloc_slow(size_t count, size_t elsize)
{
    size_t size = count * elsize;
    if (size > SMALL_REQUEST_THRESHOLD && !tm_hot.gate) {
        return malloc_large(&obmalloc_state_main, count, elsize, 1);
    }
    OMState *state = get_state();
    void *block = pymalloc_alloc(state, NO_CTX, size);
    if (block == NULL) {
        return malloc_large(state, count, elsize, 1);
    }
    memset(block, 0, size);
    return recorded_slow(block, size);
}

/* The two hooks of one way to record. */
#define MALLOC_AND_CALLOC(prefix, recorded) \
    static TM_NOINLINE void * \
    prefix##_last(void *block, size_t size) \
    { \
        poolp pool = POOL_ADDR(block); \
        pymalloc_pool_extend(pool, (pymem_uint)(size - 1) >> ALIGNMENT_SHIFT); \
        return recorded(pool, block, size); \
    } \
    static void * \
    prefix##_malloc(void *Py_UNUSED(ctx), size_t size) \
    { \
        poolp pool; \
        bool last; \
        void *block = alloc_fast(size, &pool, &last); \
        if (TM_UNLIKELY(block == NULL)) { \
            return malloc_slow(size); \
        } \
        return last ? prefix##_last(block, size) \
                    : recorded(pool, block, size); \
    } \
    static void * \
    prefix##_calloc(void *Py_UNUSED(ctx), size_t count, size_t elsize) \
    { \
        poolp pool; \
        bool last; \
        size_t size = count * elsize; \
        void *block = alloc_fast(size, &pool, &last); \
        if (TM_UNLIKELY(block == NULL)) { \
            return calloc_slow(count, elsize); \
        } \
        if (last) { \
            prefix##_last(block, size); \
            return memset(block, 0, size); \
        } \
        memset(block, 0, size); \
        return recorded(pool, block, size); \
    }

MALLOC_AND_CALLOC(traced, recorded)
MALLOC_AND_CALLOC(sampled, recorded_sampled)

/* --- free --- */

/* Not in a slot, or locks are needed. */
static TM_NOINLINE void
forget_small_slow(poolp pool, const void *block)
{
    bool world = tm_lock_world();
    if (tm_hot.sampling) {
        sampled_forget(pool, block);
    }
    else if (pool->trace_slots != NULL) {
        tm_record_clear_slot(slot_of_block(pool, block), block,
                             INDEX2SIZE(pool->szidx));
    }
    tm_unlock_world(world);
}

static TM_NOINLINE void
free_large(OMState *state, void *block)
{
    struct tm_trace old;
    tm_record_forget_big(block, &old);
    large_free(block);
    raw_allocated_blocks--;
}

/* A gate is shut, the trace is not in the slot, or the block has moved. */
static TM_NOINLINE void
free_slow(poolp pool, void *block)
{
    OMState *state = get_state();
    if (!address_in_range(state, block, pool)) {
        free_large(state, block);
        return;
    }
    forget_small_slow(pool, block);
    (void)pymalloc_free_block(state, pool, block);
}

static TM_NOINLINE void
free_and_mark(poolp pool, void *block)
{
    (void)pymalloc_free_block(&obmalloc_state_main, pool, block);
    tm_mark_crossed(tm_live());
}

/* The pool was full, or becomes empty. */
static TM_NOINLINE void
free_and_link(poolp pool, void *block)
{
    (void)pymalloc_free_block(&obmalloc_state_main, pool, block);
}

/* Free a block of a pool; mostly one that has others, free and in use, and is
   linked where it belongs already. */
TM_INLINE void
free_in_pool(poolp pool, void *block)
{
    pymem_block *first = pool->freeblock;
    if (TM_UNLIKELY(first == NULL) || TM_UNLIKELY(pool->ref.count == 1)) {
        free_and_link(pool, block);
        return;
    }
    *(pymem_block **)block = first;
    pool->freeblock = block;
    pool->ref.count--;
}

/* Forget the trace of a block of a pool, then free it; no gate is shut.  As
   with malloc, whatever is not usual is a tail call. */
TM_INLINE void
forget_and_free(poolp pool, void *block)
{
    if (TM_LIKELY(pool->trace_slots != NULL)) {
        tm_slot_t *slot = slot_of_block(pool, block);
        tm_slot_t old = *slot;
        if (TM_LIKELY(tm_slot_is_plain(old))) {
            *slot = 0;
            tm_hot.bytes -= INDEX2SIZE(pool->szidx) - TM_SLOT_SLACK(old);
            if (TM_UNLIKELY(tm_live() < tm_hot.low)) {
                free_and_mark(pool, block);
                return;
            }
        }
        else if (old != 0) {
            free_slow(pool, block);
            return;
        }
    }
    free_in_pool(pool, block);
}

#define FREE(prefix, forget_and_free) \
    /* A gate is shut, the pool was not looked up lately, or it is none. */ \
    static TM_NOINLINE void \
    prefix##_free_unknown(poolp pool, void *block) \
    { \
        if (block == NULL) { \
            return; \
        } \
        if (tm_hot.gate) { \
            free_slow(pool, block); \
            return; \
        } \
        if (!find_pool(&obmalloc_state_main, block, pool)) { \
            free_large(&obmalloc_state_main, block); \
            return; \
        } \
        forget_and_free(pool, block); \
    } \
    static void \
    prefix##_free(void *Py_UNUSED(ctx), void *block) \
    { \
        poolp pool = POOL_ADDR(block); \
        if (TM_UNLIKELY(*known_pool(pool) != pool)) { \
            prefix##_free_unknown(pool, block); \
            return; \
        } \
        forget_and_free(pool, block); \
    }

FREE(traced, forget_and_free)
FREE(sampled, forget_and_free_sampled)

/* --- realloc --- */

static void *
realloc_large(PyThreadState *tstate, void *block, size_t size)
{
    struct tm_trace old;
    bool known = tm_record_forget_big(block, &old);
    tm_nested++;
    void *moved = PyMem_RawRealloc(block, size);
    tm_nested--;
    if (moved == NULL) {
        if (known) {
            tm_record_restore_big(block, &old);
        }
    }
    else {
        tm_record_big(tstate, moved, size);
    }
    return moved;
}

/* A block that stays where it is keeps its size class: only the slack and the
   context change. */
static void
record_resized(PyThreadState *tstate, poolp pool, void *block, size_t size)
{
    bool world = tm_lock_world();
    if (tm_hot.sampling && !(tm_hot.gate & TM_GATE_OFF)) {
        if (!tm_muted || (pool->trace_slots != NULL
                          && *sampled_size(pool, block) != 0))
        {
            sampled_forget(pool, block);
            sampled_record(tstate, pool, block, size);
        }
    }
    else if (!(tm_hot.gate & TM_GATE_OFF)) {
        tm_ctx_t ctx = tm_record_capture(tstate);
        if (pool_ignores(pool, block, ctx)
            || (tm_muted && (pool->trace_slots == NULL
                             || *slot_of_block(pool, block) == 0)))
        {
            /* nothing to remember */
        }
        else if (pool_need_slots(pool)) {
            size_t class_size = INDEX2SIZE(pool->szidx);
            tm_slot_t *slot = slot_of_block(pool, block);
            tm_record_clear_slot(slot, block, class_size);
            tm_record_count_one(tstate);
            tm_record_in_slot(slot, block, size, class_size, ctx);
        }
        else {
            tm_stats_lose();
        }
    }
    tm_unlock_world(world);
}

static void *
traced_realloc(void *ctx, void *block, size_t size)
{
    if (block == NULL) {
        return tm_hot.sampling ? sampled_malloc(ctx, size)
                               : traced_malloc(ctx, size);
    }
    PyThreadState *tstate = _PyThreadState_GET();
    OMState *state = tstate->interp->obmalloc;
    poolp pool = POOL_ADDR(block);
    if (!address_in_range(state, block, pool)) {
        return realloc_large(tstate, block, size);
    }
    size_t class_size = INDEX2SIZE(pool->szidx);
    /* pymalloc's own rule for what may stay in place. */
    if (size <= class_size && 4 * size > 3 * class_size) {
        record_resized(tstate, pool, block, size);
        return block;
    }
    void *moved = pymalloc_alloc(state, NO_CTX, size);
    bool small = moved != NULL;
    if (!small) {
        moved = large_new(1, size, 0);
        if (moved == NULL) {
            return NULL;
        }
        raw_allocated_blocks++;
    }
    memcpy(moved, block, Py_MIN(size, class_size));
    free_slow(pool, block);
    if (small) {
        record_small_slow(tstate, moved, size);
    }
    else {
        tm_record_big(tstate, moved, size);
    }
    return moved;
}

bool
_PyTraceMalloc_FuseWithPymalloc(PyMemAllocatorEx *allocator)
{
    const PyMemAllocatorEx plain = PYMALLOC_ALLOC;
    if (allocator->malloc != plain.malloc
        || allocator->calloc != plain.calloc
        || allocator->realloc != plain.realloc
        || allocator->free != plain.free)
    {
        return false;
    }
    *allocator =
        tm_hot.sampling
        ? (PyMemAllocatorEx){NULL, sampled_malloc, sampled_calloc,
                             traced_realloc, sampled_free}
        : (PyMemAllocatorEx){NULL, traced_malloc, traced_calloc,
                             traced_realloc, traced_free};
    return true;
}

/* Hooks of the other way to record, which somebody's wrapper keeps linked, must
   not take their fast halves. */
bool
_PyTraceMalloc_FusedOtherwise(const PyMemAllocatorEx *ours)
{
    return ours->malloc == (tm_hot.sampling ? traced_malloc : sampled_malloc);
}

/* --- objects --- */

static TM_NOINLINE void
moved_elsewhere(PyObject *op)
{
    tm_record_object(_PyThreadState_GET(),
                     (char *)op - _PyType_PreHeaderSize(Py_TYPE(op)));
}

/* Give the block of a slot to another context.  No gate is shut. */
TM_INLINE void
moved_to(tm_slot_t *slot, PyObject *op, tm_ctx_t ctx)
{
    tm_slot_t old = *slot;
    if (TM_LIKELY(tm_slot_is_plain(old))) {
        *slot = TM_SLOT_MAKE(ctx, TM_SLOT_SLACK(old));
    }
    else if (old != 0) {        /* 0: not traced at all */
        moved_elsewhere(op);
    }
}

/* Mostly a new frame has to be captured. */
static TM_NOINLINE void
moved_slow(tm_slot_t *slot, PyObject *op)
{
    tm_ctx_t ctx = tm_record_capture_slow(_PyThreadState_GET());
    if (TM_LIKELY(TM_CTX_FITS_SLOT(ctx))) {
        moved_to(slot, op, ctx);
    }
    else {
        moved_elsewhere(op);
    }
}

/* A new object, of a block that was made earlier: its trace moves to the code
   that runs now. */
TM_INLINE void
moved(tm_slot_t *slot, PyObject *op)
{
    tm_ctx_t ctx;
    if (TM_UNLIKELY(!tm_record_capture_fast(_PyThreadState_GET(), &ctx))) {
        moved_slow(slot, op);
        return;
    }
    moved_to(slot, op, ctx);
}

/* A new object with more than one head before it, mostly an instance of a class; or
   one that did not move lately. */
static TM_NOINLINE void
moved_unknown(PyObject *op)
{
    const void *block = (char *)op - _PyType_PreHeaderSize(Py_TYPE(op));
    if (block == tm_hot.fresh) {
        tm_hot.fresh = NULL;
        return;
    }
    poolp pool = POOL_ADDR(block);
    if (*known_pool(pool) != pool
        && (tm_hot.gate
            || !find_pool(&obmalloc_state_main, (void *)block, pool)))
    {
        moved_elsewhere(op);
    }
    else if (pool->trace_slots != NULL) {
        tm_slot_t *slot = slot_of_block(pool, block);
        *known_object(op) = (struct known_object){op, slot};
        knows_objects = true;
        moved(slot, op);
    }
    else if (!tm_hot.fused) {
        moved_elsewhere(op);
    }
}

/* Of every new object while tracing is on.  Its block was recorded a moment ago
   by the same code, or comes from a free list: then the trace moves. */
void
_PyTraceMalloc_NewReference(PyObject *op)
{
    /* A block starts with its object or with the head for the collector (or with
       more: moved_unknown()).  Another block can begin as near as that only in
       the smallest size class, where objects have no fields, and no free list
       holds such. */
    uintptr_t ahead = (uintptr_t)op - (uintptr_t)tm_hot.fresh;
    if (TM_LIKELY((ahead & ~(uintptr_t)sizeof(PyGC_Head)) == 0)) {
        /* Once: the next time it comes from a free list. */
        tm_hot.fresh = NULL;
        return;
    }
    const struct known_object *known = known_object(op);
    if (TM_UNLIKELY(known->object != op)) {
        moved_unknown(op);
        return;
    }
    moved(known->slot, op);
}

#else  /* nothing to fuse with */

void
_PyTraceMalloc_NewReference(PyObject *op)
{
    const void *block = (char *)op - _PyType_PreHeaderSize(Py_TYPE(op));
    PyThreadState *tstate = _PyThreadState_GET();
    if (!tm_record_take_fresh(tstate, block)) {
        tm_record_object(tstate, block);
    }
}

#ifdef WITH_PYMALLOC
static void
pool_drop_slots(poolp Py_UNUSED(pool))
{
}

static void
arena_drop_slots(struct arena_object *Py_UNUSED(ao))
{
}
#endif

void
_PyTraceMalloc_UnlinkSlots(void *Py_UNUSED(pool))
{
}

void
_PyTraceMalloc_GateMoves(void)
{
}

const char *
_PyTraceMalloc_CheckKnown(void)
{
    return NULL;
}

void
_PyTraceMalloc_RawLinked(const PyMemAllocatorEx *Py_UNUSED(ours),
                         const PyMemAllocatorEx *Py_UNUSED(below))
{
}

bool
_PyTraceMalloc_FuseWithPymalloc(PyMemAllocatorEx *Py_UNUSED(allocator))
{
    return false;
}

bool
_PyTraceMalloc_FusedOtherwise(const PyMemAllocatorEx *Py_UNUSED(ours))
{
    return false;
}

bool
_PyTraceMalloc_ChangeSampled(uintptr_t Py_UNUSED(addr), size_t Py_UNUSED(size),
                             tm_ctx_t Py_UNUSED(ctx))
{
    return false;
}

tm_slot_t *
_PyTraceMalloc_PoolSlot(const void *Py_UNUSED(block),
                        size_t *Py_UNUSED(class_size))
{
    return NULL;
}

tm_slot_t *
_PyTraceMalloc_AnySlot(uintptr_t Py_UNUSED(addr), size_t *Py_UNUSED(class_size))
{
    return NULL;
}

#endif

#include "obmalloc_stats.h"

#endif /* Py_OBMALLOC_TRACE_H */
