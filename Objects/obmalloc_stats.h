/* What pymalloc knows of itself, as numbers: the figures behind
 * sys._debugmallocstats().  Included once, by obmalloc_trace.h at the end of
 * obmalloc.c, whose static structures it reads; it changes none.
 *
 * Guard: the GIL of the interpreter whose pymalloc it is.
 */
#ifndef Py_OBMALLOC_STATS_H
#define Py_OBMALLOC_STATS_H

#include "../Modules/_tracemalloc/engine.h"

#ifdef TM_HAVE_PYMALLOC_STATS

/* A pool in use is made of its header, blocks of one size, and a rest too small
   for one more block. */
static void
add_pool(struct tm_pymalloc_stats *stats, poolp pool)
{
    const size_t block = INDEX2SIZE(pool->szidx);
    const size_t room = POOL_SIZE - POOL_OVERHEAD;
    const size_t in_use = pool->ref.count;
    stats->allocated_bytes += in_use * block;
    stats->available_bytes += (room / block - in_use) * block;
    stats->quantization += room % block;
    stats->pool_headers += POOL_OVERHEAD;
}

/* Pools are carved one after another, from the first aligned address on; what
   was never carved counts as free, like pools that have become empty. */
static void
add_arena(struct tm_pymalloc_stats *stats, const struct arena_object *arena)
{
    uintptr_t pool = _Py_SIZE_ROUND_UP(arena->address, POOL_SIZE);
    if (pool != arena->address) {
        stats->arena_alignment += POOL_SIZE;    /* at both ends together */
    }
    stats->arenas++;
    stats->free_pools += arena->nfreepools;
    for (; pool != (uintptr_t)arena->pool_address; pool += POOL_SIZE) {
        if (((poolp)pool)->ref.count != 0) {
            add_pool(stats, (poolp)pool);
        }
    }
}

void
_PyTraceMalloc_PymallocStats(struct tm_pymalloc_stats *stats)
{
    OMState *state = get_state();
    *stats = (struct tm_pymalloc_stats){
        .alignment = ALIGNMENT,
        .threshold = SMALL_REQUEST_THRESHOLD,
        .nalloc = tm_allocations(),
        .arena_size = ARENA_SIZE,
        .total_arenas = ntimes_arena_allocated,
        .max_arenas = narenas_highwater,
        .pool_size = POOL_SIZE,
    };
#ifdef PYMEM_DEBUG_SERIALNO
    if (_PyMem_DebugEnabled()) {
        stats->nalloc = serialno;       /* this build counts them itself */
    }
#endif
    for (size_t i = 0; i < maxarenas; i++) {
        if (allarenas[i].address != 0) {
            add_arena(stats, &allarenas[i]);
        }
    }
}

#endif /* TM_HAVE_PYMALLOC_STATS */

#endif /* Py_OBMALLOC_STATS_H */
