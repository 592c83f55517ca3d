/* Snapshots against plain loops over the traces: freezing, groups, differences,
 * selections, look-up by address, estimates of samples, rows of a peak; and every
 * allocation failed in turn.
 *
 * This file is also the engine that is frozen: contexts are chains of sites, and
 * some of them are alike, as two code objects with the same name and line are. */
#include "arena.h"
#include "fuzz.h"
#include "glob.h"
#include "snapshot.h"

#include "Python.h"
#include "engine.h"

#include <math.h>
#include <string.h>

#define FILES 6
#define SITES 24
#define CONTEXTS 60
#define DEPTH 7
#define TRACES 400

/* --- The engine --------------------------------------------------------------- */

static const char *const names[FILES] = {"<unknown>", "b.py", "a.pyc", "c.py", "b.py",
                                         "lib/a.py"};

struct trace {
    uint32_t domain;
    uint64_t addr, size;
    uint32_t ctx;
};

static struct {
    uint32_t file[SITES], line[SITES];
    uint32_t frames[CONTEXTS][DEPTH], shown[CONTEXTS], depth[CONTEXTS];
    struct trace trace[TRACES];
    size_t ntraces;
    uint64_t interval;
} world;

uint64_t
tm_get_sample_interval(void)
{
    return world.interval;
}

/* As the formulae are written, and more exactly than the engine needs. */
static struct tm_estimate
model_estimate(uint64_t size)
{
    if (world.interval == 1) {
        return (struct tm_estimate){(double)size, 1, 0};
    }
    long double bytes = size, most = size > 0 ? bytes : 1;
    long double q = expl(-most / world.interval), p = 1 - q;
    return (struct tm_estimate){
        (double)(bytes / p), (double)(1 / p), (double)(bytes * bytes * q / (p * p)),
    };
}

/* What is live, as the last peak. */
ptrdiff_t
tm_peak_rows(struct tm_peak_row **rows, size_t *size)
{
    struct tm_peak_row *r = tm_calloc(TRACES + 1, sizeof(*r));
    size_t n = 0;
    if (r == NULL) {
        return -1;
    }
    *size = 0;
    for (size_t i = 0; i < world.ntraces; i++) {
        const struct trace *t = &world.trace[i];
        struct tm_estimate e = model_estimate(t->size);
        size_t k = 0;
        while (k < n && (r[k].ctx != t->ctx || r[k].domain != t->domain)) {
            k++;
        }
        n += k == n;
        r[k].domain = t->domain;
        r[k].ctx = t->ctx;
        r[k].size += e.size;
        r[k].count += e.count;
        r[k].variance += e.variance;
        *size += t->size;
    }
    *rows = r;
    return (ptrdiff_t)n;
}

void
tm_traces_each(tm_trace_cb cb, void *arg)
{
    for (size_t i = 0; i < world.ntraces; i++) {
        const struct trace *t = &world.trace[i];
        cb(arg, t->domain, (uintptr_t)t->addr, (size_t)t->size, t->ctx);
    }
}

size_t
tm_traces_count(void)
{
    return world.ntraces + world.ntraces % 3 * 100;
}

tm_ctx_t
tm_context_end(void)
{
    return CONTEXTS;
}

unsigned
tm_context_sites(tm_ctx_t ctx, tm_site_t *out, unsigned max, unsigned *total)
{
    unsigned n = world.shown[ctx] < max ? world.shown[ctx] : max;
    *total = world.depth[ctx];
    memcpy(out, world.frames[ctx], n * sizeof(*out));
    return n;
}

tm_site_t
tm_site_end(void)
{
    return SITES;
}

void
tm_site_get(tm_site_t site, tm_file_t *file, uint32_t *line)
{
    *file = world.file[site];
    *line = world.line[site];
}

tm_file_t
tm_file_end(void)
{
    return FILES;
}

const struct tm_file *
tm_file_get(tm_file_t file)
{
    static struct tm_file f;
    f = (struct tm_file){.kind = 1, .length = (uint32_t)strlen(names[file]),
                         .data = names[file]};
    return &f;
}

