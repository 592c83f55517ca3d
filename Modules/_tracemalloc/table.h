/* Tables of traces: open addressing in buckets of four entries, 16 bytes each.
 * What finds its bucket full goes to the next one with room, and comes back when
 * an entry leaves: behind a bucket that has room nothing need be looked for.
 * A structure, not a room: the traces and domains rooms own the tables, and the
 * guard of a table is its owner's.
 */
#ifndef TM_TABLE_H
#define TM_TABLE_H

#include "types.h"

struct tm_entry {
    uintptr_t addr;
    uint32_t size;              /* TM_SIZE_HUGE: see the side list */
    tm_ctx_t ctx;               /* TM_CTX_NONE: empty entry */
};
#define TM_SIZE_HUGE 0xffffffffu

struct tm_huge { uintptr_t addr; size_t size; };

struct tm_table {
    struct tm_entry *entries;
    size_t mask;                /* capacity - 1; 0: nothing allocated */
    size_t count;
    size_t enough;              /* entries with which it shall grow */
    unsigned refused;           /* so many new traces before the next attempt
                                   to get more memory */
    struct tm_huge *huge;       /* blocks of 4 GiB and more, unordered */
    size_t nhuge;
};

/* Add or replace the trace of addr.  *old is what stood there (ctx NONE when
   nothing did).  0, or -1 when there is no memory: nothing has changed. */
int tm_table_put(struct tm_table *table, uintptr_t addr,
                 const struct tm_trace *trace, struct tm_trace *old);
/* Remove; false when addr is not there. */
bool tm_table_take(struct tm_table *table, uintptr_t addr,
                   struct tm_trace *old);
bool tm_table_get(const struct tm_table *table, uintptr_t addr,
                  struct tm_trace *trace);

/* Entries of a bucket, a cache line; the empty ones are at its end. */
#define TM_BUCKET 4
/* Neighbours in memory stay neighbours in the table, but only as far as a few
   cache lines: were whole regions kept together, a region on top of another
   would push its entries to the end of both, thousands of places away. */
#define TM_NEAR 16                 /* entries, a power of two */

/* The first entry of the bucket of an address. */
TM_INLINE size_t
tm_table_home(uintptr_t addr, size_t mask)
{
    uint64_t group = (uint64_t)(addr >> 8) * 0x9e3779b97f4a7c15u;
    return ((addr >> 4) & (TM_NEAR - TM_BUCKET))
           + ((size_t)(group >> 28) & mask & ~(size_t)(TM_NEAR - 1));
}

/* The most frequent case of tm_table_put(): an address that is not there, and
   room in its own bucket.  False: nothing has changed. */
TM_INLINE bool
tm_table_enter(struct tm_table *table, uintptr_t addr, size_t size, tm_ctx_t ctx)
{
    if (TM_UNLIKELY(table->count >= table->enough || size >= TM_SIZE_HUGE)) {
        return false;
    }
    struct tm_entry *entry = &table->entries[tm_table_home(addr, table->mask)];
    for (int i = 0; i < TM_BUCKET; i++, entry++) {
        if (entry->ctx == TM_CTX_NONE) {
            *entry = (struct tm_entry){addr, (uint32_t)size, ctx};
            table->count++;
            return true;
        }
        if (entry->addr == addr) {
            return false;
        }
    }
    return false;
}

/* The most frequent case of tm_table_take(): an address in its own bucket, which
   is not full.  False: nothing has changed. */
TM_INLINE bool
tm_table_leave(struct tm_table *table, uintptr_t addr, struct tm_trace *old)
{
    if (TM_UNLIKELY(table->count == 0)) {
        return false;
    }
    struct tm_entry *entry = &table->entries[tm_table_home(addr, table->mask)];
    struct tm_entry *last = entry + TM_BUCKET - 1;
    if (last->ctx != TM_CTX_NONE) {
        return false;
    }
    while (entry->addr != addr) {
        if (++entry == last) {
            return false;
        }
    }
    if (entry->ctx == TM_CTX_NONE || entry->size == TM_SIZE_HUGE) {
        return false;
    }
    *old = (struct tm_trace){entry->size, entry->ctx};
    do {
        last--;
    } while (last->ctx == TM_CTX_NONE);
    *entry = *last;
    last->ctx = TM_CTX_NONE;
    table->count--;
    return true;
}

/* Not the blocks that sampling passed over. */
void tm_table_each(const struct tm_table *table, uint32_t domain,
                   tm_trace_cb cb, void *arg);
size_t tm_table_idle(const struct tm_table *table);   /* bytes of empty entries */
void tm_table_clear(struct tm_table *table);
const char *tm_table_check(const struct tm_table *table, size_t *bytes);

#endif /* TM_TABLE_H */
