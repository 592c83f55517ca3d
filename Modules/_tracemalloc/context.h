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

struct tm_ctx_index {
    uint32_t mask;
    uint32_t slot[];            /* context ids; 0: empty */
};

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

/* The node, or TM_CTX_NONE when there is none yet. */
static inline tm_ctx_t
tm_context_find(tm_ctx_t parent, tm_site_t site)
{
    const struct tm_ctx_index *index = tm_ctx_index;
    if (index == NULL) {
        return TM_CTX_NONE;
    }
    uint32_t i = tm_context_hash(parent, site) & index->mask;
    for (;; i = (i + 1) & index->mask) {
        tm_ctx_t id = index->slot[i];
        if (id == 0) {
            return TM_CTX_NONE;
        }
        const struct tm_node *node = tm_context_node(id);
        if (node->parent == parent && node->site == site) {
            return id;
        }
    }
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
