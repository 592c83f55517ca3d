/* Snapshots as plain containers and back, see pycolumns.h.  Owner of nothing:
 * what is built belongs to the caller.
 *
 * The packed form is a dict of these items and no others; bytes are columns in
 * the coding of packing.h (d: coded as differences):
 *
 *   format              1; 2 for estimates, see below
 *   limit, lost         ints: frames in a traceback, traces dropped
 *   files               list of str; the first is "<unknown>"
 *   site_files          index in files
 *   site_lines          0: unknown
 *   chain_lengths       frames of each chain ...
 *   chain_sites         ... and all of their sites, most recent first
 *   traceback_chains    index of a chain
 *   traceback_totals    frames of the whole stack + 1; 0: not known
 *   sizes, tracebacks   one of each a trace
 *   addresses (d)       the same, or None: not known
 *   domains             the same, or None: all 0
 *   sums                None; of a snapshot without traces a tuple of three
 *                       columns, one item a traceback: bytes modulo 2**64,
 *                       bytes divided by 2**64, blocks.  sizes, tracebacks,
 *                       addresses and domains are then None.
 *
 * Format 2 is for snapshots that were sampled, or are rows of a peak.  Doubles are
 * 8 bytes each, IEEE 754, the lowest byte first; an estimate is three of them:
 * bytes, blocks, variance.  It has these items more:
 *
 *   interval            bytes between samples; 1: exact
 *   peak_size           traced bytes at the peak, or None
 *   estimates           one a row of a peak, or one a traceback when there are
 *                       only sums (whose columns then are 0, 0, and how many
 *                       samples there are); else None
 *
 * How many items a table has follows from its columns.  Tables hold nothing
 * twice.  Whatever breaks a rule is a ValueError, before room is made for it.
 */
#include "pycolumns.h"
#include "arena.h"
#include "packing.h"

#include <math.h>

#define EXACT_FORMAT 1
#define FORMAT 2
#define EXACT_ITEMS 15
#define ITEMS 18

static bool
is_exact(const struct tm_snapshot *s)
{
    return s->interval == 1 && s->rows == NULL;
}

/* How many estimates there are that do not follow from the traces. */
static size_t
count_estimates(const struct tm_snapshot *s)
{
    if (is_exact(s)) {
        return 0;
    }
    return s->rows != NULL ? s->ntraces
           : s->has_traces ? 0 : s->tables->ntracebacks;
}

/* --- Packing ---------------------------------------------------------------- */

/* A column as bytes. */
static PyObject *
packed(const void *values, size_t count, size_t width, bool delta)
{
    struct tm_column column = {
        .values = (void *)values, .count = count, .width = (uint8_t)width,
        .delta = delta,
    };
    size_t size = tm_packed_size(&column);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes != NULL) {
        tm_pack(&column, (uint8_t *)PyBytes_AS_STRING(bytes));
    }
    return bytes;
}

/* Put an item into the dict; takes over the reference to it, NULL: failed. */
static int
put(PyObject *pack, const char *name, PyObject *item)
{
    int status = item != NULL ? PyDict_SetItemString(pack, name, item) : -1;
    Py_XDECREF(item);
    return status;
}

static PyObject *
pack_files(const struct tm_tables *t)
{
    PyObject *files = PyList_New(t->nfiles);
    for (uint32_t i = 0; files != NULL && i < t->nfiles; i++) {
        const struct tm_name *name = &t->files[i];
        PyObject *file = PyUnicode_FromKindAndData(name->kind, name->data,
                                                   name->length);
        if (file == NULL) {
            Py_CLEAR(files);
            break;
        }
        PyList_SET_ITEM(files, i, file);
    }
    return files;
}

/* The columns of structures with two u32 fields, such as sites; `scratch` has
   room for n numbers. */
static int
put_pairs(PyObject *pack, const char *first, const char *second,
          const uint32_t *pairs, size_t n, uint32_t *scratch, uint32_t plus)
{
    for (size_t i = 0; i < n; i++) {
        scratch[i] = pairs[2 * i];
    }
    if (put(pack, first, packed(scratch, n, 4, false)) < 0) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        scratch[i] = pairs[2 * i + 1] + plus;
    }
    return put(pack, second, packed(scratch, n, 4, false));
}

