/* The corridor's slow halves (see record.h).  Owns no data but the limit. */
#include "Python.h"
#include "pycore_code.h"
#include "pycore_frame.h"
#include "pycore_pystate.h"       // _PyThreadState_GET()

#include "arena.h"
#include "domains.h"
#include "filter.h"
#include "record.h"
#include "schedule.h"
#include "site.h"

/* Provided beside pymalloc (Objects/obmalloc_trace.h): the slot of a block of
   this interpreter's pymalloc, or NULL; *class_size is set with it. */
extern tm_slot_t *_PyTraceMalloc_PoolSlot(const void *block, size_t *class_size);
extern tm_slot_t *_PyTraceMalloc_AnySlot(uintptr_t addr, size_t *class_size);

_Py_thread_local int tm_nested;
_Py_thread_local int tm_muted;

static int limit = 1;
/* Parent of an outermost frame; NONE when there was no memory for contexts:
   nothing can be recorded then. */
static tm_ctx_t root = TM_CTX_DEPTH;

int
tm_record_limit(void)
{
    return limit;
}

/* Names lock held.  -1: nothing has changed. */
static int
take_limit(int new_limit)
{
    tm_ctx_t new_root = tm_context_init() < 0 ? TM_CTX_NONE
                                              : tm_context_root(new_limit);
    if (new_root == TM_CTX_NONE) {
        return -1;
    }
    limit = new_limit;
    root = new_root;
    return 0;
}

int
tm_record_set_limit(int new_limit)
{
    tm_lock(TM_NAMES);
    int result = take_limit(new_limit);
    tm_unlock(TM_NAMES);
    if (result == 0) {
        tm_stack_spoil_all();
    }
    return result;
}

bool
tm_record_restart(void)
{
    root = TM_CTX_NONE;         /* it was a context that is no more */
    return take_limit(limit) == 0;
}

void
tm_record_plan_limit(int new_limit)
{
    limit = new_limit;
}

/* --- blocks on their way out --- */

static uint32_t dropped_contexts;       /* how often; atomic */

static _Py_thread_local struct {
    uintptr_t addr;
    struct tm_trace trace;
    uint32_t dropped;                   /* dropped_contexts at the time */
} leaving;

/* trace: NULL when the block had none. */
static void
leave(const void *block, const struct tm_trace *trace)
{
    if (trace == NULL) {
        leaving.addr = 0;
        return;
    }
    leaving.addr = (uintptr_t)block;
    leaving.trace = *trace;
    leaving.dropped = _Py_atomic_load_uint32_relaxed(&dropped_contexts);
}

bool
tm_record_find_leaving(uintptr_t addr, struct tm_trace *trace)
{
    *trace = leaving.trace;
    return addr != 0 && leaving.addr == addr
           && leaving.dropped
              == _Py_atomic_load_uint32_relaxed(&dropped_contexts);
}

void
tm_record_no_leaving(void)
{
    _Py_atomic_add_uint32(&dropped_contexts, 1);
}

/* --- verdicts --- */

static bool
verdict_of(tm_ctx_t ctx, unsigned int domain)
{
    struct tm_filter_frame small[32], *frames = small;
    tm_site_t sites_small[32], *sites = sites_small;
    unsigned total, max = tm_filter_depth(), depth = tm_context_depth(ctx);
    if (max > depth) {
        max = depth;
    }
    if (max > (unsigned)tm_context_limit(ctx)) {
        max = (unsigned)tm_context_limit(ctx);
    }
    if (max > 32) {
        frames = tm_alloc(max * sizeof(*frames));
        sites = tm_alloc(max * sizeof(*sites));
        if (frames == NULL || sites == NULL) {
            tm_free(frames);
            tm_free(sites);
            return true;        /* no memory to judge: keep */
        }
    }
    unsigned n = tm_context_sites(ctx, sites, max, &total);
    for (unsigned i = 0; i < n; i++) {
        tm_file_t file;
        tm_site_get(sites[i], &file, &frames[i].line);
        frames[i].file = file == TM_FILE_UNKNOWN ? NULL : tm_file_get(file);
    }
    bool keep = tm_filter_keeps(domain, frames, n);
    if (frames != small) {
        tm_free(frames);
        tm_free(sites);
    }
    return keep;
}

