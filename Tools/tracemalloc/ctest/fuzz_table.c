/* A table of traces against a list that is searched from end to end.  Addresses
 * come in flavours: neighbours, as blocks of one pool are; far apart; and many
 * that want the same place.  Memory fails now and then. */
#include "arena.h"
#include "fuzz.h"
#include "table.h"

#include <string.h>
#include <time.h>

#define MOST 1500

struct known { uintptr_t addr; size_t size; tm_ctx_t ctx; };

static struct known model[MOST];
static size_t nmodel;
static struct tm_table table;

static struct known *
find(uintptr_t addr)
{
    for (size_t i = 0; i < nmodel; i++) {
        if (model[i].addr == addr) {
            return &model[i];
        }
    }
    return NULL;
}

static uintptr_t
random_address(uint64_t *seed, int flavour)
{
    uint64_t r = fuzz_next(seed);
    switch (flavour) {
    case 0:                     /* neighbours */
        return 0x7f0000000000u + (r % 3000) * 16;
    case 1:                     /* any, with few repeats */
        return (uintptr_t)(r & 0xfffff) << (r >> 60);
    case 2:                     /* equal low halves: they want one place */
        return ((uintptr_t)(r % 700) << 44) + 0x1230;
    case 3:                     /* mapped on their own: one bucket in four */
        return 0x7f0000000010u + (r % 3000) * 4096;
    default:                    /* odd ones, zero among them */
        return (uintptr_t)(r % 2000);
    }
}

static size_t
random_size(uint64_t *seed)
{
    switch (fuzz_below(seed, 8)) {
    case 0:
        return TM_SIZE_HUGE - 1 + fuzz_below(seed, 3);
    case 1:
        return (size_t)fuzz_next(seed) >> 8;
    case 2:
        return 0;
    default:
        return fuzz_below(seed, 100000);
    }
}

static void
put(uint64_t *seed, int flavour)
{
    uintptr_t addr = random_address(seed, flavour);
    struct known *old = find(addr);
    struct tm_trace was, trace = {random_size(seed),
                                  (tm_ctx_t)fuzz_below(seed, 1000) + 1};
    if (old == NULL && nmodel == MOST) {
        return;
    }
    if (fuzz_below(seed, 2)
        && tm_table_enter(&table, addr, trace.size, trace.ctx))
    {
        was = (struct tm_trace){0, TM_CTX_NONE};
    }
    else if (tm_table_put(&table, addr, &trace, &was) < 0) {
        return;                 /* no memory: nothing has changed */
    }
    FUZZ_NEED(was.ctx == (old ? old->ctx : TM_CTX_NONE),
              "context that was replaced: %u", was.ctx);
    FUZZ_NEED(was.size == (old ? old->size : 0), "size that was replaced");
    if (old == NULL) {
        old = &model[nmodel++];
    }
    *old = (struct known){addr, trace.size, trace.ctx};
}

static void
take(uint64_t *seed, int flavour)
{
    uintptr_t addr = nmodel && fuzz_below(seed, 4)
                     ? model[fuzz_below(seed, nmodel)].addr
                     : random_address(seed, flavour);
    struct known *old = find(addr);
    struct tm_trace was;
    bool taken = (fuzz_below(seed, 2) && tm_table_leave(&table, addr, &was))
                 || tm_table_take(&table, addr, &was);
    FUZZ_NEED(taken == (old != NULL), "taken: %d", taken);
    if (taken) {
        FUZZ_NEED(was.ctx == old->ctx && was.size == old->size,
                  "trace that was taken");
        *old = model[--nmodel];
    }
}

static void
get(uint64_t *seed, int flavour)
{
    uintptr_t addr = random_address(seed, flavour);
    struct known *old = find(addr);
    struct tm_trace trace;
    bool found = tm_table_get(&table, addr, &trace);
    FUZZ_NEED(found == (old != NULL), "found: %d", found);
    FUZZ_NEED(!found || (trace.ctx == old->ctx && trace.size == old->size),
              "trace that was found");
}