static void
make_world(uint64_t *seed)
{
    for (uint32_t s = 1; s < SITES; s++) {
        world.file[s] = (uint32_t)fuzz_below(seed, FILES);
        world.line[s] = world.file[s] == 0 ? 0 : (uint32_t)fuzz_below(seed, 5);
    }
    for (uint32_t c = 1; c < CONTEXTS; c++) {
        world.shown[c] = c == 1 ? 1 : 1 + (uint32_t)fuzz_below(seed, DEPTH);
        world.depth[c] = world.shown[c] + (uint32_t)fuzz_below(seed, 3);
        for (uint32_t i = 0; i < world.shown[c]; i++) {
            world.frames[c][i] = c == 1 ? 0 : (uint32_t)fuzz_below(seed, SITES);
        }
    }
    world.ntraces = fuzz_below(seed, TRACES + 1);
    world.interval = fuzz_below(seed, 2) ? 1 : 1 + fuzz_below(seed, 5000);
    for (size_t i = 0; i < world.ntraces; i++) {
        uint64_t size = fuzz_below(seed, 10) ? fuzz_below(seed, 3000) : UINT64_MAX - i;
        world.trace[i] = (struct trace){
            .domain = fuzz_below(seed, 4) ? 0 : (uint32_t)fuzz_below(seed, 3),
            .addr = fuzz_next(seed) >> fuzz_below(seed, 60),
            .size = size,
            .ctx = 1 + (uint32_t)fuzz_below(seed, CONTEXTS - 1),
        };
    }
}

/* --- The model: frames as text ------------------------------------------------- */

#define TEXT 400

/* "file:line" of a site, so that equal places are equal text whatever their ids. */
static void
site_text(char *out, uint32_t site, enum tm_group_by by)
{
    if (by == TM_BY_FILE) {
        snprintf(out, TEXT, "%s", names[world.file[site]]);
    }
    else {
        snprintf(out, TEXT, "%s:%03u", names[world.file[site]], world.line[site]);
    }
}

/* The key of a trace for its frame i, or of all frames, the oldest first. */
static void
key_text(char *out, uint32_t ctx, uint32_t i, enum tm_group_by by)
{
    if (by != TM_BY_CHAIN) {
        site_text(out, world.frames[ctx][i], by);
        return;
    }
    *out = '\0';
    for (uint32_t k = world.shown[ctx]; k-- > 0;) {
        site_text(out + strlen(out), world.frames[ctx][k], by);
        strcat(out, "\n");
    }
}

struct row {
    char key[TEXT];
    struct tm_sum now, before;
};

struct rows {
    struct row row[TRACES * DEPTH];
    size_t n;
};

/* `times`: how often the trace has this key already. */
static void
model_add(struct rows *rows, const char *key, uint64_t size, bool now,
          unsigned times)
{
    size_t i = 0;
    while (i < rows->n && strcmp(rows->row[i].key, key) != 0) {
        i++;
    }
    if (i == rows->n) {
        rows->row[rows->n] = (struct row){0};
        strcpy(rows->row[rows->n++].key, key);
    }
    struct tm_sum *sum = now ? &rows->row[i].now : &rows->row[i].before;
    if (world.interval > 1) {
        struct tm_estimate e = model_estimate(size);
        sum->estimate.size += e.size;
        sum->estimate.count += e.count;
        sum->estimate.variance += e.variance * ((times + 1) * (times + 1)
                                                - times * times);
        return;
    }
    sum->count++;
    if (sum->low > UINT64_MAX - size) {
        sum->high++;
    }
    sum->low += size;
}

static void
model_group(struct rows *rows, enum tm_group_by by, bool cumulative, bool now)
{
    char key[TEXT * (DEPTH + 1)], other[TEXT * (DEPTH + 1)];
    for (size_t i = 0; i < world.ntraces; i++) {
        const struct trace *t = &world.trace[i];
        uint32_t n = cumulative ? world.shown[t->ctx] : 1;
        for (uint32_t k = 0; k < n; k++) {
            unsigned times = 0;
            key_text(key, t->ctx, k, by);
            for (uint32_t j = 0; j < k; j++) {
                key_text(other, t->ctx, j, by);
                times += strcmp(key, other) == 0;
            }
            model_add(rows, key, t->size, now, times);
        }
    }
}

