/* The engine's private memory, for fuzzers: the interface of arena.h over plain
 * malloc.  Counts live blocks and can fail the n-th allocation; blocks keep no
 * header of ours, so that the sanitizers see every byte. */
#include "arena.h"
#include "fuzz.h"

#include <stdlib.h>

static long live_blocks;
static uint64_t calls, countdown;
static int sticky;

static int
must_fail(void)
{
    calls++;
    if (countdown == 0 || --countdown > 0) {
        return 0;
    }
    countdown = sticky ? 1 : 0;
    return 1;
}

static void *
counted(void *block)
{
    live_blocks += block != NULL;
    return block;
}

void *
tm_alloc(size_t size)
{
    return must_fail() ? NULL : counted(malloc(size ? size : 1));
}

void *
tm_calloc(size_t count, size_t size)
{
    return must_fail() ? NULL : counted(calloc(count ? count : 1,
                                               size ? size : 1));
}

void *
tm_realloc(void *block, size_t size)
{
    if (block == NULL) {
        return tm_alloc(size);
    }
    return must_fail() ? NULL : realloc(block, size ? size : 1);
}

void
tm_free(void *block)
{
    live_blocks -= block != NULL;
    free(block);
}

uint64_t
tm_arena_fail_after(uint64_t n, int stay)
{
    uint64_t made = calls;
    calls = 0;
    countdown = n;
    sticky = stay;
    return made;
}

long
fuzz_live_blocks(void)
{
    return live_blocks;
}
