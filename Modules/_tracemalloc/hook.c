/* Generic allocator wrappers and the linking of hooks (see hook.h).
   Owner of its data: this room. */
#include "Python.h"
#include "pycore_pystate.h"       // _PyThreadState_GET()
#include "hook.h"
#include "record.h"

enum { RAW, MEM, OBJ, NDOMAINS };

static const PyMemAllocatorDomain domains[NDOMAINS] = {
    PYMEM_DOMAIN_RAW, PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ,
};

static struct {
    PyMemAllocatorEx below;     /* what the hook calls */
    PyMemAllocatorEx ours;      /* what was linked */
    bool linked;
} hooks[NDOMAINS];

/* Set by a hook that runs while tm_hook_link() looks for it. */
static _Py_thread_local unsigned probing, probed;

static inline bool
pass_through(unsigned domain)
{
    if (TM_UNLIKELY(probing)) {
        probed |= 1u << domain;
        return true;
    }
    return tm_nested || (tm_hot.gate & TM_GATE_OFF);
}

void
tm_hook_gate(unsigned bit, bool shut)
{
    unsigned old = TM_GET(tm_hot.gate);
    unsigned now = shut ? old | bit : old & ~bit;
    TM_SET(tm_hot.gate, now);
    if (!old != !now) {
        _PyTraceMalloc_GateMoves();
    }
}

void
tm_hook_seen(void)
{
    /* The same functions serve both domains. */
    if (probing) {
        probed |= 1u << MEM | 1u << OBJ;
    }
}

/* --- MEM and OBJ over an allocator that is not pymalloc --- */

static void *
generic_new(const PyMemAllocatorEx *below, unsigned domain, size_t count,
            size_t size, int zero)
{
    bool pass = pass_through(domain);
    tm_nested += !pass;
    void *block = zero ? below->calloc(below->ctx, count, size)
                       : below->malloc(below->ctx, size);
    tm_nested -= !pass;
    if (!pass && block != NULL) {
        tm_record_big(_PyThreadState_GET(), block, count * size);
    }
    return block;
}

static void *
generic_realloc(const PyMemAllocatorEx *below, unsigned domain, void *block,
                size_t size)
{
    bool pass = pass_through(domain);
    struct tm_trace old;
    bool known = block != NULL && tm_record_forget_big(block, &old);
    tm_nested += !pass;
    void *moved = below->realloc(below->ctx, block, size);
    tm_nested -= !pass;
    if (moved == NULL) {
        if (known) {
            tm_record_restore_big(block, &old);
        }
    }
    else if (!pass) {
        tm_record_big(_PyThreadState_GET(), moved, size);
    }
    return moved;
}

static void
generic_free(const PyMemAllocatorEx *below, void *block)
{
    struct tm_trace old;
    if (block == NULL) {
        return;
    }
    tm_record_forget_big(block, &old);
    tm_nested++;
    below->free(below->ctx, block);
    tm_nested--;
}

#define GENERIC(name, DOMAIN) \
    static void * \
    name##_malloc(void *Py_UNUSED(ctx), size_t size) \
    { return generic_new(&hooks[DOMAIN].below, DOMAIN, 1, size, 0); } \
    static void * \
    name##_calloc(void *Py_UNUSED(ctx), size_t count, size_t size) \
    { return generic_new(&hooks[DOMAIN].below, DOMAIN, count, size, 1); } \
    static void * \
    name##_realloc(void *Py_UNUSED(ctx), void *block, size_t size) \
    { return generic_realloc(&hooks[DOMAIN].below, DOMAIN, block, size); } \
    static void \
    name##_free(void *Py_UNUSED(ctx), void *block) \
    { generic_free(&hooks[DOMAIN].below, block); }

GENERIC(mem, MEM)
GENERIC(obj, OBJ)

/* --- RAW: any thread, any time --- */

static void *
raw_new(size_t count, size_t size, int zero)
{
    const PyMemAllocatorEx *below = &hooks[RAW].below;
    void *block = zero ? below->calloc(below->ctx, count, size)
                       : below->malloc(below->ctx, size);
    if (block != NULL && !pass_through(RAW)) {
        tm_record_raw(block, count * size);
    }
    return block;
}

static void *
raw_malloc(void *Py_UNUSED(ctx), size_t size)
{
    return raw_new(1, size, 0);
}

static void *
raw_calloc(void *Py_UNUSED(ctx), size_t count, size_t size)
{
    return raw_new(count, size, 1);
}

static void *
raw_realloc(void *Py_UNUSED(ctx), void *block, size_t size)
{
    const PyMemAllocatorEx *below = &hooks[RAW].below;
    struct tm_trace old;
    bool pass = pass_through(RAW);
    /* Also when passing: the array of arenas was perhaps traced when it was
       made outside of any hook. */
    bool known = block != NULL && tm_record_forget_raw(block, &old);
    void *moved = below->realloc(below->ctx, block, size);
    if (moved == NULL) {
        if (known) {
            tm_record_restore_raw(block, &old);
        }
    }
    else if (!pass) {
        tm_record_raw(moved, size);
    }
    return moved;
}