/* --- Comparing the two --------------------------------------------------------- */

static void
found_site(char *out, const struct tm_tables *t, uint32_t site)
{
    const struct tm_name *name = &t->files[t->sites[site].file];
    snprintf(out, TEXT, "%.*s:%03u", (int)name->length, (const char *)name->data,
             t->sites[site].line);
}

static void
found_key(char *out, const struct tm_tables *t, enum tm_group_by by, uint32_t key)
{
    if (by == TM_BY_FILE) {
        snprintf(out, TEXT, "%.*s", (int)t->files[key].length,
                 (const char *)t->files[key].data);
        return;
    }
    if (by == TM_BY_LINE) {
        found_site(out, t, key);
        return;
    }
    *out = '\0';
    for (size_t k = tm_chain_length(t, key); k-- > 0;) {
        found_site(out + strlen(out), t, tm_chain_links(t, key)[k]);
        strcat(out, "\n");
    }
}

static bool
near(double a, double b, double slack)
{
    return fabs(a - b) <= slack + 1e-9 * fabs(b);
}

#define TWO_64 18446744073709551616.0

/* a: the model's; b: settled, and exact if the model is, unless it is of rows. */
static bool
same_sum(const struct tm_sum *a, const struct tm_sum *b)
{
    if (a->estimate.count > 0 || b->estimate.count > 0) {
        const struct tm_estimate *e = &a->estimate;
        double size = e->count > 0 ? e->size : (double)a->high * TWO_64 + (double)a->low;
        double count = e->count > 0 ? e->count : (double)a->count;
        return near(b->estimate.size, size, 0) && near(b->estimate.count, count, 0)
               && near(b->estimate.variance, e->variance, 0)
               && near((double)b->high * TWO_64 + (double)b->low, size, 0.6)
               && near((double)b->count, count, 0.6);
    }
    return a->low == b->low && a->high == b->high && a->count == b->count;
}

static const struct row *
model_find(const struct rows *rows, const char *key)
{
    for (size_t i = 0; i < rows->n; i++) {
        if (strcmp(rows->row[i].key, key) == 0) {
            return &rows->row[i];
        }
    }
    FUZZ_NEED(false, "no group %s", key);
    return NULL;
}

/* Sizes and counts as one number to sort by; sums here stay below 2**80. */
static int
sum_order(const struct tm_sum *a, const struct tm_sum *b)
{
    if (a->high != b->high) {
        return a->high < b->high ? -1 : 1;
    }
    if (a->low != b->low) {
        return a->low < b->low ? -1 : 1;
    }
    return a->count < b->count ? -1 : a->count > b->count;
}

static void
check_groups(struct tm_snapshot *s, enum tm_group_by by, bool cumulative)
{
    static struct rows rows;
    struct tm_groups groups;
    char key[TEXT * (DEPTH + 1)], last[TEXT * (DEPTH + 1)] = "";
    rows.n = 0;
    model_group(&rows, by, cumulative, true);
    FUZZ_NEED(tm_snapshot_group(s, by, cumulative, &groups) == 0, "no memory");
    FUZZ_NEED(groups.n == rows.n, "%zu, not %zu", groups.n, rows.n);
    for (size_t i = 0; i < groups.n; i++) {
        found_key(key, s->tables, by, groups.rows[i].key);
        FUZZ_NEED(same_sum(&model_find(&rows, key)->now, &groups.rows[i].sum),
                  "%s", key);
        if (i > 0) {
            int order = sum_order(&groups.rows[i - 1].sum, &groups.rows[i].sum);
            FUZZ_NEED(order >= 0, "row %zu", i);
            /* Names of one length order as their texts do; not all have it. */
            FUZZ_NEED(order > 0 || strcmp(last, key) != 0, "row %zu", i);
        }
        strcpy(last, key);
    }
    tm_groups_clear(&groups);
}

