/* The frozen copy: columns, freezing, sums, look-up by address.  See snapshot.h;
 * owner of its data: whoever holds the snapshot. */
#include "arena.h"
#include "Python.h"        // engine.h names its types
#include "engine.h"
#include "snapshot.h"

#include <math.h>
#include <string.h>

/* --- Columns ---------------------------------------------------------------- */

struct tm_snapshot *
tm_snapshot_new(struct tm_tables *tables)
{
    struct tm_snapshot *s = tm_calloc(1, sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->has_traces = true;
    s->limit = 1;
    s->interval = 1;
    s->tables = tables != NULL ? tm_tables_share(tables) : tm_tables_new();
    if (s->tables == NULL) {
        tm_free(s);
        return NULL;
    }
    return s;
}

void
tm_snapshot_free(struct tm_snapshot *s)
{
    if (s == NULL) {
        return;
    }
    tm_tables_release(s->tables);
    tm_free(s->address);
    tm_free(s->size);
    tm_free(s->traceback);
    tm_free(s->domain);
    tm_free(s->rows);
    tm_free(s->sums);
    tm_free(s->by_address);
    tm_free(s);
}

/* Columns are only ever made longer; a failure leaves some longer than others,
   which is harmless because `room` is the shortest. */
static int
grow_columns(struct tm_snapshot *s, size_t room, bool with_address)
{
    size_t have = s->room, had_addresses = s->address != NULL ? have : 0;
    size_t rooms[] = {have, have, had_addresses, have};
    if (room >= TM_NONE
        || tm_make_room(&s->size, &rooms[0], room, sizeof(*s->size)) < 0
        || tm_make_room(&s->traceback, &rooms[1], room,
                        sizeof(*s->traceback)) < 0
        || (with_address
            && tm_make_room(&s->address, &rooms[2], room,
                            sizeof(*s->address)) < 0)
        || (s->domain != NULL
            && tm_make_room(&s->domain, &rooms[3], room,
                            sizeof(*s->domain)) < 0)) {
        return -1;
    }
    s->room = room;
    return 0;
}

/* Give back what freezing has reserved too much; failing to is no harm. */
static void
trim_column(void *column, size_t bytes)
{
    void *old, *shorter;
    memcpy(&old, column, sizeof(old));
    if (old != NULL && (shorter = tm_realloc(old, bytes)) != NULL) {
        memcpy(column, &shorter, sizeof(shorter));
    }
}

void
tm_snapshot_trim(struct tm_snapshot *s)
{
    size_t n = s->ntraces > 0 ? s->ntraces : 1;
    if (!s->has_traces || s->room - n < n / 8 + 64) {
        return;
    }
    trim_column(&s->size, n * sizeof(*s->size));
    trim_column(&s->traceback, n * sizeof(*s->traceback));
    trim_column(&s->address, n * sizeof(*s->address));
    trim_column(&s->domain, n * sizeof(*s->domain));
    trim_column(&s->rows, n * sizeof(*s->rows));
    s->room = n;
}

int
tm_snapshot_reserve(struct tm_snapshot *s, size_t n, bool with_address)
{
    if (grow_columns(s, n > 0 ? n : 1, with_address) < 0) {
        return -1;
    }
    s->ntraces = n;
    return 0;
}

int
tm_snapshot_need_domains(struct tm_snapshot *s)
{
    if (s->domain == NULL) {
        s->domain = tm_calloc(s->room > 0 ? s->room : 1, sizeof(*s->domain));
    }
    return s->domain != NULL ? 0 : -1;
}

int
tm_snapshot_need_rows(struct tm_snapshot *s)
{
    s->rows = tm_calloc(s->room > 0 ? s->room : 1, sizeof(*s->rows));
    return s->rows != NULL ? 0 : -1;
}

int
tm_snapshot_add(struct tm_snapshot *s, uint32_t domain, uint64_t address,
                uint64_t size, uint32_t traceback)
{
    size_t i = s->ntraces;
    if (TM_UNLIKELY(i == s->room)) {
        size_t room = i < 64 ? 64 : i + i / 2;
        if (grow_columns(s, room, s->address != NULL) < 0) {
            return -1;
        }
    }
    if (TM_UNLIKELY(domain != 0) && tm_snapshot_need_domains(s) < 0) {
        return -1;
    }
    s->size[i] = size;
    s->traceback[i] = traceback;
    if (s->address != NULL) {
        s->address[i] = address;
    }
    if (s->domain != NULL) {
        s->domain[i] = domain;
    }
    s->ntraces = i + 1;
    return 0;
}

/* --- Freezing --------------------------------------------------------------- */

struct freezer {
    struct tm_snapshot *snapshot;
    uint32_t *context;          /* traceback id + 1 of a context, 0: not yet */
    uint32_t *site;             /* the same for the engine's sites and files */
    uint32_t *file;
    tm_site_t *chain;           /* room for TM_LIMIT_MAX sites */
    size_t sums_room;           /* freezing sums only */
    bool failed;
};

static uint32_t
freeze_file(struct freezer *f, tm_file_t id)
{
    if (id == TM_FILE_UNKNOWN) {
        return 0;
    }
    if (f->file[id] == 0) {
        const struct tm_file *file = tm_file_get(id);
        f->file[id] = tm_tables_file(f->snapshot->tables, file->kind,
                                     file->data, file->length) + 1;
    }
    return f->file[id] - 1;
}

static uint32_t
freeze_site(struct freezer *f, tm_site_t id)
{
    if (f->site[id] == 0) {
        tm_file_t file_id;
        uint32_t line;
        tm_site_get(id, &file_id, &line);
        uint32_t file = freeze_file(f, file_id);
        if (file == TM_NONE) {
            return TM_NONE;
        }
        f->site[id] = tm_tables_site(f->snapshot->tables, file, line) + 1;
    }
    return f->site[id] - 1;
}

/* The traceback of a context, seen for the first time.  TM_NONE: no memory. */
static TM_NOINLINE uint32_t
freeze_context(struct freezer *f, tm_ctx_t ctx)
{
    struct tm_tables *t = f->snapshot->tables;
    bool line_only = !f->snapshot->has_traces;
    unsigned total;
    unsigned n = tm_context_sites(ctx, f->chain, line_only ? 1 : TM_LIMIT_MAX,
                                  &total);
    for (unsigned i = 0; i < n; i++) {
        f->chain[i] = freeze_site(f, f->chain[i]);
        if (f->chain[i] == TM_NONE) {
            return TM_NONE;
        }
    }
    uint32_t chain = tm_tables_chain(t, f->chain, n);
    uint32_t id = chain == TM_NONE ? TM_NONE
                  : tm_tables_traceback(t, chain, line_only ? TM_TOTAL_UNKNOWN
                                                            : total);
    f->context[ctx] = id + 1;
    return id;
}

static inline uint32_t
frozen_context(struct freezer *f, tm_ctx_t ctx)
{
    uint32_t known = f->context[ctx];
    return TM_LIKELY(known != 0) ? known - 1 : freeze_context(f, ctx);
}

static void
freeze_trace(void *arg, uint32_t domain, uintptr_t addr, size_t size,
             tm_ctx_t ctx)
{
    struct freezer *f = arg;
    if (TM_UNLIKELY(f->failed)) {
        return;
    }
    uint32_t traceback = frozen_context(f, ctx);
    if (TM_UNLIKELY(traceback == TM_NONE)
        || tm_snapshot_add(f->snapshot, domain, addr, size, traceback) < 0) {
        f->failed = true;
    }
}

static void
freeze_sum(void *arg, uint32_t domain, uintptr_t addr, size_t size,
           tm_ctx_t ctx)
{
    struct freezer *f = arg;
    struct tm_snapshot *s = f->snapshot;
    (void)domain;
    (void)addr;
    if (TM_UNLIKELY(f->failed)) {
        return;
    }
    uint32_t traceback = frozen_context(f, ctx);
    if (TM_UNLIKELY(traceback >= f->sums_room)) {
        size_t had = f->sums_room;
        if (traceback == TM_NONE
            || tm_make_room(&s->sums, &f->sums_room, (size_t)traceback + 1,
                            sizeof(*s->sums)) < 0) {
            f->failed = true;
            return;
        }
        memset(s->sums + had, 0, (f->sums_room - had) * sizeof(*s->sums));
    }
    if (s->interval == 1) {
        tm_sum_add_block(&s->sums[traceback], size);
    }
    else {
        struct tm_estimate estimate = tm_estimate_block(size, s->interval);
        tm_sum_add_estimate(&s->sums[traceback], &estimate);
    }
}

static struct tm_snapshot *
freezer_init(struct freezer *f)
{
    *f = (struct freezer){.snapshot = tm_snapshot_new(NULL)};
    if (f->snapshot != NULL) {
        f->snapshot->interval = tm_get_sample_interval();
    }
    return f->snapshot;
}

static int
freezer_prepare(struct freezer *f)
{
    f->context = tm_calloc(tm_context_end(), sizeof(*f->context));
    /* One more: site 0, the unknown one, is there before any is made. */
    f->site = tm_calloc((size_t)tm_site_end() + 1, sizeof(*f->site));
    f->file = tm_calloc(tm_file_end(), sizeof(*f->file));
    f->chain = tm_alloc(TM_LIMIT_MAX * sizeof(*f->chain));
    return f->context != NULL && f->site != NULL && f->file != NULL
           && f->chain != NULL ? 0 : -1;
}

/* The snapshot, ready to be shared; NULL if freezing has failed. */
static struct tm_snapshot *
freezer_finish(struct freezer *f, int status)
{
    tm_free(f->context);
    tm_free(f->site);
    tm_free(f->file);
    tm_free(f->chain);
    if (status < 0) {
        tm_snapshot_free(f->snapshot);
        return NULL;
    }
    tm_tables_seal(f->snapshot->tables);
    tm_snapshot_trim(f->snapshot);
    return f->snapshot;
}

static int
freeze_all(struct freezer *f, bool traces)
{
    f->snapshot->has_traces = traces;
    if (traces) {
        if (tm_snapshot_reserve(f->snapshot, tm_traces_count(), true) < 0) {
            return -1;
        }
        f->snapshot->ntraces = 0;
    }
    else if (tm_make_room(&f->snapshot->sums, &f->sums_room, 1,
                          sizeof(*f->snapshot->sums)) < 0) {
        return -1;
    }
    else {
        memset(f->snapshot->sums, 0,
               f->sums_room * sizeof(*f->snapshot->sums));
    }
    tm_traces_each(traces ? freeze_trace : freeze_sum, f);
    return f->failed ? -1 : 0;
}

struct tm_snapshot *
tm_snapshot_freeze(bool traces)
{
    struct freezer f;
    if (freezer_init(&f) == NULL) {
        return NULL;
    }
    int status = freezer_prepare(&f);
    if (status == 0) {
        status = freeze_all(&f, traces);
    }
    return freezer_finish(&f, status);
}

static int
freeze_rows(struct freezer *f, const struct tm_peak_row *rows, size_t n)
{
    struct tm_snapshot *s = f->snapshot;
    if (tm_snapshot_reserve(s, n, false) < 0 || tm_snapshot_need_rows(s) < 0) {
        return -1;
    }
    s->ntraces = 0;
    for (size_t i = 0; i < n; i++) {
        struct tm_estimate row = {rows[i].size, rows[i].count,
                                  rows[i].variance};
        uint32_t traceback = frozen_context(f, rows[i].ctx);
        if (traceback == TM_NONE
            || tm_snapshot_add(s, rows[i].domain, 0, tm_row_size(&row),
                               traceback) < 0) {
            return -1;
        }
        s->rows[i] = row;
    }
    return 0;
}

struct tm_snapshot *
tm_snapshot_freeze_peak(void)
{
    struct freezer f;
    struct tm_peak_row *rows = NULL;
    size_t size = 0;
    if (freezer_init(&f) == NULL) {
        return NULL;
    }
    int status = freezer_prepare(&f);
    if (status == 0) {
        ptrdiff_t n = tm_peak_rows(&rows, &size);
        status = n < 0 ? -1 : freeze_rows(&f, rows, (size_t)n);
        f.snapshot->peak_size = size;
        tm_free(rows);
    }
    return freezer_finish(&f, status);
}

/* --- Estimates -------------------------------------------------------------- */

#define TWO_64 18446744073709551616.0

/* With the mean distance m between samples, a block of s bytes is drawn with
   probability p = 1 - q, q = exp(-s / m).  1/p blocks for each one drawn, s/p
   bytes, and q/p^2 s^2 for the variance are unbiased (Horvitz and Thompson).
   A block of 0 bytes counts as one of 1. */
struct tm_estimate
tm_estimate_block(uint64_t size, uint64_t interval)
{
    double bytes = (double)size;
    if (interval <= 1) {
        return (struct tm_estimate){bytes, 1, 0};
    }
    double ratio = (size > 0 ? bytes : 1) / (double)interval;
    double p = -expm1(-ratio);
    return (struct tm_estimate){
        .size = bytes / p, .count = 1 / p,
        .variance = bytes / p * (bytes / p) * exp(-ratio),
    };
}

/* Nearest whole number; what does not fit becomes the largest that does. */
static uint64_t
whole(double x)
{
    x = floor(x + 0.5);
    return x >= TWO_64 ? UINT64_MAX : x > 0 ? (uint64_t)x : 0;
}

uint64_t
tm_row_size(const struct tm_estimate *row)
{
    return whole(row->size);
}

void
tm_sum_settle(struct tm_sum *sum)
{
    const struct tm_estimate *e = &sum->estimate;
    if (e->count == 0) {
        return;
    }
    sum->count = whole(e->count);
    sum->high = e->size < TWO_64 ? 0 : (uint64_t)(e->size / TWO_64);
    sum->low = whole(e->size - (double)sum->high * TWO_64);
}

/* --- Sums ------------------------------------------------------------------- */

static void
add_trace(const struct tm_snapshot *s, size_t i, struct tm_sum *sum)
{
    if (s->rows != NULL) {
        tm_sum_add_estimate(sum, &s->rows[i]);
    }
    else if (s->interval > 1) {
        struct tm_estimate estimate = tm_estimate_block(s->size[i],
                                                        s->interval);
        tm_sum_add_estimate(sum, &estimate);
    }
    else {
        tm_sum_add_block(sum, s->size[i]);
    }
}

const struct tm_sum *
tm_snapshot_sums(struct tm_snapshot *s)
{
    if (s->sums == NULL) {
        struct tm_sum *sums = tm_calloc((size_t)s->tables->ntracebacks + 1,
                                        sizeof(*sums));
        if (sums == NULL) {
            return NULL;
        }
        for (size_t i = 0; i < s->ntraces; i++) {
            add_trace(s, i, &sums[s->traceback[i]]);
        }
        s->sums = sums;
    }
    return s->sums;
}

int
tm_snapshot_total(struct tm_snapshot *s, struct tm_sum *total)
{
    const struct tm_sum *sums = tm_snapshot_sums(s);
    if (sums == NULL) {
        return -1;
    }
    *total = (struct tm_sum){0};
    for (uint32_t i = 0; i < s->tables->ntracebacks; i++) {
        tm_sum_add(total, &sums[i]);
    }
    tm_sum_settle(total);
    return 0;
}

/* --- Order of addresses ----------------------------------------------------- */

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

struct keyed {
    uint64_t key;
    uint32_t trace;
};

/* One pass of a radix sort; false: all keys have the same digit, so that the
   order is already right. */
static bool
sort_by_digit(const struct keyed *from, struct keyed *to, size_t n,
              unsigned shift)
{
    size_t start[DIGITS] = {0};
    for (size_t i = 0; i < n; i++) {
        start[(from[i].key >> shift) & (DIGITS - 1)]++;
    }
    if (start[(from[0].key >> shift) & (DIGITS - 1)] == n) {
        return false;
    }
    size_t sum = 0;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t count = start[d];
        start[d] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++) {
        to[start[(from[i].key >> shift) & (DIGITS - 1)]++] = from[i];
    }
    return true;
}

