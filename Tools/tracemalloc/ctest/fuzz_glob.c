/* Patterns against a matcher that tries everything, in all widths of code points,
 * and with every allocation failed in turn. */
#include "arena.h"
#include "fuzz.h"
#include "glob.h"

#include <string.h>

#define MOST 400

struct text {
    uint32_t c[MOST];
    size_t n;
};

/* --- The model: a table of which beginnings match which ---------------------- */

struct item {
    enum { STAR, ONE, SET } what;       /* SET: a member for each code point */
    bool negated;
    size_t nspans;
    uint32_t span[MOST][2];
};

/* Read one item of the pattern at *at.  A set is read in three steps: find the
   hyphens that make ranges, drop upside-down ranges, look at what leads. */
static void
model_set(const uint32_t *body, size_t n, struct item *item)
{
    size_t first = n > 0 && body[0] == '!', i, kept = 0;
    uint32_t rest[MOST][2];
    bool lead_is_range = false;
    for (i = first; i < n; i++) {
        uint32_t low = body[i], high = low;
        bool range = i + 2 < n && body[i + 1] == '-';
        if (range) {
            high = body[i + 2];
            i += 2;
            if (low > high) {
                continue;
            }
        }
        if (kept == 0) {
            lead_is_range = range;
        }
        rest[kept][0] = low;
        rest[kept++][1] = high;
    }
    item->what = SET;
    item->negated = first;
    i = 0;
    if (!first && kept > 0 && rest[0][0] == '!') {
        item->negated = true;
        i = 1;
        if (lead_is_range) {
            item->span[item->nspans][0] = item->span[item->nspans][1] = '-';
            item->nspans++;
            item->span[item->nspans][0] = item->span[item->nspans][1] = rest[0][1];
            item->nspans++;
        }
    }
    for (; i < kept; i++) {
        memcpy(item->span[item->nspans++], rest[i], sizeof(rest[i]));
    }
}

static struct item
model_item(const struct text *pattern, size_t *at)
{
    struct item item = {.what = SET, .nspans = 1};
    uint32_t c = pattern->c[(*at)++];
    item.span[0][0] = item.span[0][1] = c;
    if (c == '*' || c == '?') {
        item.what = c == '*' ? STAR : ONE;
    }
    else if (c == '[') {
        size_t from = *at, to = from;
        to += to < pattern->n && pattern->c[to] == '!';
        to += to < pattern->n && pattern->c[to] == ']';
        while (to < pattern->n && pattern->c[to] != ']') {
            to++;
        }
        if (to < pattern->n) {
            item.nspans = 0;
            model_set(pattern->c + from, to - from, &item);
            *at = to + 1;
        }
    }
    return item;
}

static bool
model_accepts(const struct item *item, uint32_t c)
{
    for (size_t i = 0; i < item->nspans; i++) {
        if (c >= item->span[i][0] && c <= item->span[i][1]) {
            return !item->negated;
        }
    }
    return item->negated;
}

static bool
model_match(const struct text *name, const struct text *pattern)
{
    static bool before[MOST + 1], now[MOST + 1];
    memset(before, 0, sizeof(before));
    before[0] = true;
    for (size_t at = 0; at < pattern->n;) {
        struct item item = model_item(pattern, &at);
        now[0] = item.what == STAR && before[0];
        for (size_t i = 1; i <= name->n; i++) {
            if (item.what == STAR) {
                now[i] = before[i] || now[i - 1];
            }
            else {
                now[i] = before[i - 1]
                         && (item.what == ONE
                             || model_accepts(&item, name->c[i - 1]));
            }
        }
        memcpy(before, now, sizeof(now));
    }
    return before[name->n];
}

/* --- Random texts ------------------------------------------------------------- */

static const uint32_t letters[][8] = {
    {'a', 'b', 'a', 'b', 'a', 'b', 'a', 'b'},
    {'a', 'b', 'c', '[', ']', '-', '!', 'd'},
    {'a', 0xe9, 0x4e00, 0x1f600, '-', '[', ']', '!'},
    {'a', 0, 0xff, 0x100, 0xffff, 0x10000, 0x10ffff, '-'},
};

static struct text
random_text(uint64_t *seed, unsigned set, size_t most, bool pattern)
{
    struct text t = {.n = fuzz_below(seed, most + 1)};
    for (size_t i = 0; i < t.n; i++) {
        t.c[i] = letters[set][fuzz_below(seed, 8)];
        if (pattern && fuzz_below(seed, 4) == 0) {
            t.c[i] = (uint32_t)"*?[]*?*?"[fuzz_below(seed, 8)];
        }
    }
    return t;
}

