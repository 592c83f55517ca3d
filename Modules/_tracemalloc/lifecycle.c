/* Init, start, stop, clear, fork, finalization: what has to happen in which
 * order in all rooms, and the functions of engine.h that are not a room's own.
 * Owner of: how tracing was started, the fork policy.
 */
#include "Python.h"
#include "pycore_pystate.h"       // _PyThreadState_GET(), HEAD_LOCK()
#include "pycore_interp.h"
#include "pycore_runtime.h"

#include "arenas.h"
#include "context.h"
#include "domains.h"
#include "engine.h"
#include "filter.h"
#include "hook.h"
#include "peak.h"
#include "record.h"
#include "sampler.h"
#include "schedule.h"
#include "site.h"
#include "stack.h"
#include "stats.h"
#include "sync.h"
#include "traces.h"

/* Provided beside pymalloc: forget the slots of a pool header. */
extern void _PyTraceMalloc_UnlinkSlots(void *pool);

static enum tm_fork_policy fork_policy;
static enum tm_started_by started_by;
static unsigned long starts;

/* --- exclusive access --- */

/* The caller alone may touch the engine: no thread with or without the GIL is
   in a hook.  Without a GIL the other threads are stopped at their safe points,
   where none of them is inside a hook. */
static bool world_taken;     /* guard: the exclusive access itself */

/* While the child of a fork starts: no other thread lives, and upstream, which
   has stopped the world before the fork, holds what a second stop waits for. */
static bool only_thread;

#ifdef Py_GIL_DISABLED
static void
publish_of(PyThreadState *tstate)
{
    tm_stats_publish(&tm_stack_thread(tstate)->local);
}
#endif

static void
exclusive_begin(void)
{
#ifdef Py_GIL_DISABLED
    if (!only_thread) {
        _PyEval_StopTheWorldAll(&_PyRuntime);
    }
#endif
    bool world = tm_lock_world();
    tm_lock(TM_RAW);
    tm_lock(TM_NAMES);
    world_taken = world;
#ifdef Py_GIL_DISABLED
    tm_stack_each(publish_of);
#endif
}

static void
exclusive_end(void)
{
    bool world = world_taken;
    tm_unlock(TM_NAMES);
    tm_unlock(TM_RAW);
    tm_unlock_world(world);
#ifdef Py_GIL_DISABLED
    if (!only_thread) {
        _PyEval_StartTheWorldAll(&_PyRuntime);
    }
#endif
}

void
tm_sync_freeze_begin(void)
{
    exclusive_begin();
}

void
tm_sync_freeze_end(void)
{
    exclusive_end();
}

/* --- muted threads --- */

static unsigned muted_threads;      /* guard: the raw lock */

static void
count_muted(int change)
{
    bool world = tm_lock_world();
    tm_lock(TM_RAW);
    muted_threads += (unsigned)change;
    tm_hook_gate(TM_GATE_MUTED, muted_threads != 0);
    tm_unlock(TM_RAW);
    tm_unlock_world(world);
}

void
tm_mute_begin(void)
{
    if (tm_muted++ == 0) {
        count_muted(1);
    }
}

void
tm_mute_end(void)
{
    if (--tm_muted == 0) {
        count_muted(-1);
    }
}

/* --- forgetting --- */

/* Exclusive.  Contexts go as well: nothing refers to them any more. */
static void
drop_traces(void)
{
    tm_slots_release_all(_PyTraceMalloc_UnlinkSlots);
    tm_traces_clear_tables();
    tm_domains_clear();
    tm_stack_spoil_all();
    tm_record_no_leaving();
    tm_context_reset();
    tm_site_reset();
    tm_stats_reset();
    tm_peak_forget();
    tm_arenas_clear();
    tm_hot.fresh = NULL;
}

void
tm_clear(void)
{
    if (!tm_is_tracing()) {
        return;
    }
    exclusive_begin();
    drop_traces();
    if (!tm_record_restart()) {
        tm_stats_lose();
    }
    exclusive_end();
}

