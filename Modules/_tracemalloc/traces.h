/* Live traces: slots beside the pools of pymalloc, tables for everything else.
 *
 *   pool header ──trace_slots──► ┌───────────────┬────┬────┬────┬─
 *                                │ struct header │ s0 │ s1 │ s2 │ ...
 *                                └───────────────┴────┴────┴────┴─
 *   one 32-bit slot a block (types.h), by position; the size class gives the
 *   size.  A pool gets its slots when a block of it is first recorded, and
 *   keeps them until its size class changes or its arena goes.
 *
 *   `big`: table of the blocks of the MEM and OBJ domains
 *   that have no slot.  `raw`: the RAW domain and what PyTraceMalloc_Track() put in domain
 *   0.  The domains room has one table for each other domain.
 *
 * Guards: slots and `big` the GIL (world lock when shared); `raw` the raw lock.
 */
#ifndef TM_TRACES_H
#define TM_TRACES_H

#include "table.h"
#include "types.h"

extern struct tm_table tm_traces_big, tm_traces_raw;

/* --- slots --- */

/* The slots of one pool; `pool` is told apart from a pool header only by the
   caller, so that this file need not know pymalloc. */
struct tm_slots {
    void *pool;                 /* address of the pool header */
    uint32_t registered;        /* place in the registry */
    uint16_t block;             /* bytes a block (size class) */
    uint16_t count;             /* blocks in the pool */
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
const char *tm_traces_check(size_t *bytes, size_t *raw_bytes);

#endif /* TM_TRACES_H */
