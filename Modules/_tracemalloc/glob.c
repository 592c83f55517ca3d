/* File name patterns, see glob.h.  Owner of the compiled form: the caller. */
#include "arena.h"
#include "glob.h"

#include <stdlib.h>
#include <string.h>

/* One position of a part: a code point, or one of these. */
#define ITEM_ANY 0x80000000u
#define ITEM_SET 0x40000000u            /* | index in sets[] */
#define IS_LITERAL(item) ((item) < ITEM_SET)

#define WORD 64                         /* positions in a block */
#define CACHE 32                        /* remembered code points of a part */
#define NOT_CACHED UINT32_MAX
#define LENGTH_MAX ((size_t)1 << 29)    /* ids and code points stay apart */

struct span {                           /* code points first..last */
    uint32_t first, last;
};

struct set {
    size_t span, nspans;                /* sorted and apart from each other */
    bool negated;
};

/* 64 positions of a part that is searched by bits: bit i of mask[k] is set
   when position i accepts the code points bound[k] .. bound[k + 1] - 1. */
struct block {
    uint32_t *bound;                    /* bound[0] = 0, ascending */
    uint64_t *mask;
    size_t nbounds;
};

/* What stands between two stars. */
struct part {
    size_t item, nitems;                /* a slice of items[] */
    size_t skip_before, skip_after;     /* `?` cut off a middle part's ends */
    size_t *border;                     /* literal: its failure function */
    struct block *blocks;               /* with `?` or sets inside: by bits */
    size_t nblocks;
    uint64_t *state;                    /* a word for each block */
    uint64_t *cached_mask;              /* CACHE rows of a word a block */
    uint32_t *cached_char;              /* CACHE code points */
};

struct tm_glob {
    uint32_t *items;
    size_t nitems;                      /* = the shortest name that matches */
    struct part *parts;
    size_t nparts;                      /* one more than stars, runs as one */
    struct set *sets;
    size_t nsets;
    struct span *spans;
    size_t nspans;
    bool never;                         /* has a set that accepts nothing */
};

static inline uint32_t
code_point(unsigned kind, const void *text, size_t i)
{
    switch (kind) {
    case 1:
        return ((const uint8_t *)text)[i];
    case 2:
        return ((const uint16_t *)text)[i];
    default:
        return ((const uint32_t *)text)[i];
    }
}

size_t
tm_glob_source_length(unsigned kind, const void *name, size_t length)
{
    if (length < 4 || code_point(kind, name, length - 4) != '.'
        || code_point(kind, name, length - 3) != 'p'
        || code_point(kind, name, length - 2) != 'y') {
        return length;
    }
    uint32_t last = code_point(kind, name, length - 1);
    return last == 'c' || last == 'o' ? length - 1 : length;
}

/* --- Sets ------------------------------------------------------------------ */

static int
span_order(const void *a, const void *b)
{
    uint32_t x = ((const struct span *)a)->first;
    uint32_t y = ((const struct span *)b)->first;
    return x < y ? -1 : x > y;
}

/* Sort the spans and join those that touch; return how many are left.  Keeps
   later work linear: a code point is then in one span at most. */
static size_t
tidy_spans(struct span *spans, size_t n)
{
    if (n < 2) {
        return n;
    }
    qsort(spans, n, sizeof(*spans), span_order);
    size_t kept = 0;
    for (size_t i = 1; i < n; i++) {
        if (spans[i].first <= spans[kept].last + 1) {
            if (spans[i].last > spans[kept].last) {
                spans[kept].last = spans[i].last;
            }
        }
        else {
            spans[++kept] = spans[i];
        }
    }
    return kept + 1;
}

static bool
set_has(const struct tm_glob *glob, const struct set *set, uint32_t c)
{
    for (size_t i = 0; i < set->nspans; i++) {
        const struct span *s = &glob->spans[set->span + i];
        if (c >= s->first && c <= s->last) {
            return !set->negated;
        }
    }
    return set->negated;
}

