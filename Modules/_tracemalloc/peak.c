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

/* Columns of what contexts hold: by context id while counting, by row in a
   copy.  A million contexts are nothing unusual: no wider than needed. */
struct sums {
    double *size;
    uint32_t *blocks;               /* of a context that has none: 0 */
    double *count, *variance;       /* NULL when tracing is exact */
};

struct copy {
    size_t rows;
    tm_ctx_t *ctx;
    uint32_t *domain;
    struct sums sums;
};

static struct copy kept;
static size_t kept_size;            /* traced bytes then; 0: there is no copy */
static bool failed;                 /* the last peak could not be kept */

static int
sums_new(struct sums *sums, size_t n, bool sampled)
{
    n += n == 0;
    sums->size = tm_calloc(n, sizeof(double));
    sums->blocks = tm_calloc(n, sizeof(uint32_t));
    sums->count = sampled ? tm_calloc(n, sizeof(double)) : NULL;
    sums->variance = sampled ? tm_calloc(n, sizeof(double)) : NULL;
    return sums->size == NULL || sums->blocks == NULL
           || (sampled && (sums->count == NULL || sums->variance == NULL))
           ? -1 : 0;
}

static void
sums_free(struct sums *sums)
{
    tm_free(sums->size);
    tm_free(sums->blocks);
    tm_free(sums->count);
    tm_free(sums->variance);
}

static void
copy_free(struct copy *copy)
{
    tm_free(copy->ctx);
    tm_free(copy->domain);
    sums_free(&copy->sums);
    memset(copy, 0, sizeof(*copy));
}

struct counting {
    struct sums sums;
    uint64_t interval;
    tm_ctx_t end;                   /* contexts that existed at the start */
};

static void
count_trace(void *arg, uint32_t Py_UNUSED(domain), uintptr_t Py_UNUSED(addr),
            size_t size, tm_ctx_t ctx)
{
    struct counting *c = arg;
    if (TM_UNLIKELY(ctx >= c->end)) {
        return;                 /* made meanwhile by a thread without a GIL */
    }
    if (TM_LIKELY(c->sums.count == NULL)) {
        c->sums.size[ctx] += (double)size;
        c->sums.blocks[ctx]++;
        return;
    }
    double chance = tm_sampler_chance(size, c->interval);
    if (chance > 0) {
        double estimate = (double)size / chance;
        c->sums.size[ctx] += estimate;
        c->sums.blocks[ctx]++;
        c->sums.count[ctx] += 1 / chance;
        c->sums.variance[ctx] += estimate * estimate * (1 - chance);
    }
}

/* Room for `more` rows in all columns.  -1: no memory. */
static int
copy_grow(struct copy *copy, size_t more, bool sampled)
{
    size_t n = copy->rows + more + 1;
    void *columns[] = {&copy->ctx, &copy->domain, &copy->sums.size,
                       &copy->sums.blocks, &copy->sums.count,
                       &copy->sums.variance};
    const size_t width[] = {sizeof(tm_ctx_t), sizeof(uint32_t), sizeof(double),
                            sizeof(uint32_t), sizeof(double), sizeof(double)};
    for (size_t i = 0; i < (sampled ? 6 : 4); i++) {
        void *old;
        memcpy(&old, columns[i], sizeof(old));
        void *longer = tm_realloc(old, n * width[i]);
        if (longer == NULL) {
            return -1;
        }
        memcpy(columns[i], &longer, sizeof(longer));
    }
    return 0;
}

/* Move the sums of one domain to the end of the copy, leaving zeros behind. */
static int
collect(struct counting *c, uint32_t domain, struct copy *copy)
{
    size_t more = 0;
    for (tm_ctx_t ctx = 0; ctx < c->end; ctx++) {
        more += c->sums.blocks[ctx] != 0;
    }
    bool sampled = c->sums.count != NULL;
    if (copy_grow(copy, more, sampled) < 0) {
        return -1;
    }
    for (tm_ctx_t ctx = 0; more > 0 && ctx < c->end; ctx++) {
        if (c->sums.blocks[ctx] == 0) {
            continue;
        }
        size_t row = copy->rows++;
        copy->ctx[row] = ctx;
        copy->domain[row] = domain;
        copy->sums.size[row] = c->sums.size[ctx];
        copy->sums.blocks[row] = c->sums.blocks[ctx];
        c->sums.size[ctx] = 0;
        c->sums.blocks[ctx] = 0;
        if (sampled) {
            copy->sums.count[row] = c->sums.count[ctx];
            copy->sums.variance[row] = c->sums.variance[ctx];
            c->sums.count[ctx] = c->sums.variance[ctx] = 0;
        }
    }
    return 0;
}

/* What is live now.  -1: no memory, and the copy is empty. */
static int
count_live(struct copy *copy)
{
    struct counting c = {
        .interval = tm_sampler_interval(),
        .end = tm_context_end(),
    };
    memset(copy, 0, sizeof(*copy));
    int status = sums_new(&c.sums, c.end, tm_hot.sampling);
    if (status == 0) {
        tm_traces_scan(count_trace, &c);
        status = collect(&c, 0, copy);
    }
    uint32_t domain = 0;
    while (status == 0 && tm_domains_next(&domain)) {
        tm_table_each(tm_domain_table(domain, false), domain, count_trace, &c);
        status = collect(&c, domain, copy);
    }
    sums_free(&c.sums);
    if (status < 0) {
        copy_free(copy);
    }
    return status;
}

static void
keep(void)
{
    struct copy copy;
    size_t peak = tm_peak();
    if (kept_size != 0 && kept_size >= peak - TM_PEAK_TOLERANCE(peak)) {
        return;
    }
    failed = count_live(&copy) < 0;
    copy_free(&kept);
    kept = copy;
    kept_size = tm_live();
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

static ptrdiff_t
rows_of(const struct copy *copy, struct tm_peak_row **rows)
{
    *rows = tm_alloc((copy->rows + 1) * sizeof(**rows));
    if (*rows == NULL) {
        return -1;
    }
    for (size_t i = 0; i < copy->rows; i++) {
        const struct sums *sums = &copy->sums;
        bool sampled = sums->count != NULL;
        (*rows)[i] = (struct tm_peak_row){
            .domain = copy->domain[i],
            .ctx = copy->ctx[i],
            .size = sums->size[i],
            .count = sampled ? sums->count[i] : sums->blocks[i],
            .variance = sampled ? sums->variance[i] : 0,
        };
    }
    return (ptrdiff_t)copy->rows;
}

ptrdiff_t
tm_peak_rows(struct tm_peak_row **rows, size_t *size)
{
    size_t peak = tm_peak();
    *rows = NULL;
    if (kept_size != 0 && kept_size >= peak - TM_PEAK_TOLERANCE(peak)) {
        *size = kept_size;
        return failed ? -1 : rows_of(&kept, rows);
    }
    /* The peak is not past. */
    struct copy now;
    *size = tm_live();
    if (count_live(&now) < 0) {
        return -1;
    }
    ptrdiff_t n = rows_of(&now, rows);
    copy_free(&now);
    return n;
}

void
tm_peak_forget(void)
{
    copy_free(&kept);
    kept_size = 0;
    failed = false;
}
