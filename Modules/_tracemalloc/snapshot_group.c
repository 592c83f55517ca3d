/* Grouping and comparing snapshots, see snapshot.h.  Owner of its data: the
 * caller, who clears what it was given. */
#include "arena.h"
#include "snapshot.h"

#include <string.h>

/* --- Sorting ---------------------------------------------------------------- */

/* What the keys of the rows mean. */
struct order {
    const struct tm_tables *tables;
    enum tm_group_by by;
    uint32_t *file_rank;        /* place of a file by name, from 0 */
};

/* > 0: row a comes first. */
typedef int (*row_order)(const struct order *order, const void *a,
                         const void *b);

/* Stable merge sort of rows of `width` bytes; `spare` has room for n. */
static void
sort_rows(char *rows, char *spare, size_t n, size_t width,
          const struct order *order, row_order first)
{
    if (n < 2) {
        return;
    }
    size_t half = n / 2;
    sort_rows(rows, spare, half, width, order, first);
    sort_rows(rows + half * width, spare, n - half, width, order, first);
    if (first(order, rows + (half - 1) * width, rows + half * width) >= 0) {
        return;
    }
    memcpy(spare, rows, half * width);
    char *left = spare, *left_end = spare + half * width;
    char *right = rows + half * width, *right_end = rows + n * width;
    char *out = rows;
    while (left < left_end && right < right_end) {
        char **take = first(order, left, right) >= 0 ? &left : &right;
        memcpy(out, *take, width);
        *take += width;
        out += width;
    }
    memcpy(out, left, (size_t)(left_end - left));
}

static int
sort_all(void *rows, size_t n, size_t width, const struct order *order,
         row_order first)
{
    char *spare = tm_alloc((n / 2 + 1) * width);
    if (spare == NULL) {
        return -1;
    }
    sort_rows(rows, spare, n, width, order, first);
    tm_free(spare);
    return 0;
}

static int
number_order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int
place_order(const struct order *order, uint32_t a, uint32_t b)
{
    const struct tm_place *x = &order->tables->sites[a];
    const struct tm_place *y = &order->tables->sites[b];
    int files = number_order(order->file_rank[x->file],
                             order->file_rank[y->file]);
    return files != 0 ? files : number_order(x->line, y->line);
}

/* As tuples of frames, the oldest first. */
static int
chain_order(const struct order *order, uint32_t a, uint32_t b)
{
    const struct tm_tables *t = order->tables;
    size_t x = tm_chain_length(t, a), y = tm_chain_length(t, b);
    const uint32_t *links_a = tm_chain_links(t, a);
    const uint32_t *links_b = tm_chain_links(t, b);
    while (x > 0 && y > 0) {
        x--;
        y--;
        if (links_a[x] != links_b[y]) {
            return place_order(order, links_a[x], links_b[y]);
        }
    }
    return number_order(x, y);
}

static int
key_order(const struct order *order, uint32_t a, uint32_t b)
{
    if (a == b) {
        return 0;
    }
    if (order->by == TM_BY_FILE) {
        return number_order(order->file_rank[a], order->file_rank[b]);
    }
    if (order->by == TM_BY_CHAIN) {
        return chain_order(order, a, b);
    }
    if (a == TM_NONE || b == TM_NONE) {
        return a == TM_NONE ? -1 : 1;
    }
    return place_order(order, a, b);
}

static int
size_order(const struct tm_sum *a, const struct tm_sum *b)
{
    int high = number_order(a->high, b->high);
    return high != 0 ? high : number_order(a->low, b->low);
}

static int
group_first(const struct order *order, const void *a, const void *b)
{
    const struct tm_group *x = a, *y = b;
    int by = size_order(&x->sum, &y->sum);
    if (by == 0) {
        by = number_order(x->sum.count, y->sum.count);
    }
    return by != 0 ? by : key_order(order, x->key, y->key);
}

/* Larger minus smaller. */
static struct tm_sum
distance(const struct tm_sum *a, const struct tm_sum *b)
{
    struct tm_sum d;
    if (size_order(a, b) < 0) {
        const struct tm_sum *swap = a;
        a = b;
        b = swap;
    }
    d = (struct tm_sum){0};
    d.low = a->low - b->low;
    d.high = a->high - b->high - (a->low < b->low);
    return d;
}

static uint64_t
count_distance(const struct tm_change *c)
{
    return c->now.count > c->before.count ? c->now.count - c->before.count
                                          : c->before.count - c->now.count;
}

static int
change_first(const struct order *order, const void *a, const void *b)
{
    const struct tm_change *x = a, *y = b;
    struct tm_sum dx = distance(&x->now, &x->before);
    struct tm_sum dy = distance(&y->now, &y->before);
    int by = size_order(&dx, &dy);
    if (by == 0) {
        by = size_order(&x->now, &y->now);
    }
    if (by == 0) {
        by = number_order(count_distance(x), count_distance(y));
    }
    if (by == 0) {
        by = number_order(x->now.count, y->now.count);
    }
    return by != 0 ? by : key_order(order, x->key, y->key);
}