/* --- start and stop --- */

/* Thread states that exist already must be known, so that their threads can be
   read while they are in C code without the GIL.  One lock over all: a state may
   be deleted without the GIL. */
static void
know_threads(void)
{
    HEAD_LOCK(&_PyRuntime);
    tm_lock(TM_NAMES);
    PyInterpreterState *interp = _PyRuntime.interpreters.head;
    for (; interp != NULL; interp = interp->next) {
        PyThreadState *tstate = interp->threads.head;
        for (; tstate != NULL; tstate = tstate->next) {
            if (tm_stack_thread(tstate) == NULL) {
                (void)tm_stack_thread_new(tstate);
            }
        }
    }
    tm_unlock(TM_NAMES);
    HEAD_UNLOCK(&_PyRuntime);
}

int
tm_start(int limit, enum tm_started_by how)
{
    if (tm_is_tracing()) {
        return 0;
    }
    exclusive_begin();
    int result = tm_record_set_limit(limit);
    exclusive_end();
    if (result < 0) {
        return -1;
    }
    if (!tm_is_shared()) {
        know_threads();
    }
    started_by = how;
    starts++;
    tm_sampler_start();
    tm_schedule_start();
    tm_hook_link();
    tm_arenas_link();
    tm_arenas_count(true);
    exclusive_begin();
    tm_hook_gate(TM_GATE_OFF, false);
    exclusive_end();
    return 0;
}

unsigned long
tm_starts(void)
{
    return starts;
}

void
tm_stop(void)
{
    if (!tm_is_tracing()) {
        return;
    }
    exclusive_begin();
    tm_hook_gate(TM_GATE_OFF, true);
    tm_arenas_count(false);
    drop_traces();
    tm_stack_free_all();
    exclusive_end();
    tm_hook_unlink();
    tm_arenas_unlink();
}

void
tm_fini(void)
{
    tm_stop();
    tm_set_filters(NULL, 0);
    tm_record_plan_limit(1);
    tm_sampler_plan(1);
    fork_policy = TM_FORK_BY_START;
}

bool
tm_is_tracing(void)
{
    return !(TM_GET(tm_hot.gate) & TM_GATE_OFF);
}

int
tm_get_limit(void)
{
    return tm_record_limit();
}

int
tm_set_limit(int limit)
{
    if (!tm_is_tracing()) {
        tm_record_plan_limit(limit);
        return 0;
    }
    /* Exclusive: a thread without the GIL may be following its stack. */
    exclusive_begin();
    int result = tm_record_set_limit(limit);
    exclusive_end();
    return result;
}

bool
tm_is_shared(void)
{
    return TM_GET(tm_hot.gate) & TM_GATE_SHARED;
}

void
tm_share(void)
{
    tm_lock(TM_RAW);
    tm_hook_gate(TM_GATE_SHARED, true);
    tm_unlock(TM_RAW);
}

void
tm_set_sample_interval(uint64_t bytes)
{
    assert(!tm_is_tracing());
    tm_sampler_plan(bytes);
}

uint64_t
tm_get_sample_interval(void)
{
    return tm_sampler_interval();
}

void
tm_sample_seed(uint64_t seed)
{
    bool world = tm_lock_world();
    tm_lock(TM_RAW);
    tm_sampler_seed(seed);
    tm_unlock(TM_RAW);
    tm_unlock_world(world);
}

void
tm_null_hook(bool on)
{
    tm_hook_null(on);
}

/* --- fork --- */

void
tm_set_fork_policy(enum tm_fork_policy policy)
{
    fork_policy = policy;
}

enum tm_fork_policy
tm_get_fork_policy(void)
{
    return fork_policy;
}

void
tm_before_fork(void)
{
    tm_sync_before_fork();
    tm_traces_before_fork();
}

