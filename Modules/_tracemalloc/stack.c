/* Shadow stacks and context caches of threads (see stack.h).
   Owner of its data: this room; the list of threads has the names lock. */
#include "Python.h"
#include "arena.h"
#include "stack.h"
#include "types.h"

#include <string.h>

static tm_thread *threads;

static void
forget_callers(tm_thread *th)
{
    th->depth = 0;
    tm_stack_set_top(th, TM_NO_FRAME, TM_CTX_NONE);
}

tm_thread *
tm_stack_thread_new(PyThreadState *tstate)
{
    tm_thread *th = tm_calloc(1, sizeof(*th));
    if (th == NULL) {
        return NULL;
    }
    forget_callers(th);
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
    tm_free(th->shadow);
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
tm_stack_cut_slow(tm_thread *th, const _PyInterpreterFrame *frame)
{
    for (uint32_t n = th->depth; n > 0; n--) {
        if (th->shadow[n - 1].frame == frame) {
            th->depth = n;
            tm_stack_set_top(th, frame, th->shadow[n - 1].parent);
            return true;
        }
    }
    forget_callers(th);
    return false;
}

void
tm_stack_find_top(tm_thread *th)
{
    if (th->depth == 0) {
        forget_callers(th);
    }
    else {
        const struct tm_shadow *last = &th->shadow[th->depth - 1];
        tm_stack_set_top(th, last->frame, last->parent);
    }
}

int
tm_stack_grow(tm_thread *th)
{
    uint32_t capacity = th->capacity ? th->capacity * 2 : 32;
    struct tm_shadow *shadow =
        tm_realloc(th->shadow, capacity * sizeof(*shadow));
    if (shadow == NULL) {
        return -1;
    }
    th->shadow = shadow;
    th->capacity = capacity;
    return 0;
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
tm_stack_spoil(PyThreadState *tstate)
{
    tm_thread *th = tm_stack_thread(tstate);
    if (th != NULL) {
        forget_callers(th);
    }
}

void
tm_stack_forget_code(const void *start, const void *end)
{
    for (tm_thread *th = threads; th != NULL; th = th->next) {
        for (int i = 0; i < TM_CACHE_SIZE; i++) {
            const char *ip = TM_GET(th->cache[i].ip);
            if (ip >= (const char *)start && ip < (const char *)end) {
                TM_SET(th->cache[i].ip, NULL);
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
            return "thread state that does not know its shadow stack";
        }
        const void *top =
            th->depth ? th->shadow[th->depth - 1].frame : TM_NO_FRAME;
        if (th->top_frame != top) {
            return "shadow stack with a stale top";
        }
        for (int i = 0; i < TM_CACHE_SIZE; i++) {
            if (th->cache[i].ip != NULL
                && (th->cache[i].ctx & ~TM_CTX_DROPPED) >= ctx_end)
            {
                return "cached context that does not exist";
            }
        }
    }
    return NULL;
}
