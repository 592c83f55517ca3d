/* The tree of calling contexts against a list of nodes that is searched from
 * end to end: equal stacks are one node, whatever the order in which they come;
 * each keeps its limit and its depth; memory that fails leaves the tree sound. */
#include "arena.h"
#include "context.h"
#include "fuzz.h"
#include "Python.h"
#include "sync.h"

#include <string.h>

/* What the rooms around it own. */
struct tm_hot tm_hot;
tm_mutex_t tm_locks[TM_NRANKS];

#define MOST 4000

struct node {
    tm_ctx_t id, parent;        /* parent as given to tm_context_make() */
    tm_site_t site;
    unsigned depth;
    int limit;
};

static struct node model[MOST];
static size_t nmodel;
static struct { int limit; tm_ctx_t root; } roots[300];
static size_t nroots;

static struct node *
find(tm_ctx_t parent, tm_site_t site)
{
    for (size_t i = 0; i < nmodel; i++) {
        if (model[i].parent == parent && model[i].site == site) {
            return &model[i];
        }
    }
    return NULL;
}

static struct node *
by_id(tm_ctx_t id)
{
    for (size_t i = 0; i < nmodel; i++) {
        if (model[i].id == id) {
            return &model[i];
        }
    }
    return NULL;
}

static void
new_root(uint64_t *seed, int range)
{
    int limit = 1 + (int)fuzz_below(seed, (uint64_t)range);
    if (fuzz_below(seed, 9) == 0) {
        limit = TM_LIMIT_MAX;
    }
    tm_ctx_t root = tm_context_root(limit);
    size_t i = 0;
    while (i < nroots && roots[i].limit != limit) {
        i++;
    }
    if (i < nroots) {
        FUZZ_NEED(root == roots[i].root, "another root for limit %d", limit);
    }
    else if (root != TM_CTX_NONE) {
        FUZZ_NEED(nroots < 256, "more limits than can be told apart");
        roots[nroots].limit = limit;
        roots[nroots++].root = root;
    }
}

/* A parent: a root, a depth (limit 1), or a node of the tree. */
static tm_ctx_t
random_parent(uint64_t *seed, unsigned *depth, int *limit)
{
    uint64_t what = fuzz_below(seed, 10);
    *depth = 0;
    if (what == 0 && nroots > 0) {
        size_t i = fuzz_below(seed, nroots);
        *limit = roots[i].limit;
        return roots[i].root;
    }
    if (what < 3 || nmodel == 0) {
        *limit = 1;
        *depth = (unsigned)fuzz_below(seed, 5);
        if (fuzz_below(seed, 10) == 0) {
            *depth = TM_DEPTH_MAX - (unsigned)fuzz_below(seed, 3);
        }
        return TM_CTX_DEPTH | *depth;
    }
    struct node *node = &model[fuzz_below(seed, nmodel)];
    if (node->parent & TM_CTX_DEPTH) {      /* of limit 1: has no children */
        *limit = 1;
        *depth = node->depth;
        return TM_CTX_DEPTH | node->depth;
    }
    *depth = node->depth;
    *limit = node->limit;
    return node->id;
}

static void
make(uint64_t *seed)
{
    unsigned depth;
    int limit;
    tm_ctx_t parent = random_parent(seed, &depth, &limit);
    tm_site_t site = (tm_site_t)fuzz_below(seed, 12);
    struct node *old = find(parent, site);
    FUZZ_NEED(tm_context_find(parent, site) == (old ? old->id : TM_CTX_NONE),
              "find");
    if (nmodel == MOST && old == NULL) {
        return;
    }
    tm_ctx_t end = tm_context_end();
    tm_ctx_t id = tm_context_make(parent, site);
    if (old != NULL) {
        FUZZ_NEED(id == old->id, "a second node for one stack");
        return;
    }
    if (id == TM_CTX_NONE) {
        FUZZ_NEED(tm_context_end() == end, "an id was used up");
        return;
    }
    FUZZ_NEED(id == end && tm_context_end() == end + 1, "id %u", id);
    unsigned grown = depth < TM_DEPTH_MAX ? depth + 1 : depth;
    model[nmodel++] = (struct node){id, parent, site, grown, limit};
}

