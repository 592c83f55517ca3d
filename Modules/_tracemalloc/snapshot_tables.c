/* Interned names, sites, chains and tracebacks of snapshots, see
 * snapshot_tables.h.  Owner of its data: the snapshots that share the tables. */
#include "arena.h"
#include "snapshot_tables.h"

#include <string.h>
#include <time.h>

/* --- Growing arrays --------------------------------------------------------- */

int
tm_make_room(void *array, size_t *room, size_t need, size_t width)
{
    if (need <= *room) {
        return 0;
    }
    size_t wanted = *room < 16 ? 16 : *room + *room / 2;
    if (wanted < need) {
        wanted = need;
    }
    if (wanted > SIZE_MAX / 2 / width) {
        return -1;
    }
    /* `array` points at a pointer of some type: copy it, do not alias it. */
    void *old, *grown;
    memcpy(&old, array, sizeof(old));
    grown = tm_realloc(old, wanted * width);
    if (grown == NULL) {
        return -1;
    }
    memcpy(array, &grown, sizeof(grown));
    *room = wanted;
    return 0;
}

/* --- Lookups ---------------------------------------------------------------- */

static inline uint64_t
mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

static inline uint32_t
finish(uint64_t hash)
{
    hash *= UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(hash >> 32);
}

/* Ids whose hash is the same, one a call; TM_NONE at the end.  *at starts as
   the hash and is then where the search stands. */
static inline uint32_t
lookup_next(const struct tm_lookup *lookup, uint32_t hash, size_t *at)
{
    if (lookup->slots == NULL) {
        return TM_NONE;
    }
    for (;;) {
        uint64_t slot = lookup->slots[*at & lookup->mask];
        if (slot == 0) {
            return TM_NONE;
        }
        ++*at;
        if ((uint32_t)(slot >> 32) == hash) {
            return (uint32_t)slot - 1;
        }
    }
}

static void
lookup_put(struct tm_lookup *lookup, uint64_t slot)
{
    size_t at = (size_t)(slot >> 32);
    while (lookup->slots[at & lookup->mask] != 0) {
        at++;
    }
    lookup->slots[at & lookup->mask] = slot;
}

/* Room for one more, so that adding cannot fail half-way. */
static int
lookup_reserve(struct tm_lookup *lookup)
{
    if (lookup->slots != NULL && lookup->used < lookup->mask / 2) {
        return 0;
    }
    size_t size = lookup->slots == NULL ? 64 : (lookup->mask + 1) * 4;
    uint64_t *slots = tm_calloc(size, sizeof(*slots));
    if (slots == NULL) {
        return -1;
    }
    struct tm_lookup old = *lookup;
    lookup->slots = slots;
    lookup->mask = size - 1;
    for (size_t i = 0; old.slots != NULL && i <= old.mask; i++) {
        if (old.slots[i] != 0) {
            lookup_put(lookup, old.slots[i]);
        }
    }
    tm_free(old.slots);
    return 0;
}

static uint32_t
lookup_add(struct tm_lookup *lookup, uint32_t hash, uint32_t id)
{
    lookup_put(lookup, (uint64_t)hash << 32 | (id + 1));
    lookup->used++;
    return id;
}

/* --- The tables ------------------------------------------------------------- */

struct tm_tables *
tm_tables_new(void)
{
    static const char unknown[] = "<unknown>";
    struct tm_tables *t = tm_calloc(1, sizeof(*t));
    if (t == NULL) {
        return NULL;
    }
    atomic_init(&t->references, 1);
    /* Names and lines come from files too: whoever writes one should not know
       which of them collide. */
    t->seed = mix(mix((uint64_t)(uintptr_t)t, (uint64_t)(uintptr_t)&unknown),
                  (uint64_t)clock() ^ (uint64_t)time(NULL) << 20);
    if (tm_make_room(&t->chain_start, &t->chains_room, 1,
                     sizeof(*t->chain_start)) < 0
        || tm_tables_file(t, 1, unknown, sizeof(unknown) - 1) == TM_NONE) {
        tm_tables_release(t);
        return NULL;
    }
    t->chain_start[0] = 0;
    return t;
}

struct tm_tables *
tm_tables_share(struct tm_tables *t)
{
    atomic_fetch_add(&t->references, 1);
    return t;
}

void
tm_tables_seal(struct tm_tables *t)
{
    struct tm_lookup *lookups[] = {&t->file_lookup, &t->site_lookup,
                                   &t->chain_lookup, &t->traceback_lookup};
    for (size_t i = 0; i < sizeof(lookups) / sizeof(lookups[0]); i++) {
        tm_free(lookups[i]->slots);
        *lookups[i] = (struct tm_lookup){0};
    }
}