/* A sort and no hash: its cost does not depend on who chose the addresses. */
int
tm_snapshot_order(struct tm_snapshot *s)
{
    size_t n = s->ntraces;
    if (s->by_address != NULL) {
        return 0;
    }
    uint32_t *order = tm_alloc((n + 1) * sizeof(*order));
    struct keyed *from = tm_alloc((n + 1) * sizeof(*from));
    struct keyed *to = tm_alloc((n + 1) * sizeof(*to));
    if (order == NULL || from == NULL || to == NULL) {
        tm_free(order);
        tm_free(from);
        tm_free(to);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        from[i] = (struct keyed){s->address[i], (uint32_t)i};
    }
    for (unsigned shift = 0; n > 0 && shift < 64; shift += DIGIT_BITS) {
        if (sort_by_digit(from, to, n, shift)) {
            struct keyed *sorted = to;
            to = from;
            from = sorted;
        }
    }
    for (size_t i = 0; i < n; i++) {
        order[i] = from[i].trace;
    }
    tm_free(from);
    tm_free(to);
    s->by_address = order;
    return 0;
}

int
tm_snapshot_find(struct tm_snapshot *s, uint64_t address, size_t *found)
{
    *found = SIZE_MAX;
    if (s->address == NULL || s->ntraces == 0) {
        return 0;
    }
    if (tm_snapshot_order(s) < 0) {
        return -1;
    }
    size_t low = 0, high = s->ntraces;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->address[s->by_address[middle]] < address) {
            low = middle + 1;
        }
        else {
            high = middle;
        }
    }
    if (low < s->ntraces && s->address[s->by_address[low]] == address) {
        *found = s->by_address[low];
    }
    return 0;
}
