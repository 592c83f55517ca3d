/* What lives beside pymalloc: trace slots of pools, and the allocator hooks
 * fused with pymalloc's inner halves.  Included once, at the end of obmalloc.c,
 * whose static functions it calls.
 *
 * A wrapper around pymalloc would look each block's pool up twice; here the
 * slot is reached from the pool header that pymalloc has just touched.
 *
 * The fields that a patch adds to struct pool_header:
 *      trace_slots     first slot of the pool (traces.h), or NULL
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

#ifdef WITH_PYMALLOC

/* Multiply by this and shift to divide a position (in units of the alignment,
   at most POOL_SIZE / ALIGNMENT) by the size of a block in the same units.
   Exact: position * (class + 1) < 2**16. */
#define RECIPROCAL(n) ((65536u + (n)) / ((n) + 1))
#define RECIPROCAL4(n) RECIPROCAL(n), RECIPROCAL(n + 1), \
                       RECIPROCAL(n + 2), RECIPROCAL(n + 3)
#define RECIPROCAL16(n) RECIPROCAL4(n), RECIPROCAL4(n + 4), \
                        RECIPROCAL4(n + 8), RECIPROCAL4(n + 12)

static const uint32_t class_reciprocal[] = {
    RECIPROCAL16(0), RECIPROCAL16(16),
#if ALIGNMENT == 8
    RECIPROCAL16(32), RECIPROCAL16(48),
#endif
};

static inline tm_slot_t *
slot_of_block(poolp pool, const void *block, pymem_uint szidx)
{
    uint32_t units = (uint32_t)((const pymem_block *)block
                                - ((pymem_block *)pool + POOL_OVERHEAD))
                     >> ALIGNMENT_SHIFT;
    return &pool->trace_slots[(units * class_reciprocal[szidx]) >> 16];
}

/* --- slots come and go with pools --- */

/* A pool of unknown or changed size class: its slots do not fit any more. */
static void
pool_drop_slots(poolp pool)
{
    if (pool->trace_slots != NULL) {
        bool world = tm_lock_world();
        /* Again: another interpreter may have stopped tracing meanwhile. */
        if (pool->trace_slots != NULL) {
            tm_slots_detach(pool->trace_slots);
            pool->trace_slots = NULL;
        }
        tm_unlock_world(world);
    }
}

/* The arena's memory goes back to the system. */
static void
arena_drop_slots(struct arena_object *ao)
{
    if (ao->address == 0) {
        return;
    }
    uintptr_t base = (uintptr_t)_Py_ALIGN_UP(ao->address, POOL_SIZE);
    for (; base < (uintptr_t)ao->pool_address; base += POOL_SIZE) {
        pool_drop_slots((poolp)base);
    }
}

static bool
pool_need_slots(poolp pool)
{
    if (pool->trace_slots == NULL) {
        pymem_uint szidx = pool->szidx;
        pool->trace_slots = tm_slots_attach(pool, POOL_OVERHEAD,
                                            INDEX2SIZE(szidx),
                                            NUMBLOCKS(szidx));
    }
    return pool->trace_slots != NULL;
}

void
_PyTraceMalloc_UnlinkSlots(void *pool)
{
    ((poolp)pool)->trace_slots = NULL;
}

/* What the live filters drop must cost no memory: it makes no slots for a pool
   that has none.  World lock held if shared. */
static bool
pool_ignores(poolp pool, const void *block, tm_ctx_t ctx)
{
    if (pool->trace_slots != NULL || !(ctx & TM_CTX_DROPPED)) {
        return false;
    }
    tm_schedule_count_one();
    tm_hot.fresh = block;
    return true;
}

/* --- malloc and calloc --- */

/* Off, shared between GILs, or the first traced block of its pool. */
static TM_COLD void
record_small_slow(PyThreadState *tstate, poolp pool, void *block, size_t size)
{
    bool world = tm_lock_world();
    if (tm_muted) {
        /* the slot says so already */
    }
    else if (!(tm_hot.gate & TM_GATE_OFF)) {
        tm_ctx_t ctx = tm_record_capture(tstate);
        if (pool_ignores(pool, block, ctx)) {
            /* nothing to remember */
        }
        else if (pool_need_slots(pool)) {
            pymem_uint szidx = pool->szidx;
            tm_record_slot_fast(slot_of_block(pool, block, szidx), block, size,
                                INDEX2SIZE(szidx), ctx);
        }
        else {
            tm_stats_lose();
        }
    }
    else {
        tm_hook_seen();
    }
    tm_unlock_world(world);
}

TM_INLINE void
record_small(PyThreadState *tstate, void *block, size_t size)
{
    poolp pool = POOL_ADDR(block);
    if (TM_UNLIKELY(tm_hot.gate | (pool->trace_slots == NULL))) {
        record_small_slow(tstate, pool, block, size);
        return;
    }
    pymem_uint szidx = (pymem_uint)(size - 1) >> ALIGNMENT_SHIFT;
    tm_record_slot_fast(slot_of_block(pool, block, szidx), block, size,
                        INDEX2SIZE(szidx), tm_record_capture(tstate));
}

/* Not served from a pool: pymalloc asks the RAW domain, as part of this
   block. */
static TM_NOINLINE void *
malloc_large(PyThreadState *tstate, OMState *state, size_t count, size_t size,
             int zero)
{
    tm_nested++;
    void *block = zero ? PyMem_RawCalloc(count, size) : PyMem_RawMalloc(size);
    tm_nested--;
    if (block != NULL) {
        raw_allocated_blocks++;
        tm_record_big(tstate, block, count * size);
    }
    return block;
}