/* The context as its verdict wants it.  Names lock held: patterns are used by
   one thread at a time. */
static tm_ctx_t
judge(tm_ctx_t ctx)
{
    if (TM_LIKELY(!tm_filter_active()) || ctx == TM_CTX_NONE) {
        return ctx;
    }
    struct tm_node *node = tm_context_node(ctx);
    if (!tm_filter_verdict_known(node->verdict)) {
        node->verdict = tm_filter_verdict_make(verdict_of(ctx, 0));
    }
    return tm_filter_verdict_keeps(node->verdict) ? ctx : ctx | TM_CTX_DROPPED;
}

static tm_ctx_t
judge_unknown(void)
{
    if (root == TM_CTX_NONE) {
        return TM_CTX_NONE;
    }
    if (!tm_filter_active()) {
        return TM_CTX_UNKNOWN;
    }
    tm_lock(TM_NAMES);
    tm_ctx_t ctx = judge(TM_CTX_UNKNOWN);
    tm_unlock(TM_NAMES);
    return ctx;
}

/* --- capture --- */

tm_ctx_t
tm_record_resolve_slow(tm_thread *th, _PyInterpreterFrame *frame,
                       tm_ctx_t parent)
{
    PyCodeObject *code = _PyFrame_GetCode(frame);
    int index = _PyInterpreterFrame_LASTI(frame);
    tm_ctx_t ctx = TM_CTX_NONE;
    /* Always under the lock, also for what exists: a thread without the GIL may
       be moving the tables.  It is not contended, and this is the slow half. */
    tm_lock(TM_NAMES);
    tm_site_t site = tm_site_make(code, index);
    if (site != TM_SITE_ROOT) {
        ctx = judge(tm_context_make(parent, site));
    }
    tm_unlock(TM_NAMES);
    if (ctx != TM_CTX_NONE) {
        const void *ip = frame->instr_ptr;
        *tm_stack_cached(th, ip, tm_stack_hash(parent)) =
            (struct tm_cached){ip, parent, ctx};
    }
    return ctx;
}

/* Context of the callers of a frame pushed on top of the shadow stack. */
static tm_ctx_t
parent_for_push(tm_thread *th)
{
    if (th->depth == 0) {
        return root;
    }
    if (limit == 1) {
        tm_ctx_t depth = th->depth < TM_DEPTH_MAX ? th->depth : TM_DEPTH_MAX;
        return TM_CTX_DEPTH | depth;
    }
    _PyInterpreterFrame *caller =
        (_PyInterpreterFrame *)th->shadow[th->depth - 1].frame;
    tm_ctx_t ctx = tm_record_resolve(th, caller, th->top_parent);
    return ctx & ~TM_CTX_DROPPED;
}

/* Frames between a new one and the nearest known one, newest first. */
#define NEWER 64

/* Bring the shadow stack up to date with `frame`, the newest complete frame.
   Works in stretches, so that any depth needs no memory of its own. */
static int
catch_up(tm_thread *th, _PyInterpreterFrame *frame)
{
    while (!(frame->captured && th->top_frame == frame)) {
        _PyInterpreterFrame *newer[NEWER];
        size_t n = 0;
        bool anchored = false, unknown = false;
        _PyInterpreterFrame *f = frame;
        for (; f != NULL; f = _PyFrame_GetFirstComplete(f->previous)) {
            if (f->captured) {
                if (!unknown && tm_stack_cut(th, f)) {
                    anchored = true;
                    break;
                }
                /* A flag of earlier days (spoilt or switched stack), and the
                   shadow stack is empty now.  Flags must not outlive it: the
                   next stretch may only stop at frames pushed in this one. */
                unknown = true;
                f->captured = 0;
            }
            /* A ring: what falls out is met again in the next stretch. */
            newer[n++ % NEWER] = f;
        }
        if (!anchored) {
            tm_stack_cut(th, NULL);
        }
        for (size_t left = n < NEWER ? n : NEWER; left > 0; left--) {
            tm_ctx_t parent = parent_for_push(th);
            if (parent == TM_CTX_NONE
                || tm_stack_push(th, newer[--n % NEWER], parent) < 0)
            {
                return -1;
            }
        }
    }
    return 0;
}

