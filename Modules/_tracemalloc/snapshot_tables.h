/* What the traces of a snapshot refer to: file names, sites, chains of sites and
 * tracebacks, each interned by content, so that equal things have equal ids.
 *
 *   traceback ──► chain ──► site, site, site ... ──► file
 *   (chain, total)          (file, line)              code points
 *
 * A chain is what a traceback shows: its sites, the most recent one first, cut
 * at the limit.  Tracebacks that show the same but were cut from stacks of
 * different depth have the same chain and different totals.
 *
 * Ids count from 0 in the order of arrival.  File 0 is always "<unknown>".
 *
 * Python-free.  Owner: the snapshots that hold a reference.  Guard: whoever
 * builds the tables has them alone; from tm_tables_seal() on they never change
 * and may be shared between snapshots and threads.
 */
#ifndef TM_SNAPSHOT_TABLES_H
#define TM_SNAPSHOT_TABLES_H

#include "types.h"

#include <stdatomic.h>

/* No such id; as an answer of the functions below: no memory. */
#define TM_NONE UINT32_MAX
/* Total of a traceback whose whole depth nobody knows. */
#define TM_TOTAL_UNKNOWN UINT32_MAX

struct tm_name {
    void *data;                 /* own copy */
    uint32_t length;            /* code points */
    uint8_t kind;               /* bytes a code point, the fewest that do */
};

struct tm_place {
    uint32_t file;
    uint32_t line;              /* 0: unknown */
};

struct tm_traceback {
    uint32_t chain;
    uint32_t total;             /* frames of the whole stack */
};

/* Open addressing: hash << 32 | id + 1, 0 where empty. */
struct tm_lookup {
    uint64_t *slots;
    size_t mask, used;
};

struct tm_tables {
    atomic_uint references;
    uint64_t seed;              /* of the hashes; differs from run to run */

    struct tm_name *files;
    struct tm_place *sites;
    uint32_t *chain_start;      /* nchains + 1 positions in links */
    uint32_t *links;            /* site ids */
    struct tm_traceback *tracebacks;
    uint32_t nfiles, nsites, nchains, nlinks, ntracebacks;

    size_t files_room, sites_room, chains_room, links_room, tracebacks_room;
    struct tm_lookup file_lookup, site_lookup, chain_lookup, traceback_lookup;
};

struct tm_tables *tm_tables_new(void);          /* NULL: no memory */
struct tm_tables *tm_tables_share(struct tm_tables *tables);
void tm_tables_release(struct tm_tables *tables);   /* NULL is fine */
void tm_tables_seal(struct tm_tables *tables);      /* building is over */

/* The id of a thing, which is added when it is new.  TM_NONE: no memory. */
uint32_t tm_tables_file(struct tm_tables *tables, unsigned kind,
                        const void *data, size_t length);
uint32_t tm_tables_site(struct tm_tables *tables, uint32_t file, uint32_t line);
uint32_t tm_tables_chain(struct tm_tables *tables, const uint32_t *sites,
                         size_t n);
uint32_t tm_tables_traceback(struct tm_tables *tables, uint32_t chain,
                             uint32_t total);

static inline size_t
tm_chain_length(const struct tm_tables *t, uint32_t chain)
{
    return t->chain_start[chain + 1] - t->chain_start[chain];
}

static inline const uint32_t *
tm_chain_links(const struct tm_tables *t, uint32_t chain)
{
    return t->links + t->chain_start[chain];
}

/* Order of two names by code points: < 0, 0, > 0. */
int tm_name_order(const struct tm_name *a, const struct tm_name *b);

/* Copies things from one set of tables into another, each once. */
struct tm_import {
    const struct tm_tables *from;
    struct tm_tables *to;
    uint32_t *file, *site, *chain;      /* id in `to`, TM_NONE: not yet */
    uint32_t *scratch;
};

int tm_import_init(struct tm_import *import, const struct tm_tables *from,
                   struct tm_tables *to);       /* -1: no memory */
void tm_import_clear(struct tm_import *import);
/* Id in `to` of a thing of `from`.  TM_NONE: no memory. */
uint32_t tm_import_file(struct tm_import *import, uint32_t file);
uint32_t tm_import_site(struct tm_import *import, uint32_t site);
uint32_t tm_import_chain(struct tm_import *import, uint32_t chain);
uint32_t tm_import_traceback(struct tm_import *import, uint32_t traceback);

/* Make room for `need` items of `width` bytes in an array that grows by
   doubling.  -1: no memory, the array is as before. */
int tm_make_room(void *array, size_t *room, size_t need, size_t width);

#endif /* TM_SNAPSHOT_TABLES_H */
