/* Columns of numbers as bytes, see packing.h.  Owns nothing. */
#include "packing.h"

#include <string.h>

#define MORE 0x80u

static inline uint64_t
zigzag(uint64_t difference)
{
    return (difference << 1) ^ (uint64_t)-(int64_t)(difference >> 63);
}

static inline uint64_t
unzigzag(uint64_t coded)
{
    return (coded >> 1) ^ (uint64_t)-(int64_t)(coded & 1);
}

static inline uint64_t
value_at(const void *values, bool wide, size_t i)
{
    return wide ? ((const uint64_t *)values)[i] : ((const uint32_t *)values)[i];
}

static inline size_t
varint_size(uint64_t value)
{
    size_t n = 1;
    while (value >= MORE) {
        value >>= 7;
        n++;
    }
    return n;
}

static inline uint8_t *
put_varint(uint8_t *out, uint64_t value)
{
    while (value >= MORE) {
        *out++ = (uint8_t)(value | MORE);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

/* The byte behind the varint, or NULL when it is malformed. */
static inline const uint8_t *
get_varint(const uint8_t *in, const uint8_t *end, uint64_t *value)
{
    if (TM_LIKELY(in < end && *in < MORE)) {
        *value = *in;
        return in + 1;
    }
    uint64_t result = 0;
    for (unsigned shift = 0; in < end && shift < 64; shift += 7) {
        uint64_t byte = *in++;
        result |= (byte & (MORE - 1)) << shift;
        if (byte < MORE) {
            *value = result;
            /* Padding, or bits beyond the 64th. */
            bool bad = (byte == 0 && shift > 0) || (shift == 63 && byte > 1);
            return bad ? NULL : in;
        }
    }
    return NULL;
}

/* The three walks below are compiled once for each kind of column: `wide` and
   `delta` are constants where they are called. */

TM_INLINE size_t
walk_size(const void *values, size_t count, bool wide, bool delta)
{
    uint64_t before = 0;
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t v = value_at(values, wide, i);
        size += varint_size(delta ? zigzag(v - before) : v);
        before = v;
    }
    return size;
}

TM_INLINE void
walk_pack(const void *values, size_t count, uint8_t *out, bool wide, bool delta)
{
    uint64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t v = value_at(values, wide, i);
        out = put_varint(out, delta ? zigzag(v - before) : v);
        before = v;
    }
}

TM_INLINE bool
walk_unpack(void *values, size_t count, const uint8_t *in, size_t size,
            bool wide, bool delta)
{
    const uint8_t *end = in + size;
    uint64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t v;
        in = get_varint(in, end, &v);
        if (in == NULL) {
            return false;
        }
        if (delta) {
            v = before + unzigzag(v);
            before = v;
        }
        if (wide) {
            ((uint64_t *)values)[i] = v;
        }
        else if (v > UINT32_MAX) {
            return false;
        }
        else {
            ((uint32_t *)values)[i] = (uint32_t)v;
        }
    }
    return in == end;
}

size_t
tm_packed_size(const struct tm_column *c)
{
    if (c->width == 8) {
        return c->delta ? walk_size(c->values, c->count, true, true)
                        : walk_size(c->values, c->count, true, false);
    }
    return c->delta ? walk_size(c->values, c->count, false, true)
                    : walk_size(c->values, c->count, false, false);
}

void
tm_pack(const struct tm_column *c, uint8_t *out)
{
    if (c->width == 8 && c->delta) {
        walk_pack(c->values, c->count, out, true, true);
    }
    else if (c->width == 8) {
        walk_pack(c->values, c->count, out, true, false);
    }
    else if (c->delta) {
        walk_pack(c->values, c->count, out, false, true);
    }
    else {
        walk_pack(c->values, c->count, out, false, false);
    }
}

bool
tm_unpack(const struct tm_column *c, const uint8_t *in, size_t size)
{
    if (c->count > size) {
        return false;
    }
    if (c->width == 8) {
        return c->delta ? walk_unpack(c->values, c->count, in, size, true, true)
                        : walk_unpack(c->values, c->count, in, size, true, false);
    }
    return c->delta ? walk_unpack(c->values, c->count, in, size, false, true)
                    : walk_unpack(c->values, c->count, in, size, false, false);
}