static TM_NOINLINE tm_thread *
thread_of(PyThreadState *tstate)
{
    tm_thread *th = tm_stack_thread(tstate);
    if (th == NULL) {
        tm_lock(TM_NAMES);
        th = tm_stack_thread_new(tstate);
        tm_unlock(TM_NAMES);
    }
    return th;
}

/* The two common ways in which the stack has changed: returned to a known
   frame, or one new frame called by a known one. */
static inline bool
one_step(tm_thread *th, _PyInterpreterFrame *frame)
{
    if (frame->captured) {
        return tm_stack_cut(th, frame);
    }
    _PyInterpreterFrame *caller = _PyFrame_GetFirstComplete(frame->previous);
    if (caller == NULL || !caller->captured || !tm_stack_cut(th, caller)) {
        return false;
    }
    tm_ctx_t parent = parent_for_push(th);
    return parent != TM_CTX_NONE && tm_stack_push(th, frame, parent) == 0;
}

tm_ctx_t
tm_record_capture_slow(PyThreadState *tstate)
{
    _PyInterpreterFrame *frame =
        _PyFrame_GetFirstComplete(tstate->current_frame);
    if (TM_UNLIKELY(frame == NULL)) {
        return judge_unknown();
    }
    tm_thread *th = tm_stack_thread(tstate);
    if (TM_UNLIKELY(th == NULL)) {
        th = thread_of(tstate);
        if (th == NULL) {
            return TM_CTX_NONE;
        }
    }
    if (!one_step(th, frame) && catch_up(th, frame) < 0) {
        return TM_CTX_NONE;
    }
    return tm_record_resolve(th, frame, th->top_parent);
}

/* For callers that may lack the GIL: the frames of this very thread stand
   still while it is in C code, so they can be read; a thread state that is not
   (or no longer) known gives the unknown context.  Raw lock held: a thread
   state ends under it. */
static tm_ctx_t
capture_anywhere(void)
{
    PyThreadState *tstate = _PyThreadState_GET();
    if (tstate == NULL) {
        tstate = PyGILState_GetThisThreadState();
        tm_lock(TM_NAMES);
        bool known = tstate != NULL && tm_stack_thread_known(tstate);
        tm_unlock(TM_NAMES);
        if (!known) {
            return judge_unknown();
        }
    }
    return tm_record_capture(tstate);
}

/* --- slots --- */

/* The trace in `big`; ctx is neither none nor dropped. */
static int
put_big(const void *block, size_t size, tm_ctx_t ctx)
{
    struct tm_trace old, trace = {size, ctx};
    if (tm_table_put(&tm_traces_big, (uintptr_t)block, &trace, &old) < 0) {
        tm_stats_lose();
        return -1;
    }
    if (old.ctx != TM_CTX_NONE) {
        tm_stats_shrink(old.size);
    }
    tm_stats_grow(size);
    return 0;
}

void
tm_record_in_slot(tm_slot_t *slot, const void *block, size_t size,
                  size_t class_size, tm_ctx_t ctx)
{
    if (TM_CTX_FITS_SLOT(ctx)) {
        *slot = TM_SLOT_MAKE(ctx, class_size - size);
        tm_stats_grow(size);
    }
    else if (ctx == TM_CTX_NONE) {
        tm_stats_lose();
    }
    else if (!(ctx & TM_CTX_DROPPED) && put_big(block, size, ctx) == 0) {
        *slot = TM_SLOT_MAKE(TM_SLOT_CTX_ELSEWHERE, 0);
    }
    tm_hot.fresh = block;
}

