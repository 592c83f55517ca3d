/* A frozen, consistent copy of what was traced, and what can be asked of it:
 * sums, groups, differences, a selection.
 *
 *      trace i:   address[i]   size[i]   traceback[i]   domain[i]
 *                                            │
 *                                  tables (snapshot_tables.h)
 *
 * A snapshot without traces has no columns: only sums for each line, kept as
 * tracebacks of one frame and unknown total.
 *
 * A sampled snapshot has the traces of the blocks that were drawn, with their
 * true sizes.  Its sums are estimates: a block stands for the 1/p blocks of its
 * kind of which one is drawn.  They are added up in double and rounded once,
 * when a group is complete.
 *
 * A snapshot of a peak has rows in place of traces: all blocks of a domain and
 * traceback are one, whose estimate says how much they are.  Rows have no
 * address; their column of sizes repeats the estimate, rounded.
 *
 * Python-free; memory comes from the arena and belongs to the snapshot, which
 * its creator frees.  Guard: the owner of the snapshot.  What is computed on
 * first use (sums, order of addresses) is kept, so even a question may change
 * the structure; two snapshots that share tables need no common guard.
 *
 * Functions that return int: 0, or -1 when there is no memory.
 */
#ifndef TM_SNAPSHOT_H
#define TM_SNAPSHOT_H

#include "snapshot_tables.h"

/* Bytes (128 bits: sizes are the caller's in tracked domains, and any in
   hand-made snapshots, so that 64 may not hold the sum) and blocks. */
struct tm_estimate {
    double size, count;         /* bytes, blocks */
    double variance;            /* of size, bytes squared */
};

/* `estimate` is all 0 in sums of exact traces.  While such are added up that are
   not, low and high are of no meaning and count is the number of traces; after
   tm_sum_settle() they are the estimate, rounded. */
struct tm_sum {
    uint64_t low, high;
    uint64_t count;
    struct tm_estimate estimate;
};

static inline void
tm_sum_add(struct tm_sum *sum, const struct tm_sum *more)
{
    sum->low += more->low;
    sum->high += more->high + (sum->low < more->low);
    sum->count += more->count;
    sum->estimate.size += more->estimate.size;
    sum->estimate.count += more->estimate.count;
    sum->estimate.variance += more->estimate.variance;
}

static inline void
tm_sum_add_block(struct tm_sum *sum, uint64_t size)
{
    sum->low += size;
    sum->high += sum->low < size;
    sum->count++;
}

static inline void
tm_sum_add_estimate(struct tm_sum *sum, const struct tm_estimate *more)
{
    sum->count++;
    sum->estimate.size += more->size;
    sum->estimate.count += more->count;
    sum->estimate.variance += more->variance;
}

/* Round the estimate, if there is one; may be repeated. */
void tm_sum_settle(struct tm_sum *sum);

/* What a block stands for that was drawn with a mean distance of `interval`
   bytes between samples. */
struct tm_estimate tm_estimate_block(uint64_t size, uint64_t interval);

/* Largest interval; the least is 1, which means exact. */
#define TM_INTERVAL_MAX (UINT64_MAX >> 1)

struct tm_snapshot {
    struct tm_tables *tables;           /* shared reference */
    bool has_traces;
    size_t ntraces, room;               /* room of the columns, in traces */
    uint64_t *address;                  /* NULL: not known */
    uint64_t *size;
    uint32_t *traceback;
    uint32_t *domain;                   /* NULL: 0 for all */
    struct tm_estimate *rows;           /* of a peak; NULL: traces of blocks */

    struct tm_sum *sums;                /* a traceback each, not settled; NULL:
                                           not yet */
    uint32_t *by_address;               /* traces in order of address, equal
                                           ones as they stand; NULL: not yet */
    uint32_t limit;                     /* frames in a traceback, at most */
    uint64_t lost;                      /* traces dropped for want of memory */
    uint64_t interval;                  /* bytes between samples; 1: exact */
    uint64_t peak_size;                 /* of a peak: traced bytes then */
};

/* An empty snapshot with tables of its own, or with a reference to `tables`.
   NULL: no memory. */
struct tm_snapshot *tm_snapshot_new(struct tm_tables *tables);
void tm_snapshot_free(struct tm_snapshot *snapshot);    /* NULL is fine */

/* Columns for `n` traces (at most 2^32 - 2), all in use. */
int tm_snapshot_reserve(struct tm_snapshot *snapshot, size_t n,
                        bool with_address);
