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
/* Not the blocks that sampling passed over. */
void tm_table_each(const struct tm_table *table, uint32_t domain,
                   tm_trace_cb cb, void *arg);
size_t tm_table_idle(const struct tm_table *table);   /* bytes of empty entries */
void tm_table_clear(struct tm_table *table);
const char *tm_table_check(const struct tm_table *table, size_t *bytes);

#endif /* TM_TABLE_H */
