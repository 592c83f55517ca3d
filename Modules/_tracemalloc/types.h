/* Ids, plain structures and the hot state of the memory-tracing engine.
 *
 * Every room may include this file.  Nothing here calls anything; the owner of
 * each structure is the room named beside it.
 *
 *      allocator call ──► hook ──► record ──► stack ──► site ──► context
 *                                     │                            │
 *                                     └──► filter ──► traces ──► stats
 */
#ifndef TM_TYPES_H
#define TM_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#  define TM_LIKELY(x)   __builtin_expect(!!(x), 1)
#  define TM_UNLIKELY(x) __builtin_expect(!!(x), 0)
#  define TM_NOINLINE    __attribute__((noinline))
#  define TM_COLD        __attribute__((noinline, cold))
#  define TM_INLINE      static inline __attribute__((always_inline))
#else
#  define TM_LIKELY(x)   (x)
#  define TM_UNLIKELY(x) (x)
#  define TM_NOINLINE
#  define TM_COLD
#  define TM_INLINE      static inline
#endif

typedef uint32_t tm_ctx_t;      /* calling context: a node of the context tree */
typedef uint32_t tm_site_t;     /* interned (file, line) */
typedef uint32_t tm_file_t;     /* interned file name */
typedef uint32_t tm_slot_t;     /* trace of a pymalloc block, see below */

/* Context ids.  0 is "no context" (no memory to make one), 1 is the unknown
   context: one frame of unknown file and line, for code that runs no Python. */
#define TM_CTX_NONE     ((tm_ctx_t)0)
#define TM_CTX_UNKNOWN  ((tm_ctx_t)1)
/* Set in a cached context id when the live filters reject it. */
#define TM_CTX_DROPPED  ((tm_ctx_t)0x80000000u)
/* "Parents" of this form stand for a depth: at limit 1 the callers of a frame
   are not told apart, only counted. */
#define TM_CTX_DEPTH    ((tm_ctx_t)0x40000000u)
#define TM_CTX_END_MAX  ((tm_ctx_t)1 << 26)
/* Stands in a table for the context of a block that sampling passed over: only
   its size is known, so that totals stay exact. */
#define TM_CTX_UNSAMPLED ((tm_ctx_t)0x20000000u)

#define TM_SITE_UNKNOWN ((tm_site_t)0)
#define TM_SITE_ROOT    ((tm_site_t)0xffffffffu)
#define TM_FILE_UNKNOWN ((tm_file_t)0)

#define TM_LIMIT_MAX    65535   /* frames in a traceback */
#define TM_DEPTH_MAX    65535   /* frames counted below one another */

/* A trace slot: 0 when the block is not traced, else
 *
 *     31                     8 7        0
 *    ┌────────────────────────┬──────────┐
 *    │       context id       │  slack   │   slack = class size - asked size
 *    └────────────────────────┴──────────┘
 *
 * pymalloc shrinks in place by at most a quarter of 512 bytes, so slack fits.
 * A context that does not fit is written as TM_SLOT_CTX_ELSEWHERE: the trace
 * is then in the table of the traces room.  When tracing samples there are sizes
 * in place of slots, see Objects/obmalloc_sampled.h. */
#define TM_SLOT_SLACK_BITS    8
#define TM_SLOT_SLACK_MASK    0xffu
#define TM_SLOT_CTX_ELSEWHERE 0xffffffu
#define TM_SLOT_CTX(slot)     ((tm_ctx_t)((slot) >> TM_SLOT_SLACK_BITS))
#define TM_SLOT_SLACK(slot)   ((size_t)((slot) & TM_SLOT_SLACK_MASK))
#define TM_SLOT_MAKE(ctx, slack) \
    (((tm_slot_t)(ctx) << TM_SLOT_SLACK_BITS) | (tm_slot_t)(slack))
/* True for a context id that is neither none, dropped nor too large. */
#define TM_CTX_FITS_SLOT(ctx) ((tm_ctx_t)((ctx) - 1) < TM_SLOT_CTX_ELSEWHERE - 1)

/* Does a slot hold a trace itself?  Neither 0 nor ELSEWHERE. */
static inline bool
tm_slot_is_plain(tm_slot_t slot)
{
    return slot - TM_SLOT_MAKE(1, 0)
           < TM_SLOT_MAKE(TM_SLOT_CTX_ELSEWHERE - 1, 0);
}

/* What stands in place of slots when tracing samples: the size of a block, or
   this when it was drawn. */
typedef uint16_t tm_sampled_t;
#define TM_SAMPLED UINT16_MAX

/* Reasons why the inline part of a hook must call out (tm_hot.gate). */
enum {
    TM_GATE_OFF = 1,        /* not tracing; hooks may still be linked */
    TM_GATE_SHARED = 2,     /* more than one GIL or pymalloc, or no GIL: take
                               the locks */
    TM_GATE_MUTED = 4,      /* some thread records nothing (tm_mute_begin) */
    TM_GATE_OTHERWISE = 8,  /* hooks that sample are linked while tracing is
                               exact, or the other way round */
};

/* Fields that other threads may read or write meanwhile when there is no GIL. */
#ifdef Py_GIL_DISABLED
#  define TM_GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#  define TM_SET(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#else
#  define TM_GET(field) (field)
#  define TM_SET(field, value) ((void)((field) = (value)))
#endif

/* What a thread keeps to itself when there is no GIL, so that threads record
   without meeting (owner: stats room; a part of tm_thread).  Others read it
   only while the world is stopped. */
