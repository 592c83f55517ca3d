/* The calling-context tree: node = (context of the callers, site).
 *
 * A trace stores one node id.  Nodes are never changed once published, parents
 * have smaller ids than children, and ids are handed out without gaps.  The
 * root of a tree stands for a traceback limit ("era"): blocks keep the limit
 * under which they were recorded.  At limit 1 callers are not told apart: the
 * parent is TM_CTX_DEPTH | depth.
 *
 * Guard: the names lock for tm_context_find(), tm_context_make() and the resets.
 * What is asked of an id that one has needs no lock.
 */
#ifndef TM_CONTEXT_H
#define TM_CONTEXT_H

#include "types.h"

struct tm_node {
    tm_ctx_t parent;
    tm_site_t site;             /* TM_SITE_ROOT: the root of an era */
    uint16_t depth;             /* frames, at most TM_DEPTH_MAX; root: 0 */
    uint8_t era;
    uint8_t verdict;            /* filter room: generation << 2 | verdict */
};

#define TM_NODE_CHUNK_BITS 14
#define TM_NODE_CHUNK ((uint32_t)1 << TM_NODE_CHUNK_BITS)
#define TM_NODE_CHUNKS (TM_CTX_END_MAX >> TM_NODE_CHUNK_BITS)

/* Finds nodes.  Code that walks over a structure asks for one chain of calls after
 * another in the order in which they were first seen, so what belongs to parents
 * with neighbouring ids stands in one stretch of the array, a cache line or two, as
 * long as there is room; the rest anywhere.  Nothing is ever taken out. */
struct tm_ctx_index {
    uint32_t mask;
    uint32_t slot[];            /* context ids below bits of the hash; 0: empty */
};
#define TM_INDEX_STRETCH 16     /* slots; a power of two */
#define TM_INDEX_PARENTS 8      /* that share a stretch: each has one child in the
                                   mean, and the array is half full */
#define TM_INDEX_ID (TM_CTX_END_MAX - 1)

extern struct tm_node *tm_node_chunks[TM_NODE_CHUNKS];
extern struct tm_ctx_index *tm_ctx_index;

static inline struct tm_node *
tm_context_node(tm_ctx_t ctx)
{
    return &tm_node_chunks[ctx >> TM_NODE_CHUNK_BITS]
                          [ctx & (TM_NODE_CHUNK - 1)];
}

static inline uint32_t
tm_context_hash(tm_ctx_t parent, tm_site_t site)
{
    uint64_t x = (((uint64_t)parent << 32) | site)
                 * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x >> 32) ^ (uint32_t)(x >> 15);
}

static inline bool
tm_context_is(uint32_t slot, uint32_t hash, tm_ctx_t parent, tm_site_t site)
{
    if ((slot ^ hash) & ~TM_INDEX_ID) {
        return false;
    }
    const struct tm_node *node = tm_context_node(slot & TM_INDEX_ID);
    return node->parent == parent && node->site == site;
}

/* The slot of a node, or the empty one where it belongs. */
static inline uint32_t *
tm_context_slot(struct tm_ctx_index *index, tm_ctx_t parent, tm_site_t site)
{
    uint32_t hash = tm_context_hash(parent, site);
    if (!(parent & TM_CTX_DEPTH)) {     /* those have any number of children */
        uint32_t *stretch = &index->slot[
            tm_context_hash(parent / TM_INDEX_PARENTS, 0)
            & index->mask & ~(uint32_t)(TM_INDEX_STRETCH - 1)];
        for (uint32_t i = 0; i < TM_INDEX_STRETCH; i++) {
            uint32_t *slot = &stretch[(hash + i) % TM_INDEX_STRETCH];
            if (*slot == 0 || tm_context_is(*slot, hash, parent, site)) {
                return slot;
            }
        }
    }
    for (uint32_t i = hash & index->mask;; i = (i + 1) & index->mask) {
        uint32_t *slot = &index->slot[i];
        if (*slot == 0 || tm_context_is(*slot, hash, parent, site)) {
            return slot;
        }
    }
}

/* The node, or TM_CTX_NONE when there is none yet. */
static inline tm_ctx_t
tm_context_find(tm_ctx_t parent, tm_site_t site)
{
    return tm_ctx_index == NULL ? TM_CTX_NONE
           : *tm_context_slot(tm_ctx_index, parent, site) & TM_INDEX_ID;
}

/* The node, made when missing; TM_CTX_NONE: no memory or no id left. */
tm_ctx_t tm_context_make(tm_ctx_t parent, tm_site_t site);

/* The root for a limit (1..TM_LIMIT_MAX), made when missing: the parent of the
   outermost frame.  TM_CTX_NONE: no memory, or more than 255 limits in use. */
tm_ctx_t tm_context_root(int limit);

int tm_context_init(void);      /* the unknown context; -1: no memory */
void tm_context_reset(void);    /* forget all; no reader elsewhere */

tm_ctx_t tm_context_end(void);  /* ids in use are below it */

/* Leaf site and parent (TM_CTX_NONE at the outermost frame). */
void tm_context_parts(tm_ctx_t ctx, tm_site_t *site, tm_ctx_t *parent);

/* Limit under which the context was recorded, and whole depth. */
int tm_context_limit(tm_ctx_t ctx);
unsigned tm_context_depth(tm_ctx_t ctx);

/* Fill out[0..max) with sites, most recent first, cut at the context's own
   limit; return how many.  *total: whole depth. */
unsigned tm_context_sites(tm_ctx_t ctx, tm_site_t *out, unsigned max,
                          unsigned *total);

const char *tm_context_check(void);

#endif /* TM_CONTEXT_H */