void
tm_record_clear_slot(tm_slot_t *slot, const void *block, size_t class_size)
{
    tm_slot_t old = *slot;
    struct tm_trace trace;
    *slot = 0;
    if (old == 0) {
        return;
    }
    if (TM_SLOT_CTX(old) != TM_SLOT_CTX_ELSEWHERE) {
        tm_stats_shrink(class_size - TM_SLOT_SLACK(old));
    }
    else if (tm_table_take(&tm_traces_big, (uintptr_t)block, &trace)) {
        tm_stats_shrink(trace.size);
    }
}

/* --- MEM and OBJ without slots --- */

void
tm_record_big(PyThreadState *tstate, const void *block, size_t size)
{
    bool world = tm_lock_world();
    if (!(tm_hot.gate & TM_GATE_OFF) && !tm_muted) {
        tm_schedule_count_one();
        tm_ctx_t ctx = tm_record_capture(tstate);
        if (ctx == TM_CTX_NONE) {
            tm_stats_lose();
        }
        else if (!(ctx & TM_CTX_DROPPED)) {
            put_big(block, size, ctx);
        }
        tm_hot.fresh = block;
    }
    tm_unlock_world(world);
}

bool
tm_record_forget_big(const void *block, struct tm_trace *old)
{
    bool world = tm_lock_world();
    bool found = tm_table_take(&tm_traces_big, (uintptr_t)block, old);
    if (found) {
        tm_stats_shrink(old->size);
    }
    leave(block, found ? old : NULL);
    tm_unlock_world(world);
    return found;
}

void
tm_record_restore_big(const void *block, const struct tm_trace *old)
{
    bool world = tm_lock_world();
    if (!(tm_hot.gate & TM_GATE_OFF)) {
        put_big(block, old->size, old->ctx);
    }
    tm_unlock_world(world);
}

/* --- RAW and tracked domains --- */

static bool
lock_raw(void)
{
    bool world = tm_lock_world();
    tm_lock(TM_RAW);
    return world;
}

static void
unlock_raw(bool world)
{
    tm_unlock(TM_RAW);
    tm_unlock_world(world);
}

/* Raw lock held. */
static int
put_raw(struct tm_table *table, uintptr_t addr, size_t size, tm_ctx_t ctx)
{
    struct tm_trace old, trace = {size, ctx};
    if (ctx == TM_CTX_NONE || table == NULL
        || tm_table_put(table, addr, &trace, &old) < 0)
    {
        tm_stats_lose();
        return -1;
    }
    if (old.ctx != TM_CTX_NONE) {
        tm_stats_shrink_raw(old.size);
    }
    tm_stats_grow_raw(size);
    return 0;
}

/* Raw lock held. */
static bool
take_raw(struct tm_table *table, uintptr_t addr, struct tm_trace *old)
{
    if (table == NULL || !tm_table_take(table, addr, old)) {
        return false;
    }
    tm_stats_shrink_raw(old->size);
    return true;
}

void
tm_record_raw(const void *block, size_t size)
{
    bool world = lock_raw();
    if (!(tm_hot.gate & TM_GATE_OFF)) {
        tm_ctx_t ctx = capture_anywhere();
        if (!(ctx & TM_CTX_DROPPED)) {
            put_raw(&tm_traces_raw, (uintptr_t)block, size, ctx);
        }
    }
    unlock_raw(world);
}

bool
tm_record_forget_raw(const void *block, struct tm_trace *old)
{
    bool world = lock_raw();
    bool found = take_raw(&tm_traces_raw, (uintptr_t)block, old);
    leave(block, found ? old : NULL);
    unlock_raw(world);
    return found;
}

void
tm_record_restore_raw(const void *block, const struct tm_trace *old)
{
    bool world = lock_raw();
    if (!(tm_hot.gate & TM_GATE_OFF)) {
        put_raw(&tm_traces_raw, (uintptr_t)block, old->size, old->ctx);
    }
    unlock_raw(world);
}