void
tm_after_fork_parent(void)
{
    tm_traces_after_fork(false);
    tm_sync_after_fork_parent();
}

void
tm_after_fork_child(void)
{
    tm_traces_after_fork(true);
    tm_sync_after_fork_child();
    /* Other threads were muted in the parent. */
    muted_threads = tm_muted != 0;
    tm_hook_gate(TM_GATE_MUTED, muted_threads != 0);
    if (!tm_is_tracing()) {
        return;
    }
    tm_lock(TM_NAMES);
#ifdef Py_GIL_DISABLED
    tm_stack_each(publish_of);
#endif
    tm_stack_keep_only(_PyThreadState_GET());
    tm_unlock(TM_NAMES);
    if (fork_policy == TM_FORK_DISABLE
        || (fork_policy == TM_FORK_BY_START && started_by == TM_BY_ENABLE))
    {
        only_thread = true;
        tm_stop();
        only_thread = false;
    }
}

/* --- what upstream's files tell --- */

void
tm_code_gone(PyCodeObject *code)
{
    bool world = tm_lock_world();
    tm_lock(TM_NAMES);
    if (tm_site_forget_code(code)) {
        const char *start = (const char *)_PyCode_CODE(code);
        tm_stack_forget_code(start,
                             start + Py_SIZE(code) * sizeof(_Py_CODEUNIT));
    }
    tm_unlock(TM_NAMES);
    tm_unlock_world(world);
}

void
tm_thread_gone(PyThreadState *tstate)
{
    /* The raw lock: nobody may be reading its frames. */
    bool world = tm_lock_world();
    tm_lock(TM_RAW);
    tm_lock(TM_NAMES);
#ifdef Py_GIL_DISABLED
    /* stop() in another thread may have freed it since the caller looked. */
    if (tm_stack_thread(tstate) != NULL) {
        publish_of(tstate);
    }
#endif
    tm_stack_thread_free(tstate);
    tm_unlock(TM_NAMES);
    tm_unlock(TM_RAW);
    tm_unlock_world(world);
}

void
tm_frame_moved(void)
{
    /* Of any thread: who traces has got hold of the frame somehow. */
    exclusive_begin();
    tm_stack_forget_callers();
    exclusive_end();
}

int
tm_track(unsigned int domain, uintptr_t addr, size_t size)
{
    return tm_record_track(domain, addr, size);
}

int
tm_untrack(unsigned int domain, uintptr_t addr)
{
    return tm_record_untrack(domain, addr);
}

/* --- questions --- */

/* Totals need all that threads have not published.  Under the GIL the raw lock
   does. */
static bool
totals_begin(void)
{
#ifdef Py_GIL_DISABLED
    exclusive_begin();
    return true;
#else
    return tm_lock_raw();
#endif
}

static void
totals_end(bool taken)
{
#ifdef Py_GIL_DISABLED
    (void)taken;
    exclusive_end();
#else
    tm_unlock_raw(taken);
#endif
}

struct tm_totals
tm_get_totals(void)
{
    struct tm_totals totals = {0, 0};
    if (!tm_is_tracing()) {
        return totals;
    }
    bool taken = totals_begin();
    if (tm_is_tracing()) {
        totals.live = tm_live();
        totals.peak = Py_MAX(tm_peak(), totals.live);
    }
    totals_end(taken);
    return totals;
}

void
tm_reset_peak(void)
{
    bool taken = totals_begin();
    tm_stats_reset_peak();
    tm_peak_forget();
    totals_end(taken);
}

uint64_t
tm_lost(void)
{
    return tm_stats_lost();
}

uint64_t
tm_allocations(void)
{
    if (!tm_is_tracing()) {
        return 0;
    }
    bool taken = totals_begin();
    uint64_t n = tm_schedule_allocations();
    totals_end(taken);
    return n;
}

