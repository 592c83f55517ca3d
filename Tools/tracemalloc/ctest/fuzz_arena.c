/* The engine's private memory against the sizes that were asked for: contents
 * survive, the bytes in use are known exactly, the n-th allocation fails when it
 * should, pools hand out what was given back. */
#include "arena.h"
#include "fuzz.h"

#include <string.h>

#define HEAD 16             /* arena.c: what a block costs on top of its size */
#define MOST 300

struct block { unsigned char *data; size_t size; unsigned char fill; };

static struct block blocks[MOST];
static size_t nblocks, bytes;

static void
check_fill(const struct block *b, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        FUZZ_NEED(b->data[i] == b->fill, "byte %zu of %zu", i, b->size);
    }
}

static void
keep(struct block *b, unsigned char *data, size_t size, uint64_t *seed)
{
    *b = (struct block){data, size, (unsigned char)fuzz_next(seed)};
    FUZZ_NEED((uintptr_t)data % 16 == 0, "alignment");
    memset(data, b->fill, size);
}

static size_t
random_size(uint64_t *seed)
{
    return fuzz_below(seed, 10) ? fuzz_below(seed, 200)
                                : fuzz_below(seed, 100000);
}

static void
one_step(uint64_t *seed)
{
    size_t size = random_size(seed);
    struct block *b = nblocks ? &blocks[fuzz_below(seed, nblocks)] : NULL;
    unsigned char *data;
    switch (fuzz_below(seed, 4)) {
    case 0:
    case 1:
        if (nblocks == MOST) {
            return;
        }
        if (fuzz_below(seed, 2)) {
            data = tm_alloc(size);
        }
        else {
            size -= size % 4;
            data = tm_calloc(size / 4, 4);
            for (size_t i = 0; data != NULL && i < size; i++) {
                FUZZ_NEED(data[i] == 0, "byte %zu is not zero", i);
            }
        }
        if (data != NULL) {
            keep(&blocks[nblocks++], data, size, seed);
            bytes += size + HEAD;
        }
        return;
    case 2:
        if (b == NULL) {
            return;
        }
        data = tm_realloc(b->data, size);
        if (data == NULL) {
            check_fill(b, b->size);         /* the old block stays */
            return;
        }
        bytes = bytes - b->size + size;
        b->data = data;
        check_fill(b, size < b->size ? size : b->size);
        keep(b, data, size, seed);
        return;
    default:
        if (b == NULL) {
            tm_free(NULL);
            return;
        }
        check_fill(b, b->size);
        tm_free(b->data);
        bytes -= b->size + HEAD;
        *b = blocks[--nblocks];
    }
}

static void
free_all(void)
{
    while (nblocks > 0) {
        struct block *b = &blocks[--nblocks];
        check_fill(b, b->size);
        tm_free(b->data);
        bytes -= b->size + HEAD;
    }
    FUZZ_NEED(tm_arena_size() == bytes, "%zu bytes left", tm_arena_size());
}

/* Which of the next allocations fail? */
static void
failing(uint64_t *seed)
{
    uint64_t n = 1 + fuzz_below(seed, 6);
    int sticky = (int)fuzz_below(seed, 2);
    tm_arena_fail_after(n, sticky);
    for (uint64_t i = 1; i <= 10; i++) {
        void *block = i % 2 ? tm_alloc(5) : tm_calloc(1, 5);
        bool fails = sticky ? i >= n : i == n;
        FUZZ_NEED((block == NULL) == fails, "allocation %u of %u", (unsigned)i,
                  (unsigned)n);
        tm_free(block);
    }
    FUZZ_NEED(tm_arena_fail_after(0, 0) == 10, "calls");
    FUZZ_NEED(tm_alloc(SIZE_MAX) == NULL && tm_calloc(SIZE_MAX, 2) == NULL
              && tm_calloc(2, SIZE_MAX / 2 + 2) == NULL
              && tm_realloc(NULL, SIZE_MAX - 3) == NULL, "impossible sizes");
}

static void
pools(uint64_t *seed)
{
    struct tm_pool pool = {.item = 8 * (1 + fuzz_below(seed, 40))};
    void *items[MOST];
    unsigned char fill[MOST];
    size_t n = 0, size_before = tm_arena_size(), free_before = tm_arena_free();
    if (fuzz_below(seed, 9) == 0) {
        pool.item = 8 * 4000;
    }
    for (int step = 0; step < 1500; step++) {
        if (fuzz_below(seed, 50) == 0) {
            tm_arena_fail_after(1, 0);
        }
        if (n < MOST && fuzz_below(seed, 5) < 3) {
            items[n] = tm_pool_take(&pool);
            if (items[n] == NULL) {
                continue;
            }
            for (size_t i = 0; i < n; i++) {
                FUZZ_NEED(items[i] != items[n], "one item twice");
            }
            fill[n] = (unsigned char)fuzz_next(seed);
            memset(items[n], fill[n], pool.item);
            n++;
        }
        else if (n > 0) {
            size_t i = fuzz_below(seed, n);
            for (size_t k = 0; k < pool.item; k++) {
                FUZZ_NEED(((unsigned char *)items[i])[k] == fill[i], "item");
            }
            tm_pool_give(&pool, items[i]);
            items[i] = items[--n];
            fill[i] = fill[n];
        }
        size_t grown = tm_arena_size() - size_before;
        FUZZ_NEED(tm_arena_free() - free_before + n * pool.item <= grown,
                  "more is free than there is");
    }
    tm_arena_fail_after(0, 0);
    while (n > 0) {
        tm_pool_give(&pool, items[--n]);
    }
    tm_pool_release(&pool);
    FUZZ_NEED(tm_arena_size() == size_before, "chunks are left");
    FUZZ_NEED(tm_arena_free() == free_before, "reserve is off by %td",
              (ptrdiff_t)(tm_arena_free() - free_before));
}

int
main(void)
{
    unsigned long cases = 0;
    for (uint64_t run = 1; run <= 40; run++) {
        uint64_t seed = run;
        for (unsigned step = 0; step < 2500; step++, cases++) {
            if (fuzz_below(&seed, 40) == 0) {
                tm_arena_fail_after(fuzz_below(&seed, 5),
                                    (int)fuzz_below(&seed, 2));
            }
            one_step(&seed);
            FUZZ_NEED(tm_arena_size() == bytes, "%zu bytes in use, not %zu",
                      tm_arena_size(), bytes);
        }
        tm_arena_fail_after(0, 0);
        failing(&seed);
        pools(&seed);
        free_all();
    }
    return fuzz_done("arena", cases);
}
