/* Sites, file names and the site arrays of code objects (see site.h).
   Owner of its data: this room. */
#include "Python.h"
#include "pycore_code.h"          // _PyCode_InitAddressRange()
#include "arena.h"
#include "site.h"
#include "sync.h"

#include <string.h>

struct site { tm_file_t file; uint32_t line; };

/* A growing array with a hash index of ids over it. */
struct interned {
    void *items;
    uint32_t count, capacity;
    uint32_t *index;            /* id + 1, or 0 */
    uint32_t mask;              /* size of the index - 1; 0: no index yet */
};

static struct interned sites, files;

/* Code object -> site array: open addressing, linear probing. */
static struct {
    struct tm_code_sites **table;
    uint32_t mask, count;
} codes;

static uint32_t
mix(uint64_t x)
{
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x >> 32);
}

static int
interned_reserve(struct interned *set, size_t item,
                 uint32_t (*hash)(uint32_t id))
{
    if (set->count == set->capacity) {
        uint32_t capacity = set->capacity ? set->capacity * 2 : 64;
        void *items = tm_realloc(set->items, capacity * item);
        if (items == NULL) {
            return -1;
        }
        set->items = items;
        set->capacity = capacity;
    }
    if (set->mask != 0 && set->count * 2 < set->mask) {
        return 0;
    }
    uint32_t size = set->mask ? (set->mask + 1) * 2 : 256;
    uint32_t *index = tm_calloc(size, sizeof(uint32_t));
    if (index == NULL) {
        return -1;
    }
    for (uint32_t id = 0; id < set->count; id++) {
        uint32_t i = hash(id) & (size - 1);
        while (index[i] != 0) {
            i = (i + 1) & (size - 1);
        }
        index[i] = id + 1;
    }
    tm_free(set->index);
    set->index = index;
    set->mask = size - 1;
    return 0;
}

static void
interned_release(struct interned *set)
{
    tm_free(set->items);
    tm_free(set->index);
    memset(set, 0, sizeof(*set));
}

/* --- file names --- */

#define FILES ((struct tm_file *)files.items)

static uint32_t
file_hash(uint32_t id)
{
    return FILES[id].hash;
}

static uint32_t
content_hash(const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t h = size;
    for (size_t i = 0; i < size; i++) {
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    }
    return mix(h);
}

/* Id of the name, made when new; -1: no memory. */
static int64_t
file_intern(uint8_t kind, uint8_t ascii, uint32_t length, const void *data)
{
    size_t size = (size_t)kind * length;
    uint32_t h = content_hash(data, size);
    if (interned_reserve(&files, sizeof(struct tm_file), file_hash) < 0) {
        return -1;
    }
    uint32_t i = h & files.mask;
    for (; files.index[i] != 0; i = (i + 1) & files.mask) {
        const struct tm_file *f = &FILES[files.index[i] - 1];
        if (f->hash == h && f->kind == kind && f->length == length
            && memcmp(f->data, data, size) == 0)
        {
            return files.index[i] - 1;
        }
    }
    void *copy = tm_alloc(size + 4);
    if (copy == NULL) {
        return -1;
    }
    memcpy(copy, data, size);
    memset((char *)copy + size, 0, 4);
    FILES[files.count] = (struct tm_file){
        .kind = kind, .ascii = ascii, .length = length, .hash = h, .data = copy};
    files.index[i] = ++files.count;
    return files.count - 1;
}

static int64_t
file_of_code(PyCodeObject *code)
{
    PyObject *name = code->co_filename;
    if (name == NULL || !PyUnicode_Check(name)
        || PyUnicode_GET_LENGTH(name) > INT32_MAX)
    {
        return TM_FILE_UNKNOWN;
    }
    return file_intern((uint8_t)PyUnicode_KIND(name),
                       (uint8_t)PyUnicode_IS_ASCII(name),
                       (uint32_t)PyUnicode_GET_LENGTH(name),
                       PyUnicode_DATA(name));
}