static_assert(sizeof(struct tm_place) == 8 && sizeof(struct tm_traceback) == 8,
              "two u32 without padding");

static int
pack_tables(PyObject *pack, const struct tm_tables *t)
{
    size_t most = t->nsites;
    most = most < t->nchains ? t->nchains : most;
    most = most < t->ntracebacks ? t->ntracebacks : most;
    uint32_t *scratch = tm_alloc((most + 1) * sizeof(*scratch));
    if (scratch == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int status = put(pack, "files", pack_files(t));
    if (status == 0) {
        status = put_pairs(pack, "site_files", "site_lines",
                           (const uint32_t *)t->sites, t->nsites, scratch, 0);
    }
    if (status == 0) {
        status = put_pairs(pack, "traceback_chains", "traceback_totals",
                           (const uint32_t *)t->tracebacks, t->ntracebacks,
                           scratch, 1);
    }
    for (uint32_t i = 0; i < t->nchains; i++) {
        scratch[i] = (uint32_t)tm_chain_length(t, i);
    }
    if (status == 0) {
        status = put(pack, "chain_lengths",
                     packed(scratch, t->nchains, 4, false));
    }
    if (status == 0) {
        status = put(pack, "chain_sites", packed(t->links, t->nlinks, 4, false));
    }
    tm_free(scratch);
    return status;
}

static PyObject *
pack_sums(const struct tm_snapshot *s)
{
    size_t n = s->tables->ntracebacks;
    uint64_t *scratch = tm_alloc((n + 1) * sizeof(*scratch));
    if (scratch == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *columns[3];
    for (size_t i = 0; i < n; i++) {
        scratch[i] = s->sums[i].low;
    }
    columns[0] = packed(scratch, n, 8, false);
    for (size_t i = 0; i < n; i++) {
        scratch[i] = s->sums[i].high;
    }
    columns[1] = packed(scratch, n, 8, false);
    for (size_t i = 0; i < n; i++) {
        scratch[i] = s->sums[i].count;
    }
    columns[2] = packed(scratch, n, 8, false);
    tm_free(scratch);
    PyObject *sums = NULL;
    if (columns[0] != NULL && columns[1] != NULL && columns[2] != NULL) {
        sums = PyTuple_Pack(3, columns[0], columns[1], columns[2]);
    }
    for (int i = 0; i < 3; i++) {
        Py_XDECREF(columns[i]);
    }
    return sums;
}

static PyObject *
column_or_none(const void *values, size_t n, size_t width, bool delta)
{
    return values != NULL ? packed(values, n, width, delta)
                          : Py_NewRef(Py_None);
}

static int
pack_traces(PyObject *pack, const struct tm_snapshot *s)
{
    size_t n = s->ntraces;
    /* An empty column is still a column: NULL means that there is none. */
    const void *sizes = NULL, *tracebacks = NULL;
    const uint32_t *domains = NULL;
    if (s->has_traces) {
        sizes = n > 0 ? (const void *)s->size : (const void *)"";
        tracebacks = n > 0 ? (const void *)s->traceback : (const void *)"";
    }
    for (size_t i = 0; s->domain != NULL && i < n && domains == NULL; i++) {
        domains = s->domain[i] != 0 ? s->domain : NULL;
    }
    if (put(pack, "sizes", column_or_none(sizes, n, 8, false)) < 0
        || put(pack, "tracebacks", column_or_none(tracebacks, n, 4, false)) < 0
        || put(pack, "addresses", column_or_none(s->address, n, 8, true)) < 0
        || put(pack, "domains", column_or_none(domains, n, 4, false)) < 0) {
        return -1;
    }
    return put(pack, "sums", s->has_traces ? Py_NewRef(Py_None) : pack_sums(s));
}

static bool
uses_all(const struct tm_snapshot *s, const struct tm_sum *sums)
{
    for (uint32_t i = 0; i < s->tables->ntracebacks; i++) {
        if (sums[i].count == 0) {
            return false;
        }
    }
    return true;
}

#define DOUBLES 3

static void
write_double(double value, char *bytes)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (char)(bits >> (8 * i));
    }
}

