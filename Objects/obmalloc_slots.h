/* Trace slots of pools: where the slot of a block is, and how slots come and go
 * with pools and arenas.  Included once, by obmalloc_trace.h, before the hooks
 * that use it.
 *
 * The slots belong to the traces room (traces.h), which has the guards too; the
 * tables of known pools and objects belong to this file.
 */
#ifndef Py_OBMALLOC_SLOTS_H
#define Py_OBMALLOC_SLOTS_H

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

/* The pool has slots. */
static inline tm_slot_t *
slot_of_block(poolp pool, const void *block)
{
    uint32_t units = ((uint32_t)((uintptr_t)block & POOL_SIZE_MASK)
                      - (uint32_t)POOL_OVERHEAD) >> ALIGNMENT_SHIFT;
    return &pool->trace_slots[(units * pool->trace_divide) >> 16];
}

/* Slots of objects that came from a free list, by the address of the object: those
   that come next are mostly among those that went last.  An object lies in one
   block only while its pool keeps its size class, so an entry holds as long as the
   slots.  While a gate is shut there is none.
   The entries of a pool lie side by side; objects of free lists are not smaller
   than OBJECT_STEP.  There is room for four pools, 32 KiB, of which only what is
   used is touched: a ring of a few hundred lists takes two or three.  Guard: the
   GIL. */
#define OBJECT_STEP 32
#define KNOWN_OF_POOL (POOL_SIZE / OBJECT_STEP)
#define KNOWN_OBJECTS (4 * KNOWN_OF_POOL)
struct known_object {
    const void *object;             /* NULL: empty */
    tm_slot_t *slot;
};
static struct known_object known_objects[KNOWN_OBJECTS];
static bool knows_objects;          /* some are not empty */

TM_INLINE struct known_object *
known_object(const void *object)
{
    return &known_objects[((uintptr_t)object / OBJECT_STEP) % KNOWN_OBJECTS];
}

static void
forget_objects_of(poolp pool)
{
    if (knows_objects) {
        memset(known_object(pool), 0, KNOWN_OF_POOL * sizeof(*known_objects));
    }
}

static void
forget_known_objects(void)
{
    if (knows_objects) {
        memset(known_objects, 0, sizeof(known_objects));
        knows_objects = false;
    }
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
            forget_objects_of(pool);
            tm_slots_detach(pool->trace_slots);
            pool->trace_slots = NULL;
        }
        tm_unlock_world(world);
    }
}

/* Pools that were looked up lately, by their address: most blocks that are freed
   lie in one of them, and the three dependent loads of address_in_range() are
   saved.  An entry holds as long as its arena.  While a gate is shut there is
   none, so that who finds his pool here need not look at the gate.
   Guard: the GIL; filled only while all gates are open. */
#define KNOWN_POOLS 256
#define NO_POOL ((poolp)1)
/* The place of the NULL pool: freeing NULL must not find it. */
static poolp known_pools[KNOWN_POOLS] = {NO_POOL};

static void
forget_known_pools(void)
{
    memset(known_pools, 0, sizeof(known_pools));
    known_pools[0] = NO_POOL;
}

void
_PyTraceMalloc_GateMoves(void)
{
    if (tm_hot.gate) {
        forget_known_pools();
        forget_known_objects();
    }
    tm_hot.small = tm_hot.gate ? 0 : SMALL_REQUEST_THRESHOLD;
}

TM_INLINE poolp *
known_pool(poolp pool)
{
    return &known_pools[((uintptr_t)pool / POOL_SIZE) % KNOWN_POOLS];
}

/* No gate is shut. */
static TM_NOINLINE bool
find_pool(OMState *state, void *block, poolp pool)
{
    assert(!tm_hot.gate);
    if (!address_in_range(state, block, pool)) {
        return false;
    }
    *known_pool(pool) = pool;
    return true;
}

