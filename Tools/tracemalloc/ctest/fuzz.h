/* What the room fuzzers share.  A fuzzer is one C file with a main(): it runs a
 * room against a naive model of it, with fixed seeds, and returns 0 when they
 * agree; it prints one line, see fuzz_done().
 */
#ifndef TM_FUZZ_H
#define TM_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A small generator of our own: the same sequence on every machine. */
static inline uint64_t
fuzz_next(uint64_t *seed)
{
    uint64_t x = (*seed += UINT64_C(0x9e3779b97f4a7c15));
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* 0 .. n-1 */
static inline uint64_t
fuzz_below(uint64_t *seed, uint64_t n)
{
    return fuzz_next(seed) % n;
}

#define FUZZ_NEED(condition, ...)                                       \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf(stderr, "%s:%d: not true: %s: ", __FILE__, __LINE__, \
                    #condition);                                        \
            fprintf(stderr, __VA_ARGS__);                               \
            fputc('\n', stderr);                                        \
            exit(1);                                                    \
        }                                                               \
    } while (0)

static inline int
fuzz_done(const char *room, unsigned long cases)
{
    printf("%s: %lu cases agree\n", room, cases);
    return 0;
}

long fuzz_live_blocks(void);    /* arena_stub.c: engine blocks not yet freed */

#endif /* TM_FUZZ_H */
