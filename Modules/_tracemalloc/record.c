/* The corridor's slow halves (see record.h).  Owns no data but the limit. */
#include "Python.h"
#include "pycore_code.h"
#include "pycore_frame.h"
#include "pycore_pystate.h"       // _PyThreadState_GET()

#include "arena.h"
#include "filter.h"
#include "peak.h"
#include "record.h"
#include "schedule.h"
#include "site.h"

/* Provided beside pymalloc (Objects/obmalloc_trace.h): the slot of a block of
   this interpreter's pymalloc, or NULL; *class_size is set with it. */
extern tm_slot_t *_PyTraceMalloc_PoolSlot(const void *block, size_t *class_size);
extern tm_slot_t *_PyTraceMalloc_AnySlot(uintptr_t addr, size_t *class_size);
/* When tracing samples: as tm_record_change_hooked(), for a block of a pool. */
extern bool _PyTraceMalloc_ChangeSampled(uintptr_t addr, size_t size,
                                         tm_ctx_t ctx);

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
    int result = take_limit(new_limit);
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

void
tm_record_leave(const void *block, const struct tm_trace *trace)
{
    if (trace == NULL || trace->ctx == TM_CTX_UNSAMPLED) {
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

/* --- marks --- */

void
tm_mark_crossed(size_t live)
{
    tm_marks_update();          /* callers without the GIL may have seen a peak */
    if (live > tm_peak()) {
        TM_SET(tm_hot.peak, live);
        tm_hot.peak_low = TM_PEAK_LOW(live);
        tm_marks_update();
    }
    else if (live < tm_hot.peak_low) {
        tm_peak_past(tm_raw_held);
    }
    tm_schedule_look(live);
}

/* --- verdicts --- */

bool
tm_record_verdict(tm_ctx_t ctx, unsigned int domain)
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
    uint8_t verdict = node->verdict;
    if (TM_UNLIKELY(!tm_filter_verdict_known(verdict))) {
        verdict = tm_filter_verdict_make(tm_record_verdict(ctx, 0));
        node->verdict = verdict;
    }
    return tm_filter_verdict_keeps(verdict) ? ctx : ctx | TM_CTX_DROPPED;
}

tm_ctx_t
tm_record_unknown(void)
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

/* Of the times that some second entry of a thread is right, each so many-th moves
   it forward: two that are used in turns would change places each time. */
#define SECOND_FORWARD 16

/* Names lock held: another thread may be looking for entries of dead code. */
static void
make_first(struct tm_cached *set)
{
    struct tm_cached first = set[0];
    set[0] = set[1];
    set[1] = first;
}

tm_ctx_t
tm_record_resolve_slow(tm_thread *th, _PyInterpreterFrame *frame,
                       tm_ctx_t parent)
{
    const void *ip = frame->instr_ptr;
    struct tm_cached *set = tm_stack_cached(th, ip, tm_stack_hash(parent));
    if (tm_stack_hit(&set[1], ip, parent)) {
        tm_ctx_t ctx = set[1].ctx;
        if (++th->second % SECOND_FORWARD == 0) {
            tm_lock(TM_NAMES);
            make_first(set);
            tm_unlock(TM_NAMES);
        }
        return ctx;
    }
    PyCodeObject *code = _PyFrame_GetCode(frame);
    int index = _PyInterpreterFrame_LASTI(frame);
    tm_ctx_t ctx = TM_CTX_NONE;
    /* Always under the lock, also for what exists: a thread without the GIL may
       be moving the tables.  It is not contended, and this is the slow half. */
    tm_lock(TM_NAMES);
    tm_site_t site = tm_site_make(code, index);
    if (site != TM_SITE_ROOT) {
        /* Inline first: most are there already, only not in the cache. */
        ctx = tm_context_find(parent, site);
        ctx = judge(ctx != TM_CTX_NONE ? ctx : tm_context_make(parent, site));
    }
    if (ctx != TM_CTX_NONE) {
        uintptr_t slow = TM_CTX_FITS_SLOT(ctx) ? 0 : TM_CACHED_SLOW;
        set[1] = set[0];
        set[0] = (struct tm_cached){(uintptr_t)ip | slow, parent, ctx};
    }
    tm_unlock(TM_NAMES);
    return ctx;
}

/* Context of the callers of what a known frame calls now. */
static inline tm_ctx_t
parent_above(tm_thread *th, _PyInterpreterFrame *frame,
             const struct tm_known *known)
{
    if (limit == 1) {
        tm_ctx_t depth = known->parent & ~TM_CTX_DEPTH;
        return depth < TM_DEPTH_MAX ? known->parent + 1 : known->parent;
    }
    return tm_record_resolve(th, frame, known->parent, known->hash)
           & ~TM_CTX_DROPPED;
}

/* Learn `n` frames that lie on one another, the last of the array first; `caller` is
   the known one below them, or NULL.  The newest, or NULL: no memory. */
static const struct tm_known *
learn_all(tm_thread *th, _PyInterpreterFrame *caller, _PyInterpreterFrame **newer,
          size_t n)
{
    const struct tm_known *known = NULL;
    tm_ctx_t parent = caller == NULL ? root
                      : parent_above(th, caller, tm_stack_known(th, caller));
    while (n-- > 0) {
        if (parent == TM_CTX_NONE) {
            return NULL;
        }
        known = tm_stack_learn(th, newer[n], parent);
        if (n > 0) {
            parent = parent_above(th, newer[n], known);
        }
    }
    return known;
}

/* So many frames need no memory to be remembered while they are learnt. */
#define NEWER 64

/* Learn `unknown` frames from `frame` outwards, more than NEWER, above `caller`.  The
   outermost come first: *all is false when there was no memory to remember more than
   some of them.  As learn_all(). */
static TM_COLD const struct tm_known *
learn_many(tm_thread *th, _PyInterpreterFrame *frame, _PyInterpreterFrame *caller,
           size_t unknown, bool *all)
{
    _PyInterpreterFrame *few[NEWER];
    _PyInterpreterFrame **newer = tm_alloc(unknown * sizeof(*newer));
    *all = newer != NULL;
    size_t skip = *all ? 0 : unknown - NEWER;
    if (!*all) {
        newer = few;
    }
    for (size_t i = 0; i < unknown; i++) {
        if (i >= skip) {
            newer[i - skip] = frame;
        }
        frame = _PyFrame_GetFirstComplete(frame->previous);
    }
    const struct tm_known *known = learn_all(th, caller, newer, unknown - skip);
    if (newer != few) {
        tm_free(newer);
    }
    return known;
}

/* Learn a complete frame, which is not known, and those of its callers that are not,
   the outermost first.  NULL: no memory, some may be known. */
static TM_NOINLINE const struct tm_known *
catch_up(tm_thread *th, _PyInterpreterFrame *frame)
{
    for (;;) {
        _PyInterpreterFrame *newer[NEWER], *f = frame;
        size_t unknown = 0;
        do {
            if (unknown < NEWER) {
                newer[unknown] = f;
            }
            unknown++;
            f = _PyFrame_GetFirstComplete(f->previous);
        } while (f != NULL && tm_stack_known(th, f) == NULL);
        if (TM_UNLIKELY(tm_stack_outgrown(th, unknown))
            && tm_stack_grow(th, unknown))
        {
            continue;           /* nothing is known any more */
        }
        if (TM_LIKELY(unknown <= NEWER)) {
            return learn_all(th, f, newer, unknown);
        }
        bool all;
        const struct tm_known *known = learn_many(th, frame, f, unknown, &all);
        if (known == NULL || all) {
            return known;
        }
        /* What is left lies on what has been learnt now. */
    }
}

/* Learn a complete frame that is not known; most were called by one that is, through
   no more than one frame of C code.  The caller need not be asked whether it is
   complete: others are never learnt.  Everything else is for catch_up(). */
static inline const struct tm_known *
learn(tm_thread *th, _PyInterpreterFrame *frame)
{
    _PyInterpreterFrame *caller = frame->previous;
    if (caller != NULL && caller->owner == FRAME_OWNED_BY_CSTACK) {
        caller = caller->previous;
    }
    const struct tm_known *known =
        caller != NULL ? tm_stack_known(th, caller) : NULL;
    if (TM_UNLIKELY(known == NULL)) {
        return catch_up(th, frame);
    }
    tm_ctx_t parent = parent_above(th, caller, known);
    return parent != TM_CTX_NONE ? tm_stack_learn(th, frame, parent) : NULL;
}

static TM_NOINLINE tm_thread *
thread_of(PyThreadState *tstate)
{
    tm_thread *th = tm_stack_thread(tstate);
    if (th == NULL) {
        tm_lock(TM_NAMES);
        th = tm_stack_thread_new(tstate);
        tm_unlock(TM_NAMES);
#ifdef Py_GIL_DISABLED
        if (th != NULL && tm_hot.sampling) {
            th->local.until = tm_sampler_draw();
        }
#endif
    }
    return th;
}

#ifdef Py_GIL_DISABLED
/* The first block of a thread.  When there is no memory for what it should
   remember, a distance drawn for this block alone is as good: the process has
   no memory either. */
bool
tm_record_skips_new(PyThreadState *tstate, size_t size)
{
    tm_thread *th = thread_of(tstate);
    int64_t once = th == NULL ? tm_sampler_draw() : 0;
    return tm_sampler_skips(th != NULL ? &th->local.until : &once, size);
}
#endif

tm_ctx_t
tm_record_capture_slow(PyThreadState *tstate)
{
    _PyInterpreterFrame *frame =
        _PyFrame_GetFirstComplete(tstate->current_frame);
    if (TM_UNLIKELY(frame == NULL)) {
        return tm_record_unknown();
    }
    tm_thread *th = tm_stack_thread(tstate);
    if (TM_UNLIKELY(th == NULL)) {
        th = thread_of(tstate);
        if (th == NULL) {
            return TM_CTX_NONE;
        }
    }
    const struct tm_known *known = tm_stack_known(th, frame);
    if (known == NULL && (known = learn(th, frame)) == NULL) {
        return TM_CTX_NONE;
    }
    return tm_record_resolve(th, frame, known->parent, known->hash);
}

/* --- slots --- */

static TM_NOINLINE int
put_big_slow(const void *block, size_t size, tm_ctx_t ctx)
{
    struct tm_trace old, trace = {size, ctx};
    struct tm_shard *shard = tm_shard_lock((uintptr_t)block);
    int result = tm_table_put(&shard->table, (uintptr_t)block, &trace, &old);
    tm_shard_unlock(shard);
    if (result < 0) {
        tm_stats_lose();
        return -1;
    }
    if (old.ctx != TM_CTX_NONE) {
        tm_record_shrink(old.size);
    }
    tm_record_grow(size);
    return 0;
}

/* Inlined into the hook of large blocks, a call for all others. */
TM_INLINE int
put_big(const void *block, size_t size, tm_ctx_t ctx)
{
    struct tm_shard *shard = tm_shard_lock((uintptr_t)block);
    bool entered = tm_table_enter(&shard->table, (uintptr_t)block, size, ctx);
    tm_shard_unlock(shard);
    if (TM_UNLIKELY(!entered)) {
        return put_big_slow(block, size, ctx);
    }
    tm_record_grow(size);
    return 0;
}

int
tm_record_put_big(const void *block, size_t size, tm_ctx_t ctx)
{
    return put_big(block, size, ctx);
}

/* The block is still part of the peak that ends when it goes: count it. */
static TM_COLD void
peak_before(const void *block, struct tm_trace *trace)
{
    struct tm_trace none;
    struct tm_shard *shard = tm_shard_lock((uintptr_t)block);
    int result = tm_table_put(&shard->table, (uintptr_t)block, trace, &none);
    tm_shard_unlock(shard);
    if (result == 0) {
        bool lock = tm_lock_marks();
        tm_peak_past(tm_raw_held);
        tm_unlock_marks(lock);
        shard = tm_shard_lock((uintptr_t)block);
        tm_table_take(&shard->table, (uintptr_t)block, trace);
        tm_shard_unlock(shard);
    }
}

TM_INLINE bool
take_big(const void *block, struct tm_trace *old)
{
    struct tm_shard *shard = tm_shard_lock((uintptr_t)block);
    bool found = tm_table_leave(&shard->table, (uintptr_t)block, old)
                 || tm_table_take(&shard->table, (uintptr_t)block, old);
    tm_shard_unlock(shard);
    if (!found) {
        return false;
    }
    if (TM_UNLIKELY(tm_stats_ends_peak(old->size))) {
        peak_before(block, old);
    }
    tm_record_shrink(old->size);
    return true;
}

bool
tm_record_take_big(const void *block, struct tm_trace *old)
{
    return take_big(block, old);
}

static bool
get_big(const void *block, struct tm_trace *trace)
{
    struct tm_shard *shard = tm_shard_lock((uintptr_t)block);
    bool found = tm_table_get(&shard->table, (uintptr_t)block, trace);
    tm_shard_unlock(shard);
    return found;
}

void
tm_record_in_slot(tm_slot_t *slot, const void *block, size_t size,
                  size_t class_size, tm_ctx_t ctx)
{
    if (TM_CTX_FITS_SLOT(ctx)) {
        *slot = TM_SLOT_MAKE(ctx, class_size - size);
        tm_record_grow(size);
    }
    else if (ctx == TM_CTX_NONE) {
        tm_stats_lose();
    }
    else if (!(ctx & TM_CTX_DROPPED)
             && tm_record_put_big(block, size, ctx) == 0)
    {
        *slot = TM_SLOT_MAKE(TM_SLOT_CTX_ELSEWHERE, 0);
    }
    tm_record_set_fresh(_PyThreadState_GET(), block);
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
        tm_record_shrink(class_size - TM_SLOT_SLACK(old));
    }
    else {
        tm_record_take_big(block, &trace);
    }
}

