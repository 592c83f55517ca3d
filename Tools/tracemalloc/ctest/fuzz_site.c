/* Sites and file names against the code objects themselves: what an instruction
 * is interned as must say the line and the name that its code object has now.
 * Code objects die, others are made at their addresses, some are renamed in
 * place, and memory fails now and then. */
#include "arena.h"
#include "fuzz.h"
#include "Python.h"
#include "pycore_code.h"
#include "site.h"
#include "sync.h"

#include <string.h>

/* What the rooms around it own. */
struct tm_hot tm_hot;
tm_mutex_t tm_locks[TM_NRANKS];

#define CODES 120
#define LONGEST 70
#define NAMES 24

/* Code objects stand in an array, so that addresses are used again. */
static struct stub_code codes[CODES];
static bool alive[CODES];
static int lines[CODES][LONGEST];
static struct stub_object names[CODES];
static uint32_t letters[CODES][8];

/* Each interned pair must keep its meaning: what it said when first seen. */
#define MOST_SITES 4096
static struct { bool seen; int name; uint32_t line; } site_says[MOST_SITES];
static int name_of[CODES];      /* which of the NAMES a code object has */

/* Name number n: of a kind, ASCII or not, some with a common beginning. */
static void
set_name(int c, int n)
{
    struct stub_object *name = &names[c];
    unsigned kind = 1u << (n % 3);
    long length = n / 3 % 6;
    *name = (struct stub_object){n != NAMES - 1, kind, n % 9 == 0, length,
                                 letters[c]};
    for (long i = 0; i < length; i++) {
        uint32_t ch = (uint32_t)(i + 1 == length ? n + 40 : 'a');
        if (kind == 1) {
            ((uint8_t *)letters[c])[i] = (uint8_t)ch;
        }
        else if (kind == 2) {
            ((uint16_t *)letters[c])[i] = (uint16_t)(ch + 0x400);
        }
        else {
            letters[c][i] = ch + 0x10000;
        }
    }
    name_of[c] = n;
}

static void
make_code(uint64_t *seed, int c)
{
    static const int odd[] = {-1, 0, 1, 0x7fffffff, 0x40000000};
    int size = 1 + (int)fuzz_below(seed, LONGEST);
    int line = (int)fuzz_below(seed, 40);
    for (int i = 0; i < size; i++) {
        uint64_t what = fuzz_below(seed, 12);
        line = what < 3 ? (int)fuzz_below(seed, 40)
               : what == 3 ? odd[fuzz_below(seed, 5)] : line;
        lines[c][i] = line;
    }
    set_name(c, (int)fuzz_below(seed, NAMES));
    codes[c] = (struct stub_code){&names[c], size, size, lines[c]};
    if (fuzz_below(seed, 8) == 0) {
        codes[c].known = (int)fuzz_below(seed, (uint64_t)size + 1);
    }
    alive[c] = true;
}

static void
check_site(tm_site_t site, int c, int index)
{
    tm_file_t file;
    uint32_t line;
    tm_site_get(site, &file, &line);
    int wanted = index < codes[c].known ? lines[c][index] : 0;
    FUZZ_NEED(line == (wanted < 0 ? 0 : (uint32_t)wanted), "line %u, not %d",
              line, wanted);
    const struct tm_file *f = tm_file_get(file);
    const struct stub_object *name = &names[c];
    if (!name->is_str) {
        FUZZ_NEED(file == TM_FILE_UNKNOWN, "a name for something else");
    }
    else {
        FUZZ_NEED(f->kind == name->kind && (long)f->length == name->length
                  && memcmp(f->data, name->data,
                            f->length * (size_t)f->kind) == 0, "name");
    }
    FUZZ_NEED(site < MOST_SITES, "so many sites");
    if (!site_says[site].seen) {
        site_says[site].seen = true;
        site_says[site].name = name_of[c];
        site_says[site].line = line;
    }
    /* Equal names are one: empty ones of a kind are equal, too. */
    FUZZ_NEED(site_says[site].line == line
              && (site_says[site].name == name_of[c] || name->length == 0
                  || !name->is_str), "site %u has changed", site);
}

static void
step(uint64_t *seed)
{
    int c = (int)fuzz_below(seed, CODES);
    if (!alive[c]) {
        make_code(seed, c);
        return;
    }
    int index = (int)fuzz_below(seed, (uint64_t)codes[c].size);
    uint64_t what = fuzz_below(seed, 30);
    if (what == 0) {                        /* it dies */
        tm_site_forget_code(&codes[c]);
        FUZZ_NEED(!tm_site_forget_code(&codes[c]), "forgotten twice");
        alive[c] = false;
    }
    else if (what == 1) {                   /* it is renamed */
        set_name(c, (int)fuzz_below(seed, NAMES));
        tm_site_forget_code(&codes[c]);
    }
    else {
        tm_site_t site = tm_site_make(&codes[c], index);
        if (site != TM_SITE_ROOT) {
            check_site(site, c, index);
            FUZZ_NEED(tm_site_make(&codes[c], index) == site, "found again");
        }
    }
}

int
main(void)
{
    unsigned long cases = 0;
    for (uint64_t run = 1; run <= 40; run++) {
        uint64_t seed = run;
        for (unsigned n = 0; n < 5000; n++, cases++) {
            if (fuzz_below(&seed, 60) == 0) {
                tm_arena_fail_after(fuzz_below(&seed, 5),
                                    (int)fuzz_below(&seed, 2));
            }
            step(&seed);
            if (n % 500 == 0) {
                const char *wrong = tm_site_check();
                FUZZ_NEED(wrong == NULL, "%s", wrong);
            }
        }
        tm_arena_fail_after(0, 0);
        const char *wrong = tm_site_check();
        FUZZ_NEED(wrong == NULL, "%s", wrong);
        tm_site_reset();
        FUZZ_NEED(fuzz_live_blocks() == 0, "%ld left", fuzz_live_blocks());
        FUZZ_NEED(tm_site_end() == 0 && tm_file_end() == 0, "ids in use");
        memset(site_says, 0, sizeof(site_says));
    }
    return fuzz_done("site", cases);
}
