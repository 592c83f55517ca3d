/* Selecting traces of a snapshot and compacting its tables, see snapshot.h.
 * Owner of its data: the caller, who frees the new snapshot.
 *
 * A pattern is matched once with each file, a selector once with each site, a
 * chain is judged once for each domain that selectors name, and a trace then
 * costs one look-up. */
#include "arena.h"
#include "glob.h"
#include "snapshot.h"

#include <string.h>

/* Which kinds of selectors hit a site. */
enum {
    HIT_INCLUDE = 1,            /* as the most recent frame */
    HIT_EXCLUDE = 2,
    HIT_INCLUDE_ANY = 4,        /* as any frame */
    HIT_EXCLUDE_ANY = 8,
};

/* Verdicts for the traces of one domain, or of all that no selector names. */
struct judge {
    uint32_t domain;
    bool named;
    uint8_t *keep;              /* a chain each; NULL: no trace has asked yet */
};

struct selection {
    struct tm_snapshot *snapshot;
    const struct tm_selector *selectors;
    size_t nselectors;
    uint8_t *file_hit;          /* nselectors rows of a byte for each file */
    struct judge *judges;       /* [0] is for domains without a name */
    size_t njudges;
    bool has_includes;
};

static uint8_t
hit_kind(const struct tm_selector *s)
{
    if (s->all_frames) {
        return s->include ? HIT_INCLUDE_ANY : HIT_EXCLUDE_ANY;
    }
    return s->include ? HIT_INCLUDE : HIT_EXCLUDE;
}

static void
match_files(struct selection *sel)
{
    const struct tm_tables *t = sel->snapshot->tables;
    for (size_t i = 0; i < sel->nselectors; i++) {
        struct tm_glob *glob = sel->selectors[i].glob;
        uint8_t *row = sel->file_hit + i * t->nfiles;
        uint32_t first = sel->selectors[i].known_only ? 1 : 0;
        for (uint32_t f = first; f < t->nfiles && glob != NULL; f++) {
            const struct tm_name *name = &t->files[f];
            row[f] = tm_glob_match(glob, name->kind, name->data,
                                   tm_glob_source_length(name->kind, name->data,
                                                         name->length));
        }
    }
}

static bool
speaks_for(const struct tm_selector *s, const struct judge *judge)
{
    return s->any_domain || (judge->named && s->domain == judge->domain);
}

/* What the frames of each site make true, and, as the result, what is true of
   any trace of this domain. */
static uint8_t
judge_sites(const struct selection *sel, const struct judge *judge,
            uint8_t *site_hit)
{
    const struct tm_tables *t = sel->snapshot->tables;
    uint8_t always = 0;
    for (size_t i = 0; i < sel->nselectors; i++) {
        const struct tm_selector *s = &sel->selectors[i];
        if (!speaks_for(s, judge)) {
            continue;
        }
        if (s->glob == NULL) {
            always |= s->include ? HIT_INCLUDE : HIT_EXCLUDE;
            continue;
        }
        const uint8_t *row = sel->file_hit + i * t->nfiles;
        uint8_t kind = hit_kind(s);
        for (uint32_t k = 0; k < t->nsites; k++) {
            const struct tm_place *place = &t->sites[k];
            if (row[place->file] && (s->any_line || s->line == place->line)) {
                site_hit[k] |= kind;
            }
        }
    }
    return always;
}

static bool
chain_kept(const struct selection *sel, uint32_t chain, const uint8_t *site_hit,
           uint8_t always)
{
    const struct tm_tables *t = sel->snapshot->tables;
    const uint32_t *links = tm_chain_links(t, chain);
    size_t n = tm_chain_length(t, chain);
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++) {
        any |= site_hit[links[i]];
    }
    uint8_t recent = always | (n > 0 ? site_hit[links[0]] : 0);
    if ((recent & HIT_EXCLUDE) || (any & HIT_EXCLUDE_ANY)) {
        return false;
    }
    return !sel->has_includes || (recent & HIT_INCLUDE)
           || (any & HIT_INCLUDE_ANY);
}

