/* The fused hooks when tracing samples by bytes.  Included once, by
 * obmalloc_trace.h, in the middle of it: the two share what they do slowly.
 *
 * Of a block that is passed over only the size matters, so that totals stay
 * exact: a byte.  Traces of samples are in the table `big`.
 *
 *   pool header ──trace_slots──► POOL_SIZE / ALIGNMENT bytes, one for each place
 *                                where a block may start:
 *                                  0       not traced
 *                                  1 + n   passed over, n bytes of its size
 *                                          class were not asked for
 *                                  255     sampled
 *
 * Guard: as of slots (traces.h).
 */
#ifndef Py_OBMALLOC_SAMPLED_H
#define Py_OBMALLOC_SAMPLED_H

TM_INLINE uint8_t *
sampled_byte(poolp pool, const void *block)
{
    return (uint8_t *)pool->trace_slots
           + (((uintptr_t)block & POOL_SIZE_MASK) >> ALIGNMENT_SHIFT);
}

/* Tracing is on and samples; world lock held if shared. */
static void
sampled_record(PyThreadState *tstate, poolp pool, void *block, size_t size)
{
    if (!pool_need_slots(pool)) {
        tm_stats_lose();
        return;
    }
    tm_ctx_t ctx = tm_record_choose(tstate, size);
    tm_record_count_one(tstate);
    uint8_t *byte = sampled_byte(pool, block);
    if (ctx == TM_CTX_NONE) {
        tm_stats_lose();        /* its size is kept all the same */
    }
    else if (ctx != TM_CTX_UNSAMPLED
             && tm_record_put_big(block, size, ctx) == 0)
    {
        *byte = TM_BYTE_SAMPLED;
        return;
    }
    *byte = (uint8_t)(1 + INDEX2SIZE(pool->szidx) - size);
    tm_record_grow(size);
}

/* World lock held if shared. */
static void
sampled_forget(poolp pool, const void *block)
{
    struct tm_trace old;
    if (pool->trace_slots == NULL) {
        return;
    }
    uint8_t *byte = sampled_byte(pool, block);
    unsigned value = *byte;
    *byte = 0;
    if (value == TM_BYTE_SAMPLED) {
        (void)tm_record_take_big(block, &old);
    }
    else if (value != 0) {
        tm_record_shrink(INDEX2SIZE(pool->szidx) - (value - 1));
    }
}

bool
_PyTraceMalloc_ChangeSampled(uintptr_t addr, size_t size, tm_ctx_t ctx)
{
    void *block = (void *)addr;
    poolp pool = POOL_ADDR(block);
    OMState *state = get_state();
    if (!address_in_range(state, block, pool) || pool->trace_slots == NULL
        || addr - (uintptr_t)pool < POOL_OVERHEAD
        || (addr - (uintptr_t)pool - POOL_OVERHEAD)
           % INDEX2SIZE(pool->szidx) != 0
        || *sampled_byte(pool, block) == 0)
    {
        return false;
    }
    sampled_forget(pool, block);
    if (ctx != TM_CTX_NONE && tm_record_put_big(block, size, ctx) == 0) {
        *sampled_byte(pool, block) = TM_BYTE_SAMPLED;
    }
    return true;
}

static void *recorded_slow(PyThreadState *tstate, void *block, size_t size);
static void free_slow(OMState *state, poolp pool, void *block);
static void free_and_mark(OMState *state, poolp pool, void *block);
static void free_large(OMState *state, void *block);

/* What a new block of a pool needs when it is passed over. */
TM_INLINE void *
recorded_sampled(PyThreadState *tstate, void *block, size_t size)
{
    poolp pool = POOL_ADDR(block);
    if (TM_UNLIKELY(tm_hot.gate) || TM_UNLIKELY(pool->trace_slots == NULL)
        || TM_UNLIKELY(tm_hot.until < (int64_t)size))
    {
        return recorded_slow(tstate, block, size);
    }
    tm_hot.until -= (int64_t)size;
    *sampled_byte(pool, block) =
        (uint8_t)(1 + (-(uint32_t)size & (ALIGNMENT - 1)));
    return recorded_counts(block, size);
}

/* Forget a block of a pool, then free it; no gate is shut. */
TM_INLINE void
forget_and_free_sampled(OMState *state, poolp pool, void *block)
{
    if (TM_LIKELY(pool->trace_slots != NULL)) {
        uint8_t *byte = sampled_byte(pool, block);
        uint32_t value = *byte;
        if (TM_UNLIKELY(value == TM_BYTE_SAMPLED)) {
            free_slow(state, pool, block);
            return;
        }
        if (TM_LIKELY(value != 0)) {
            *byte = 0;
            tm_hot.bytes -= INDEX2SIZE(pool->szidx) - (value - 1);
            if (TM_UNLIKELY(tm_live() < tm_hot.low)) {
                free_and_mark(state, pool, block);
                return;
            }
        }
    }
    (void)pymalloc_free_block(state, pool, block);
}

#endif /* Py_OBMALLOC_SAMPLED_H */
