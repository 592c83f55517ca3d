/* Traced arenas (see arenas.h).  Owner of its data: this room. */
#include "Python.h"

#include <stdbool.h>
#include "pycore_obmalloc.h"      // ARENA_SIZE
#include "arenas.h"
#include "record.h"
#include "sync.h"
#include "table.h"

/* Guard: the GIL for writing; wrapped calls read it on their way through, and
   it is never taken back, so they find the allocator below even late. */
static PyObjectArenaAllocator below;
static bool ever_linked;        /* guard: the GIL; somebody may hold us */

/* Guard of these: the arenas lock. */
static bool counting;
static struct tm_table traced;  /* address, size; the context has no meaning */
static size_t traced_bytes;

/* Set by the wrapper that runs while tm_arenas_link() looks for it. */
static _Py_thread_local bool probing, probed;

/* --- the wrapper --- */

static void
arena_made(void *arena, size_t size)
{
    struct tm_trace old, trace = {size, TM_CTX_UNKNOWN};
    tm_lock(TM_ARENAS);
    /* No memory to remember it: it is not counted, now and when it goes. */
    if (counting
        && tm_table_put(&traced, (uintptr_t)arena, &trace, &old) == 0)
    {
        traced_bytes += size - (old.ctx != TM_CTX_NONE ? old.size : 0);
    }
    tm_unlock(TM_ARENAS);
}

/* Arenas from before tracing are not in the table. */
static void
arena_goes(void *arena)
{
    struct tm_trace old;
    tm_lock(TM_ARENAS);
    if (tm_table_take(&traced, (uintptr_t)arena, &old)) {
        traced_bytes -= old.size;
    }
    tm_unlock(TM_ARENAS);
}

static void *
arena_alloc(void *ctx, size_t size)
{
    if (probing) {
        probed = true;
        return below.alloc(ctx, size);
    }
    void *arena = below.alloc(ctx, size);
    /* tm_nested: on behalf of pymalloc, which raises it around its request. */
    if (arena != NULL && tm_nested) {
        arena_made(arena, size);
    }
    return arena;
}

static void
arena_free(void *ctx, void *arena, size_t size)
{
    /* First forgotten, then given back: another thread may get the address at
       once. */
    if (!probing) {
        arena_goes(arena);
    }
    below.free(ctx, arena, size);
}

/* --- linking --- */

static bool
is_ours(const PyObjectArenaAllocator *allocator)
{
    return allocator->alloc == arena_alloc && allocator->free == arena_free;
}

/* Do arenas still come through our wrapper, below somebody's?  Linking it once
   more would make it call itself, so when in doubt: yes. */
static bool
reaches_us(const PyObjectArenaAllocator *outermost)
{
    if (!ever_linked) {
        return false;
    }
    if (is_ours(outermost)) {
        return true;
    }
    probing = true;
    probed = false;
    void *arena = outermost->alloc(outermost->ctx, ARENA_SIZE);
    if (arena != NULL) {
        outermost->free(outermost->ctx, arena, ARENA_SIZE);
    }
    probing = false;
    return probed || arena == NULL;
}

void
tm_arenas_link(void)
{
    PyObjectArenaAllocator outermost;
    PyObject_GetArenaAllocator(&outermost);
    if (!reaches_us(&outermost)) {
        /* The context is that of the allocator below: upstream reads function
           and context separately, and any mixture of both has to work. */
        PyObjectArenaAllocator ours = {outermost.ctx, arena_alloc, arena_free};
        below = outermost;
        ever_linked = true;
        PyObject_SetArenaAllocator(&ours);
    }
}

void
tm_arenas_unlink(void)
{
    PyObjectArenaAllocator outermost;
    PyObject_GetArenaAllocator(&outermost);
    if (is_ours(&outermost)) {
        PyObject_SetArenaAllocator(&below);
    }
}

/* --- the counter --- */

void
tm_arenas_count(bool on)
{
    tm_lock(TM_ARENAS);
    counting = on;
    tm_unlock(TM_ARENAS);
}

void
tm_arenas_clear(void)
{
    tm_lock(TM_ARENAS);
    tm_table_clear(&traced);
    traced_bytes = 0;
    tm_unlock(TM_ARENAS);
}

size_t
tm_arenas_size(void)
{
    tm_lock(TM_ARENAS);
    size_t bytes = traced_bytes;
    tm_unlock(TM_ARENAS);
    return bytes;
}

const char *
tm_arenas_check(void)
{
    size_t bytes = 0;
    tm_lock(TM_ARENAS);
    const char *wrong = tm_table_check(&traced, &bytes);
    if (wrong == NULL && bytes != traced_bytes) {
        wrong = "bytes of traced arenas differ from the counter";
    }
    tm_unlock(TM_ARENAS);
    return wrong;
}