struct tm_local {
    ptrdiff_t pending;          /* bytes not yet in tm_hot.bytes */
    int64_t allocations;        /* not yet in tm_hot.ticks */
    int64_t until;              /* bytes until the next sample */
    const void *fresh;          /* as tm_hot.fresh */
};

/* What the inline halves touch on every call.
   Guard of all fields, unless said otherwise: the GIL, or the world lock once
   TM_GATE_SHARED is set (see sync.h).  Without a GIL `bytes` is atomic, `fresh`
   and `until` are in tm_local, and `ticks` is counted down in batches. */
struct tm_hot {
    unsigned gate;              /* 0: the inline half may do it all; written
                                   under the raw lock as well */
    size_t small;               /* largest request that fused hooks serve without
                                   looking further; 0 while a gate is shut */
    size_t bytes;               /* live bytes of the MEM and OBJ domains */
    size_t raw_bytes;           /* live bytes of RAW and tracked domains;
                                   guard: the raw lock, read anywhere */
    size_t high;                /* something is new above this size: a peak, or
                                   a task is due; never above the peak */
    size_t low;                 /* something is new below this size: the peak is
                                   past, or a task is due */
    const void *fresh;          /* block recorded last, until its object is
                                   announced by _Py_NewReference() */
    int64_t ticks;              /* allocations until the next clock check */
    int64_t until;              /* bytes until the next sample; unused without
                                   a GIL */

    /* Not on every call. */
    bool fused;                 /* MEM and OBJ are fused with pymalloc: a block
                                   of a pool without slots is not traced */
    bool timers;                /* a task waits for a time */
    bool several;               /* more than one thread records */
    bool sampling;              /* blocks are sampled by bytes */
    size_t peak;                /* largest bytes + raw_bytes, unless `high` or
                                   `raw_peak` is larger: see tm_peak() */
    size_t raw_peak;            /* largest that callers without the GIL have
                                   seen; guard: the raw lock, read anywhere */
    size_t peak_low;            /* below it the peak is past; 0: already was */
    size_t task_high;           /* a task is due above ... */
    size_t task_low;            /* ... or below this size */
};

extern struct tm_hot tm_hot;

/* The marks `high` and `low` are written by holders of the GIL (world lock) only,
   with one exception: a caller without the GIL that has seen a new peak puts this
   into `low`, so that the next block that is freed makes a holder look.  When the
   holder writes `low` first, that is lost until the next such peak: get_traced_memory()
   has `raw_peak` all the same, the copy of the last peak (peak.h) may be older. */
#define TM_LOW_ASKS SIZE_MAX

/* Traced bytes now. */
static inline size_t
tm_live(void)
{
    return TM_GET(tm_hot.bytes) + TM_GET(tm_hot.raw_bytes);
}

/* Largest traced size since the start or the last reset. */
static inline size_t
tm_peak(void)
{
    size_t peak = TM_GET(tm_hot.peak), raw = TM_GET(tm_hot.raw_peak);
#ifndef Py_GIL_DISABLED                 /* there it may leave room above it */
    if (tm_hot.high > peak) {
        peak = tm_hot.high;
    }
#endif
    return raw > peak ? raw : peak;
}

/* A peak is past once this much of it is gone. */
#define TM_PEAK_LOW(peak) ((peak) - ((peak) >> 6))

/* The marks follow from the peak and from what tasks wait for. */
static inline void
tm_marks_update(void)
{
    size_t raw = TM_GET(tm_hot.raw_peak), peak = tm_peak();
    if (raw == peak && raw != tm_hot.peak) {
        tm_hot.peak_low = TM_PEAK_LOW(raw);
    }
    TM_SET(tm_hot.peak, peak);
    TM_SET(tm_hot.high, tm_hot.peak < tm_hot.task_high ? tm_hot.peak
                                                       : tm_hot.task_high);
    TM_SET(tm_hot.low, tm_hot.peak_low > tm_hot.task_low ? tm_hot.peak_low
                                                         : tm_hot.task_low);
}

/* The traced size has left the range between `low` and `high` for another
   reason than a new peak.  Totals change in one room, tasks and the copy of the
   peak wait in others: this is where they meet (defined in record.c). */
void tm_mark_crossed(size_t live);

/* One file name, copied by content (owner: site room). */
struct tm_file {
    uint8_t kind;               /* bytes a code point: 1, 2 or 4 */
    uint8_t ascii;
    uint32_t length;            /* code points */
    uint32_t hash;
    uint32_t judged;            /* filter room: at which change of the filters
                                   `matches` was made; 0: never */
    const void *data;
    uint64_t matches;           /* filter room: bit i for the i-th pattern */
};

/* The live trace of one block, as the tables and slots give it. */
struct tm_trace {
    size_t size;                /* bytes asked for */
    tm_ctx_t ctx;
};

/* A frame of a trace, copied out of the engine: a list from the most recent
   frame on, each to be given to tm_free(). */
struct tm_frame_copy {
    struct tm_frame_copy *next;
    bool unknown;               /* no file is known */
    uint8_t kind;
    uint32_t length;            /* code points */
    uint32_t line;
    uint32_t text[];            /* length * kind bytes */
};

/* What a context held at some moment (owner: peak room).  Estimates when
   tracing samples; then variance is that of size, else 0. */
struct tm_peak_row {
    uint32_t domain;
    tm_ctx_t ctx;
    double size;                /* bytes */
    double count;               /* blocks */
    double variance;            /* bytes squared */
};

typedef void (*tm_trace_cb)(void *arg, uint32_t domain, uintptr_t addr,
                            size_t size, tm_ctx_t ctx);

#endif /* TM_TYPES_H */