/* A long name and a pattern with a piece of it between stars. */
static void
long_case(uint64_t *seed, struct text *name, struct text *pattern)
{
    unsigned set = fuzz_below(seed, 2) ? 0 : 3;
    *name = random_text(seed, set, MOST, false);
    size_t from = fuzz_below(seed, name->n + 1);
    size_t n = fuzz_below(seed, name->n - from + 1);
    n = n > 300 ? 300 : n;
    pattern->n = 0;
    pattern->c[pattern->n++] = '*';
    for (size_t i = 0; i < n; i++) {
        bool hide = fuzz_below(seed, 12) == 0;
        pattern->c[pattern->n++] = hide ? '?' : name->c[from + i];
    }
    if (fuzz_below(seed, 4) == 0) {
        pattern->c[fuzz_below(seed, pattern->n)] = 'a';
    }
    pattern->c[pattern->n++] = '*';
    if (fuzz_below(seed, 2)) {
        pattern->c[pattern->n++] = 'b';
    }
}

/* --- Running the room --------------------------------------------------------- */

/* The text in code points of `kind` bytes, in memory of exactly that size; NULL if
   those are too narrow. */
static void *
as_kind(const struct text *t, unsigned kind)
{
    uint8_t *data = malloc(t->n * kind + 1);
    for (size_t i = 0; i < t->n; i++) {
        if (kind < 4 && t->c[i] >> (8 * kind) != 0) {
            free(data);
            return NULL;
        }
        switch (kind) {
        case 1:
            data[i] = (uint8_t)t->c[i];
            break;
        case 2:
            ((uint16_t *)(void *)data)[i] = (uint16_t)t->c[i];
            break;
        default:
            ((uint32_t *)(void *)data)[i] = t->c[i];
        }
    }
    return data;
}

static unsigned long
check(const struct text *name, const struct text *pattern)
{
    bool expected = model_match(name, pattern);
    unsigned long cases = 0;
    for (unsigned p = 1; p <= 4; p *= 2) {
        void *pattern_data = as_kind(pattern, p);
        if (pattern_data == NULL) {
            continue;
        }
        struct tm_glob *glob = tm_glob_compile(p, pattern_data, pattern->n);
        free(pattern_data);
        FUZZ_NEED(glob != NULL, "no memory");
        for (unsigned k = 1; k <= 4; k *= 2) {
            void *name_data = as_kind(name, k);
            /* Twice: the second time out of its cache. */
            for (int i = 0; name_data != NULL && i < 2; i++, cases++) {
                FUZZ_NEED(tm_glob_match(glob, k, name_data, name->n) == expected,
                          "kinds %u and %u, lengths %zu and %zu", p, k,
                          pattern->n, name->n);
            }
            free(name_data);
        }
        tm_glob_free(glob);
    }
    return cases;
}

static unsigned long
without_memory(const struct text *pattern)
{
    void *data = as_kind(pattern, 4);
    unsigned long cases = 0;
    struct tm_glob *glob = NULL;
    while (glob == NULL) {
        tm_arena_fail_after(++cases, 0);
        glob = tm_glob_compile(4, data, pattern->n);
        FUZZ_NEED(glob != NULL || fuzz_live_blocks() == 0, "%ld left",
                  fuzz_live_blocks());
    }
    tm_arena_fail_after(0, 0);
    tm_glob_free(glob);
    free(data);
    return cases;
}

static void
source_names(void)
{
    static const struct {
        const char *name;
        size_t length;
    } known[] = {{"a.pyc", 4}, {"a.pyo", 4}, {"a.py", 4}, {".pyc", 3}, {"pyc", 3},
                 {"a.pyd", 5}, {"a.PYC", 5}, {"", 0}, {"a.pycc", 6}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t n = tm_glob_source_length(1, known[i].name, strlen(known[i].name));
        FUZZ_NEED(n == known[i].length, "%s", known[i].name);
    }
}

int
main(void)
{
    uint64_t seed = 454;
    unsigned long cases = 0;
    for (int round = 0; round < 40000; round++) {
        unsigned set = (unsigned)fuzz_below(&seed, 4);
        struct text pattern = random_text(&seed, set, 12, true);
        struct text name = random_text(&seed, set, 8, false);
        cases += check(&name, &pattern);
    }
    for (int round = 0; round < 1500; round++) {
        struct text name, pattern;
        long_case(&seed, &name, &pattern);
        cases += check(&name, &pattern);
        if (round % 10 == 0) {
            cases += without_memory(&pattern);
        }
    }
    source_names();
    FUZZ_NEED(fuzz_live_blocks() == 0, "%ld left", fuzz_live_blocks());
    return fuzz_done("glob", cases);
}