/* --- MEM and OBJ without slots --- */

void
tm_record_big(PyThreadState *tstate, const void *block, size_t size)
{
    bool world = tm_lock_blocks();
    if (!(TM_GET(tm_hot.gate) & TM_GATE_OFF) && !tm_muted) {
        tm_ctx_t ctx = tm_record_choose(tstate, size);
        tm_record_count_one(tstate);
        if (TM_UNLIKELY(ctx == TM_CTX_NONE)) {
            tm_stats_lose();
        }
        else if (!(ctx & TM_CTX_DROPPED)) {
            put_big(block, size, ctx);
        }
        tm_record_set_fresh(tstate, block);
    }
    tm_unlock_blocks(world);
}

bool
tm_record_forget_big(const void *block, struct tm_trace *old)
{
    bool world = tm_lock_blocks();
    bool found = take_big(block, old);
    tm_record_leave(block, found ? old : NULL);
    tm_unlock_blocks(world);
    return found;
}

void
tm_record_restore_big(const void *block, const struct tm_trace *old)
{
    bool world = tm_lock_blocks();
    if (!(TM_GET(tm_hot.gate) & TM_GATE_OFF)) {
        tm_record_put_big(block, old->size, old->ctx);
    }
    tm_unlock_blocks(world);
}

/* --- blocks named by their address --- */

