/* Tables of traces (see table.h). */
#include "Python.h"
#include "arena.h"
#include "table.h"

#include <string.h>

static inline size_t
next_bucket(const struct tm_table *table, size_t bucket)
{
    return (bucket + TM_BUCKET) & table->mask;
}

/* The entry of addr, or where it belongs: in its own bucket, or the next with
   room when that is full.  Nothing is behind a bucket that has room. */
static inline struct tm_entry *
probe(const struct tm_table *table, uintptr_t addr)
{
    size_t at = tm_table_home(addr, table->mask);
    for (;; at = next_bucket(table, at)) {
        struct tm_entry *entry = &table->entries[at], *end = entry + TM_BUCKET;
        do {
            if (entry->ctx == TM_CTX_NONE || entry->addr == addr) {
                return entry;
            }
        } while (++entry != end);
    }
}

static inline bool
bucket_is_full(const struct tm_entry *bucket)
{
    return bucket[TM_BUCKET - 1].ctx != TM_CTX_NONE;
}

/* Entries up to which memory does not count, but that buckets are seldom full: a
   mebibyte, also where there are many tables (traces.h). */
#ifdef Py_GIL_DISABLED
#  define SPACIOUS 1024
#else
#  define SPACIOUS 65536
#endif

static int
table_grow(struct tm_table *table)
{
    size_t size = table->mask ? (table->mask + 1) * 2 : 64;
    struct tm_entry *entries = tm_calloc(size, sizeof(*entries));
    if (entries == NULL) {
        return -1;
    }
    struct tm_entry *old = table->entries;
    size_t n = table->mask ? table->mask + 1 : 0;
    table->entries = entries;
    table->mask = size - 1;
    table->enough = size / 8 * (size <= SPACIOUS ? 3 : 5);
    for (size_t i = 0; i < n; i++) {
        if (old[i].ctx != TM_CTX_NONE) {
            *probe(table, old[i].addr) = old[i];
        }
    }
    tm_free(old);
    return 0;
}

/* A table is at most five eighths full, a small one three (`enough`); without
   memory seven eighths, since a full one is as slow as a list.  As long as there is
   room, memory that was refused is not asked for again at once: that takes as long
   as many allocations. */
static bool
make_room(struct tm_table *table)
{
    bool room = table->count * 8 < table->mask * 7;
    if (room && table->refused > 0) {
        table->refused--;
        return true;
    }
    if (table_grow(table) == 0) {
        return true;
    }
    table->refused = 100;
    return room;
}

static size_t
huge_size(const struct tm_table *table, uintptr_t addr)
{
    for (size_t i = 0; i < table->nhuge; i++) {
        if (table->huge[i].addr == addr) {
            return table->huge[i].size;
        }
    }
    assert(!"a huge block without its size");
    return TM_SIZE_HUGE;
}

static int
huge_add(struct tm_table *table, uintptr_t addr, size_t size)
{
    struct tm_huge *huge =
        tm_realloc(table->huge, (table->nhuge + 1) * sizeof(*huge));
    if (huge == NULL) {
        return -1;
    }
    table->huge = huge;
    huge[table->nhuge++] = (struct tm_huge){addr, size};
    return 0;
}

static void
huge_drop(struct tm_table *table, uintptr_t addr)
{
    for (size_t i = 0; i < table->nhuge; i++) {
        if (table->huge[i].addr == addr) {
            table->huge[i] = table->huge[--table->nhuge];
            return;
        }
    }
}

static struct tm_trace
entry_trace(const struct tm_table *table, const struct tm_entry *entry)
{
    struct tm_trace trace = {entry->size, entry->ctx};
    if (TM_UNLIKELY(entry->size == TM_SIZE_HUGE)) {
        trace.size = huge_size(table, entry->addr);
    }
    return trace;
}

int
tm_table_put(struct tm_table *table, uintptr_t addr,
             const struct tm_trace *trace, struct tm_trace *old)
{
    /* A replacement needs no room. */
    if (TM_UNLIKELY(table->count >= table->enough) && !make_room(table)
        && (table->mask == 0
            || probe(table, addr)->ctx == TM_CTX_NONE))
    {
        return -1;
    }
    if (TM_UNLIKELY(trace->size >= TM_SIZE_HUGE)
        && huge_add(table, addr, trace->size) < 0)
    {
        return -1;
    }
    struct tm_entry *entry = probe(table, addr);
    old->ctx = TM_CTX_NONE;
    old->size = 0;
    if (entry->ctx != TM_CTX_NONE) {
        *old = entry_trace(table, entry);
        if (entry->size == TM_SIZE_HUGE) {
            huge_drop(table, addr);     /* the older one comes first */
        }
    }
    else {
        table->count++;
    }
    entry->addr = addr;
    entry->ctx = trace->ctx;
    entry->size = trace->size >= TM_SIZE_HUGE ? TM_SIZE_HUGE
                                              : (uint32_t)trace->size;
    return 0;
}