static int
judge_chains(const struct selection *sel, struct judge *judge)
{
    const struct tm_tables *t = sel->snapshot->tables;
    uint8_t *site_hit = tm_calloc((size_t)t->nsites + 1, 1);
    judge->keep = tm_alloc((size_t)t->nchains + 1);
    if (site_hit == NULL || judge->keep == NULL) {
        tm_free(site_hit);
        return -1;
    }
    uint8_t always = judge_sites(sel, judge, site_hit);
    for (uint32_t i = 0; i < t->nchains; i++) {
        judge->keep[i] = chain_kept(sel, i, site_hit, always);
    }
    tm_free(site_hit);
    return 0;
}

/* Domains are few; an entry for each that a selector names. */
static void
name_domains(struct selection *sel)
{
    sel->njudges = 1;
    for (size_t i = 0; i < sel->nselectors; i++) {
        const struct tm_selector *s = &sel->selectors[i];
        size_t k = 1;
        if (s->any_domain) {
            continue;
        }
        while (k < sel->njudges && sel->judges[k].domain != s->domain) {
            k++;
        }
        if (k == sel->njudges) {
            sel->judges[sel->njudges++] = (struct judge){s->domain, true, NULL};
        }
    }
}

static struct judge *
judge_of(struct selection *sel, uint32_t domain)
{
    struct judge *judge = &sel->judges[0];
    for (size_t i = 1; i < sel->njudges; i++) {
        if (sel->judges[i].domain == domain) {
            judge = &sel->judges[i];
            break;
        }
    }
    if (judge->keep == NULL && judge_chains(sel, judge) < 0) {
        return NULL;
    }
    return judge;
}

/* Trace i of one becomes trace n of the other, which has the same columns. */
static inline void
copy_trace(const struct tm_snapshot *s, size_t i, struct tm_snapshot *out,
           size_t n)
{
    out->size[n] = s->size[i];
    out->traceback[n] = s->traceback[i];
    if (out->address != NULL) {
        out->address[n] = s->address[i];
    }
    if (out->domain != NULL) {
        out->domain[n] = s->domain[i];
    }
    if (out->rows != NULL) {
        out->rows[n] = s->rows[i];
    }
}

static int
copy_kept(struct selection *sel, struct tm_snapshot *out)
{
    const struct tm_snapshot *s = sel->snapshot;
    const struct tm_traceback *tracebacks = s->tables->tracebacks;
    const uint8_t *keep = NULL;
    uint32_t domain = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->ntraces; i++) {
        uint32_t here = s->domain != NULL ? s->domain[i] : 0;
        if (keep == NULL || here != domain) {
            const struct judge *judge = judge_of(sel, here);
            if (judge == NULL) {
                return -1;
            }
            keep = judge->keep;
            domain = here;
        }
        /* Written always, counted when kept: no branch to guess. */
        copy_trace(s, i, out, n);
        n += keep[tracebacks[s->traceback[i]].chain];
    }
    out->ntraces = n;
    return 0;
}

static struct tm_snapshot *
empty_like(const struct tm_snapshot *s, struct tm_tables *tables)
{
    struct tm_snapshot *out = tm_snapshot_new(tables);
    if (out == NULL) {
        return NULL;
    }
    out->has_traces = s->has_traces;
    out->limit = s->limit;
    out->lost = s->lost;
    out->interval = s->interval;
    out->peak_size = s->peak_size;
    if (s->has_traces
        && (tm_snapshot_reserve(out, s->ntraces, s->address != NULL) < 0
            || (s->domain != NULL && tm_snapshot_need_domains(out) < 0)
            || (s->rows != NULL && tm_snapshot_need_rows(out) < 0))) {
        tm_snapshot_free(out);
        return NULL;
    }
    return out;
}