/* --- blocks named by their address --- */

static tm_slot_t *
live_slot(uintptr_t addr, size_t *class_size)
{
    tm_slot_t *slot = _PyTraceMalloc_AnySlot(addr, class_size);
    return slot != NULL && *slot != 0 ? slot : NULL;
}

static bool
hold_gil(void)
{
    return _PyThreadState_GET() != NULL;
}

/* Is this a block that the MEM or OBJ hook has recorded?  Then its trace is
   replaced (ctx != NONE) or removed. */
static bool
change_hooked(uintptr_t addr, size_t size, tm_ctx_t ctx)
{
    size_t class_size;
    struct tm_trace old;
    const void *block = (const void *)addr;
    tm_slot_t *slot = live_slot(addr, &class_size);
    if (slot != NULL) {
        tm_record_clear_slot(slot, block, class_size);
        if (ctx != TM_CTX_NONE) {
            if (size <= class_size
                && class_size - size <= TM_SLOT_SLACK_MASK)
            {
                tm_record_in_slot(slot, block, size, class_size, ctx);
            }
            else if (put_big(block, size, ctx) == 0) {
                *slot = TM_SLOT_MAKE(TM_SLOT_CTX_ELSEWHERE, 0);
            }
        }
        return true;
    }
    if (!tm_table_take(&tm_traces_big, addr, &old)) {
        return false;
    }
    tm_stats_shrink(old.size);
    if (ctx != TM_CTX_NONE) {
        put_big(block, size, ctx);
    }
    return true;
}

int
tm_record_track(unsigned int domain, uintptr_t addr, size_t size)
{
    if (tm_hot.gate & TM_GATE_OFF) {
        return -2;
    }
    int result = -2;
    bool world = lock_raw();
    if (!(tm_hot.gate & TM_GATE_OFF)) {
        tm_ctx_t ctx = capture_anywhere();
        bool dropped = ctx & TM_CTX_DROPPED;
        ctx &= ~TM_CTX_DROPPED;
        if (ctx != TM_CTX_NONE && domain != 0 && tm_filter_by_domain()) {
            tm_lock(TM_NAMES);
            dropped = !verdict_of(ctx, domain);
            tm_unlock(TM_NAMES);
        }
        if (dropped) {
            result = 0;
        }
        else if (domain == 0 && ctx != TM_CTX_NONE && hold_gil()
                 && change_hooked(addr, size, ctx))
        {
            result = 0;
        }
        else {
            struct tm_table *table =
                domain == 0 ? &tm_traces_raw : tm_domain_table(domain, true);
            result = put_raw(table, addr, size, ctx);
        }
    }
    unlock_raw(world);
    return result;
}

int
tm_record_untrack(unsigned int domain, uintptr_t addr)
{
    if (tm_hot.gate & TM_GATE_OFF) {
        return -2;
    }
    int result = -2;
    bool world = lock_raw();
    if (!(tm_hot.gate & TM_GATE_OFF)) {
        struct tm_trace old;
        struct tm_table *table =
            domain == 0 ? &tm_traces_raw : tm_domain_table(domain, false);
        if (!take_raw(table, addr, &old) && domain == 0 && hold_gil()) {
            change_hooked(addr, 0, TM_CTX_NONE);
        }
        result = 0;
    }
    unlock_raw(world);
    return result;
}

/* World and raw lock held. */
static bool
find_locked(unsigned int domain, uintptr_t addr, struct tm_trace *trace)
{
    size_t class_size;
    if (domain != 0) {
        struct tm_table *table = tm_domain_table(domain, false);
        return table != NULL && tm_table_get(table, addr, trace);
    }
    tm_slot_t *slot = live_slot(addr, &class_size);
    if (slot != NULL && TM_SLOT_CTX(*slot) != TM_SLOT_CTX_ELSEWHERE) {
        trace->size = class_size - TM_SLOT_SLACK(*slot);
        trace->ctx = TM_SLOT_CTX(*slot);
        return true;
    }
    return tm_table_get(&tm_traces_big, addr, trace)
           || tm_table_get(&tm_traces_raw, addr, trace);
}