/* An entry in the bucket at `at` that came there past the bucket `full`, or
   NULL. */
static struct tm_entry *
find_displaced(const struct tm_table *table, size_t at, size_t full)
{
    struct tm_entry *entry = &table->entries[at], *end = entry + TM_BUCKET;
    for (; entry != end && entry->ctx != TM_CTX_NONE; entry++) {
        size_t from = tm_table_home(entry->addr, table->mask);
        if (((at - from) & table->mask) >= ((at - full) & table->mask)) {
            return entry;
        }
    }
    return NULL;
}

static inline size_t
bucket_of(const struct tm_table *table, const struct tm_entry *entry)
{
    return (size_t)(entry - table->entries) & ~(size_t)(TM_BUCKET - 1);
}

/* The entry of a bucket that was full goes: one that had to go past the bucket
   takes its place, and so on.  Returns the entry that is not needed any more. */
static TM_NOINLINE struct tm_entry *
fill_gap(struct tm_table *table, struct tm_entry *gap)
{
    size_t bucket = bucket_of(table, gap), at = bucket;
    do {
        at = next_bucket(table, at);
        struct tm_entry *displaced = find_displaced(table, at, bucket);
        if (displaced != NULL) {
            *gap = *displaced;
            gap = displaced;
            bucket = at;
        }
    } while (bucket_is_full(&table->entries[at]));
    return gap;
}

bool
tm_table_take(struct tm_table *table, uintptr_t addr, struct tm_trace *old)
{
    if (table->count == 0) {
        return false;
    }
    struct tm_entry *entry = probe(table, addr);
    if (entry->ctx == TM_CTX_NONE) {
        return false;
    }
    *old = entry_trace(table, entry);
    if (TM_UNLIKELY(entry->size == TM_SIZE_HUGE)) {
        huge_drop(table, addr);
    }
    struct tm_entry *bucket = &table->entries[bucket_of(table, entry)];
    if (TM_UNLIKELY(bucket_is_full(bucket))) {
        entry = fill_gap(table, entry);
        bucket = &table->entries[bucket_of(table, entry)];
    }
    struct tm_entry *last = bucket + TM_BUCKET - 1;
    while (last->ctx == TM_CTX_NONE) {
        last--;
    }
    *entry = *last;
    last->ctx = TM_CTX_NONE;
    table->count--;
    return true;
}

bool
tm_table_get(const struct tm_table *table, uintptr_t addr,
             struct tm_trace *trace)
{
    if (table->count == 0) {
        return false;
    }
    const struct tm_entry *entry = probe(table, addr);
    if (entry->ctx == TM_CTX_NONE) {
        return false;
    }
    *trace = entry_trace(table, entry);
    return true;
}

void
tm_table_each(const struct tm_table *table, uint32_t domain, tm_trace_cb cb,
              void *arg)
{
    for (size_t i = 0; table->count != 0 && i <= table->mask; i++) {
        tm_ctx_t ctx = table->entries[i].ctx;
        if (ctx != TM_CTX_NONE && ctx != TM_CTX_UNSAMPLED) {
            struct tm_trace t = entry_trace(table, &table->entries[i]);
            cb(arg, domain, table->entries[i].addr, t.size, t.ctx);
        }
    }
}

size_t
tm_table_idle(const struct tm_table *table)
{
    return table->mask == 0 ? 0 : (table->mask + 1 - table->count)
                                  * sizeof(struct tm_entry);
}

void
tm_table_clear(struct tm_table *table)
{
    tm_free(table->entries);
    tm_free(table->huge);
    memset(table, 0, sizeof(*table));
}

const char *
tm_table_check(const struct tm_table *table, size_t *bytes)
{
    size_t count = 0, huge = 0;
    for (size_t i = 0; table->mask != 0 && i <= table->mask; i++) {
        const struct tm_entry *entry = &table->entries[i];
        if (entry->ctx == TM_CTX_NONE) {
            continue;
        }
        if (probe(table, entry->addr) != entry) {
            return "entry that its table does not find";
        }
        count++;
        huge += entry->size == TM_SIZE_HUGE;
        *bytes += entry_trace(table, entry).size;
    }
    if (count != table->count || huge != table->nhuge) {
        return "table with a wrong count";
    }
    return NULL;
}