/* A column of zeros for the domains, if there is none yet. */
int tm_snapshot_need_domains(struct tm_snapshot *snapshot);
/* Room for an estimate a trace, which are the caller's to fill in. */
int tm_snapshot_need_rows(struct tm_snapshot *snapshot);
/* The size column of rows follows from the estimates. */
uint64_t tm_row_size(const struct tm_estimate *row);
/* One more trace; the columns grow.  `address` is kept if others are. */
int tm_snapshot_add(struct tm_snapshot *snapshot, uint32_t domain,
                    uint64_t address, uint64_t size, uint32_t traceback);

/* Give back room that the columns do not use. */
void tm_snapshot_trim(struct tm_snapshot *snapshot);

/* Copy what the engine traces now: every trace, or only sums for each line.
   The caller has paused the engine: tm_sync_freeze_begin().  NULL: no memory.
   limit and lost are left to the caller. */
struct tm_snapshot *tm_snapshot_freeze(bool traces);
/* The same with the rows of the last peak. */
struct tm_snapshot *tm_snapshot_freeze_peak(void);

/* Sums of every traceback, in order of its id; NULL: no memory.  Some may be 0
   in a snapshot that shares its tables.  Not settled. */
const struct tm_sum *tm_snapshot_sums(struct tm_snapshot *snapshot);
/* Settled. */
int tm_snapshot_total(struct tm_snapshot *snapshot, struct tm_sum *total);

/* The first trace at an address; *found: its index, or SIZE_MAX. */
int tm_snapshot_find(struct tm_snapshot *snapshot, uint64_t address,
                     size_t *found);
/* Make by_address.  The snapshot knows its addresses. */
int tm_snapshot_order(struct tm_snapshot *snapshot);

/* --- Groups (snapshot_group.c) --------------------------------------------- */

enum tm_group_by {
    TM_BY_FILE,                 /* key: file id */
    TM_BY_LINE,                 /* key: site id, TM_NONE for an empty chain */
    TM_BY_CHAIN,                /* key: chain id; totals do not matter */
};

struct tm_group {
    uint32_t key;
    struct tm_sum sum;
};

struct tm_groups {
    struct tm_group *rows;      /* sums are settled */
    size_t n;
    bool estimated;             /* from samples */
};

/* Sum up by the most recent frame, by the whole chain or, cumulative, by every
   frame: a frame that stands twice in a chain counts twice.  An empty chain
   belongs to file 0 and to no line; cumulative, to nothing.
   Sorted from largest to smallest: size, count, key; keys compare as tuples of
   (file name, line) from the oldest frame on.  Without traces only the most
   recent frames are known: TM_BY_CHAIN and cumulative are then for the caller
   to refuse. */
int tm_snapshot_group(struct tm_snapshot *snapshot, enum tm_group_by by,
                      bool cumulative, struct tm_groups *groups);
void tm_groups_clear(struct tm_groups *groups);

struct tm_change {
    uint32_t key;
    struct tm_sum now, before;
};

struct tm_changes {
    struct tm_tables *tables;   /* own reference; of the keys */
    struct tm_change *rows;
    size_t n;
    bool now_estimated, before_estimated;
};

/* Group both and set them side by side; a missing side is all 0.  Sorted from
   largest to smallest: |change of size|, size, |change of count|, count, key. */
int tm_snapshot_compare(struct tm_snapshot *now, struct tm_snapshot *before,
                        enum tm_group_by by, bool cumulative,
                        struct tm_changes *changes);
void tm_changes_clear(struct tm_changes *changes);

/* --- Selection (snapshot_filter.c) ----------------------------------------- */

struct tm_glob;

struct tm_selector {
    struct tm_glob *glob;       /* borrowed; NULL: any frames, even none */
    bool known_only;            /* the unknown file matches no pattern */
    bool include;
    bool all_frames;            /* else the most recent frame alone counts */
    bool any_line, any_domain;
    uint32_t line, domain;
};

/* A new snapshot of the traces that are kept: those that no exclusive selector
   hits and, if there are inclusive ones, at least one of them hits.  A selector
   hits a trace of its domain with a frame of a matching file and line.  Shares
   the tables.  NULL: no memory. */
struct tm_snapshot *tm_snapshot_select(struct tm_snapshot *snapshot,
                                       const struct tm_selector *selectors,
                                       size_t nselectors);

/* The same for a choice that somebody has made: a byte for each trace, not 0 if
   it is kept. */
struct tm_snapshot *tm_snapshot_pick(struct tm_snapshot *snapshot,
                                     const uint8_t *keep);

/* A copy with tables that hold nothing unused; the very snapshot's traces in
   the same order.  NULL: no memory. */
struct tm_snapshot *tm_snapshot_compact(struct tm_snapshot *snapshot);

#endif /* TM_SNAPSHOT_H */
