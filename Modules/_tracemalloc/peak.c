/* The copy of the last peak (see peak.h).  Owner of its data: this room. */
#include "Python.h"
#include "arena.h"
#include "context.h"
#include "domains.h"
#include "peak.h"
#include "sampler.h"
#include "sync.h"
#include "traces.h"

#include <string.h>

static struct tm_peak_row *copy;
static size_t copied;               /* rows */
static size_t copy_size;            /* traced bytes then; 0: there is none */
static bool failed;                 /* the last peak could not be kept */

struct counting {
    struct tm_peak_row *of_context; /* by context id */
    uint64_t interval;
    tm_ctx_t end;
};

static void
count_trace(void *arg, uint32_t Py_UNUSED(domain), uintptr_t Py_UNUSED(addr),
            size_t size, tm_ctx_t ctx)
{
    struct counting *c = arg;
    if (ctx >= c->end) {
        return;                 /* made meanwhile by a thread without a GIL */
    }
    struct tm_peak_row *row = &c->of_context[ctx];
    if (TM_LIKELY(c->interval <= 1)) {
        row->size += (double)size;
        row->count++;
        return;
    }
    double chance = tm_sampler_chance(size, c->interval);
    if (chance > 0) {
        double estimate = (double)size / chance;
        row->size += estimate;
        row->count += 1 / chance;
        row->variance += estimate * estimate * (1 - chance);
    }
}

/* Move the rows of one domain to the end of *rows, leaving zeros behind. */
static int
collect(struct counting *c, uint32_t domain, struct tm_peak_row **rows,
        size_t *n)
{
    size_t more = 0;
    tm_ctx_t end = c->end;
    for (tm_ctx_t ctx = 0; ctx < end; ctx++) {
        more += c->of_context[ctx].count != 0;
    }
    struct tm_peak_row *longer =
        tm_realloc(*rows, (*n + more + 1) * sizeof(*longer));
    if (longer == NULL) {
        return -1;
    }
    *rows = longer;
    for (tm_ctx_t ctx = 0; ctx < end; ctx++) {
        struct tm_peak_row *row = &c->of_context[ctx];
        if (row->count != 0) {
            row->domain = domain;
            row->ctx = ctx;
            longer[(*n)++] = *row;
            *row = (struct tm_peak_row){0};
        }
    }
    return 0;
}

/* What is live now.  -1: no memory. */
static ptrdiff_t
count_live(struct tm_peak_row **rows)
{
    struct counting c = {
        .interval = tm_sampler_interval(),
        .end = tm_context_end(),
    };
    c.of_context = tm_calloc(c.end, sizeof(*c.of_context));
    size_t n = 0;
    *rows = NULL;
    int status = c.of_context == NULL ? -1 : 0;
    if (status == 0) {
        tm_traces_scan(count_trace, &c);
        status = collect(&c, 0, rows, &n);
    }
    uint32_t domain = 0;
    while (status == 0 && tm_domains_next(&domain)) {
        tm_table_each(tm_domain_table(domain, false), domain, count_trace, &c);
        status = collect(&c, domain, rows, &n);
    }
    tm_free(c.of_context);
    if (status < 0) {
        tm_free(*rows);
        *rows = NULL;
        return -1;
    }
    return (ptrdiff_t)n;
}

static void
keep(void)
{
    struct tm_peak_row *rows;
    size_t peak = tm_peak();
    if (copy_size != 0 && copy_size >= peak - TM_PEAK_TOLERANCE(peak)) {
        return;
    }
    ptrdiff_t n = count_live(&rows);
    tm_free(copy);
    copy = rows;
    copied = n < 0 ? 0 : (size_t)n;
    copy_size = tm_live();
    failed = n < 0;
}

void
tm_peak_past(bool raw_locked)
{
    if (!raw_locked) {
        tm_lock(TM_RAW);
    }
    keep();
    tm_hot.peak_low = 0;
    tm_marks_update();
    if (!raw_locked) {
        tm_unlock(TM_RAW);
    }
}

ptrdiff_t
tm_peak_rows(struct tm_peak_row **rows, size_t *size)
{
    size_t peak = tm_peak();
    *rows = NULL;
    if (copy_size == 0 || copy_size < peak - TM_PEAK_TOLERANCE(peak)) {
        /* The peak is not past. */
        *size = tm_live();
        return count_live(rows);
    }
    *size = copy_size;
    if (failed) {
        return -1;
    }
    *rows = tm_alloc((copied + 1) * sizeof(**rows));
    if (*rows == NULL) {
        return -1;
    }
    memcpy(*rows, copy, copied * sizeof(**rows));
    return (ptrdiff_t)copied;
}

void
tm_peak_forget(void)
{
    tm_free(copy);
    copy = NULL;
    copied = copy_size = 0;
    failed = false;
}