static double
read_double(const char *bytes)
{
    uint64_t bits = 0;
    double value;
    for (int i = 0; i < 8; i++) {
        bits |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
    }
    memcpy(&value, &bits, 8);
    return value;
}

static PyObject *
pack_estimates(const struct tm_snapshot *s)
{
    size_t n = count_estimates(s);
    if (s->rows == NULL && s->has_traces) {
        Py_RETURN_NONE;
    }
    PyObject *bytes = PyBytes_FromStringAndSize(
        NULL, (Py_ssize_t)(n * DOUBLES * 8));
    char *at = bytes != NULL ? PyBytes_AS_STRING(bytes) : NULL;
    for (size_t i = 0; at != NULL && i < n; i++, at += DOUBLES * 8) {
        const struct tm_estimate *e = s->rows != NULL ? &s->rows[i]
                                                      : &s->sums[i].estimate;
        write_double(e->size, at);
        write_double(e->count, at + 8);
        write_double(e->variance, at + 16);
    }
    return bytes;
}

static int
put_estimates(PyObject *pack, const struct tm_snapshot *s)
{
    if (is_exact(s)) {
        return 0;
    }
    if (put(pack, "interval", PyLong_FromUnsignedLongLong(s->interval)) < 0
        || put(pack, "peak_size",
               s->rows != NULL ? PyLong_FromUnsignedLongLong(s->peak_size)
                               : Py_NewRef(Py_None)) < 0) {
        return -1;
    }
    return put(pack, "estimates", pack_estimates(s));
}

static PyObject *
pack_all(struct tm_snapshot *s)
{
    PyObject *pack = PyDict_New();
    int format = is_exact(s) ? EXACT_FORMAT : FORMAT;
    if (pack != NULL
        && (put(pack, "format", PyLong_FromLong(format)) < 0
            || put(pack, "limit", PyLong_FromUnsignedLong(s->limit)) < 0
            || put(pack, "lost", PyLong_FromUnsignedLongLong(s->lost)) < 0
            || pack_tables(pack, s->tables) < 0 || pack_traces(pack, s) < 0
            || put_estimates(pack, s) < 0)) {
        Py_CLEAR(pack);
    }
    return pack;
}

PyObject *
tm_build_pack(struct tm_snapshot *s)
{
    const struct tm_sum *sums = tm_snapshot_sums(s);
    if (sums == NULL) {
        return PyErr_NoMemory();
    }
    if (uses_all(s, sums)) {
        return pack_all(s);
    }
    /* A selection shares the tables of the whole: do not write those out. */
    struct tm_snapshot *compact = tm_snapshot_compact(s);
    if (compact == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *pack = pack_all(compact);
    tm_snapshot_free(compact);
    return pack;
}

/* --- Unpacking -------------------------------------------------------------- */

static int
refuse(const char *what)
{
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "invalid packed snapshot: %s", what);
    }
    return -1;
}

static int
no_memory(void)
{
    PyErr_NoMemory();
    return -1;
}

/* Borrowed; NULL without an exception when it is missing. */
static PyObject *
item(PyObject *pack, const char *name)
{
    PyObject *value = NULL;
    if (PyDict_GetItemStringRef(pack, name, &value) == 1) {
        Py_DECREF(value);       /* the caller's dict is our own copy */
    }
    return value;
}

/* Numbers in a packed column, whether or not they decode. */
static size_t
packed_count(PyObject *bytes)
{
    const char *data = PyBytes_AS_STRING(bytes);
    size_t size = (size_t)PyBytes_GET_SIZE(bytes), n = 0;
    for (size_t i = 0; i < size; i++) {
        n += (data[i] & 0x80) == 0;
    }
    return n;
}

static int
fill(PyObject *bytes, void *values, size_t count, size_t width, bool delta,
     const char *what)
{
    struct tm_column column = {
        .values = values, .count = count, .width = (uint8_t)width,
        .delta = delta,
    };
    if (!tm_unpack(&column, (const uint8_t *)PyBytes_AS_STRING(bytes),
                   (size_t)PyBytes_GET_SIZE(bytes))) {
        return refuse(what);
    }
    return 0;
}