/* --- sites --- */

#define SITES ((struct site *)sites.items)

static uint32_t
pair_hash(tm_file_t file, uint32_t line)
{
    return mix(((uint64_t)file << 32) | line);
}

static uint32_t
site_hash(uint32_t id)
{
    return pair_hash(SITES[id].file, SITES[id].line);
}

static tm_site_t
site_intern(tm_file_t file, uint32_t line)
{
    if (interned_reserve(&sites, sizeof(struct site), site_hash) < 0) {
        return TM_SITE_ROOT;
    }
    uint32_t i = pair_hash(file, line) & sites.mask;
    for (; sites.index[i] != 0; i = (i + 1) & sites.mask) {
        const struct site *s = &SITES[sites.index[i] - 1];
        if (s->file == file && s->line == line) {
            return sites.index[i] - 1;
        }
    }
    SITES[sites.count] = (struct site){file, line};
    sites.index[i] = ++sites.count;
    return sites.count - 1;
}

/* Ids 0 are the unknown file and the unknown site; both are made first. */
static int
ensure_unknown(void)
{
    if (files.count == 0
        && file_intern(1, 1, 9, "<unknown>") != TM_FILE_UNKNOWN)
    {
        return -1;
    }
    if (sites.count == 0
        && site_intern(TM_FILE_UNKNOWN, 0) != TM_SITE_UNKNOWN)
    {
        return -1;
    }
    return 0;
}

/* --- code objects --- */

static uint32_t
code_slot(const void *code, uint32_t mask)
{
    uint32_t i = mix((uintptr_t)code >> 4) & mask;
    while (codes.table[i] != NULL && codes.table[i]->code != code) {
        i = (i + 1) & mask;
    }
    return i;
}

static int
codes_grow(void)
{
    uint32_t size = codes.table ? (codes.mask + 1) * 2 : 256;
    struct tm_code_sites **table = tm_calloc(size, sizeof(*table));
    if (table == NULL) {
        return -1;
    }
    struct tm_code_sites **old = codes.table;
    uint32_t n = old ? codes.mask + 1 : 0;
    codes.table = table;
    codes.mask = size - 1;
    for (uint32_t i = 0; i < n; i++) {
        if (old[i] != NULL) {
            table[code_slot(old[i]->code, codes.mask)] = old[i];
        }
    }
    tm_free(old);
    return 0;
}

/* One pass over the line table: the line of every instruction. */
static void
decode_lines(PyCodeObject *code, struct tm_code_sites *array)
{
    PyCodeAddressRange range;
    _PyCode_InitAddressRange(code, &range);
    uint32_t i = 0;
    while (i < array->count && _PyLineTable_NextAddressRange(&range)) {
        uint32_t end = (uint32_t)range.ar_end / sizeof(_Py_CODEUNIT);
        uint32_t line = range.ar_line < 0 ? 0 : (uint32_t)range.ar_line;
        for (; i < end && i < array->count; i++) {
            array->entry[i] = TM_LINE_PENDING | line;
        }
    }
    for (; i < array->count; i++) {
        array->entry[i] = TM_LINE_PENDING;
    }
}

static struct tm_code_sites *
code_sites_new(PyCodeObject *code)
{
    int64_t file = file_of_code(code);
    uint32_t count = (uint32_t)Py_SIZE(code);
    if (file < 0) {
        return NULL;
    }
    struct tm_code_sites *array =
        tm_alloc(sizeof(*array) + (size_t)count * sizeof(uint32_t));
    if (array == NULL) {
        return NULL;
    }
    array->code = code;
    array->filename = code->co_filename;
    array->file = (tm_file_t)file;
    array->count = count;
    decode_lines(code, array);
    return array;
}