static bool
item_accepts(const struct tm_glob *glob, uint32_t item, uint32_t c)
{
    if (IS_LITERAL(item)) {
        return item == c;
    }
    return item == ITEM_ANY || set_has(glob, &glob->sets[item & ~ITEM_SET], c);
}

/* The text between two brackets, while it is read. */
struct body {
    unsigned kind;
    const void *pattern;
    size_t from, to;
    struct span *out;
    size_t nout;
    bool negated;
};

static void
take_char(struct body *b, uint32_t c)
{
    if (c == '!' && b->nout == 0 && !b->negated) {
        b->negated = true;
    }
    else {
        b->out[b->nout++] = (struct span){c, c};
    }
}

/* Split the body into spans.  A hyphen makes a range when it stands between
   two characters that no range to its left has used up.  A range with its ends
   the wrong way round vanishes together with them.  A leading `!` negates, even
   where it leads only because such a range has vanished, and even as the low
   end of a range: then the hyphen and the other end are plain members. */
static void
read_body(struct body *b)
{
    size_t i = b->from;

    if (code_point(b->kind, b->pattern, i) == '!') {
        b->negated = true;
        i++;
    }
    while (i < b->to) {
        uint32_t c = code_point(b->kind, b->pattern, i);
        if (b->to - i < 3 || code_point(b->kind, b->pattern, i + 1) != '-') {
            take_char(b, c);
            i++;
            continue;
        }
        uint32_t last = code_point(b->kind, b->pattern, i + 2);
        i += 3;
        if (c > last) {
            continue;
        }
        if (c == '!' && b->nout == 0 && !b->negated) {
            b->negated = true;
            b->out[b->nout++] = (struct span){'-', '-'};
            c = last;
        }
        b->out[b->nout++] = (struct span){c, last};
    }
}

/* --- Reading a pattern ------------------------------------------------------ */

struct reader {
    struct tm_glob *glob;
    unsigned kind;
    const void *pattern;
    size_t length;
    size_t at;
    size_t unclosed;            /* no `]` at or after this position */
};

/* The position of the bracket that closes the set opened before r->at, or
   r->length.  A bracket directly behind `[` or `[!` is a member.  Remembers a
   failure, or a pattern of many `[` would be searched over and over. */
static size_t
find_close(struct reader *r)
{
    size_t i = r->at;
    if (i < r->length && code_point(r->kind, r->pattern, i) == '!') {
        i++;
    }
    if (i < r->length && code_point(r->kind, r->pattern, i) == ']') {
        i++;
    }
    if (i >= r->unclosed) {
        return r->length;
    }
    for (size_t from = i; i < r->length; i++) {
        if (code_point(r->kind, r->pattern, i) == ']') {
            return i;
        }
        if (i + 1 == r->length) {
            r->unclosed = from;
        }
    }
    return r->length;
}

static void
read_set(struct reader *r)
{
    struct tm_glob *glob = r->glob;
    size_t close = find_close(r);
    if (close == r->length) {
        glob->items[glob->nitems++] = '[';
        return;
    }
    struct body body = {
        .kind = r->kind, .pattern = r->pattern, .from = r->at, .to = close,
        .out = glob->spans + glob->nspans,
    };
    read_body(&body);
    r->at = close + 1;
    if (body.nout == 0) {
        /* Nothing is accepted, or everything. */
        glob->never |= !body.negated;
        glob->items[glob->nitems++] = ITEM_ANY;
        return;
    }
    struct set *set = &glob->sets[glob->nsets];
    set->span = glob->nspans;
    set->nspans = tidy_spans(body.out, body.nout);
    set->negated = body.negated;
    glob->nspans += set->nspans;
    glob->items[glob->nitems++] = ITEM_SET | (uint32_t)glob->nsets++;
}

