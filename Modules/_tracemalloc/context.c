/* The calling-context tree (see context.h).  Owner of its data: this room. */
#include "Python.h"
#include "arena.h"
#include "context.h"
#include "sync.h"

#include <string.h>

struct tm_node *tm_node_chunks[TM_NODE_CHUNKS];
struct tm_ctx_index *tm_ctx_index;

static tm_ctx_t end = 1;            /* id 0 is never used */

#define MAX_ERAS 256
static struct { int limit; tm_ctx_t root; } eras[MAX_ERAS];
static unsigned nera;

/* Enter a node that is not there.  (Roots look alike once they are made; the last
   one stands for all: nobody looks for them here.) */
static void
index_enter(struct tm_ctx_index *index, tm_ctx_t id)
{
    const struct tm_node *node = tm_context_node(id);
    uint32_t hash = tm_context_hash(node->parent, node->site);
    *tm_context_slot(index, node->parent, node->site) =
        (hash & ~TM_INDEX_ID) | id;
}

static int
index_grow(void)
{
    struct tm_ctx_index *old = tm_ctx_index;
    uint32_t size = old ? (old->mask + 1) * 2 : 1024;
    struct tm_ctx_index *index =
        tm_calloc(1, sizeof(*index) + (size_t)size * sizeof(uint32_t));
    if (index == NULL) {
        return -1;
    }
    index->mask = size - 1;
    for (tm_ctx_t id = 1; id < end; id++) {
        index_enter(index, id);
    }
    tm_ctx_index = index;
    tm_free(old);
    return 0;
}

/* A new node with the next id, not yet in the index. */
static struct tm_node *
node_new(void)
{
    if (end >= TM_CTX_END_MAX) {
        return NULL;
    }
    struct tm_node **chunk = &tm_node_chunks[end >> TM_NODE_CHUNK_BITS];
    if (*chunk == NULL) {
        *chunk = tm_alloc(TM_NODE_CHUNK * sizeof(struct tm_node));
        if (*chunk == NULL) {
            return NULL;
        }
    }
    return tm_context_node(end);
}

static tm_ctx_t
node_publish(tm_ctx_t parent, tm_site_t site, uint16_t depth, uint8_t era)
{
    /* At most two thirds full. */
    if ((tm_ctx_index == NULL || (uint64_t)end * 3 > (uint64_t)tm_ctx_index->mask * 2)
        && index_grow() < 0)
    {
        return TM_CTX_NONE;
    }
    struct tm_node *node = node_new();
    if (node == NULL) {
        return TM_CTX_NONE;
    }
    *node = (struct tm_node){parent, site, depth, era, 0};
    tm_ctx_t id = end++;
    index_enter(tm_ctx_index, id);
    return id;
}

static unsigned
era_of_limit(int limit)
{
    unsigned e = 0;
    while (e < nera && eras[e].limit != limit) {
        e++;
    }
    return e;
}

tm_ctx_t
tm_context_make(tm_ctx_t parent, tm_site_t site)
{
    tm_ctx_t found = tm_context_find(parent, site);
    if (found != TM_CTX_NONE) {
        return found;
    }
    unsigned depth, era;
    if (parent & TM_CTX_DEPTH) {
        depth = parent & ~TM_CTX_DEPTH;
        era = era_of_limit(1);
    }
    else {
        depth = tm_context_node(parent)->depth;
        era = tm_context_node(parent)->era;
    }
    if (depth < TM_DEPTH_MAX) {
        depth++;
    }
    return node_publish(parent, site, (uint16_t)depth, (uint8_t)era);
}

tm_ctx_t
tm_context_root(int limit)
{
    unsigned e = era_of_limit(limit);
    if (e == MAX_ERAS) {
        return TM_CTX_NONE;
    }
    if (e == nera) {
        tm_ctx_t root = TM_CTX_DEPTH;
        if (limit != 1) {
            root = node_publish(TM_CTX_NONE, TM_SITE_ROOT - (tm_site_t)limit,
                                0, (uint8_t)e);
            if (root == TM_CTX_NONE) {
                return TM_CTX_NONE;
            }
            tm_context_node(root)->site = TM_SITE_ROOT;
        }
        eras[nera].limit = limit;
        eras[nera].root = root;
        nera++;
    }
    return eras[e].root;
}

int
tm_context_init(void)
{
    if (end > 1) {
        return 0;
    }
    if (nera == 0) {
        eras[0].limit = 1;
        eras[0].root = TM_CTX_DEPTH;
        nera = 1;
    }
    tm_ctx_t id = node_publish(TM_CTX_NONE, TM_SITE_UNKNOWN, 1, 0);
    assert(id == TM_CTX_UNKNOWN || id == TM_CTX_NONE);
    return id == TM_CTX_NONE ? -1 : 0;
}

void
tm_context_reset(void)
{
    for (uint32_t i = 0; i < TM_NODE_CHUNKS && tm_node_chunks[i] != NULL; i++) {
        tm_free(tm_node_chunks[i]);
        tm_node_chunks[i] = NULL;
    }
    tm_free(tm_ctx_index);
    tm_ctx_index = NULL;
    end = 1;
    nera = 0;
}

tm_ctx_t
tm_context_end(void)
{
    return end;
}

void
tm_context_parts(tm_ctx_t ctx, tm_site_t *site, tm_ctx_t *parent)
{
    const struct tm_node *node = tm_context_node(ctx);
    *site = node->site;
    tm_ctx_t p = node->parent;
    if (p == TM_CTX_NONE || (p & TM_CTX_DEPTH)
        || tm_context_node(p)->site == TM_SITE_ROOT)
    {
        p = TM_CTX_NONE;
    }
    *parent = p;
}

int
tm_context_limit(tm_ctx_t ctx)
{
    return eras[tm_context_node(ctx)->era].limit;
}

unsigned
tm_context_depth(tm_ctx_t ctx)
{
    return tm_context_node(ctx)->depth;
}

unsigned
tm_context_sites(tm_ctx_t ctx, tm_site_t *out, unsigned max, unsigned *total)
{
    *total = tm_context_depth(ctx);
    unsigned limit = (unsigned)tm_context_limit(ctx);
    if (max > limit) {
        max = limit;
    }
    unsigned n = 0;
    while (n < max && ctx != TM_CTX_NONE) {
        tm_context_parts(ctx, &out[n], &ctx);
        n++;
    }
    return n;
}

const char *
tm_context_check(void)
{
    for (tm_ctx_t id = 1; id < end; id++) {
        const struct tm_node *node = tm_context_node(id);
        if (!(node->parent & TM_CTX_DEPTH) && node->parent >= id) {
            return "context whose parent is not older";
        }
        if (node->era >= nera) {
            return "context of an era that does not exist";
        }
        if (node->site != TM_SITE_ROOT
            && tm_context_find(node->parent, node->site) != id)
        {
            return "context that its index does not find";
        }
    }
    return NULL;
}