/* A small u32 column of the tables, in memory that the caller frees. */
static int
read_column(PyObject *pack, const char *name, uint32_t **values, size_t *n)
{
    PyObject *bytes = item(pack, name);
    if (bytes == NULL || !PyBytes_CheckExact(bytes)) {
        return refuse(name);
    }
    *n = packed_count(bytes);
    *values = tm_alloc((*n + 1) * sizeof(**values));
    return *values == NULL ? no_memory()
                           : fill(bytes, *values, *n, 4, false, name);
}

static int
read_number(PyObject *pack, const char *name, uint64_t *value)
{
    PyObject *number = item(pack, name);
    if (number == NULL || !PyLong_CheckExact(number)) {
        return refuse(name);
    }
    *value = PyLong_AsUnsignedLongLong(number);
    if (*value == (uint64_t)-1 && PyErr_Occurred()) {
        PyErr_Clear();
        return refuse(name);
    }
    return 0;
}

/* `id` was handed out for thing number i: it must be new. */
static int
expect(uint32_t id, size_t i, const char *what)
{
    if (id == i) {
        return 0;
    }
    return id == TM_NONE ? no_memory() : refuse(what);
}

static int
unpack_files(PyObject *pack, struct tm_tables *t)
{
    PyObject *files = item(pack, "files");
    if (files == NULL || !PyList_CheckExact(files)
        || PyList_GET_SIZE(files) == 0) {
        return refuse("files");
    }
    PyObject *names = PyList_AsTuple(files);
    int status = names != NULL ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (!PyUnicode_CheckExact(name)) {
            status = refuse("files");
        }
        else {
            /* New tables have file 0, so that the first must be that name. */
            status = expect(tm_tables_file(t, PyUnicode_KIND(name),
                                           PyUnicode_DATA(name),
                                           (size_t)PyUnicode_GET_LENGTH(name)),
                            (size_t)i, "files");
        }
    }
    Py_XDECREF(names);
    return status;
}

/* Add (a[i], b[i]) as site or traceback i. */
typedef uint32_t (*pair_maker)(struct tm_tables *, uint32_t, uint32_t);

static int
unpack_pairs(PyObject *pack, struct tm_tables *t, const char *first,
             const char *second, uint32_t below, uint32_t minus,
             pair_maker make)
{
    uint32_t *a = NULL, *b = NULL;
    size_t n, m;
    int status = -1;
    if (read_column(pack, first, &a, &n) == 0
        && read_column(pack, second, &b, &m) == 0) {
        status = n == m ? 0 : refuse(second);
        for (size_t i = 0; i < n && status == 0; i++) {
            status = a[i] < below ? expect(make(t, a[i], b[i] - minus), i, first)
                                  : refuse(first);
        }
    }
    tm_free(a);
    tm_free(b);
    return status;
}

static int
unpack_chains(PyObject *pack, struct tm_tables *t)
{
    uint32_t *lengths = NULL, *sites = NULL;
    size_t n, m, at = 0;
    int status = -1;
    if (read_column(pack, "chain_lengths", &lengths, &n) == 0
        && read_column(pack, "chain_sites", &sites, &m) == 0) {
        status = 0;
        for (size_t k = 0; k < m && status == 0; k++) {
            status = sites[k] < t->nsites ? 0 : refuse("chain_sites");
        }
        for (size_t i = 0; i < n && status == 0; i++) {
            if (lengths[i] > m - at) {
                status = refuse("chain_lengths");
                break;
            }
            status = expect(tm_tables_chain(t, sites + at, lengths[i]), i,
                            "chain_lengths");
            at += lengths[i];
        }
        if (status == 0 && at != m) {
            status = refuse("chain_sites");
        }
    }
    tm_free(lengths);
    tm_free(sites);
    return status;
}

/* A column of the traces that may be absent: 1 if it is there. */
static int
optional(PyObject *pack, const char *name, size_t n, PyObject **bytes)
{
    *bytes = item(pack, name);
    if (*bytes == Py_None) {
        return 0;
    }
    if (*bytes == NULL || !PyBytes_CheckExact(*bytes)
        || packed_count(*bytes) != n) {
        return refuse(name);
    }
    return 1;
}