static void
check_freeze(struct tm_snapshot *s)
{
    const struct tm_tables *t = s->tables;
    char expected[TEXT * (DEPTH + 1)], key[TEXT * (DEPTH + 1)];
    FUZZ_NEED(s->ntraces == world.ntraces, "%zu", s->ntraces);
    for (size_t i = 0; i < s->ntraces; i++) {
        const struct trace *w = &world.trace[i];
        const struct tm_traceback *tb = &t->tracebacks[s->traceback[i]];
        FUZZ_NEED(s->address[i] == w->addr && s->size[i] == w->size
                  && (s->domain == NULL ? 0 : s->domain[i]) == w->domain
                  && tb->total == world.depth[w->ctx], "trace %zu", i);
        key_text(expected, w->ctx, 0, TM_BY_CHAIN);
        found_key(key, t, TM_BY_CHAIN, tb->chain);
        FUZZ_NEED(strcmp(expected, key) == 0, "%s, not %s", key, expected);
        size_t found, first = 0;
        while (world.trace[first].addr != w->addr) {
            first++;
        }
        FUZZ_NEED(tm_snapshot_find(s, w->addr, &found) == 0 && found == first,
                  "trace %zu", i);
        FUZZ_NEED(tm_snapshot_find(s, w->addr ^ 0x5555, &found) == 0
                  && (found == SIZE_MAX
                      || world.trace[found].addr == (w->addr ^ 0x5555)), "-");
    }
}

static void
check_changes(struct tm_snapshot *old, struct rows *rows, struct tm_snapshot *now,
              enum tm_group_by by, bool cumulative)
{
    struct tm_changes changes;
    char key[TEXT * (DEPTH + 1)];
    model_group(rows, by, cumulative, true);
    FUZZ_NEED(tm_snapshot_compare(now, old, by, cumulative, &changes) == 0, "-");
    FUZZ_NEED(changes.n == rows->n, "%zu, not %zu", changes.n, rows->n);
    for (size_t i = 0; i < changes.n; i++) {
        found_key(key, changes.tables, by, changes.rows[i].key);
        const struct row *row = model_find(rows, key);
        FUZZ_NEED(same_sum(&row->now, &changes.rows[i].now)
                  && same_sum(&row->before, &changes.rows[i].before), "%s", key);
    }
    tm_changes_clear(&changes);
}

/* --- Selecting ------------------------------------------------------------------ */

static const char *const patterns[] = {"*", "a.py", "b.py", "*a.py", "?.py", "x*",
                                       "<unknown>"};
#define PATTERNS (sizeof(patterns) / sizeof(patterns[0]))

/* By hand: the few patterns above, the name of the file being a source's. */
static bool
model_matches(size_t pattern, const char *name)
{
    bool is_a = strcmp(name, "a.pyc") == 0, is_lib = strcmp(name, "lib/a.py") == 0;
    bool unknown = name[0] == '<';
    switch (pattern) {
    case 0:
        return true;
    case 1:
        return is_a;
    case 2:
        return strcmp(name, "b.py") == 0;
    case 3:
        return is_a || is_lib;
    case 4:
        return !is_lib && !unknown;
    case 5:
        return false;
    default:
        return unknown;
    }
}

static bool
model_hits(const struct tm_selector *s, size_t pattern, const struct trace *t)
{
    if (!s->any_domain && s->domain != t->domain) {
        return false;
    }
    bool hit = s->glob == NULL;
    for (uint32_t i = 0; i < (s->all_frames ? world.shown[t->ctx] : 1); i++) {
        uint32_t site = world.frames[t->ctx][i];
        hit = hit || (model_matches(pattern, names[world.file[site]])
                      && !(s->known_only && world.file[site] == 0)
                      && (s->any_line || s->line == world.line[site]));
    }
    return hit;
}

#define SELECTORS 5

struct choice {
    struct tm_selector selector[SELECTORS];
    size_t pattern[SELECTORS], n;
};

