/* Which blocks are recorded when tracing samples.
 *
 * Samples are the points of a Poisson process over the bytes that are
 * allocated, `interval` bytes apart on average, so a block of s bytes is
 * recorded with probability 1 - exp(-s / interval), whatever the sizes of its
 * neighbours: the chance that the process has a point in a stretch of that
 * length.  It has no memory: after a sample the distance to the next is drawn
 * anew, and a block that moves or changes its size is drawn anew.
 *
 * Guard: tm_hot.until (tm_local without a GIL) the GIL (world lock when
 * shared), the distance of the RAW and tracked domains the raw lock, the
 * generator its own.
 */
#ifndef TM_SAMPLER_H
#define TM_SAMPLER_H

#include "types.h"

/* Bytes between samples on average, at least 1; 1: every block is recorded. */
void tm_sampler_plan(uint64_t interval);
uint64_t tm_sampler_interval(void);
/* Tracing starts: decide tm_hot.sampling, draw the first distances. */
void tm_sampler_start(void);
/* Begin the sequence of distances anew (tests). */
void tm_sampler_seed(uint64_t seed);

/* A distance to the next sample, in bytes. */
int64_t tm_sampler_draw(void);

/* Is a block of the MEM or OBJ domain passed over? */
TM_INLINE bool
tm_sampler_skips(int64_t *until, size_t size)
{
    if (TM_LIKELY(((*until -= (int64_t)size) >= 0))) {
        return true;
    }
    *until = tm_sampler_draw();
    return false;
}

/* The same for the other domains. */
bool tm_sampler_skips_raw(size_t size);

/* Chance that a block of this size is recorded, for an interval. */
double tm_sampler_chance(uint64_t size, uint64_t interval);

#endif /* TM_SAMPLER_H */
