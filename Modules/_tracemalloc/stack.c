/* Known callers and context caches of threads (see stack.h).
   Owner of its data: this room; the list of threads has the names lock. */
#include "Python.h"
#include "arena.h"
#include "stack.h"
#include "types.h"

#include <string.h>

static tm_thread *threads;

#define KNOWN_FEWEST 1024           /* powers of two */
#define KNOWN_MOST (1 << 20)

static size_t
known_size(const tm_thread *th)
{
    return th->known_mask + sizeof(struct tm_known);
}

/* A thread without frames must find nothing: NULL is not an empty place. */
static void
take_place_of_null(tm_thread *th)
{
    tm_stack_place(th, NULL)->frame = th;
}

static int
make_places(tm_thread *th, size_t count)
{
    struct tm_known *known = tm_calloc(count, sizeof(*known));
    if (known == NULL) {
        return -1;
    }
    tm_free(th->known);
    th->known = known;
    th->known_mask = (count - 1) * sizeof(*known);
    take_place_of_null(th);
    return 0;
}

static void
forget_callers(tm_thread *th)
{
    memset(th->known, 0, known_size(th));
    take_place_of_null(th);
}

tm_thread *
tm_stack_thread_new(PyThreadState *tstate)
{
    tm_thread *th = tm_calloc(1, sizeof(*th));
    if (th == NULL) {
        return NULL;
    }
    if (make_places(th, KNOWN_FEWEST) < 0) {
        tm_free(th);
        return NULL;
    }
    th->tstate = tstate;
    th->next = threads;
    if (threads != NULL) {
        threads->prev = th;
    }
    threads = th;
    tm_hot.several = th->next != NULL;
    ((_PyThreadStateImpl *)tstate)->tracemalloc = th;
    return th;
}

static void
thread_free(tm_thread *th)
{
    if (th->prev != NULL) {
        th->prev->next = th->next;
    }
    else {
        threads = th->next;
    }
    if (th->next != NULL) {
        th->next->prev = th->prev;
    }
    ((_PyThreadStateImpl *)th->tstate)->tracemalloc = NULL;
    tm_free(th->known);
    tm_free(th);
}

void
tm_stack_thread_free(PyThreadState *tstate)
{
    tm_thread *th = tm_stack_thread(tstate);
    if (th != NULL) {
        thread_free(th);
    }
}

bool
tm_stack_thread_known(const PyThreadState *tstate)
{
    for (const tm_thread *th = threads; th != NULL; th = th->next) {
        if (th->tstate == tstate) {
            return true;
        }
    }
    return false;
}

bool
tm_stack_grow(tm_thread *th, size_t frames)
{
    size_t now = known_size(th) / sizeof(struct tm_known), count = now;
    while (count < 4 * frames && count < KNOWN_MOST) {
        count *= 2;
    }
    bool more = count > now && make_places(th, count) == 0;
    th->known_final = !more && 4 * frames > now;
    return more;
}

void
tm_stack_spoil_all(void)
{
    for (tm_thread *th = threads; th != NULL; th = th->next) {
        forget_callers(th);
        memset(th->cache, 0, sizeof(th->cache));
    }
}

void
tm_stack_forget_callers(void)
{
    for (tm_thread *th = threads; th != NULL; th = th->next) {
        forget_callers(th);
    }
}

void
tm_stack_forget_code(const void *start, const void *end)
{
    for (tm_thread *th = threads; th != NULL; th = th->next) {
        for (int i = 0; i < 2 * TM_CACHE_SETS; i++) {
            struct tm_cached *cached = &th->cache[i];
            uintptr_t ip = TM_GET(cached->ip);
            if (ip >= (uintptr_t)start && ip < (uintptr_t)end) {
                TM_SET(cached->ip, 0);
            }
        }
    }
}

void
tm_stack_each(void (*call)(PyThreadState *))
{
    for (tm_thread *th = threads; th != NULL; th = th->next) {
        call((PyThreadState *)th->tstate);
    }
}

void
tm_stack_free_all(void)
{
    while (threads != NULL) {
        thread_free(threads);
    }
}

void
tm_stack_keep_only(PyThreadState *tstate)
{
    tm_thread *th = threads;
    while (th != NULL) {
        tm_thread *next = th->next;
        if (th->tstate != tstate) {
            thread_free(th);
        }
        th = next;
    }
}

const char *
tm_stack_check(tm_ctx_t ctx_end)
{
    for (const tm_thread *th = threads; th != NULL; th = th->next) {
        if (tm_stack_thread((PyThreadState *)th->tstate) != th) {
            return "thread state that does not know its own thread";
        }
        for (size_t at = 0; at <= th->known_mask; at += sizeof(struct tm_known)) {
            const struct tm_known *known =
                (const struct tm_known *)((const char *)th->known + at);
            if (known->frame == NULL || known->frame == th) {
                continue;
            }
            if (known != tm_stack_place(th, known->frame)
                || known->hash != tm_stack_hash(known->parent)
                || known->parent == TM_CTX_NONE
                || (!(known->parent & TM_CTX_DEPTH) && known->parent >= ctx_end))
            {
                return "frame whose callers are no context";
            }
        }
        for (int i = 0; i < 2 * TM_CACHE_SETS; i++) {
            const struct tm_cached *cached = &th->cache[i];
            if (cached->ip != 0
                && (cached->ctx & ~TM_CTX_DROPPED) >= ctx_end)
            {
                return "cached context that does not exist";
            }
            if (cached->ip != 0 && !TM_CTX_FITS_SLOT(cached->ctx)
                && !(cached->ip & TM_CACHED_SLOW))
            {
                return "cached context that inline halves must not see";
            }
        }
    }
    return NULL;
}
