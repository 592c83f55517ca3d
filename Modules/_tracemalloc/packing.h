/* Columns of numbers as bytes: LEB128 varints, of the numbers themselves or of
 * the zigzag-coded difference from the number before (the first: from 0).
 *
 *      7 bits a byte, lowest first; the top bit says that more follow
 *      300 -> AC 02            -1 as a difference -> 01, +1 -> 02
 *
 * Every number has exactly one form: decoding refuses padded varints, numbers
 * too large for the column, bytes that are missing or left over.  So whatever
 * decodes also encodes to the same bytes.
 *
 * Python-free; allocates nothing; no state.
 */
#ifndef TM_PACKING_H
#define TM_PACKING_H

#include "types.h"

/* An array of `count` numbers of 4 or 8 bytes each; owned by the caller. */
struct tm_column {
    void *values;
    size_t count;
    uint8_t width;              /* 4: uint32_t, 8: uint64_t */
    bool delta;
};

/* Bytes that the column takes when packed; never more than 10 a number. */
size_t tm_packed_size(const struct tm_column *column);

/* Write exactly that many bytes. */
void tm_pack(const struct tm_column *column, uint8_t *out);

/* Fill the column from all `size` bytes.  False: malformed, the values are then
   undefined.  A caller can refuse a count larger than `size` before it makes
   room: a number takes at least one byte. */
bool tm_unpack(const struct tm_column *column, const uint8_t *in, size_t size);

#endif /* TM_PACKING_H */