int
tm_find_frames(unsigned int domain, uintptr_t addr, struct tm_trace *trace,
               struct tm_frame_copy **first)
{
    *first = NULL;
    return tm_is_tracing()
           ? tm_record_find_frames(domain, addr, trace, first) : -1;
}

bool
tm_find_leaving(uintptr_t addr, struct tm_trace *trace)
{
    return tm_is_tracing() && tm_record_find_leaving(addr, trace);
}

bool
tm_find(unsigned int domain, uintptr_t addr, struct tm_trace *trace)
{
    return tm_is_tracing() && tm_record_find(domain, addr, trace);
}

void
tm_traces_each(tm_trace_cb cb, void *arg)
{
    tm_traces_scan(cb, arg);
    tm_domains_scan(cb, arg);
}

size_t
tm_traces_count(void)
{
    return tm_traces_bound() + tm_domains_bound();
}

void
tm_set_filters(struct tm_filter *list, size_t count)
{
    exclusive_begin();
    if (tm_filter_replace(list, count)) {
        for (tm_ctx_t ctx = 1; ctx < tm_context_end(); ctx++) {
            tm_context_node(ctx)->verdict = 0;
        }
    }
    tm_stack_spoil_all();
    exclusive_end();
}

size_t
tm_memory_free(void)
{
    bool world = tm_lock_world();
    tm_lock(TM_RAW);
    size_t n = tm_arena_free() + tm_traces_idle() + tm_domains_idle();
    tm_unlock(TM_RAW);
    tm_unlock_world(world);
    return n;
}

/* --- tasks --- */

static void (*hold_task)(void *handle);

static void *
held(void *handle)
{
    if (handle != NULL) {
        hold_task(handle);
    }
    return handle;
}

/* The world lock, with what this thread has recorded among the totals. */
static bool
tasks_begin(void)
{
    bool world = tm_lock_world();
#ifdef Py_GIL_DISABLED
    struct tm_local *local = tm_record_local(_PyThreadState_GET());
    if (local != NULL) {
        tm_stats_publish(local);
    }
#endif
    return world;
}

int
tm_task_schedule(void *handle, void *owner, uint64_t delay, size_t threshold)
{
    bool world = tasks_begin();
    int result = tm_schedule_add(handle, owner, delay, threshold);
    tm_unlock_world(world);
    return result;
}

bool
tm_task_cancel(void *handle)
{
    bool world = tasks_begin();
    bool found = tm_schedule_remove(handle);
    tm_unlock_world(world);
    return found;
}

void *
tm_task_get(void *owner, size_t i)
{
    bool world = tasks_begin();
    void *handle = held(tm_schedule_get(owner, i));
    tm_unlock_world(world);
    return handle;
}

void *
tm_task_take_due(void *owner)
{
    bool world = tasks_begin();
    void *handle = held(tm_schedule_take_due(owner));
    tm_unlock_world(world);
    return handle;
}

void
tm_task_called(void *handle)
{
    bool world = tasks_begin();
    tm_schedule_called(handle);
    tm_unlock_world(world);
}

void
tm_task_rearm(void *owner)
{
    bool world = tasks_begin();
    tm_schedule_rearm(owner);
    tm_unlock_world(world);
}

void
tm_task_cancel_all(void)
{
    bool world = tasks_begin();
    tm_schedule_cancel_all();
    tm_unlock_world(world);
}

void *
tm_task_gone(void *owner)
{
    bool world = tasks_begin();
    void *handle = held(tm_schedule_gone(owner));
    tm_unlock_world(world);
    return handle;
}

static void (*ask_thread)(PyThreadState *);

static void
ask_all_threads(void)
{
    tm_lock(TM_NAMES);
    tm_stack_each(ask_thread);
    tm_unlock(TM_NAMES);
}

void
tm_task_on_due(void (*ask)(PyThreadState *tstate), void (*hold)(void *handle))
{
    ask_thread = ask;
    hold_task = hold;
    tm_schedule_request = ask_all_threads;
}