static void
read_pattern(struct reader *r)
{
    struct tm_glob *glob = r->glob;
    struct part *part = &glob->parts[0];
    bool star = false;

    while (r->at < r->length) {
        uint32_t c = code_point(r->kind, r->pattern, r->at++);
        if (c == '*') {
            if (!star) {
                part->nitems = glob->nitems - part->item;
                part++;
                part->item = glob->nitems;
            }
            star = true;
            continue;
        }
        star = false;
        if (c == '[') {
            read_set(r);
        }
        else {
            glob->items[glob->nitems++] = c == '?' ? ITEM_ANY : c;
        }
    }
    part->nitems = glob->nitems - part->item;
    glob->nparts = (size_t)(part - glob->parts) + 1;
}

/* --- Compiling the middle parts --------------------------------------------- */

/* border[i]: length of the longest proper border of the first i + 1 items. */
static int
compile_literal(struct tm_glob *glob, struct part *part)
{
    const uint32_t *item = glob->items + part->item;
    size_t *border = tm_alloc(part->nitems * sizeof(*border));
    if (border == NULL) {
        return -1;
    }
    part->border = border;
    border[0] = 0;
    for (size_t i = 1, k = 0; i < part->nitems; i++) {
        while (k > 0 && item[i] != item[k]) {
            k = border[k - 1];
        }
        if (item[i] == item[k]) {
            k++;
        }
        border[i] = k;
    }
    return 0;
}

static int
number_order(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Index of the interval that holds c. */
static size_t
find_interval(const struct block *block, uint32_t c)
{
    size_t low = 0, high = block->nbounds;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (block->bound[middle] <= c) {
            low = middle;
        }
        else {
            high = middle;
        }
    }
    return low;
}

/* The spans of an item; *one is room for a literal's. */
static size_t
item_spans(const struct tm_glob *glob, uint32_t item, struct span *one,
           const struct span **spans)
{
    if (item == ITEM_ANY) {
        *one = (struct span){0, UINT32_MAX - 1};
    }
    else if (IS_LITERAL(item)) {
        *one = (struct span){item, item};
    }
    else {
        const struct set *set = &glob->sets[item & ~ITEM_SET];
        *spans = glob->spans + set->span;
        return set->nspans;
    }
    *spans = one;
    return 1;
}

static int
block_bounds(const struct tm_glob *glob, struct block *block,
             const uint32_t *items, size_t n)
{
    struct span one;
    const struct span *spans;
    size_t most = 1;
    for (size_t i = 0; i < n; i++) {
        most += 2 * item_spans(glob, items[i], &one, &spans);
    }
    block->bound = tm_alloc(most * sizeof(*block->bound));
    block->mask = tm_calloc(most, sizeof(*block->mask));
    if (block->bound == NULL || block->mask == NULL) {
        return -1;
    }
    size_t count = 0;
    block->bound[count++] = 0;
    for (size_t i = 0; i < n; i++) {
        size_t nspans = item_spans(glob, items[i], &one, &spans);
        for (size_t k = 0; k < nspans; k++) {
            block->bound[count++] = spans[k].first;
            block->bound[count++] = spans[k].last + 1;
        }
    }
    qsort(block->bound, count, sizeof(*block->bound), number_order);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || block->bound[i] != block->bound[block->nbounds - 1]) {
            block->bound[block->nbounds++] = block->bound[i];
        }
    }
    return 0;
}

static int
compile_block(const struct tm_glob *glob, struct block *block,
              const uint32_t *items, size_t n)
{
    if (block_bounds(glob, block, items, n) < 0) {
        return -1;
    }
    uint64_t inverted = 0;
    for (size_t i = 0; i < n; i++) {
        struct span one;
        const struct span *spans;
        uint64_t bit = (uint64_t)1 << i;
        size_t nspans = item_spans(glob, items[i], &one, &spans);
        for (size_t k = 0; k < nspans; k++) {
            size_t at = find_interval(block, spans[k].first);
            for (; at < block->nbounds && block->bound[at] <= spans[k].last; at++) {
                block->mask[at] |= bit;
            }
        }
        if (!IS_LITERAL(items[i]) && items[i] != ITEM_ANY
            && glob->sets[items[i] & ~ITEM_SET].negated) {
            inverted |= bit;
        }
    }
    for (size_t at = 0; at < block->nbounds; at++) {
        block->mask[at] ^= inverted;
    }
    return 0;
}