static void
random_choice(uint64_t *seed, struct choice *c)
{
    c->n = fuzz_below(seed, SELECTORS + 1);
    for (size_t i = 0; i < c->n; i++) {
        const char *text = patterns[c->pattern[i] = fuzz_below(seed, PATTERNS)];
        c->selector[i] = (struct tm_selector){
            .glob = fuzz_below(seed, 8)
                    ? tm_glob_compile(1, text, strlen(text)) : NULL,
            .known_only = fuzz_below(seed, 2), .include = fuzz_below(seed, 2),
            .all_frames = fuzz_below(seed, 2), .any_line = fuzz_below(seed, 3),
            .any_domain = fuzz_below(seed, 3),
            .line = (uint32_t)fuzz_below(seed, 5),
            .domain = (uint32_t)fuzz_below(seed, 4),
        };
    }
}

static void
clear_choice(struct choice *c)
{
    for (size_t i = 0; i < c->n; i++) {
        tm_glob_free(c->selector[i].glob);
    }
}

static bool
model_keeps(const struct choice *c, const struct trace *t)
{
    bool any_include = false, included = false, excluded = false;
    for (size_t i = 0; i < c->n; i++) {
        bool hit = model_hits(&c->selector[i], c->pattern[i], t);
        any_include |= c->selector[i].include;
        included |= c->selector[i].include && hit;
        excluded |= !c->selector[i].include && hit;
    }
    return (included || !any_include) && !excluded;
}

static void
check_select(struct tm_snapshot *s, const struct choice *c)
{
    struct tm_snapshot *kept = tm_snapshot_select(s, c->selector, c->n);
    FUZZ_NEED(kept != NULL, "no memory");
    size_t n = 0;
    for (size_t i = 0; i < world.ntraces; i++) {
        if (model_keeps(c, &world.trace[i])) {
            FUZZ_NEED(n < kept->ntraces && kept->address[n] == s->address[i]
                      && kept->size[n] == s->size[i]
                      && kept->traceback[n] == s->traceback[i]
                      && kept->interval == s->interval, "trace %zu", i);
            n++;
        }
    }
    FUZZ_NEED(kept->ntraces == n, "%zu, not %zu", kept->ntraces, n);
    struct tm_snapshot *compact = tm_snapshot_compact(kept);
    FUZZ_NEED(compact != NULL && compact->ntraces == n, "no memory");
    const struct tm_sum *sums = tm_snapshot_sums(compact);
    for (uint32_t i = 0; i < compact->tables->ntracebacks; i++) {
        FUZZ_NEED(sums[i].count > 0, "traceback %u is not used", i);
    }
    for (size_t i = 0; i < n; i++) {
        char a[TEXT * (DEPTH + 1)], b[TEXT * (DEPTH + 1)];
        found_key(a, kept->tables, TM_BY_CHAIN,
                  kept->tables->tracebacks[kept->traceback[i]].chain);
        found_key(b, compact->tables, TM_BY_CHAIN,
                  compact->tables->tracebacks[compact->traceback[i]].chain);
        FUZZ_NEED(strcmp(a, b) == 0, "trace %zu", i);
    }
    tm_snapshot_free(compact);
    tm_snapshot_free(kept);
}

/* --- Running -------------------------------------------------------------------- */

static const struct {
    enum tm_group_by by;
    bool cumulative;
} kinds[] = {{TM_BY_FILE, false}, {TM_BY_FILE, true}, {TM_BY_LINE, false},
             {TM_BY_LINE, true}, {TM_BY_CHAIN, false}};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void
check_sums_only(void)
{
    struct tm_snapshot *s = tm_snapshot_freeze(false);
    FUZZ_NEED(s != NULL && !s->has_traces && s->ntraces == 0, "no memory");
    check_groups(s, TM_BY_FILE, false);
    check_groups(s, TM_BY_LINE, false);
    tm_snapshot_free(s);
}

