/* Slots of pools and tables of live traces (see traces.h).
   Owner of its data: this room. */
#include "Python.h"
#include "arena.h"
#include "traces.h"

#include <string.h>

struct tm_shard tm_traces_big[TM_SHARDS];
struct tm_table tm_traces_raw;

#ifdef Py_GIL_DISABLED

static void
make_locks(void)
{
    const tm_mutex_t fresh = TM_MUTEX_INIT;
    for (int i = 0; i < TM_SHARDS; i++) {
        tm_traces_big[i].lock = fresh;
    }
}

void
tm_traces_before_fork(void)
{
    for (int i = 0; i < TM_SHARDS; i++) {
        tm_mutex_acquire(&tm_traces_big[i].lock);
    }
}

void
tm_traces_after_fork(bool child)
{
    if (child) {
        make_locks();
        return;
    }
    for (int i = TM_SHARDS - 1; i >= 0; i--) {
        tm_mutex_release(&tm_traces_big[i].lock);
    }
}

#else

void
tm_traces_before_fork(void)
{
}

void
tm_traces_after_fork(bool Py_UNUSED(child))
{
}

#endif

/* --- slots --- */

/* Slots come in few sizes, one for each size class of pymalloc. */
#define MAX_CLASSES 64
static struct { size_t block; struct tm_pool pool; } classes[MAX_CLASSES];

static struct { struct tm_slots **list; size_t count, capacity; } registry;
static size_t slot_base;            /* bytes from a pool to its first block */

static struct tm_pool *
pool_of_class(size_t block, size_t count)
{
    for (int i = 0; i < MAX_CLASSES; i++) {
        if (classes[i].block == block) {
            return &classes[i].pool;
        }
        if (classes[i].block == 0) {
            classes[i].block = block;
            size_t item = sizeof(struct tm_slots) + count * sizeof(tm_slot_t);
            classes[i].pool.item = (item + 7) & ~(size_t)7;
            return &classes[i].pool;
        }
    }
    return NULL;
}

tm_slot_t *
tm_slots_attach(void *pool, size_t base, size_t block, size_t count)
{
    if (registry.count == registry.capacity) {
        size_t capacity = registry.capacity ? registry.capacity * 2 : 64;
        void *list = tm_realloc(registry.list, capacity * sizeof(void *));
        if (list == NULL) {
            return NULL;
        }
        registry.list = list;
        registry.capacity = capacity;
    }
    struct tm_pool *items = pool_of_class(block, count);
    struct tm_slots *slots = items ? tm_pool_take(items) : NULL;
    if (slots == NULL) {
        return NULL;
    }
    slot_base = base;
    slots->pool = pool;
    slots->block = (uint16_t)block;
    slots->count = (uint16_t)count;
    slots->registered = (uint32_t)registry.count;
    memset(slots->slot, 0, count * sizeof(tm_slot_t));
    registry.list[registry.count++] = slots;
    return slots->slot;
}

void
tm_slots_detach(tm_slot_t *first)
{
    struct tm_slots *slots = TM_SLOTS_OF(first);
    struct tm_slots *last = registry.list[--registry.count];
    registry.list[slots->registered] = last;
    last->registered = slots->registered;
    tm_pool_give(pool_of_class(slots->block, slots->count), slots);
}

void
tm_slots_release_all(tm_pool_cb unlink)
{
    for (size_t i = 0; i < registry.count; i++) {
        unlink(registry.list[i]->pool);
        /* Given back one by one, so that the reserve stays exact. */
        struct tm_slots *slots = registry.list[i];
        tm_pool_give(pool_of_class(slots->block, slots->count), slots);
    }
    for (int i = 0; i < MAX_CLASSES && classes[i].block != 0; i++) {
        tm_pool_release(&classes[i].pool);
    }
    /* The next session may sample, with items of another size. */
    memset(classes, 0, sizeof(classes));
    tm_free(registry.list);
    memset(&registry, 0, sizeof(registry));
}

