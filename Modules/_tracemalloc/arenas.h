/* Arenas: the large pieces of memory that pymalloc cuts its pools from.
 *
 * While tracing is on, a wrapper around the arena allocator counts the bytes of
 * those that pymalloc has got since: "traced arenas".  Arenas of all
 * interpreters count.  What others get from the arena allocator (the frame
 * stacks of threads) is not an arena and does not count.
 *
 * Guard: linking and unlinking need the GIL; the counter and the set of traced
 * arenas have the arenas lock, since each GIL has a pymalloc of its own.
 */
#ifndef TM_ARENAS_H
#define TM_ARENAS_H

#include "types.h"

/* Link the wrapper; idempotent.  One that could not be unlinked earlier is
   found again, not doubled. */
void tm_arenas_link(void);
/* Unlink the wrapper if it is still outermost; else it stays, passing all
   through. */
void tm_arenas_unlink(void);

/* From now on count, or do not. */
void tm_arenas_count(bool on);
/* Forget all traced arenas: the counter is 0 again. */
void tm_arenas_clear(void);
/* Bytes of traced arenas.  Any thread. */
size_t tm_arenas_size(void);
const char *tm_arenas_check(void);

/* What pymalloc knows of itself, for the interpreter of the calling thread.
   bytes: a size; others: numbers.  It holds that
        arenas * arena_size = allocated_bytes + available_bytes
            + free_pools * pool_size + pool_headers + quantization
            + arena_alignment                                                */
struct tm_pymalloc_stats {
    size_t alignment;           /* bytes; of addresses handed out */
    size_t threshold;           /* bytes; larger blocks are not pymalloc's */
    uint64_t nalloc;            /* allocations, see tm_allocations() */
    size_t arena_size;          /* bytes of one */
    size_t total_arenas;        /* got ever, given back ones included */
    size_t max_arenas;          /* most at a time */
    size_t arenas;              /* now */
    size_t allocated_bytes;     /* in blocks in use */
    size_t available_bytes;     /* in free blocks of pools in use */
    size_t pool_size;           /* bytes of one */
    size_t free_pools;          /* not in use, never used ones included */
    size_t pool_headers;        /* bytes; of pools in use */
    size_t quantization;        /* bytes; left over at the ends of these */
    size_t arena_alignment;     /* bytes; skipped at the ends of arenas */
};

/* Provided beside pymalloc (Objects/obmalloc_stats.h) where it is compiled in
   and the interpreter can use it.  An attached thread state is needed.  All but
   the constants is 0 when another allocator is in use. */
#if defined(WITH_PYMALLOC) && !defined(Py_GIL_DISABLED)
#  define TM_HAVE_PYMALLOC_STATS 1
void _PyTraceMalloc_PymallocStats(struct tm_pymalloc_stats *stats);
#endif

#endif /* TM_ARENAS_H */