/* The stub's peak is what is live: the same groups, also of a copy. */
static void
check_peak(void)
{
    struct tm_snapshot *s = tm_snapshot_freeze_peak();
    FUZZ_NEED(s != NULL && s->rows != NULL && s->address == NULL, "no memory");
    struct tm_snapshot *copy = tm_snapshot_compact(s);
    struct tm_snapshot *all = copy != NULL ? tm_snapshot_select(copy, NULL, 0) : NULL;
    FUZZ_NEED(all != NULL, "no memory");
    FUZZ_NEED(all->peak_size == s->peak_size && all->ntraces == s->ntraces, "-");
    for (size_t i = 0; i < s->ntraces; i++) {
        FUZZ_NEED(memcmp(&s->rows[i], &all->rows[i], sizeof(s->rows[i])) == 0,
                  "row %zu", i);
    }
    check_groups(s, TM_BY_FILE, true);
    check_groups(s, TM_BY_LINE, false);
    check_groups(all, TM_BY_LINE, true);
    check_groups(all, TM_BY_CHAIN, false);
    tm_snapshot_free(s);
    tm_snapshot_free(copy);
    tm_snapshot_free(all);
}

/* Everything in a row; false when memory was missing somewhere. */
static bool
all_at_once(const struct choice *c)
{
    bool done = false;
    struct tm_groups groups;
    struct tm_changes changes;
    size_t found;
    struct tm_snapshot *s = tm_snapshot_freeze(true), *kept = NULL, *compact = NULL;
    struct tm_snapshot *peak = tm_snapshot_freeze_peak();
    struct tm_snapshot *sums = s == NULL ? NULL : tm_snapshot_freeze(false);
    if (sums != NULL && peak != NULL && (kept = tm_snapshot_select(s, c->selector, c->n)) != NULL
        && (compact = tm_snapshot_compact(kept)) != NULL
        && tm_snapshot_find(s, 5, &found) == 0
        && tm_snapshot_group(s, TM_BY_LINE, true, &groups) == 0) {
        tm_groups_clear(&groups);
        if (tm_snapshot_compare(s, compact, TM_BY_CHAIN, false, &changes) == 0) {
            tm_changes_clear(&changes);
            done = true;
        }
    }
    tm_snapshot_free(s);
    tm_snapshot_free(kept);
    tm_snapshot_free(compact);
    tm_snapshot_free(sums);
    tm_snapshot_free(peak);
    return done;
}

static unsigned long
without_memory(const struct choice *c)
{
    unsigned long cases = 0;
    long before = fuzz_live_blocks();
    bool done = false;
    while (!done) {
        tm_arena_fail_after(++cases, 0);
        done = all_at_once(c);
        tm_arena_fail_after(0, 0);
        FUZZ_NEED(fuzz_live_blocks() == before, "%ld left after %lu",
                  fuzz_live_blocks() - before, cases);
        FUZZ_NEED(cases < 10000, "never done");
    }
    return cases;
}

int
main(void)
{
    static struct rows rows[KINDS];
    uint64_t seed = 3;
    unsigned long cases = 0;
    struct tm_snapshot *old = NULL;
    for (int round = 0; round < 150; round++) {
        struct choice choice;
        make_world(&seed);
        struct tm_snapshot *s = tm_snapshot_freeze(true);
        FUZZ_NEED(s != NULL, "no memory");
        check_freeze(s);
        check_sums_only();
        check_peak();
        for (size_t k = 0; k < KINDS; k++, cases++) {
            check_groups(s, kinds[k].by, kinds[k].cumulative);
            if (old != NULL) {
                check_changes(old, &rows[k], s, kinds[k].by, kinds[k].cumulative);
            }
            rows[k].n = 0;
            model_group(&rows[k], kinds[k].by, kinds[k].cumulative, false);
        }
        for (int i = 0; i < 20; i++, cases++) {
            random_choice(&seed, &choice);
            check_select(s, &choice);
            if (i == 0 && round % 25 == 0) {
                cases += without_memory(&choice);
            }
            clear_choice(&choice);
        }
        tm_snapshot_free(old);
        old = s;
    }
    tm_snapshot_free(old);
    FUZZ_NEED(fuzz_live_blocks() == 0, "%ld left", fuzz_live_blocks());
    return fuzz_done("snapshot", cases);
}