static int
unpack_traces(PyObject *pack, struct tm_snapshot *s, PyObject *sizes)
{
    PyObject *tracebacks, *addresses, *domains;
    size_t n = packed_count(sizes);
    int with_addresses = optional(pack, "addresses", n, &addresses);
    int with_domains = optional(pack, "domains", n, &domains);
    int with_tracebacks = optional(pack, "tracebacks", n, &tracebacks);
    if (with_addresses < 0 || with_domains < 0 || with_tracebacks < 0) {
        return -1;
    }
    if (!with_tracebacks || item(pack, "sums") != Py_None) {
        return refuse("tracebacks, sums");
    }
    if (tm_snapshot_reserve(s, n, with_addresses) < 0
        || (with_domains && tm_snapshot_need_domains(s) < 0)) {
        return no_memory();
    }
    if (fill(sizes, s->size, n, 8, false, "sizes") < 0
        || fill(tracebacks, s->traceback, n, 4, false, "tracebacks") < 0
        || (with_addresses
            && fill(addresses, s->address, n, 8, true, "addresses") < 0)
        || (with_domains
            && fill(domains, s->domain, n, 4, false, "domains") < 0)) {
        return -1;
    }
    uint32_t end = s->tables->ntracebacks, bad = 0;
    for (size_t i = 0; i < n; i++) {
        bad |= s->traceback[i] >= end;
    }
    return bad ? refuse("tracebacks") : 0;
}

static int
unpack_sums(PyObject *pack, struct tm_snapshot *s)
{
    static const char *const absent[] = {"tracebacks", "addresses", "domains"};
    PyObject *sums = item(pack, "sums");
    size_t n = s->tables->ntracebacks;
    if (sums == NULL || !PyTuple_CheckExact(sums)
        || PyTuple_GET_SIZE(sums) != 3) {
        return refuse("sums");
    }
    for (int k = 0; k < 3; k++) {
        PyObject *column = PyTuple_GET_ITEM(sums, k);
        if (item(pack, absent[k]) != Py_None) {
            return refuse(absent[k]);
        }
        if (!PyBytes_CheckExact(column) || packed_count(column) != n) {
            return refuse("sums");
        }
    }
    s->has_traces = false;
    s->sums = tm_calloc(n + 1, sizeof(*s->sums));
    uint64_t *scratch = tm_alloc((n + 1) * sizeof(*scratch));
    int status = s->sums != NULL && scratch != NULL ? 0 : no_memory();
    for (int k = 0; k < 3 && status == 0; k++) {
        status = fill(PyTuple_GET_ITEM(sums, k), scratch, n, 8, false, "sums");
        for (size_t i = 0; i < n && status == 0; i++) {
            *(k == 0 ? &s->sums[i].low : k == 1 ? &s->sums[i].high
                                                : &s->sums[i].count) = scratch[i];
            if (k == 2 && scratch[i] == 0) {
                status = refuse("sums");
            }
        }
    }
    tm_free(scratch);
    return status;
}

/* Below 2^100 there is room for the sum of any number of them. */
static bool
is_estimate(const struct tm_estimate *e)
{
    const double most = 1.3e30;
    return e->size >= 0 && e->size < most && e->count > 0 && e->count < most
           && e->variance >= 0 && e->variance < most * most;
}

static int
read_estimate(const char *at, struct tm_estimate *e)
{
    *e = (struct tm_estimate){
        read_double(at), read_double(at + 8), read_double(at + 16),
    };
    return is_estimate(e) ? 0 : refuse("estimates");
}

static int
unpack_rows(struct tm_snapshot *s, const char *at)
{
    if (tm_snapshot_need_rows(s) < 0) {
        return no_memory();
    }
    for (size_t i = 0; i < s->ntraces; i++, at += DOUBLES * 8) {
        if (read_estimate(at, &s->rows[i]) < 0) {
            return -1;
        }
        if (s->address != NULL || s->size[i] != tm_row_size(&s->rows[i])) {
            return refuse("rows");
        }
    }
    return 0;
}

