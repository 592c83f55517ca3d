/* What was live when the traced size last peaked.
 *
 * Nothing is done while memory grows.  When it has fallen by a 64th below its
 * peak (TM_PEAK_LOW), what is live then is counted per context, once: while
 * memory stays below, nothing more happens.  A later peak is kept only when it
 * is higher by so much that the copy would be further than TM_PEAK_TOLERANCE
 * from it; so a program whose memory climbs in teeth is not counted at each.
 *
 *        peak ──────────/\
 *                      /  \◄── counted here
 *          /\         /    \
 *         /  \◄──────/      \      lower peaks were counted before
 *
 * Guard: the GIL (world lock when shared) and the raw lock.
 */
#ifndef TM_PEAK_H
#define TM_PEAK_H

#include "types.h"

/* The size of a copy is at least this share below the peak at most. */
#define TM_PEAK_TOLERANCE(peak) ((peak) >> 4)

/* The traced size falls below tm_hot.peak_low: keep a copy if the peak is new
   enough.  raw_locked: the caller holds the raw lock. */
void tm_peak_past(bool raw_locked);

/* Rows of the last peak: of the copy, or of what is live when the peak has not
   passed.  How many; -1: no memory.  *rows is for tm_free().  *size: traced
   bytes at that moment.  Raw lock held. */
ptrdiff_t tm_peak_rows(struct tm_peak_row **rows, size_t *size);

void tm_peak_forget(void);

#endif /* TM_PEAK_H */