struct tm_snapshot *
tm_snapshot_select(struct tm_snapshot *s, const struct tm_selector *selectors,
                   size_t nselectors)
{
    struct selection sel = {
        .snapshot = s, .selectors = selectors, .nselectors = nselectors,
        .file_hit = tm_calloc(nselectors + 1, s->tables->nfiles),
        .judges = tm_calloc(nselectors + 1, sizeof(*sel.judges)),
    };
    struct tm_snapshot *out = empty_like(s, s->tables);
    int status = -1;
    if (sel.file_hit != NULL && sel.judges != NULL && out != NULL) {
        for (size_t i = 0; i < nselectors; i++) {
            sel.has_includes |= selectors[i].include;
        }
        match_files(&sel);
        name_domains(&sel);
        status = copy_kept(&sel, out);
    }
    for (size_t i = 0; i < sel.njudges; i++) {
        tm_free(sel.judges[i].keep);
    }
    tm_free(sel.file_hit);
    tm_free(sel.judges);
    if (status < 0) {
        tm_snapshot_free(out);
        return NULL;
    }
    tm_snapshot_trim(out);
    return out;
}

struct tm_snapshot *
tm_snapshot_pick(struct tm_snapshot *s, const uint8_t *keep)
{
    struct tm_snapshot *out = empty_like(s, s->tables);
    size_t n = 0;
    if (out == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < s->ntraces; i++) {
        copy_trace(s, i, out, n);
        n += keep[i] != 0;
    }
    out->ntraces = n;
    tm_snapshot_trim(out);
    return out;
}

/* --- Compacting ------------------------------------------------------------- */

static int
copy_compacted(struct tm_snapshot *s, struct tm_snapshot *out,
               const struct tm_sum *sums, uint32_t *map)
{
    const struct tm_tables *from = s->tables;
    struct tm_import import;
    if (tm_import_init(&import, from, out->tables) < 0) {
        return -1;
    }
    int status = 0;
    for (uint32_t i = 0; i < from->ntracebacks && status == 0; i++) {
        if (sums[i].count > 0) {
            map[i] = tm_import_traceback(&import, i);
            status = map[i] == TM_NONE ? -1 : 0;
        }
    }
    tm_import_clear(&import);
    if (status < 0) {
        return -1;
    }
    if (!s->has_traces) {
        out->sums = tm_calloc((size_t)out->tables->ntracebacks + 1,
                              sizeof(*out->sums));
        for (uint32_t i = 0; out->sums != NULL && i < from->ntracebacks; i++) {
            if (sums[i].count > 0) {
                out->sums[map[i]] = sums[i];
            }
        }
        return out->sums != NULL ? 0 : -1;
    }
    size_t n = s->ntraces;
    for (size_t i = 0; i < n; i++) {
        out->traceback[i] = map[s->traceback[i]];
    }
    if (n > 0) {
        memcpy(out->size, s->size, n * sizeof(*s->size));
    }
    if (n > 0 && s->address != NULL) {
        memcpy(out->address, s->address, n * sizeof(*s->address));
    }
    if (n > 0 && s->domain != NULL) {
        memcpy(out->domain, s->domain, n * sizeof(*s->domain));
    }
    if (n > 0 && s->rows != NULL) {
        memcpy(out->rows, s->rows, n * sizeof(*s->rows));
    }
    return 0;
}

struct tm_snapshot *
tm_snapshot_compact(struct tm_snapshot *s)
{
    const struct tm_sum *sums = tm_snapshot_sums(s);
    uint32_t *map = tm_alloc(((size_t)s->tables->ntracebacks + 1)
                             * sizeof(*map));
    struct tm_snapshot *out = empty_like(s, NULL);
    if (sums == NULL || map == NULL || out == NULL
        || copy_compacted(s, out, sums, map) < 0) {
        tm_snapshot_free(out);
        out = NULL;
    }
    tm_free(map);
    if (out != NULL) {
        tm_tables_seal(out->tables);
    }
    return out;
}