bool
tm_record_find(unsigned int domain, uintptr_t addr, struct tm_trace *trace)
{
    bool world = lock_raw();
    bool found = find_locked(domain, addr, trace);
    unlock_raw(world);
    return found;
}

/* Names lock held too.  A frame with its text behind it, or NULL. */
static struct tm_frame_copy *
copy_frame(tm_site_t site)
{
    tm_file_t id;
    uint32_t line;
    tm_site_get(site, &id, &line);
    const struct tm_file *file = tm_file_get(id);
    size_t size = (size_t)file->kind * file->length;
    struct tm_frame_copy *copy = tm_alloc(sizeof(*copy) + size);
    if (copy != NULL) {
        copy->next = NULL;
        copy->unknown = id == TM_FILE_UNKNOWN;
        copy->kind = file->kind;
        copy->length = file->length;
        copy->line = line;
        memcpy(copy->text, file->data, size);
    }
    return copy;
}

static int
copy_frames(tm_ctx_t ctx, struct tm_frame_copy **first)
{
    unsigned left = (unsigned)tm_context_limit(ctx);
    int n = 0;
    for (; left > 0 && ctx != TM_CTX_NONE; left--) {
        tm_site_t site;
        tm_context_parts(ctx, &site, &ctx);
        *first = copy_frame(site);
        if (*first == NULL) {
            return -2;
        }
        first = &(*first)->next;
        n++;
    }
    return n;
}

int
tm_record_find_frames(unsigned int domain, uintptr_t addr,
                      struct tm_trace *trace, struct tm_frame_copy **first)
{
    *first = NULL;
    int n = -1;
    bool world = lock_raw();
    tm_lock(TM_NAMES);
    if (!(tm_hot.gate & TM_GATE_OFF) && find_locked(domain, addr, trace)) {
        n = copy_frames(trace->ctx, first);
    }
    tm_unlock(TM_NAMES);
    unlock_raw(world);
    return n;
}

/* --- objects --- */

void
tm_record_object(PyThreadState *tstate, const void *block)
{
    size_t class_size;
    struct tm_trace trace;
    bool world = tm_lock_world();
    if ((tm_hot.gate & TM_GATE_OFF) || tm_muted) {
        goto done;
    }
    tm_slot_t *slot = _PyTraceMalloc_PoolSlot(block, &class_size);
    if (slot != NULL && *slot != 0) {
        tm_ctx_t ctx = tm_record_capture(tstate);
        if (TM_LIKELY(TM_CTX_FITS_SLOT(ctx)
                      && TM_SLOT_CTX(*slot) != TM_SLOT_CTX_ELSEWHERE))
        {
            *slot = TM_SLOT_MAKE(ctx, TM_SLOT_SLACK(*slot));
        }
        else if (ctx & TM_CTX_DROPPED) {
            tm_record_clear_slot(slot, block, class_size);
        }
        else if (ctx == TM_CTX_NONE) {
            /* Lost is better than blamed on the code that made another. */
            tm_record_clear_slot(slot, block, class_size);
            tm_stats_lose();
        }
        else if (find_locked(0, (uintptr_t)block, &trace)) {
            tm_record_clear_slot(slot, block, class_size);
            tm_record_in_slot(slot, block, trace.size, class_size, ctx);
            tm_hot.fresh = NULL;
        }
    }
    else if (tm_table_get(&tm_traces_big, (uintptr_t)block, &trace)) {
        tm_ctx_t ctx = tm_record_capture(tstate);
        if (ctx == TM_CTX_NONE || (ctx & TM_CTX_DROPPED)) {
            tm_table_take(&tm_traces_big, (uintptr_t)block, &trace);
            tm_stats_shrink(trace.size);
            if (ctx == TM_CTX_NONE) {
                tm_stats_lose();
            }
        }
        else {
            put_big(block, trace.size, ctx);
        }
    }
done:
    tm_unlock_world(world);
}