static void
raw_free(void *Py_UNUSED(ctx), void *block)
{
    const PyMemAllocatorEx *below = &hooks[RAW].below;
    struct tm_trace old;
    if (block != NULL && !tm_nested && !(tm_hot.gate & TM_GATE_OFF)) {
        tm_record_forget_raw(block, &old);
    }
    below->free(below->ctx, block);
}

/* --- linking --- */

static const PyMemAllocatorEx generic[NDOMAINS] = {
    {NULL, raw_malloc, raw_calloc, raw_realloc, raw_free},
    {NULL, mem_malloc, mem_calloc, mem_realloc, mem_free},
    {NULL, obj_malloc, obj_calloc, obj_realloc, obj_free},
};

static bool
same(const PyMemAllocatorEx *a, const PyMemAllocatorEx *b)
{
    return a->ctx == b->ctx && a->malloc == b->malloc && a->free == b->free;
}

/* Does an allocation of this domain still come through our hook, below
   somebody's wrapper? */
static bool
reaches_us(int domain, const PyMemAllocatorEx *outermost)
{
    if (!hooks[domain].linked) {
        return false;
    }
    if (same(outermost, &hooks[domain].ours)) {
        return true;
    }
    probing = 1;
    probed = 0;
    void *block = outermost->malloc(outermost->ctx, 1);
    outermost->free(outermost->ctx, block);
    probing = 0;
    return probed & (1u << domain);
}

/* Fused hooks do not look at tm_nested, so they serve both domains or none:
   a foreign OBJ allocator may well call PyMem_Malloc(). */
static bool
fusible(void)
{
    for (int d = MEM; d <= OBJ; d++) {
        PyMemAllocatorEx outermost;
        PyMem_GetAllocator(domains[d], &outermost);
        if (hooks[d].linked || !_PyTraceMalloc_FuseWithPymalloc(&outermost)) {
            return false;
        }
    }
    return true;
}

void
tm_hook_link(void)
{
    bool fuse = fusible();
    for (int d = 0; d < NDOMAINS; d++) {
        PyMemAllocatorEx outermost;
        PyMem_GetAllocator(domains[d], &outermost);
        if (reaches_us(d, &outermost)) {
            continue;
        }
        hooks[d].below = outermost;
        hooks[d].ours = generic[d];
        /* Ours do not read it.  A native thread may allocate while this is set,
           and pair one allocator's function with the other's context. */
        hooks[d].ours.ctx = outermost.ctx;
        hooks[d].linked = true;
        if (d != RAW && fuse && _PyTraceMalloc_FuseWithPymalloc(&outermost)) {
            hooks[d].ours = outermost;
        }
        PyMem_SetAllocator(domains[d], &hooks[d].ours);
    }
    _PyTraceMalloc_RawLinked(&hooks[RAW].ours, &hooks[RAW].below);
    bool otherwise = _PyTraceMalloc_FusedOtherwise(&hooks[OBJ].ours)
                     || _PyTraceMalloc_FusedOtherwise(&hooks[MEM].ours);
    tm_lock(TM_RAW);
    tm_hook_gate(TM_GATE_OTHERWISE, otherwise);
    tm_unlock(TM_RAW);
    tm_hot.fused = hooks[OBJ].ours.malloc != generic[OBJ].malloc;
}

void
tm_hook_unlink(void)
{
    for (int d = 0; d < NDOMAINS; d++) {
        PyMemAllocatorEx outermost;
        PyMem_GetAllocator(domains[d], &outermost);
        if (hooks[d].linked && same(&outermost, &hooks[d].ours)) {
            PyMem_SetAllocator(domains[d], &hooks[d].below);
            hooks[d].linked = false;
        }
    }
}

/* --- hooks that do nothing --- */

static PyMemAllocatorEx below_null[NDOMAINS];
static bool null_linked;

static void *
null_malloc(void *below, size_t size)
{
    const PyMemAllocatorEx *a = below;
    return a->malloc(a->ctx, size);
}

static void *
null_calloc(void *below, size_t count, size_t size)
{
    const PyMemAllocatorEx *a = below;
    return a->calloc(a->ctx, count, size);
}

static void *
null_realloc(void *below, void *block, size_t size)
{
    const PyMemAllocatorEx *a = below;
    return a->realloc(a->ctx, block, size);
}

static void
null_free(void *below, void *block)
{
    const PyMemAllocatorEx *a = below;
    a->free(a->ctx, block);
}

void
tm_hook_null(bool on)
{
    if (on == null_linked) {
        return;
    }
    for (int d = MEM; d <= OBJ; d++) {
        if (on) {
            PyMem_GetAllocator(domains[d], &below_null[d]);
            PyMem_SetAllocator(domains[d], &(PyMemAllocatorEx){
                &below_null[d], null_malloc, null_calloc, null_realloc,
                null_free});
        }
        else {
            PyMem_SetAllocator(domains[d], &below_null[d]);
        }
    }
    null_linked = on;
}