static int
unpack_sum_estimates(struct tm_snapshot *s, const char *at)
{
    for (uint32_t i = 0; i < s->tables->ntracebacks; i++, at += DOUBLES * 8) {
        struct tm_sum *sum = &s->sums[i];
        if (sum->low != 0 || sum->high != 0) {
            return refuse("sums");
        }
        if (read_estimate(at, &sum->estimate) < 0) {
            return -1;
        }
    }
    return 0;
}

/* What format 2 adds, when the rest is there. */
static int
unpack_estimates(PyObject *pack, struct tm_snapshot *s)
{
    PyObject *estimates = item(pack, "estimates");
    PyObject *peak = item(pack, "peak_size");
    if (read_number(pack, "interval", &s->interval) < 0) {
        return -1;
    }
    bool rows = peak != NULL && peak != Py_None;
    if (s->interval < 1 || s->interval > TM_INTERVAL_MAX || peak == NULL
        || (s->interval == 1 && !rows) || (rows && !s->has_traces)
        || (rows && read_number(pack, "peak_size", &s->peak_size) < 0)) {
        return refuse("interval, peak_size");
    }
    if (!rows && s->has_traces) {
        return estimates == Py_None ? 0 : refuse("estimates");
    }
    size_t n = rows ? s->ntraces : s->tables->ntracebacks;
    if (estimates == NULL || !PyBytes_CheckExact(estimates)
        || (size_t)PyBytes_GET_SIZE(estimates) != n * DOUBLES * 8) {
        return refuse("estimates");
    }
    const char *at = PyBytes_AS_STRING(estimates);
    return rows ? unpack_rows(s, at) : unpack_sum_estimates(s, at);
}

static int
unpack_body(PyObject *pack, struct tm_snapshot *s)
{
    PyObject *sizes = item(pack, "sizes");
    if (sizes == Py_None) {
        return unpack_sums(pack, s);
    }
    if (sizes == NULL || !PyBytes_CheckExact(sizes)) {
        return refuse("sizes");
    }
    return unpack_traces(pack, s, sizes);
}

static int
unpack_all(PyObject *pack, struct tm_snapshot *s)
{
    struct tm_tables *t = s->tables;
    uint64_t format, limit;
    if (read_number(pack, "format", &format) < 0
        || (format != EXACT_FORMAT && format != FORMAT)) {
        return refuse("format");
    }
    if (PyDict_GET_SIZE(pack) != (format == FORMAT ? ITEMS : EXACT_ITEMS)) {
        return refuse("number of items");
    }
    if (read_number(pack, "limit", &limit) < 0
        || read_number(pack, "lost", &s->lost) < 0) {
        return -1;
    }
    if (limit < 1 || limit > UINT32_MAX) {
        return refuse("limit");
    }
    s->limit = (uint32_t)limit;
    if (unpack_files(pack, t) < 0
        || unpack_pairs(pack, t, "site_files", "site_lines", t->nfiles, 0,
                        tm_tables_site) < 0
        || unpack_chains(pack, t) < 0
        || unpack_pairs(pack, t, "traceback_chains", "traceback_totals",
                        t->nchains, 1, tm_tables_traceback) < 0) {
        return -1;
    }
    tm_tables_seal(t);
    if (unpack_body(pack, s) < 0) {
        return -1;
    }
    return format == FORMAT ? unpack_estimates(pack, s) : 0;
}

struct tm_snapshot *
tm_build_from_pack(PyObject *pack)
{
    if (!PyDict_Check(pack)) {
        PyErr_Format(PyExc_TypeError, "pack must be a dict, not %T", pack);
        return NULL;
    }
    PyObject *own = PyDict_Copy(pack);
    if (own == NULL) {
        return NULL;
    }
    struct tm_snapshot *s = tm_snapshot_new(NULL);
    if (s == NULL) {
        PyErr_NoMemory();
    }
    else if (unpack_all(own, s) < 0) {
        tm_snapshot_free(s);
        s = NULL;
    }
    Py_DECREF(own);
    return s;
}