static int
name_first(const struct order *order, const void *a, const void *b)
{
    const struct tm_name *files = order->tables->files;
    return tm_name_order(&files[*(const uint32_t *)b],
                         &files[*(const uint32_t *)a]);
}

static int
order_init(struct order *order, const struct tm_tables *tables,
           enum tm_group_by by)
{
    size_t n = tables->nfiles;
    *order = (struct order){.tables = tables, .by = by};
    uint32_t *by_name = tm_alloc((n + 1) * sizeof(*by_name));
    order->file_rank = tm_alloc((n + 1) * sizeof(*order->file_rank));
    int status = -1;
    if (by_name != NULL && order->file_rank != NULL) {
        for (uint32_t i = 0; i < n; i++) {
            by_name[i] = i;
        }
        status = sort_all(by_name, n, sizeof(*by_name), order, name_first);
        for (uint32_t i = 0; status == 0 && i < n; i++) {
            order->file_rank[by_name[i]] = i;
        }
    }
    tm_free(by_name);
    if (status < 0) {
        tm_free(order->file_rank);
    }
    return status;
}

/* --- Grouping --------------------------------------------------------------- */

/* Fold the sums of the tracebacks into one a key.  keys[nkeys] is for chains
   without frames. */
static void
fold_recent(const struct tm_tables *t, const struct tm_sum *sums,
            enum tm_group_by by, struct tm_sum *keys, size_t nkeys)
{
    for (uint32_t i = 0; i < t->ntracebacks; i++) {
        if (sums[i].count == 0) {
            continue;
        }
        uint32_t chain = t->tracebacks[i].chain;
        size_t key = chain;
        if (by != TM_BY_CHAIN) {
            bool empty = tm_chain_length(t, chain) == 0;
            uint32_t site = empty ? 0 : *tm_chain_links(t, chain);
            if (by == TM_BY_LINE) {
                key = empty ? nkeys : site;
            }
            else {
                key = empty ? 0 : t->sites[site].file;
            }
        }
        tm_sum_add(&keys[key], &sums[i]);
    }
}

/* A key that stands k times in a chain counts k times, and then the variance
   counts k*k times: 1 + 3 + 5 ...  `seen` is NULL or has a 0 for each key. */
static void
fold_all(const struct tm_tables *t, const struct tm_sum *sums,
         enum tm_group_by by, struct tm_sum *keys, uint32_t *seen)
{
    for (uint32_t i = 0; i < t->ntracebacks; i++) {
        if (sums[i].count == 0) {
            continue;
        }
        const uint32_t *links = tm_chain_links(t, t->tracebacks[i].chain);
        size_t n = tm_chain_length(t, t->tracebacks[i].chain);
        for (size_t k = 0; k < n; k++) {
            size_t key = by == TM_BY_LINE ? links[k] : t->sites[links[k]].file;
            tm_sum_add(&keys[key], &sums[i]);
            if (seen != NULL) {
                keys[key].estimate.variance += sums[i].estimate.variance
                                               * 2.0 * seen[key]++;
            }
        }
        for (size_t k = 0; seen != NULL && k < n; k++) {
            seen[by == TM_BY_LINE ? links[k] : t->sites[links[k]].file] = 0;
        }
    }
}

static int
fold(const struct tm_snapshot *s, const struct tm_sum *sums,
     enum tm_group_by by, bool cumulative, struct tm_sum *keys, size_t nkeys)
{
    uint32_t *seen = NULL;
    if (!cumulative || by == TM_BY_CHAIN) {
        fold_recent(s->tables, sums, by, keys, nkeys);
        return 0;
    }
    if (s->interval > 1
        && (seen = tm_calloc(nkeys + 1, sizeof(*seen))) == NULL) {
        return -1;
    }
    fold_all(s->tables, sums, by, keys, seen);
    tm_free(seen);
    return 0;
}

static size_t
count_keys(const struct tm_tables *t, enum tm_group_by by)
{
    return by == TM_BY_FILE ? t->nfiles
           : by == TM_BY_LINE ? t->nsites : t->nchains;
}

/* Groups in the order of their keys' ids. */
static int
group_unsorted(struct tm_snapshot *s, enum tm_group_by by, bool cumulative,
               struct tm_groups *groups)
{
    const struct tm_sum *sums = tm_snapshot_sums(s);
    size_t nkeys = count_keys(s->tables, by), n = 0;
    *groups = (struct tm_groups){.estimated = s->interval > 1};
    struct tm_sum *keys = tm_calloc(nkeys + 1, sizeof(*keys));
    if (sums == NULL || keys == NULL
        || fold(s, sums, by, cumulative, keys, nkeys) < 0) {
        tm_free(keys);
        return -1;
    }
    for (size_t i = 0; i <= nkeys; i++) {
        n += keys[i].count > 0;
    }
    groups->rows = tm_alloc((n + 1) * sizeof(*groups->rows));
    if (groups->rows == NULL) {
        tm_free(keys);
        return -1;
    }
    for (size_t i = 0; i <= nkeys; i++) {
        if (keys[i].count > 0) {
            tm_sum_settle(&keys[i]);
            groups->rows[groups->n++] = (struct tm_group){
                .key = i < nkeys ? (uint32_t)i : TM_NONE, .sum = keys[i],
            };
        }
    }
    tm_free(keys);
    return 0;
}

