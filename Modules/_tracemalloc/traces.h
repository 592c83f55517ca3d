/* Live traces: slots beside the pools of pymalloc, tables for everything else.
 *
 *   pool header ──trace_slots──► ┌───────────────┬────┬────┬────┬─
 *                                │ struct header │ s0 │ s1 │ s2 │ ...
 *                                └───────────────┴────┴────┴────┴─
 *   A slot a block (types.h), by position, from the first block recorded until
 *   the pool's size class changes or its arena goes.
 *
 *   `big`: blocks of MEM and OBJ without a slot.  `raw`: the RAW domain, and what
 *   PyTraceMalloc_Track() put in domain 0.  Other domains: domains.h.
 *
 * Guards: slots and `big` the GIL (world lock when shared); `raw` the raw lock.
 */
#ifndef TM_TRACES_H
#define TM_TRACES_H

#include "sync.h"
#include "table.h"
#include "types.h"

/* Shards of `big`: threads that allocate without a GIL must not meet. */
#ifdef Py_GIL_DISABLED
#  define TM_SHARD_BITS 6
#else
#  define TM_SHARD_BITS 0
#endif
#define TM_SHARDS (1 << TM_SHARD_BITS)

struct tm_shard {
    struct tm_table table;
#ifdef Py_GIL_DISABLED
    tm_mutex_t lock;
    char apart[64];             /* from the next one's cache lines */
#endif
};

extern struct tm_shard tm_traces_big[TM_SHARDS];
extern struct tm_table tm_traces_raw;

/* The shard of an address, locked; under the GIL there is nothing to lock. */
static inline struct tm_shard *
tm_shard_lock(uintptr_t addr)
{
#ifdef Py_GIL_DISABLED
    uint64_t hash = (uint64_t)(addr >> 16) * UINT64_C(0x9e3779b97f4a7c15);
    struct tm_shard *shard = &tm_traces_big[hash >> (64 - TM_SHARD_BITS)];
    tm_mutex_acquire(&shard->lock);
    return shard;
#else
    (void)addr;
    return &tm_traces_big[0];
#endif
}

static inline void
tm_shard_unlock(struct tm_shard *shard)
{
#ifdef Py_GIL_DISABLED
    tm_mutex_release(&shard->lock);
#else
    (void)shard;
#endif
}

/* Fork: all of them; in the child they are made anew. */
void tm_traces_before_fork(void);
void tm_traces_after_fork(bool child);

/* --- slots --- */

/* The slots of one pool.  This file need not know pymalloc. */
struct tm_slots {
    void *pool;                 /* address of the pool header */
    uint32_t registered;        /* place in the registry */
    uint16_t block;             /* bytes a block (size class) */
    uint16_t count;             /* blocks in the pool; when tracing samples, what
                                   holds two numbers of 16 bits */
    tm_slot_t slot[];
};
#define TM_SLOTS_OF(first) \
    ((struct tm_slots *)((char *)(first) - offsetof(struct tm_slots, slot)))

/* Zeroed slots for `count` blocks of `block` bytes, the first at `base`
   bytes behind `pool`.  NULL: no memory.  The caller links them. */
tm_slot_t *tm_slots_attach(void *pool, size_t base, size_t block, size_t count);
/* Give them back.  Every slot must be 0. */
void tm_slots_detach(tm_slot_t *first);
/* All pools that have slots; cb links back NULL.  Used by stop and clear. */
typedef void (*tm_pool_cb)(void *pool);
void tm_slots_release_all(tm_pool_cb unlink);
/* Zero every slot, keep the arrays. */
void tm_slots_wipe(void);
/* The slots of the pool at this address, or NULL (slow: reads the registry). */
tm_slot_t *tm_slots_find(const void *pool);
size_t tm_slots_pools(void);

/* Every live trace of slots, `big` and `raw`. */
void tm_traces_scan(tm_trace_cb cb, void *arg);
/* An upper bound of how many there are. */
size_t tm_traces_bound(void);
void tm_traces_clear_tables(void);
size_t tm_traces_idle(void);        /* bytes of empty entries */
const char *tm_traces_check(size_t *bytes, size_t *raw_bytes);

#endif /* TM_TRACES_H */