/* The sites from a node outwards, as the model has them. */
static unsigned
model_sites(const struct node *node, tm_site_t *out, unsigned max)
{
    unsigned n = 0;
    while (node != NULL && n < max) {
        out[n++] = node->site;
        node = node->parent & TM_CTX_DEPTH ? NULL : by_id(node->parent);
    }
    return n;
}

static void
ask(uint64_t *seed)
{
    tm_site_t mine[64], theirs[64];
    if (nmodel == 0) {
        return;
    }
    const struct node *node = &model[fuzz_below(seed, nmodel)];
    unsigned max = (unsigned)fuzz_below(seed, 64), total;
    unsigned cut = max < (unsigned)node->limit ? max : (unsigned)node->limit;
    unsigned n = tm_context_sites(node->id, theirs, max, &total);
    FUZZ_NEED(total == node->depth, "depth %u, not %u", total, node->depth);
    FUZZ_NEED(n == model_sites(node, mine, cut), "%u frames", n);
    FUZZ_NEED(memcmp(mine, theirs, n * sizeof(*mine)) == 0, "sites");
    FUZZ_NEED(tm_context_limit(node->id) == node->limit, "limit");
    FUZZ_NEED(tm_context_depth(node->id) == node->depth, "depth");
    tm_site_t site;
    tm_ctx_t parent;
    tm_context_parts(node->id, &site, &parent);
    FUZZ_NEED(site == node->site, "site");
    FUZZ_NEED(parent == (by_id(node->parent) ? node->parent : TM_CTX_NONE),
              "parent %u", parent);
}

static void
begin(void)
{
    tm_context_reset();
    FUZZ_NEED(fuzz_live_blocks() == 0, "%ld left", fuzz_live_blocks());
    FUZZ_NEED(tm_context_end() == 1, "ids in use");
    nmodel = nroots = 0;
    /* The unknown context comes first, as soon as there is memory. */
    for (int n = 1; tm_context_init() < 0; n++) {
        FUZZ_NEED(tm_context_end() == 1, "half an unknown context");
        tm_arena_fail_after(n > 3 ? 0 : 1, 0);
    }
    tm_arena_fail_after(0, 0);
    FUZZ_NEED(tm_context_init() == 0 && tm_context_end() == 2, "init");
    FUZZ_NEED(tm_context_depth(TM_CTX_UNKNOWN) == 1
              && tm_context_limit(TM_CTX_UNKNOWN) == 1, "unknown context");
    /* Limit 1 has its number from the first. */
    roots[nroots].limit = 1;
    roots[nroots++].root = TM_CTX_DEPTH;
    FUZZ_NEED(tm_context_root(1) == TM_CTX_DEPTH, "root of limit 1");
}

int
main(void)
{
    unsigned long cases = 0;
    for (uint64_t run = 1; run <= 24; run++) {
        uint64_t seed = run;
        tm_arena_fail_after(fuzz_below(&seed, 3), 1);
        begin();
        int range = run % 4 == 0 ? 400 : 5;
        for (unsigned step = 0; step < 5000; step++, cases++) {
            if (fuzz_below(&seed, 50) == 0) {
                tm_arena_fail_after(fuzz_below(&seed, 3), 0);
            }
            uint64_t what = fuzz_below(&seed, 20);
            if (what == 0) {
                new_root(&seed, range);
            }
            else if (what < 14) {
                make(&seed);
            }
            else {
                ask(&seed);
            }
            if (step % 1000 == 0) {
                const char *wrong = tm_context_check();
                FUZZ_NEED(wrong == NULL, "%s", wrong);
            }
        }
        tm_arena_fail_after(0, 0);
    }
    tm_context_reset();
    FUZZ_NEED(fuzz_live_blocks() == 0, "%ld left", fuzz_live_blocks());
    return fuzz_done("context", cases);
}