void
tm_groups_clear(struct tm_groups *groups)
{
    tm_free(groups->rows);
    *groups = (struct tm_groups){0};
}

int
tm_snapshot_group(struct tm_snapshot *s, enum tm_group_by by, bool cumulative,
                  struct tm_groups *groups)
{
    struct order order;
    if (group_unsorted(s, by, cumulative, groups) < 0) {
        return -1;
    }
    int status = order_init(&order, s->tables, by);
    if (status == 0) {
        status = sort_all(groups->rows, groups->n, sizeof(*groups->rows),
                          &order, group_first);
        tm_free(order.file_rank);
    }
    if (status < 0) {
        tm_groups_clear(groups);
    }
    return status;
}

/* --- Comparing -------------------------------------------------------------- */

static uint32_t
import_key(struct tm_import *import, enum tm_group_by by, uint32_t key)
{
    switch (by) {
    case TM_BY_FILE:
        return tm_import_file(import, key);
    case TM_BY_LINE:
        return tm_import_site(import, key);
    default:
        return tm_import_chain(import, key);
    }
}

/* While rows are collected: row + 1 of a key, 0 where there is none; at [0] the
   one without a key. */
struct collector {
    struct tm_changes *changes;
    enum tm_group_by by;
    uint32_t *row;
    size_t row_room, rows_room;
};

static struct tm_change *
collected(struct collector *c, uint32_t key)
{
    size_t place = key == TM_NONE ? 0 : (size_t)key + 1;
    size_t had = c->row_room;
    if (tm_make_room(&c->row, &c->row_room, place + 1, sizeof(*c->row)) < 0) {
        return NULL;
    }
    memset(c->row + had, 0, (c->row_room - had) * sizeof(*c->row));
    if (c->row[place] == 0) {
        struct tm_changes *out = c->changes;
        if (tm_make_room(&out->rows, &c->rows_room, out->n + 1,
                         sizeof(*out->rows)) < 0) {
            return NULL;
        }
        out->rows[out->n] = (struct tm_change){.key = key};
        c->row[place] = (uint32_t)++out->n;
    }
    return &c->changes->rows[c->row[place] - 1];
}

static int
collect(struct collector *c, struct tm_snapshot *s, bool cumulative, bool now)
{
    struct tm_groups groups;
    struct tm_import import;
    int status = -1;
    if (group_unsorted(s, c->by, cumulative, &groups) < 0) {
        return -1;
    }
    if (tm_import_init(&import, s->tables, c->changes->tables) == 0) {
        status = 0;
        *(now ? &c->changes->now_estimated : &c->changes->before_estimated)
            = groups.estimated;
        for (size_t i = 0; i < groups.n && status == 0; i++) {
            uint32_t key = groups.rows[i].key;
            struct tm_change *row = NULL;
            if (key == TM_NONE) {
                row = collected(c, key);
            }
            else if ((key = import_key(&import, c->by, key)) != TM_NONE) {
                row = collected(c, key);
            }
            if (row == NULL) {
                status = -1;
            }
            else {
                *(now ? &row->now : &row->before) = groups.rows[i].sum;
            }
        }
        tm_import_clear(&import);
    }
    tm_groups_clear(&groups);
    return status;
}

void
tm_changes_clear(struct tm_changes *changes)
{
    tm_tables_release(changes->tables);
    tm_free(changes->rows);
    *changes = (struct tm_changes){0};
}

int
tm_snapshot_compare(struct tm_snapshot *now, struct tm_snapshot *before,
                    enum tm_group_by by, bool cumulative,
                    struct tm_changes *changes)
{
    struct collector c = {.changes = changes, .by = by};
    struct order order;
    int status = -1;

    *changes = (struct tm_changes){.tables = tm_tables_new()};
    if (changes->tables != NULL && collect(&c, now, cumulative, true) == 0
        && collect(&c, before, cumulative, false) == 0
        && order_init(&order, changes->tables, by) == 0) {
        status = sort_all(changes->rows, changes->n, sizeof(*changes->rows),
                          &order, change_first);
        tm_free(order.file_rank);
    }
    tm_free(c.row);
    if (status < 0) {
        tm_changes_clear(changes);
        return -1;
    }
    tm_tables_seal(changes->tables);
    return 0;
}
