/* Live filters: which contexts are recorded.
 *
 * A verdict is computed once for a context and kept in its node together with
 * the generation of the filters; changing the filters starts a new generation.
 * Guard: the GIL (world lock when shared); changes happen under the raw and
 * names locks too, so that no thread without the GIL judges meanwhile.
 */
#ifndef TM_FILTER_H
#define TM_FILTER_H

#include "types.h"

struct tm_glob;             /* a compiled pattern, see glob.h */

struct tm_filter_frame {
    const struct tm_file *file;     /* NULL: unknown, matches no pattern; its
                                       fields of this room may be written */
    uint32_t line;                  /* 0: unknown, matches no line */
};

struct tm_filter {
    struct tm_glob *pattern;        /* owned */
    uint32_t line;                  /* 0: any */
    int64_t domain;                 /* -1: any */
    uint8_t include;
    uint8_t all_frames;
};

/* Replace the filters; takes over `list` (tm_alloc) and its patterns.
   `generation` of old verdicts ends.  True when the caller must wipe the
   verdict bytes of all contexts (the generation count wrapped). */
bool tm_filter_replace(struct tm_filter *list, size_t count);

/* Frames that have to be looked at: 1, or TM_LIMIT_MAX with all_frames. */
unsigned tm_filter_depth(void);
bool tm_filter_by_domain(void);
bool tm_filter_keeps(unsigned int domain, const struct tm_filter_frame *frames,
                     unsigned count);

extern unsigned tm_filter_count;
extern uint8_t tm_filter_generation;    /* 1..63 */

static inline bool
tm_filter_active(void)
{
    return tm_filter_count != 0;
}

/* A verdict byte: generation << 2 | 2 when kept. */
static inline bool
tm_filter_verdict_known(uint8_t verdict)
{
    return verdict >> 2 == tm_filter_generation;
}

static inline bool
tm_filter_verdict_keeps(uint8_t verdict)
{
    return verdict & 2;
}

static inline uint8_t
tm_filter_verdict_make(bool keep)
{
    return (uint8_t)(tm_filter_generation << 2 | (keep ? 2 : 0));
}

#endif /* TM_FILTER_H */
