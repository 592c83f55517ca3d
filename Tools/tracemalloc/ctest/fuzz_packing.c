/* Packed columns against a coder that works number by number, and decoding of
 * bytes that somebody has changed. */
#include "fuzz.h"
#include "packing.h"

#include <string.h>

#define MOST 200

/* The column as the model sees it: always 64 bits wide. */
struct sample {
    uint64_t value[MOST];
    size_t count;
    uint8_t width;
    bool delta;
};

static size_t
model_pack(const struct sample *s, uint8_t *out)
{
    size_t n = 0;
    uint64_t before = 0;
    for (size_t i = 0; i < s->count; i++) {
        uint64_t v = s->value[i];
        if (s->delta) {
            bool down = s->value[i] - before > UINT64_MAX / 2;
            uint64_t by = down ? before - v : v - before;
            v = down ? 2 * (by - 1) + 1 : 2 * by;
            before = s->value[i];
        }
        do {
            out[n++] = (uint8_t)(v % 128 + (v >= 128 ? 128 : 0));
            v /= 128;
        } while (v > 0);
    }
    return n;
}

static struct sample
random_sample(uint64_t *seed)
{
    struct sample s = {
        .count = fuzz_below(seed, MOST),
        .width = fuzz_below(seed, 2) ? 8 : 4,
        .delta = fuzz_below(seed, 2),
    };
    unsigned widest = s.width * 8u;
    for (size_t i = 0; i < s.count; i++) {
        uint64_t v = fuzz_next(seed) >> (63 - fuzz_below(seed, 64));
        if (fuzz_below(seed, 8) == 0) {
            v = UINT64_MAX - fuzz_below(seed, 3);
        }
        s.value[i] = widest == 64 ? v : v & UINT32_MAX;
    }
    return s;
}

/* Copy between the model's numbers and an array of the column's width, which is
   exactly as long as it has to be. */
static void *
array_of(const struct sample *s)
{
    void *array = malloc(s->count * s->width + 1);
    for (size_t i = 0; i < s->count; i++) {
        if (s->width == 8) {
            ((uint64_t *)array)[i] = s->value[i];
        }
        else {
            ((uint32_t *)array)[i] = (uint32_t)s->value[i];
        }
    }
    return array;
}

static void
there_and_back(const struct sample *s, const uint8_t *expected, size_t size)
{
    void *values = array_of(s), *back = malloc(s->count * s->width + 1);
    struct tm_column column = {values, s->count, s->width, s->delta};
    FUZZ_NEED(tm_packed_size(&column) == size, "%zu", size);
    uint8_t *bytes = malloc(size + 1);
    tm_pack(&column, bytes);
    FUZZ_NEED(memcmp(bytes, expected, size) == 0, "%zu bytes", size);
    column.values = back;
    FUZZ_NEED(tm_unpack(&column, bytes, size), "%zu numbers", s->count);
    FUZZ_NEED(memcmp(back, values, s->count * s->width) == 0, "-");
    free(bytes);
    free(back);
    free(values);
}

/* What is accepted must be the one form of what it stands for. */
static bool
changed_bytes(const struct sample *s, const uint8_t *good, size_t size,
              uint64_t *seed)
{
    size_t cut = fuzz_below(seed, 3) == 0 ? fuzz_below(seed, size + 1) : size;
    uint8_t *bytes = malloc(cut + 1), *again = malloc(10 * s->count + 1);
    void *values = malloc(s->count * s->width + 1);
    memcpy(bytes, good, cut);
    for (unsigned n = fuzz_below(seed, 3) + (cut == size); n > 0 && cut > 0; n--) {
        static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0x81, 0xff};
        bytes[fuzz_below(seed, cut)] =
            fuzz_below(seed, 2) ? odd[fuzz_below(seed, 6)] : (uint8_t)fuzz_next(seed);
    }
    struct tm_column column = {values, s->count, s->width, s->delta};
    bool accepted = tm_unpack(&column, bytes, cut);
    if (accepted) {
        FUZZ_NEED(tm_packed_size(&column) == cut, "%zu bytes", cut);
        tm_pack(&column, again);
        FUZZ_NEED(memcmp(again, bytes, cut) == 0, "%zu bytes", cut);
    }
    free(bytes);
    free(again);
    free(values);
    return accepted;
}

int
main(void)
{
    uint64_t seed = 20131003;
    unsigned long cases = 0, accepted = 0;
    uint8_t bytes[10 * MOST];
    for (int round = 0; round < 6000; round++) {
        struct sample s = random_sample(&seed);
        size_t size = model_pack(&s, bytes);
        there_and_back(&s, bytes, size);
        for (int i = 0; i < 10; i++, cases++) {
            accepted += changed_bytes(&s, bytes, size, &seed);
        }
    }
    FUZZ_NEED(accepted > 1000 && accepted < cases / 2, "%lu", accepted);
    return fuzz_done("packing", cases);
}
