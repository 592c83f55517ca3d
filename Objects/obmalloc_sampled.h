/* The fused hooks when tracing samples by bytes.  Included once, by
 * obmalloc_trace.h, in the middle of it: the two share what they do slowly.
 *
 * Of a block that is passed over only the size matters, so that totals stay
 * exact.  Traces of samples are in the table `big`.
 *
 *   pool header ──trace_slots──► POOL_SIZE / ALIGNMENT numbers of 16 bits, one
 *                                for each place where a block may start:
 *                                  0       not traced
 *                                  n       passed over, n bytes were asked for
 *                                  65535   sampled
 *
 * Guard: as of slots (traces.h).
 */
#ifndef Py_OBMALLOC_SAMPLED_H
#define Py_OBMALLOC_SAMPLED_H

TM_INLINE tm_sampled_t *
sampled_size(poolp pool, const void *block)
{
    return (tm_sampled_t *)pool->trace_slots
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
    tm_sampled_t *known = sampled_size(pool, block);
    if (ctx == TM_CTX_NONE) {
        tm_stats_lose();        /* its size is kept all the same */
    }
    else if (ctx != TM_CTX_UNSAMPLED
             && tm_record_put_big(block, size, ctx) == 0)
    {
        *known = TM_SAMPLED;
        return;
    }
    *known = (tm_sampled_t)size;
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
    tm_sampled_t *known = sampled_size(pool, block);
    tm_sampled_t size = *known;
    *known = 0;
    if (size == TM_SAMPLED) {
        (void)tm_record_take_big(block, &old);
    }
    else if (size != 0) {
        tm_record_shrink(size);
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
        || *sampled_size(pool, block) == 0)
    {
        return false;
    }
    sampled_forget(pool, block);
    if (ctx != TM_CTX_NONE && tm_record_put_big(block, size, ctx) == 0) {
        *sampled_size(pool, block) = TM_SAMPLED;
    }
    return true;
}

static void *recorded_slow(void *block, size_t size);
static void free_slow(poolp pool, void *block);
static void free_and_mark(poolp pool, void *block);
static void free_in_pool(poolp pool, void *block);

/* The distance to the next sample ran out. */
static TM_NOINLINE void *
recorded_sample(void *block, size_t size)
{
    tm_hot.until += (int64_t)size;      /* it is counted again */
    return recorded_slow(block, size);
}

/* What a new block of a pool needs when it is passed over. */
TM_INLINE void *
recorded_sampled(poolp pool, void *block, size_t size)
{
    if (TM_UNLIKELY(pool->trace_slots == NULL)) {
        return recorded_slow(block, size);
    }
    if (TM_UNLIKELY((tm_hot.until -= (int64_t)size) < 0)) {
        return recorded_sample(block, size);
    }
    *sampled_size(pool, block) = (tm_sampled_t)size;
    return recorded_counts(block, size);
}

/* Forget a block of a pool, then free it; no gate is shut. */
TM_INLINE void
forget_and_free_sampled(poolp pool, void *block)
{
    if (TM_LIKELY(pool->trace_slots != NULL)) {
        tm_sampled_t *known = sampled_size(pool, block);
        size_t size = *known;
        if (TM_UNLIKELY(size == TM_SAMPLED)) {
            free_slow(pool, block);
            return;
        }
        /* A block that is not traced has no size. */
        *known = 0;
        tm_hot.bytes -= size;
        if (TM_UNLIKELY(tm_live() < tm_hot.low)) {
            free_and_mark(pool, block);
            return;
        }
    }
    free_in_pool(pool, block);
}

#endif /* Py_OBMALLOC_SAMPLED_H */