struct seen { size_t count, bytes; };

static void
see(void *arg, uint32_t domain, uintptr_t addr, size_t size, tm_ctx_t ctx)
{
    struct seen *seen = arg;
    struct known *one = find(addr);
    FUZZ_NEED(domain == 17, "domain %u", domain);
    FUZZ_NEED(one != NULL && one->size == size && one->ctx == ctx,
              "trace that was visited");
    seen->count++;
    seen->bytes += size;
}

static void
check(void)
{
    struct seen seen = {0, 0};
    size_t bytes = 0, wanted = 0;
    for (size_t i = 0; i < nmodel; i++) {
        wanted += model[i].size;
    }
    const char *wrong = tm_table_check(&table, &bytes);
    FUZZ_NEED(wrong == NULL, "%s", wrong);
    FUZZ_NEED(bytes == wanted, "bytes");
    FUZZ_NEED(table.count == nmodel, "%zu of %zu", table.count, nmodel);
    tm_table_each(&table, 17, see, &seen);
    FUZZ_NEED(seen.count == nmodel && seen.bytes == wanted, "visits");
    size_t entries = table.mask ? table.mask + 1 : 0;
    FUZZ_NEED(tm_table_idle(&table)
              == (entries - table.count) * sizeof(struct tm_entry),
              "reserve of %zu bytes", tm_table_idle(&table));
}

#define REGION ((uintptr_t)1 << 20)

/* Processor time of putting and taking blocks 32 bytes apart that fill many
   regions, or of as many anywhere. */
static double
crowd(bool scattered)
{
    const unsigned regions = 32, each = REGION / 32;
    struct tm_trace old, trace = {16, 1};
    clock_t start = clock();
    for (int put = 1; put >= 0; put--) {
        for (unsigned r = 0; r < regions; r++) {
            for (unsigned i = 0; i < each; i++) {
                uint64_t n = (uint64_t)r * each + i;
                uintptr_t addr = 0x7f0000000000u
                    + (scattered ? n * 0x9e3779b97f4a7c15u % (REGION << 15) & ~15u
                                 : r * REGION + i * 32);
                if (put) {
                    tm_table_put(&table, addr, &trace, &old);
                }
                else {
                    tm_table_take(&table, addr, &old);
                }
            }
        }
    }
    tm_table_clear(&table);
    return (double)(clock() - start);
}

int
main(void)
{
    double dense = crowd(false), scattered = crowd(true);
    FUZZ_NEED(dense < 5 * scattered,
              "blocks side by side take %.1f times as long as blocks anywhere",
              dense / scattered);
    unsigned long cases = 0;
    for (uint64_t run = 1; run <= 60; run++) {
        uint64_t seed = run;
        int flavour = (int)(run % 6);
        unsigned grow = 3 + (unsigned)fuzz_below(&seed, 6);
        for (unsigned step = 0; step < 6000; step++, cases++) {
            int f = flavour < 5 ? flavour : (int)fuzz_below(&seed, 5);
            unsigned what = (unsigned)fuzz_below(&seed, 12);
            if (fuzz_below(&seed, 200) == 0) {
                tm_arena_fail_after(fuzz_below(&seed, 4),
                                    (int)fuzz_below(&seed, 2));
            }
            if (what < grow) {
                put(&seed, f);
            }
            else if (what < 10) {
                take(&seed, f);
            }
            else {
                get(&seed, f);
            }
            if (step % 500 == 0) {
                check();
            }
        }
        check();
        tm_arena_fail_after(0, 0);
        tm_table_clear(&table);
        nmodel = 0;
        check();
        FUZZ_NEED(fuzz_live_blocks() == 0, "%ld left", fuzz_live_blocks());
    }
    return fuzz_done("table", cases);
}