static tm_slot_t *
live_slot(uintptr_t addr, size_t *class_size)
{
    tm_slot_t *slot = _PyTraceMalloc_AnySlot(addr, class_size);
    return slot != NULL && *slot != 0 ? slot : NULL;
}

bool
tm_record_find_hooked(uintptr_t addr, struct tm_trace *trace)
{
    size_t class_size;
    const tm_slot_t *slot = live_slot(addr, &class_size);
    if (slot == NULL || TM_SLOT_CTX(*slot) == TM_SLOT_CTX_ELSEWHERE) {
        return get_big((const void *)addr, trace);
    }
    trace->size = class_size - TM_SLOT_SLACK(*slot);
    trace->ctx = TM_SLOT_CTX(*slot);
    return true;
}

bool
tm_record_change_hooked(uintptr_t addr, size_t size, tm_ctx_t ctx)
{
    size_t class_size;
    struct tm_trace old;
    const void *block = (const void *)addr;
    if (tm_hot.sampling && _PyTraceMalloc_ChangeSampled(addr, size, ctx)) {
        return true;
    }
    tm_slot_t *slot = live_slot(addr, &class_size);
    if (slot != NULL) {
        tm_record_clear_slot(slot, block, class_size);
        if (ctx != TM_CTX_NONE) {
            if (size <= class_size
                && class_size - size <= TM_SLOT_SLACK_MASK)
            {
                tm_record_in_slot(slot, block, size, class_size, ctx);
            }
            else if (tm_record_put_big(block, size, ctx) == 0) {
                *slot = TM_SLOT_MAKE(TM_SLOT_CTX_ELSEWHERE, 0);
            }
        }
        return true;
    }
    if (!tm_record_take_big(block, &old)) {
        return false;
    }
    if (ctx != TM_CTX_NONE) {
        tm_record_put_big(block, size, ctx);
    }
    return true;
}

/* --- objects --- */

void
tm_record_object(PyThreadState *tstate, const void *block)
{
    size_t class_size;
    struct tm_trace trace;
    bool world = tm_lock_blocks();
    if ((TM_GET(tm_hot.gate) & TM_GATE_OFF) || tm_muted) {
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
        else if (tm_record_find_hooked((uintptr_t)block, &trace)) {
            tm_record_clear_slot(slot, block, class_size);
            tm_record_in_slot(slot, block, trace.size, class_size, ctx);
            tm_record_set_fresh(tstate, NULL);
        }
    }
    else if (get_big(block, &trace)) {
        tm_ctx_t ctx = tm_record_capture(tstate);
        if (ctx == TM_CTX_NONE || (ctx & TM_CTX_DROPPED)) {
            tm_record_take_big(block, &trace);
            if (ctx == TM_CTX_NONE) {
                tm_stats_lose();
            }
        }
        else {
            tm_record_put_big(block, trace.size, ctx);
        }
    }
done:
    tm_unlock_blocks(world);
}
