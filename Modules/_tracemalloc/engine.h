/* The engine as the two doors see it (Python/tracemalloc.c for the interpreter
 * and C extensions, Modules/_tracemallocmodule.c for Python).
 *
 * Functions need the GIL (an attached thread state) unless said otherwise.
 * None raises a Python exception or runs Python code.
 */
#ifndef TM_ENGINE_H
#define TM_ENGINE_H

#include "arena.h"
#include "arenas.h"
#include "types.h"

/* --- lifecycle --- */

enum tm_fork_policy { TM_FORK_BY_START, TM_FORK_DISABLE, TM_FORK_FOLLOW };

/* How tracing was turned on decides what a forked child does by default. */
enum tm_started_by { TM_BY_START, TM_BY_ENABLE };

/* 0; -1: no memory.  Tracing already: 0, nothing changes. */
int tm_start(int limit, enum tm_started_by how);
unsigned long tm_starts(void);      /* how often tracing was turned on */
void tm_stop(void);                 /* drops traces, filters stay */
void tm_clear(void);                /* drops traces, tracing goes on */
bool tm_is_tracing(void);           /* any thread */
int tm_get_limit(void);
/* New traces are cut at `limit`; old ones keep theirs.  -1: no memory, or more
   than 255 different limits since the last clear. */
int tm_set_limit(int limit);
void tm_set_fork_policy(enum tm_fork_policy policy);
enum tm_fork_policy tm_get_fork_policy(void);
void tm_fini(void);                 /* runtime finalization; start works again */

/* An interpreter with a GIL or a pymalloc of its own appears: from now on lock,
   and ask each thread for its pymalloc. */
void tm_share(void);                /* the only GIL so far is held */
bool tm_is_shared(void);

void tm_before_fork(void);
void tm_after_fork_parent(void);
void tm_after_fork_child(void);

/* --- what upstream's files tell the engine --- */

#ifdef Py_PYTHON_H              /* rooms that are free of Python see the rest */

void tm_code_gone(PyCodeObject *code);          /* dies, or is renamed */
void tm_thread_gone(PyThreadState *tstate);
void tm_frame_moved(void);          /* f_lineno was set */
/* How to ask a thread for a safe point; called from inside hooks, so it may
   only set a flag of the thread state.  How to take a reference to a task;
   called with the world lock, so it may do no more. */
void tm_task_on_due(void (*ask)(PyThreadState *tstate),
                    void (*hold)(void *handle));
#endif

/* --- tracked memory: any thread, no GIL needed --- */

int tm_track(unsigned int domain, uintptr_t addr, size_t size);
int tm_untrack(unsigned int domain, uintptr_t addr);

/* For measurements, while tracing is off: see hook.h. */
void tm_null_hook(bool on);

/* --- questions --- */

struct tm_totals { size_t live, peak; };
struct tm_totals tm_get_totals(void);           /* zeros when off */
void tm_reset_peak(void);
uint64_t tm_lost(void);
uint64_t tm_allocations(void);      /* of MEM and OBJ since tracing started */

/* The trace of a block; false when it has none (or tracing is off). */
bool tm_find(unsigned int domain, uintptr_t addr, struct tm_trace *trace);
/* The same with its frames (types.h): how many, -1: no trace, -2: no memory. */
int tm_find_frames(unsigned int domain, uintptr_t addr, struct tm_trace *trace,
                   struct tm_frame_copy **first);
/* The same for a block that this thread is freeing just now. */
bool tm_find_leaving(uintptr_t addr, struct tm_trace *trace);

/* Reading contexts, sites and files: between tm_sync_freeze_begin() and _end()
   or with the only GIL held. */
void tm_sync_freeze_begin(void);
void tm_sync_freeze_end(void);
void tm_traces_each(tm_trace_cb cb, void *arg);
size_t tm_traces_count(void);       /* upper bound */
tm_ctx_t tm_context_end(void);
unsigned tm_context_sites(tm_ctx_t ctx, tm_site_t *out, unsigned max,
                          unsigned *total);
void tm_context_parts(tm_ctx_t ctx, tm_site_t *site, tm_ctx_t *parent);
int tm_context_limit(tm_ctx_t ctx);
unsigned tm_context_depth(tm_ctx_t ctx);
tm_site_t tm_site_end(void);
void tm_site_get(tm_site_t site, tm_file_t *file, uint32_t *lineno);
tm_file_t tm_file_end(void);
const struct tm_file *tm_file_get(tm_file_t file);

/* Between the two, this thread's MEM and OBJ allocations leave no trace, and
   objects from free lists keep theirs; what is freed is forgotten as always.
   For the objects that tell of traces.  Calls nest.  Python code may run meanwhile
   (the answer to a signal does, and finalizers that it sets off) and do anything,
   a snapshot, a stop and a fork included: only its blocks leave no trace. */
void tm_mute_begin(void);
void tm_mute_end(void);

/* --- sampling --- */

/* Bytes between samples on average, from the next start on; 1: none is passed
   over.  While tracing is off only. */
void tm_set_sample_interval(uint64_t bytes);
uint64_t tm_get_sample_interval(void);
void tm_sample_seed(uint64_t seed);     /* tests: a sequence of their own */

/* --- the last peak --- */

/* Between tm_sync_freeze_begin() and _end(): what was live when the traced size
   last peaked, see peak.h; a row for each domain and context.  How many, or -1:
   no memory.  *rows is for tm_free(), *size: traced bytes then. */
ptrdiff_t tm_peak_rows(struct tm_peak_row **rows, size_t *size);

/* --- live filters --- */

struct tm_filter;
/* Replaces all; takes over `list` and its patterns (see filter.h). */
void tm_set_filters(struct tm_filter *list, size_t count);

/* --- tasks --- */

int tm_task_schedule(void *handle, void *owner, uint64_t delay,
                     size_t threshold);
bool tm_task_cancel(void *handle);
/* These three return a new reference, or NULL: without a GIL another thread may
   cancel the task at once. */
void *tm_task_get(void *owner, size_t i);
void *tm_task_take_due(void *owner);
void *tm_task_gone(void *owner);
void tm_task_called(void *handle);
void tm_task_rearm(void *owner);
void tm_task_cancel_all(void);

/* Bytes of the engine's memory that are free for more data; tm_arena_size()
   counts them in. */
size_t tm_memory_free(void);

/* --- invariants: NULL, or what is broken (any build, slow) --- */

const char *tm_check(void);

#endif /* TM_ENGINE_H */
