/* Private memory of the engine: never passes through Python's allocators, is
 * counted exactly, and can be made to fail for tests.
 *
 * All functions may be called from any thread, with or without the GIL.
 */
#ifndef TM_ARENA_H
#define TM_ARENA_H

#include "types.h"

/* Like malloc and friends; NULL when there is no memory.  The block remembers
   its size, so that the engine's own use is known to the byte. */
void *tm_alloc(size_t size);
void *tm_calloc(size_t count, size_t size);
void *tm_realloc(void *block, size_t size);
void tm_free(void *block);

/* Bytes in use by the engine, bookkeeping included, and how many of them pools
   and other rooms have in reserve (tables tell of theirs when asked). */
size_t tm_arena_size(void);
size_t tm_arena_free(void);
void tm_arena_reserve(ptrdiff_t bytes);     /* a room's reserve grew or shrank */

/* A pool of equal-sized items carved from larger chunks; items go back to a
   free list, chunks only all at once.  Guard: the owner's. */
struct tm_pool {
    size_t item;                /* bytes, a multiple of 8 */
    void *free_list;
    char *next, *end;           /* rest of the newest chunk */
    void *chunks;
};
void *tm_pool_take(struct tm_pool *pool);   /* not zeroed; NULL: no memory */
void tm_pool_give(struct tm_pool *pool, void *item);
void tm_pool_release(struct tm_pool *pool);

/* Tests: let the n-th next allocation fail (1 = the very next) and, with
   `sticky`, all after it too.  0 switches it off.  Returns how many engine
   allocations have been made since the last call. */
uint64_t tm_arena_fail_after(uint64_t n, int sticky);

#endif /* TM_ARENA_H */
