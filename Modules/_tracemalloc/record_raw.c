/* The corridor for callers that may lack the GIL: the RAW domain, and blocks
 * that are tracked or asked for by their address (see record.h).  Owns no data.
 */
#include "Python.h"
#include "pycore_frame.h"
#include "pycore_pystate.h"       // _PyThreadState_GET()

#include "arena.h"
#include "domains.h"
#include "filter.h"
#include "peak.h"
#include "record.h"
#include "site.h"

static bool
hold_gil(void)
{
    return _PyThreadState_GET() != NULL;
}

/* Without a GIL the world lock, which comes with the raw lock, guards them. */
static bool
holds_marks(void)
{
#ifdef Py_GIL_DISABLED
    return true;
#else
    return hold_gil();
#endif
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
            return tm_record_unknown();
        }
    }
    return tm_record_capture(tstate);
}

static tm_ctx_t
choose_anywhere(size_t size)
{
    if (tm_hot.sampling && tm_sampler_skips_raw(size)) {
        return TM_CTX_UNSAMPLED;
    }
    return tm_record_of_sample(capture_anywhere());
}

/* --- RAW and tracked domains --- */

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
    tm_stats_grow_raw(size, holds_marks());
    return 0;
}

/* Raw lock held. */
static bool
take_raw(struct tm_table *table, uintptr_t addr, struct tm_trace *old)
{
    if (table == NULL || !tm_table_take(table, addr, old)) {
        return false;
    }
    if (TM_UNLIKELY(tm_stats_ends_peak(old->size)) && hold_gil()) {
        /* It is still part of the peak that ends with it. */
        struct tm_trace none;
        if (tm_table_put(table, addr, old, &none) == 0) {
            tm_peak_past(true);
            tm_table_take(table, addr, old);
        }
    }
    tm_stats_shrink_raw(old->size);
    return true;
}

void
tm_record_raw(const void *block, size_t size)
{
    bool world = tm_lock_raw();
    if (!(TM_GET(tm_hot.gate) & TM_GATE_OFF)) {
        tm_ctx_t ctx = choose_anywhere(size);
        if (!(ctx & TM_CTX_DROPPED)) {
            put_raw(&tm_traces_raw, (uintptr_t)block, size, ctx);
        }
    }
    tm_unlock_raw(world);
}

bool
tm_record_forget_raw(const void *block, struct tm_trace *old)
{
    bool world = tm_lock_raw();
    bool found = take_raw(&tm_traces_raw, (uintptr_t)block, old);
    tm_record_leave(block, found ? old : NULL);
    tm_unlock_raw(world);
    return found;
}

void
tm_record_restore_raw(const void *block, const struct tm_trace *old)
{
    bool world = tm_lock_raw();
    if (!(TM_GET(tm_hot.gate) & TM_GATE_OFF)) {
        put_raw(&tm_traces_raw, (uintptr_t)block, old->size, old->ctx);
    }
    tm_unlock_raw(world);
}

/* --- blocks named by their address --- */

/* The trace of a block, whoever has recorded it.  Raw lock held. */
static void
forget_named(unsigned int domain, uintptr_t addr)
{
    struct tm_trace old;
    struct tm_table *table =
        domain == 0 ? &tm_traces_raw : tm_domain_table(domain, false);
    if (!take_raw(table, addr, &old) && domain == 0 && hold_gil()) {
        tm_record_change_hooked(addr, 0, TM_CTX_NONE);
    }
}

int
tm_record_track(unsigned int domain, uintptr_t addr, size_t size)
{
    if (TM_GET(tm_hot.gate) & TM_GATE_OFF) {
        return -2;
    }
    int result = -2;
    bool world = tm_lock_raw();
    if (!(TM_GET(tm_hot.gate) & TM_GATE_OFF)) {
        tm_ctx_t ctx = choose_anywhere(size);
        bool dropped = ctx & TM_CTX_DROPPED;
        ctx &= ~TM_CTX_DROPPED;
        if (ctx != TM_CTX_NONE && ctx != TM_CTX_UNSAMPLED && domain != 0
            && tm_filter_by_domain())
        {
            tm_lock(TM_NAMES);
            dropped = !tm_record_verdict(ctx, domain);
            tm_unlock(TM_NAMES);
            if (dropped && tm_hot.sampling) {
                ctx = TM_CTX_UNSAMPLED;
                dropped = false;
            }
        }
        if (dropped) {
            forget_named(domain, addr);     /* what it was before is over */
            result = 0;
        }
        else if (domain == 0 && ctx != TM_CTX_NONE && hold_gil()
                 && tm_record_change_hooked(addr, size, ctx))
        {
            result = 0;
        }
        else {
            struct tm_table *table =
                domain == 0 ? &tm_traces_raw : tm_domain_table(domain, true);
            result = put_raw(table, addr, size, ctx);
        }
    }
    tm_unlock_raw(world);
    return result;
}

int
tm_record_untrack(unsigned int domain, uintptr_t addr)
{
    if (TM_GET(tm_hot.gate) & TM_GATE_OFF) {
        return -2;
    }
    int result = -2;
    bool world = tm_lock_raw();
    if (!(TM_GET(tm_hot.gate) & TM_GATE_OFF)) {
        forget_named(domain, addr);
        result = 0;
    }
    tm_unlock_raw(world);
    return result;
}

/* World and raw lock held. */
static bool
find_locked(unsigned int domain, uintptr_t addr, struct tm_trace *trace)
{
    bool found;
    if (domain != 0) {
        struct tm_table *table = tm_domain_table(domain, false);
        found = table != NULL && tm_table_get(table, addr, trace);
    }
    else {
        found = tm_record_find_hooked(addr, trace)
                || tm_table_get(&tm_traces_raw, addr, trace);
    }
    return found && trace->ctx != TM_CTX_UNSAMPLED;
}

bool
tm_record_find(unsigned int domain, uintptr_t addr, struct tm_trace *trace)
{
    bool world = tm_lock_raw();
    bool found = find_locked(domain, addr, trace);
    tm_unlock_raw(world);
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
    bool world = tm_lock_raw();
    tm_lock(TM_NAMES);
    if (!(TM_GET(tm_hot.gate) & TM_GATE_OFF) && find_locked(domain, addr, trace)) {
        n = copy_frames(trace->ctx, first);
    }
    tm_unlock(TM_NAMES);
    tm_unlock_raw(world);
    return n;
}