static int
compile_bits(struct tm_glob *glob, struct part *part)
{
    part->nblocks = (part->nitems + WORD - 1) / WORD;
    part->blocks = tm_calloc(part->nblocks, sizeof(*part->blocks));
    part->state = tm_alloc(part->nblocks * sizeof(*part->state));
    part->cached_mask = tm_alloc(part->nblocks * CACHE
                                 * sizeof(*part->cached_mask));
    part->cached_char = tm_alloc(CACHE * sizeof(*part->cached_char));
    if (part->blocks == NULL || part->state == NULL
        || part->cached_mask == NULL || part->cached_char == NULL) {
        return -1;
    }
    for (size_t i = 0; i < CACHE; i++) {
        part->cached_char[i] = NOT_CACHED;
    }
    for (size_t b = 0; b < part->nblocks; b++) {
        size_t done = b * WORD;
        size_t n = part->nitems - done < WORD ? part->nitems - done : WORD;
        if (compile_block(glob, &part->blocks[b],
                          glob->items + part->item + done, n) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Cut the `?` off both ends, where they are only distances, and choose how to
   search for the rest. */
static int
compile_middle(struct tm_glob *glob, struct part *part)
{
    while (part->nitems > 0 && glob->items[part->item] == ITEM_ANY) {
        part->skip_before++;
        part->item++;
        part->nitems--;
    }
    while (part->nitems > 0
           && glob->items[part->item + part->nitems - 1] == ITEM_ANY) {
        part->skip_after++;
        part->nitems--;
    }
    if (part->nitems == 0) {
        return 0;
    }
    for (size_t i = 0; i < part->nitems; i++) {
        if (!IS_LITERAL(glob->items[part->item + i])) {
            return compile_bits(glob, part);
        }
    }
    return compile_literal(glob, part);
}

/* Make room for whatever a pattern of this length can hold. */
static int
make_room(struct tm_glob *glob, const struct reader *r)
{
    size_t nparts = 2, nsets = 0;
    bool star = false;
    for (size_t i = 0; i < r->length; i++) {
        uint32_t c = code_point(r->kind, r->pattern, i);
        nparts += c == '*' && !star;
        nsets += c == '[';
        star = c == '*';
    }
    glob->items = tm_alloc((r->length + 1) * sizeof(*glob->items));
    glob->parts = tm_calloc(nparts, sizeof(*glob->parts));
    if (nsets > 0) {
        glob->sets = tm_alloc(nsets * sizeof(*glob->sets));
        glob->spans = tm_alloc(r->length * sizeof(*glob->spans));
        if (glob->sets == NULL || glob->spans == NULL) {
            return -1;
        }
    }
    return glob->items == NULL || glob->parts == NULL ? -1 : 0;
}

struct tm_glob *
tm_glob_compile(unsigned kind, const void *pattern, size_t length)
{
    if (length >= LENGTH_MAX) {
        return NULL;
    }
    struct tm_glob *glob = tm_calloc(1, sizeof(*glob));
    if (glob == NULL) {
        return NULL;
    }
    struct reader r = {
        .glob = glob, .kind = kind, .pattern = pattern, .length = length,
        .unclosed = SIZE_MAX,
    };
    if (make_room(glob, &r) < 0) {
        tm_glob_free(glob);
        return NULL;
    }
    read_pattern(&r);
    for (size_t i = 1; i + 1 < glob->nparts; i++) {
        if (compile_middle(glob, &glob->parts[i]) < 0) {
            tm_glob_free(glob);
            return NULL;
        }
    }
    return glob;
}

void
tm_glob_free(struct tm_glob *glob)
{
    if (glob == NULL) {
        return;
    }
    for (size_t i = 0; i < glob->nparts; i++) {
        struct part *part = &glob->parts[i];
        for (size_t b = 0; part->blocks != NULL && b < part->nblocks; b++) {
            tm_free(part->blocks[b].bound);
            tm_free(part->blocks[b].mask);
        }
        tm_free(part->border);
        tm_free(part->blocks);
        tm_free(part->state);
        tm_free(part->cached_mask);
        tm_free(part->cached_char);
    }
    tm_free(glob->items);
    tm_free(glob->parts);
    tm_free(glob->sets);
    tm_free(glob->spans);
    tm_free(glob);
}

/* --- Matching --------------------------------------------------------------- */

struct text {
    unsigned kind;
    const void *data;
};

static bool
stands_at(const struct tm_glob *glob, const struct part *part,
          const struct text *text, size_t at)
{
    const uint32_t *item = glob->items + part->item;
    for (size_t i = 0; i < part->nitems; i++) {
        if (!item_accepts(glob, item[i],
                          code_point(text->kind, text->data, at + i))) {
            return false;
        }
    }
    return true;
}

/* Both searches return the end of the leftmost place within [at, end), or
   SIZE_MAX. */
static size_t
search_literal(const struct tm_glob *glob, const struct part *part,
               const struct text *text, size_t at, size_t end)
{
    const uint32_t *item = glob->items + part->item;
    size_t k = 0;
    for (; at < end; at++) {
        uint32_t c = code_point(text->kind, text->data, at);
        while (k > 0 && item[k] != c) {
            k = part->border[k - 1];
        }
        if (item[k] == c && ++k == part->nitems) {
            return at + 1;
        }
    }
    return SIZE_MAX;
}

/* Which positions accept c: a word a block. */
static const uint64_t *
masks_of(struct part *part, uint32_t c)
{
    uint64_t *row = part->cached_mask + (c % CACHE) * part->nblocks;
    if (part->cached_char[c % CACHE] != c) {
        part->cached_char[c % CACHE] = c;
        for (size_t b = 0; b < part->nblocks; b++) {
            const struct block *block = &part->blocks[b];
            row[b] = block->mask[find_interval(block, c)];
        }
    }
    return row;
}

/* Bit i of the state: the last i + 1 code points match the first i + 1
   positions. */
static size_t
search_bits(struct part *part, const struct text *text, size_t at, size_t end)
{
    uint64_t *state = part->state;
    uint64_t accepted = (uint64_t)1 << ((part->nitems - 1) % WORD);
    memset(state, 0, part->nblocks * sizeof(*state));
    for (; at < end; at++) {
        const uint64_t *mask =
            masks_of(part, code_point(text->kind, text->data, at));
        for (size_t b = part->nblocks - 1; b > 0; b--) {
            state[b] = ((state[b] << 1) | (state[b - 1] >> (WORD - 1)))
                       & mask[b];
        }
        state[0] = ((state[0] << 1) | 1) & mask[0];
        if (state[part->nblocks - 1] & accepted) {
            return at + 1;
        }
    }
    return SIZE_MAX;
}

static bool
middles_match(struct tm_glob *glob, const struct text *text, size_t at,
              size_t end)
{
    for (size_t i = 1; i + 1 < glob->nparts; i++) {
        struct part *part = &glob->parts[i];
        if (end - at < part->skip_before + part->nitems + part->skip_after) {
            return false;
        }
        at += part->skip_before;
        end -= part->skip_after;
        if (part->blocks != NULL) {
            at = search_bits(part, text, at, end);
        }
        else if (part->nitems > 0) {
            at = search_literal(glob, part, text, at, end);
        }
        if (at == SIZE_MAX) {
            return false;
        }
        at += part->skip_after;
        end += part->skip_after;
    }
    return true;
}

bool
tm_glob_match(struct tm_glob *glob, unsigned kind, const void *name,
              size_t length)
{
    struct text text = {kind, name};
    const struct part *head = &glob->parts[0];
    const struct part *tail = &glob->parts[glob->nparts - 1];

    if (glob->never || length < glob->nitems) {
        return false;
    }
    if (glob->nparts == 1) {
        return length == glob->nitems && stands_at(glob, head, &text, 0);
    }
    return stands_at(glob, head, &text, 0)
           && stands_at(glob, tail, &text, length - tail->nitems)
           && middles_match(glob, &text, head->nitems, length - tail->nitems);
}