static struct tm_code_sites *
code_sites_find(PyCodeObject *code)
{
    if (codes.table == NULL) {
        return NULL;
    }
    struct tm_code_sites *array = codes.table[code_slot(code, codes.mask)];
    /* Renamed behind our back: the array tells the old name. */
    if (array != NULL && array->filename != code->co_filename) {
        return NULL;
    }
    return array;
}

tm_site_t
tm_site_make(PyCodeObject *code, int index)
{
    if (ensure_unknown() < 0) {
        return TM_SITE_ROOT;
    }
    struct tm_code_sites *array = code_sites_find(code);
    if (array == NULL) {
        if ((codes.table == NULL || codes.count * 2 >= codes.mask)
            && codes_grow() < 0)
        {
            return TM_SITE_ROOT;
        }
        array = code_sites_new(code);
        if (array == NULL) {
            return TM_SITE_ROOT;
        }
        uint32_t i = code_slot(code, codes.mask);
        codes.count += codes.table[i] == NULL;
        tm_free(codes.table[i]);
        codes.table[i] = array;
    }
    if ((uint32_t)index >= array->count) {
        return site_intern(array->file, 0);
    }
    uint32_t entry = array->entry[index];
    if (!(entry & TM_LINE_PENDING)) {
        return entry;
    }
    tm_site_t site = site_intern(array->file, entry & ~TM_LINE_PENDING);
    if (site != TM_SITE_ROOT) {
        array->entry[index] = site;
    }
    return site;
}

bool
tm_site_forget_code(PyCodeObject *code)
{
    if (codes.table == NULL) {
        return false;
    }
    uint32_t i = code_slot(code, codes.mask);
    if (codes.table[i] == NULL) {
        return false;
    }
    tm_free(codes.table[i]);
    codes.table[i] = NULL;
    codes.count--;
    /* Close the gap: move back what probed past it. */
    for (uint32_t j = (i + 1) & codes.mask; codes.table[j] != NULL;
         j = (j + 1) & codes.mask)
    {
        struct tm_code_sites *moved = codes.table[j];
        codes.table[j] = NULL;
        codes.table[code_slot(moved->code, codes.mask)] = moved;
    }
    return true;
}

void
tm_site_reset(void)
{
    if (codes.table != NULL) {
        for (uint32_t i = 0; i <= codes.mask; i++) {
            tm_free(codes.table[i]);
        }
        tm_free(codes.table);
        memset(&codes, 0, sizeof(codes));
    }
    for (uint32_t i = 0; i < files.count; i++) {
        tm_free((void *)FILES[i].data);
    }
    interned_release(&files);
    interned_release(&sites);
}

tm_site_t
tm_site_end(void)
{
    return sites.count;
}

void
tm_site_get(tm_site_t site, tm_file_t *file, uint32_t *lineno)
{
    if (site < sites.count) {
        *file = SITES[site].file;
        *lineno = SITES[site].line;
    }
    else {
        *file = TM_FILE_UNKNOWN;
        *lineno = 0;
    }
}

tm_file_t
tm_file_end(void)
{
    return files.count;
}

const struct tm_file *
tm_file_get(tm_file_t file)
{
    static const struct tm_file unknown = {
        .kind = 1, .ascii = 1, .length = 9, .data = "<unknown>"};
    return file < files.count ? &FILES[file] : &unknown;
}

const char *
tm_site_check(void)
{
    for (uint32_t i = 0; i < sites.count; i++) {
        if (SITES[i].file >= files.count) {
            return "site of a file that does not exist";
        }
    }
    for (uint32_t i = 0; codes.table != NULL && i <= codes.mask; i++) {
        const struct tm_code_sites *array = codes.table[i];
        for (uint32_t k = 0; array != NULL && k < array->count; k++) {
            if (!(array->entry[k] & TM_LINE_PENDING)
                && array->entry[k] >= sites.count)
            {
                return "site array with a dangling site";
            }
        }
    }
    return NULL;
}