void
tm_tables_release(struct tm_tables *t)
{
    if (t == NULL || atomic_fetch_sub(&t->references, 1) > 1) {
        return;
    }
    tm_tables_seal(t);
    for (uint32_t i = 0; i < t->nfiles; i++) {
        tm_free(t->files[i].data);
    }
    tm_free(t->files);
    tm_free(t->sites);
    tm_free(t->chain_start);
    tm_free(t->links);
    tm_free(t->tracebacks);
    tm_free(t);
}

static uint32_t
bytes_hash(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *at = data;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = mix(hash, word);
    }
    uint64_t rest = 0;
    memcpy(&rest, at, size);
    return finish(mix(hash, rest));
}

uint32_t
tm_tables_file(struct tm_tables *t, unsigned kind, const void *data,
               size_t length)
{
    size_t size = length * kind;
    if (length >= UINT32_MAX) {
        return TM_NONE;
    }
    uint32_t hash = bytes_hash(mix(t->seed, size << 3 | kind), data, size);
    size_t at = hash;
    uint32_t id;
    while ((id = lookup_next(&t->file_lookup, hash, &at)) != TM_NONE) {
        const struct tm_name *name = &t->files[id];
        if (name->kind == kind && name->length == length
            && memcmp(name->data, data, size) == 0) {
            return id;
        }
    }
    if (t->nfiles >= TM_NONE - 1 || lookup_reserve(&t->file_lookup) < 0
        || tm_make_room(&t->files, &t->files_room, (size_t)t->nfiles + 1,
                        sizeof(*t->files)) < 0) {
        return TM_NONE;
    }
    void *copy = tm_alloc(size + 1);
    if (copy == NULL) {
        return TM_NONE;
    }
    memcpy(copy, data, size);
    t->files[t->nfiles] = (struct tm_name){copy, (uint32_t)length,
                                           (uint8_t)kind};
    return lookup_add(&t->file_lookup, hash, t->nfiles++);
}

uint32_t
tm_tables_site(struct tm_tables *t, uint32_t file, uint32_t line)
{
    uint32_t hash = finish(mix(t->seed, (uint64_t)file << 32 | line));
    size_t at = hash;
    uint32_t id;
    while ((id = lookup_next(&t->site_lookup, hash, &at)) != TM_NONE) {
        if (t->sites[id].file == file && t->sites[id].line == line) {
            return id;
        }
    }
    if (t->nsites >= TM_NONE - 1 || lookup_reserve(&t->site_lookup) < 0
        || tm_make_room(&t->sites, &t->sites_room, (size_t)t->nsites + 1,
                        sizeof(*t->sites)) < 0) {
        return TM_NONE;
    }
    t->sites[t->nsites] = (struct tm_place){file, line};
    return lookup_add(&t->site_lookup, hash, t->nsites++);
}

static uint32_t
chain_hash(uint64_t hash, const uint32_t *sites, size_t n)
{
    hash = mix(hash, n);
    for (size_t i = 0; i < n; i++) {
        hash = mix(hash, sites[i]);
    }
    return finish(hash);
}

uint32_t
tm_tables_chain(struct tm_tables *t, const uint32_t *sites, size_t n)
{
    uint32_t hash = chain_hash(t->seed, sites, n);
    size_t at = hash;
    uint32_t id;
    while ((id = lookup_next(&t->chain_lookup, hash, &at)) != TM_NONE) {
        if (tm_chain_length(t, id) == n
            && (n == 0 || memcmp(tm_chain_links(t, id), sites,
                                 n * sizeof(*sites)) == 0)) {
            return id;
        }
    }
    if (t->nchains >= TM_NONE - 1 || n > UINT32_MAX - t->nlinks
        || lookup_reserve(&t->chain_lookup) < 0
        || tm_make_room(&t->links, &t->links_room, t->nlinks + n,
                        sizeof(*t->links)) < 0
        || tm_make_room(&t->chain_start, &t->chains_room,
                        (size_t)t->nchains + 2, sizeof(*t->chain_start)) < 0) {
        return TM_NONE;
    }
    if (n > 0) {
        memcpy(t->links + t->nlinks, sites, n * sizeof(*sites));
    }
    t->nlinks += (uint32_t)n;
    t->chain_start[t->nchains + 1] = t->nlinks;
    return lookup_add(&t->chain_lookup, hash, t->nchains++);
}