void
tm_slots_wipe(void)
{
    for (size_t i = 0; i < registry.count; i++) {
        struct tm_slots *slots = registry.list[i];
        memset(slots->slot, 0, slots->count * sizeof(tm_slot_t));
    }
}

tm_slot_t *
tm_slots_find(const void *pool)
{
    for (size_t i = 0; i < registry.count; i++) {
        if (registry.list[i]->pool == pool) {
            return registry.list[i]->slot;
        }
    }
    return NULL;
}

size_t
tm_slots_pools(void)
{
    return registry.count;
}

static void
slots_each(const struct tm_slots *slots, tm_trace_cb cb, void *arg)
{
    uintptr_t addr = (uintptr_t)slots->pool + slot_base;
    for (unsigned i = 0; i < slots->count; i++, addr += slots->block) {
        tm_slot_t slot = slots->slot[i];
        if (slot == 0 || TM_SLOT_CTX(slot) == TM_SLOT_CTX_ELSEWHERE) {
            continue;
        }
        cb(arg, 0, addr, slots->block - TM_SLOT_SLACK(slot),
           TM_SLOT_CTX(slot));
    }
}

/* Of blocks that were passed over (Objects/obmalloc_sampled.h). */
static size_t
sampled_bytes(const struct tm_slots *slots)
{
    const tm_sampled_t *sizes = (const tm_sampled_t *)slots->slot;
    size_t sum = 0, count = slots->count * sizeof(tm_slot_t) / sizeof(*sizes);
    for (size_t i = 0; i < count; i++) {
        if (sizes[i] != TM_SAMPLED) {
            sum += sizes[i];
        }
    }
    return sum;
}

void
tm_traces_scan(tm_trace_cb cb, void *arg)
{
    /* When tracing samples all traces are in tables. */
    for (size_t i = 0; i < registry.count && !tm_hot.sampling; i++) {
        slots_each(registry.list[i], cb, arg);
    }
    for (int i = 0; i < TM_SHARDS; i++) {
        struct tm_shard *shard = &tm_traces_big[i];
#ifdef Py_GIL_DISABLED
        tm_mutex_acquire(&shard->lock);
#endif
        tm_table_each(&shard->table, 0, cb, arg);
        tm_shard_unlock(shard);
    }
    tm_table_each(&tm_traces_raw, 0, cb, arg);
}

size_t
tm_traces_bound(void)
{
    size_t n = tm_traces_raw.count;
    for (int i = 0; i < TM_SHARDS; i++) {
        n += tm_traces_big[i].table.count;
    }
    for (size_t i = 0; i < registry.count && !tm_hot.sampling; i++) {
        n += registry.list[i]->count;
    }
    return n;
}

static void
add_size(void *arg, uint32_t Py_UNUSED(domain), uintptr_t Py_UNUSED(addr),
         size_t size, tm_ctx_t Py_UNUSED(ctx))
{
    *(size_t *)arg += size;
}

void
tm_traces_clear_tables(void)
{
    for (int i = 0; i < TM_SHARDS; i++) {
        tm_table_clear(&tm_traces_big[i].table);
    }
    tm_table_clear(&tm_traces_raw);
}

size_t
tm_traces_idle(void)
{
    size_t n = tm_table_idle(&tm_traces_raw);
    for (int i = 0; i < TM_SHARDS; i++) {
        n += tm_table_idle(&tm_traces_big[i].table);
    }
    return n;
}

const char *
tm_traces_check(size_t *bytes, size_t *raw_bytes)
{
    for (size_t i = 0; i < registry.count; i++) {
        if (registry.list[i]->registered != i) {
            return "slots that do not know their place";
        }
        if (tm_hot.sampling) {
            *bytes += sampled_bytes(registry.list[i]);
        }
        else {
            slots_each(registry.list[i], add_size, bytes);
        }
    }
    const char *wrong = NULL;
    for (int i = 0; i < TM_SHARDS && wrong == NULL; i++) {
        wrong = tm_table_check(&tm_traces_big[i].table, bytes);
    }
    return wrong ? wrong : tm_table_check(&tm_traces_raw, raw_bytes);
}