static void *
traced_malloc(void *Py_UNUSED(ctx), size_t size)
{
    PyThreadState *tstate = _PyThreadState_GET();
    OMState *state = tstate->interp->obmalloc;
    void *block = pymalloc_alloc(state, NO_CTX, size);
    if (TM_UNLIKELY(block == NULL)) {
        return malloc_large(tstate, state, 1, size, 0);
    }
    record_small(tstate, block, size);
    return block;
}

static void *
traced_calloc(void *Py_UNUSED(ctx), size_t count, size_t elsize)
{
    PyThreadState *tstate = _PyThreadState_GET();
    OMState *state = tstate->interp->obmalloc;
    size_t size = count * elsize;
    void *block = pymalloc_alloc(state, NO_CTX, size);
    if (TM_UNLIKELY(block == NULL)) {
        return malloc_large(tstate, state, count, elsize, 1);
    }
    memset(block, 0, size);
    record_small(tstate, block, size);
    return block;
}

/* --- free --- */

static TM_NOINLINE void
forget_small_shared(poolp pool, const void *block)
{
    bool world = tm_lock_world();
    if (pool->trace_slots != NULL) {
        tm_record_forget_slot_fast(slot_of_block(pool, block, pool->szidx),
                                   block, INDEX2SIZE(pool->szidx));
    }
    tm_unlock_world(world);
}

TM_INLINE void
forget_small(poolp pool, const void *block)
{
    if (TM_UNLIKELY(tm_hot.gate)) {
        forget_small_shared(pool, block);
    }
    else if (TM_LIKELY(pool->trace_slots != NULL)) {
        pymem_uint szidx = pool->szidx;
        tm_record_forget_slot_fast(slot_of_block(pool, block, szidx), block,
                                   INDEX2SIZE(szidx));
    }
}

static TM_NOINLINE void
free_large(OMState *state, void *block)
{
    struct tm_trace old;
    tm_record_forget_big(block, &old);
    tm_nested++;
    PyMem_RawFree(block);
    tm_nested--;
    raw_allocated_blocks--;
}

static void
traced_free(void *Py_UNUSED(ctx), void *block)
{
    if (block == NULL) {
        return;
    }
    OMState *state = get_state();
    poolp pool = POOL_ADDR(block);
    if (TM_UNLIKELY(!address_in_range(state, block, pool))) {
        free_large(state, block);
        return;
    }
    forget_small(pool, block);
    (void)pymalloc_free_block(state, pool, block);
}

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
    if (!(tm_hot.gate & TM_GATE_OFF)) {
        tm_ctx_t ctx = tm_record_capture(tstate);
        if (pool_ignores(pool, block, ctx)
            || (tm_muted && (pool->trace_slots == NULL
                             || *slot_of_block(pool, block, pool->szidx) == 0)))
        {
            /* nothing to remember */
        }
        else if (pool_need_slots(pool)) {
            size_t class_size = INDEX2SIZE(pool->szidx);
            tm_slot_t *slot = slot_of_block(pool, block, pool->szidx);
            tm_record_clear_slot(slot, block, class_size);
            tm_record_slot_fast(slot, block, size, class_size, ctx);
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
        return traced_malloc(ctx, size);
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
        tm_nested++;
        moved = PyMem_RawMalloc(size);
        tm_nested--;
        if (moved == NULL) {
            return NULL;
        }
        raw_allocated_blocks++;
    }
    memcpy(moved, block, Py_MIN(size, class_size));
    forget_small(pool, block);
    (void)pymalloc_free_block(state, pool, block);
    if (small) {
        record_small(tstate, moved, size);
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
    *allocator = (PyMemAllocatorEx){NULL, traced_malloc, traced_calloc,
                                    traced_realloc, traced_free};
    return true;
}

/* --- finding the slot of an address --- */

tm_slot_t *
_PyTraceMalloc_PoolSlot(const void *block, size_t *class_size)
{
    OMState *state = get_state();
    poolp pool = POOL_ADDR(block);
    if (state == NULL || !address_in_range(state, (void *)block, pool)
        || pool->trace_slots == NULL)
    {
        return NULL;
    }
    *class_size = INDEX2SIZE(pool->szidx);
    return slot_of_block(pool, block, pool->szidx);
}

/* For any address at all, also of another interpreter's pymalloc, which is then
   looked for in the engine's own records.  NULL unless a block starts there. */
tm_slot_t *
_PyTraceMalloc_AnySlot(uintptr_t addr, size_t *class_size)
{
    uintptr_t pool = addr & ~(uintptr_t)POOL_SIZE_MASK;
    PyThreadState *tstate = _PyThreadState_GET();
    tm_slot_t *first =
        tstate != NULL && tstate->interp->obmalloc != NULL
        && address_in_range(tstate->interp->obmalloc, (void *)addr, (poolp)pool)
        ? ((poolp)pool)->trace_slots : tm_slots_find((void *)pool);
    if (first == NULL || addr < pool + POOL_OVERHEAD) {
        return NULL;
    }
    const struct tm_slots *slots = TM_SLOTS_OF(first);
    size_t offset = addr - pool - POOL_OVERHEAD;
    size_t i = offset / slots->block;
    if (i >= slots->count || offset % slots->block != 0) {
        return NULL;
    }
    *class_size = slots->block;
    return &first[i];
}

#else  /* !WITH_PYMALLOC */

void
_PyTraceMalloc_UnlinkSlots(void *Py_UNUSED(pool))
{
}

bool
_PyTraceMalloc_FuseWithPymalloc(PyMemAllocatorEx *Py_UNUSED(allocator))
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

#endif /* WITH_PYMALLOC */

#include "obmalloc_stats.h"

#endif /* Py_OBMALLOC_TRACE_H */