uint32_t
tm_tables_traceback(struct tm_tables *t, uint32_t chain, uint32_t total)
{
    uint32_t hash = finish(mix(t->seed, (uint64_t)chain << 32 | total));
    size_t at = hash;
    uint32_t id;
    while ((id = lookup_next(&t->traceback_lookup, hash, &at)) != TM_NONE) {
        if (t->tracebacks[id].chain == chain
            && t->tracebacks[id].total == total) {
            return id;
        }
    }
    if (t->ntracebacks >= TM_NONE - 1
        || lookup_reserve(&t->traceback_lookup) < 0
        || tm_make_room(&t->tracebacks, &t->tracebacks_room,
                        (size_t)t->ntracebacks + 1,
                        sizeof(*t->tracebacks)) < 0) {
        return TM_NONE;
    }
    t->tracebacks[t->ntracebacks] = (struct tm_traceback){chain, total};
    return lookup_add(&t->traceback_lookup, hash, t->ntracebacks++);
}

static inline uint32_t
name_char(const struct tm_name *name, size_t i)
{
    switch (name->kind) {
    case 1:
        return ((const uint8_t *)name->data)[i];
    case 2:
        return ((const uint16_t *)name->data)[i];
    default:
        return ((const uint32_t *)name->data)[i];
    }
}

int
tm_name_order(const struct tm_name *a, const struct tm_name *b)
{
    size_t n = a->length < b->length ? a->length : b->length;
    for (size_t i = 0; i < n; i++) {
        uint32_t x = name_char(a, i), y = name_char(b, i);
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return a->length < b->length ? -1 : a->length > b->length;
}

/* --- Copying from one set of tables to another ------------------------------ */

static uint32_t *
blank_map(size_t n)
{
    uint32_t *map = tm_alloc((n + 1) * sizeof(*map));
    if (map != NULL) {
        memset(map, 0xff, (n + 1) * sizeof(*map));
    }
    return map;
}

int
tm_import_init(struct tm_import *import, const struct tm_tables *from,
               struct tm_tables *to)
{
    size_t longest = 0;
    for (uint32_t i = 0; i < from->nchains; i++) {
        size_t n = tm_chain_length(from, i);
        longest = n > longest ? n : longest;
    }
    *import = (struct tm_import){
        .from = from, .to = to,
        .file = blank_map(from->nfiles),
        .site = blank_map(from->nsites),
        .chain = blank_map(from->nchains),
        .scratch = tm_alloc((longest + 1) * sizeof(*import->scratch)),
    };
    if (import->file == NULL || import->site == NULL || import->chain == NULL
        || import->scratch == NULL) {
        tm_import_clear(import);
        return -1;
    }
    return 0;
}

void
tm_import_clear(struct tm_import *import)
{
    tm_free(import->file);
    tm_free(import->site);
    tm_free(import->chain);
    tm_free(import->scratch);
    *import = (struct tm_import){0};
}

uint32_t
tm_import_file(struct tm_import *import, uint32_t file)
{
    uint32_t *known = &import->file[file];
    if (*known == TM_NONE) {
        const struct tm_name *name = &import->from->files[file];
        *known = tm_tables_file(import->to, name->kind, name->data,
                                name->length);
    }
    return *known;
}

uint32_t
tm_import_site(struct tm_import *import, uint32_t site)
{
    uint32_t *known = &import->site[site];
    if (*known == TM_NONE) {
        uint32_t file = tm_import_file(import, import->from->sites[site].file);
        if (file != TM_NONE) {
            *known = tm_tables_site(import->to, file,
                                    import->from->sites[site].line);
        }
    }
    return *known;
}

uint32_t
tm_import_chain(struct tm_import *import, uint32_t chain)
{
    uint32_t *known = &import->chain[chain];
    if (*known == TM_NONE) {
        const uint32_t *links = tm_chain_links(import->from, chain);
        size_t n = tm_chain_length(import->from, chain);
        for (size_t i = 0; i < n; i++) {
            import->scratch[i] = tm_import_site(import, links[i]);
            if (import->scratch[i] == TM_NONE) {
                return TM_NONE;
            }
        }
        *known = tm_tables_chain(import->to, import->scratch, n);
    }
    return *known;
}

uint32_t
tm_import_traceback(struct tm_import *import, uint32_t traceback)
{
    const struct tm_traceback *tb = &import->from->tracebacks[traceback];
    uint32_t chain = tm_import_chain(import, tb->chain);
    if (chain == TM_NONE) {
        return TM_NONE;
    }
    return tm_tables_traceback(import->to, chain, tb->total);
}
