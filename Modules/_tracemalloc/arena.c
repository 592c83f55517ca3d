/* Private memory of the engine.  Owner of its data: this file (counters), the
   calling room (blocks). */
#include "Python.h"
#include "pyatomic.h"
#include "arena.h"

#include <stdlib.h>
#include <string.h>

/* Each block is preceded by its size; 16 bytes keep malloc's alignment. */
#define HEAD 16

static Py_ssize_t used_bytes;       /* atomic */
static Py_ssize_t reserve_bytes;    /* atomic */

static uint64_t fail_countdown;     /* atomic; tests only */
static int fail_sticky;
static uint64_t calls;              /* atomic */

static int
must_fail(void)
{
    _Py_atomic_add_uint64(&calls, 1);
    if (TM_LIKELY(_Py_atomic_load_uint64_relaxed(&fail_countdown) == 0)) {
        return 0;
    }
    uint64_t left = _Py_atomic_add_uint64(&fail_countdown, (uint64_t)-1);
    if (left != 1) {
        return 0;
    }
    if (fail_sticky) {
        _Py_atomic_store_uint64(&fail_countdown, 1);
    }
    return 1;
}

uint64_t
tm_arena_fail_after(uint64_t n, int sticky)
{
    fail_sticky = sticky;
    _Py_atomic_store_uint64(&fail_countdown, n);
    return _Py_atomic_exchange_uint64(&calls, 0);
}

static void *
with_head(char *raw, size_t size)
{
    *(size_t *)raw = size;
    _Py_atomic_add_ssize(&used_bytes, (Py_ssize_t)(size + HEAD));
    return raw + HEAD;
}

void *
tm_alloc(size_t size)
{
    if (size > PY_SSIZE_T_MAX - HEAD || must_fail()) {
        return NULL;
    }
    char *raw = malloc(size + HEAD);
    return raw == NULL ? NULL : with_head(raw, size);
}

void *
tm_calloc(size_t count, size_t size)
{
    if ((size != 0 && count > (PY_SSIZE_T_MAX - HEAD) / size) || must_fail()) {
        return NULL;
    }
    /* calloc and not memset: large tables stay unmapped until touched. */
    char *raw = calloc(1, count * size + HEAD);
    return raw == NULL ? NULL : with_head(raw, count * size);
}

void *
tm_realloc(void *block, size_t size)
{
    if (block == NULL) {
        return tm_alloc(size);
    }
    if (size > PY_SSIZE_T_MAX - HEAD || must_fail()) {
        return NULL;
    }
    char *raw = (char *)block - HEAD;
    size_t old = *(size_t *)raw;
    raw = realloc(raw, size + HEAD);
    if (raw == NULL) {
        return NULL;
    }
    _Py_atomic_add_ssize(&used_bytes, -(Py_ssize_t)(old + HEAD));
    return with_head(raw, size);
}

void
tm_free(void *block)
{
    if (block != NULL) {
        char *raw = (char *)block - HEAD;
        _Py_atomic_add_ssize(&used_bytes,
                             -(Py_ssize_t)(*(size_t *)raw + HEAD));
        free(raw);
    }
}

size_t
tm_arena_size(void)
{
    return (size_t)_Py_atomic_load_ssize_relaxed(&used_bytes);
}

size_t
tm_arena_free(void)
{
    Py_ssize_t n = _Py_atomic_load_ssize_relaxed(&reserve_bytes);
    return n > 0 ? (size_t)n : 0;
}

void
tm_arena_reserve(ptrdiff_t bytes)
{
    _Py_atomic_add_ssize(&reserve_bytes, (Py_ssize_t)bytes);
}

#define CHUNK ((size_t)64 * 1024)

static int
add_chunk(struct tm_pool *pool)
{
    size_t size = CHUNK > pool->item * 4 ? CHUNK : pool->item * 4;
    void **chunk = tm_alloc(size + 16);
    if (chunk == NULL) {
        return -1;
    }
    /* What is left of the old chunk is smaller than one item. */
    tm_arena_reserve((ptrdiff_t)size - (pool->end - pool->next));
    chunk[0] = pool->chunks;
    pool->chunks = chunk;
    pool->next = (char *)chunk + 16;
    pool->end = pool->next + size;
    return 0;
}

void *
tm_pool_take(struct tm_pool *pool)
{
    void *item = pool->free_list;
    if (item != NULL) {
        pool->free_list = *(void **)item;
    }
    else {
        if ((size_t)(pool->end - pool->next) < pool->item
            && add_chunk(pool) < 0)
        {
            return NULL;
        }
        item = pool->next;
        pool->next += pool->item;
    }
    tm_arena_reserve(-(ptrdiff_t)pool->item);
    return item;
}

void
tm_pool_give(struct tm_pool *pool, void *item)
{
    *(void **)item = pool->free_list;
    pool->free_list = item;
    tm_arena_reserve((ptrdiff_t)pool->item);
}

/* All items must have been given back, or be forgotten by the owner. */
void
tm_pool_release(struct tm_pool *pool)
{
    ptrdiff_t idle = pool->end - pool->next;
    for (void *item = pool->free_list; item != NULL; item = *(void **)item) {
        idle += (ptrdiff_t)pool->item;
    }
    tm_arena_reserve(-idle);
    void **chunk = pool->chunks;
    while (chunk != NULL) {
        void **next = chunk[0];
        tm_free(chunk);
        chunk = next;
    }
    pool->free_list = NULL;
    pool->next = pool->end = NULL;
    pool->chunks = NULL;
}
