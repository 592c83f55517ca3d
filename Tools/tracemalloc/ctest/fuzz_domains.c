/* Tracked domains against a list of (domain, address): what is in one domain is
 * in no other, and memory that fails changes nothing. */
#include "arena.h"
#include "domains.h"
#include "fuzz.h"
#include "table.h"

#include <string.h>

#define MOST 800

struct known { unsigned domain; uintptr_t addr; size_t size; };

static struct known model[MOST];
static size_t nmodel;

static struct known *
find(unsigned domain, uintptr_t addr)
{
    for (size_t i = 0; i < nmodel; i++) {
        if (model[i].domain == domain && model[i].addr == addr) {
            return &model[i];
        }
    }
    return NULL;
}

static unsigned
random_domain(uint64_t *seed, unsigned range)
{
    unsigned domain = 1 + (unsigned)fuzz_below(seed, range);
    return fuzz_below(seed, 4) ? domain : UINT32_MAX - domain;
}

static void
track(uint64_t *seed, unsigned range)
{
    unsigned domain = random_domain(seed, range);
    uintptr_t addr = 64 * fuzz_below(seed, 20);
    struct tm_trace old, trace = {fuzz_below(seed, 1000), 1};
    struct tm_table *table = tm_domain_table(domain, true);
    if (nmodel == MOST || table == NULL
        || tm_table_put(table, addr, &trace, &old) < 0)
    {
        return;
    }
    struct known *one = find(domain, addr);
    FUZZ_NEED((old.ctx != TM_CTX_NONE) == (one != NULL), "was there");
    if (one == NULL) {
        one = &model[nmodel++];
    }
    *one = (struct known){domain, addr, trace.size};
}

static void
untrack(uint64_t *seed, unsigned range)
{
    unsigned domain = random_domain(seed, range);
    uintptr_t addr = 64 * fuzz_below(seed, 20);
    if (nmodel && fuzz_below(seed, 2)) {
        struct known *any = &model[fuzz_below(seed, nmodel)];
        domain = any->domain;
        addr = any->addr;
    }
    struct known *one = find(domain, addr);
    struct tm_trace old;
    struct tm_table *table = tm_domain_table(domain, false);
    bool taken = table != NULL && tm_table_take(table, addr, &old);
    FUZZ_NEED(taken == (one != NULL), "taken: %d", taken);
    if (taken) {
        FUZZ_NEED(old.size == one->size, "size");
        *one = model[--nmodel];
    }
}

static void
see(void *arg, uint32_t domain, uintptr_t addr, size_t size, tm_ctx_t ctx)
{
    struct known *one = find(domain, addr);
    FUZZ_NEED(one != NULL && one->size == size && ctx == 1,
              "visit of %u, %zu", domain, (size_t)addr);
    ++*(size_t *)arg;
}

static void
check(void)
{
    size_t bytes = 7, wanted = 7, visits = 0;
    for (size_t i = 0; i < nmodel; i++) {
        wanted += model[i].size;
    }
    const char *wrong = tm_domains_check(&bytes);
    FUZZ_NEED(wrong == NULL, "%s", wrong);
    FUZZ_NEED(bytes == wanted, "%zu bytes, not %zu", bytes, wanted);
    tm_domains_scan(see, &visits);
    FUZZ_NEED(visits == nmodel, "%zu visits", visits);
    FUZZ_NEED(tm_domains_bound() >= nmodel, "bound");
}

int
main(void)
{
    unsigned long cases = 0;
    for (uint64_t run = 1; run <= 50; run++) {
        uint64_t seed = run;
        unsigned range = run % 3 == 0 ? 300 : 1 + (unsigned)run % 7;
        for (unsigned step = 0; step < 3000; step++, cases++) {
            if (fuzz_below(&seed, 100) == 0) {
                tm_arena_fail_after(fuzz_below(&seed, 4), 0);
            }
            if (fuzz_below(&seed, 5) < 3) {
                track(&seed, range);
            }
            else {
                untrack(&seed, range);
            }
            if (step % 250 == 0) {
                check();
            }
        }
        tm_arena_fail_after(0, 0);
        check();
        tm_domains_clear();
        nmodel = 0;
        check();
        FUZZ_NEED(fuzz_live_blocks() == 0, "%ld left", fuzz_live_blocks());
    }
    return fuzz_done("domains", cases);
}