/* The arena's memory goes back to the system. */
static void
arena_drop_slots(struct arena_object *ao)
{
    if (ao->address == 0) {
        return;
    }
    if (!tm_hot.gate) {
        forget_known_pools();
        forget_known_objects();
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
        size_t count = tm_hot.sampling
                       ? POOL_SIZE / ALIGNMENT * sizeof(tm_sampled_t)
                         / sizeof(tm_slot_t)
                       : NUMBLOCKS(szidx);
        pool->trace_divide = class_reciprocal[szidx];
        pool->trace_slots = tm_slots_attach(pool, POOL_OVERHEAD,
                                            INDEX2SIZE(szidx), count);
    }
    return pool->trace_slots != NULL;
}

void
_PyTraceMalloc_UnlinkSlots(void *pool)
{
    forget_known_objects();
    ((poolp)pool)->trace_slots = NULL;
}

const char *
_PyTraceMalloc_CheckKnown(void)
{
    if (tm_hot.small != (tm_hot.gate ? 0 : SMALL_REQUEST_THRESHOLD)) {
        return "hooks that do not see the gate";
    }
    for (unsigned i = 0; i < KNOWN_POOLS; i++) {
        poolp pool = known_pools[i];
        if (pool == NULL || pool == NO_POOL) {
            continue;
        }
        if (tm_hot.gate || *known_pool(pool) != pool
            || !address_in_range(&obmalloc_state_main, pool, pool))
        {
            return "known pool that is none";
        }
    }
    for (unsigned i = 0; i < KNOWN_OBJECTS; i++) {
        const struct known_object *known = &known_objects[i];
        poolp pool = POOL_ADDR(known->object);
        if (known->object == NULL) {
            continue;
        }
        if (tm_hot.gate || !knows_objects || known_object(known->object) != known
            || !address_in_range(&obmalloc_state_main, (void *)known->object,
                                 pool)
            || pool->trace_slots == NULL
            || known->slot != slot_of_block(pool, known->object))
        {
            return "known object in a pool without such a slot";
        }
    }
    return NULL;
}

/* What the live filters drop must cost no memory: it makes no slots for a pool
   that has none.  World lock held if shared. */
static bool
pool_ignores(poolp pool, const void *block, tm_ctx_t ctx)
{
    if (pool->trace_slots != NULL || !(ctx & TM_CTX_DROPPED)) {
        return false;
    }
    tm_record_count_one(_PyThreadState_GET());
    tm_record_set_fresh(_PyThreadState_GET(), block);
    return true;
}

/* --- finding the slot of an address --- */

tm_slot_t *
_PyTraceMalloc_PoolSlot(const void *block, size_t *class_size)
{
    OMState *state = get_state();
    poolp pool = POOL_ADDR(block);
    if (tm_hot.sampling || state == NULL
        || !address_in_range(state, (void *)block, pool)
        || pool->trace_slots == NULL)
    {
        return NULL;
    }
    *class_size = INDEX2SIZE(pool->szidx);
    return slot_of_block(pool, block);
}

/* For any address at all, also of another interpreter's pymalloc, which is then
   looked for in the engine's own records.  NULL unless a block starts there, or
   when tracing samples: then there are no slots. */
tm_slot_t *
_PyTraceMalloc_AnySlot(uintptr_t addr, size_t *class_size)
{
    uintptr_t pool = addr & ~(uintptr_t)POOL_SIZE_MASK;
    PyThreadState *tstate = _PyThreadState_GET();
    tm_slot_t *first =
        tstate != NULL && tstate->interp->obmalloc != NULL
        && address_in_range(tstate->interp->obmalloc, (void *)addr, (poolp)pool)
        ? ((poolp)pool)->trace_slots : tm_slots_find((void *)pool);
    if (tm_hot.sampling || first == NULL || addr < pool + POOL_OVERHEAD) {
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

#endif /* Py_OBMALLOC_SLOTS_H */
