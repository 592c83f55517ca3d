/* Where Columns come from: what the engine traces now, or traces as Python
 * objects; and the functions of pycolumns.h that answer from a passing freeze.
 * Owner of nothing: what is built belongs to the caller. */
#include "pycolumns.h"
#include "arena.h"
#include "engine.h"

/* --- What is traced now ------------------------------------------------------ */

enum freeze_what { FREEZE_SUMS, FREEZE_TRACES, FREEZE_PEAK };

/* NULL: no memory, an exception is set.  Nothing is allocated through Python
   before the engine goes on, so that the copy holds nothing of its own making. */
static struct tm_snapshot *
freeze(enum freeze_what what)
{
    tm_sync_freeze_begin();
    struct tm_snapshot *s = what == FREEZE_PEAK
                            ? tm_snapshot_freeze_peak()
                            : tm_snapshot_freeze(what == FREEZE_TRACES);
    if (s != NULL) {
        s->limit = (uint32_t)tm_get_limit();
        s->lost = tm_lost();
    }
    tm_sync_freeze_end();
    if (s == NULL) {
        PyErr_NoMemory();
    }
    return s;
}

static PyObject *
freeze_columns(enum freeze_what what)
{
    struct tm_snapshot *s = freeze(what);
    if (s == NULL) {
        return NULL;
    }
    PyObject *type = tm_columns_type();
    if (type == NULL) {
        tm_snapshot_free(s);
        return NULL;
    }
    PyObject *columns = tm_columns_wrap((PyTypeObject *)type, s);
    Py_DECREF(type);
    return columns;
}

PyObject *
_PyTraceMalloc_Freeze(int traces)
{
    return freeze_columns(traces ? FREEZE_TRACES : FREEZE_SUMS);
}

PyObject *
_PyTraceMalloc_FreezePeak(void)
{
    return freeze_columns(FREEZE_PEAK);
}

PyObject *
_PyTraceMalloc_GetStats(void)
{
    struct tm_snapshot *s = freeze(FREEZE_SUMS);
    PyObject *stats = NULL;
    if (s != NULL) {
        struct tm_view view = {.tables = s->tables};
        stats = tm_view_stats(&view, s);
        tm_view_clear(&view);
        tm_snapshot_free(s);
    }
    return stats;
}

/* Only the list object itself is traced, as in stock 3.13: what it holds is made
   by a muted thread. */
PyObject *
_PyTraceMalloc_GetTracesList(void)
{
    PyObject *list = PyList_New(0);
    struct tm_snapshot *s = list != NULL ? freeze(FREEZE_TRACES) : NULL;
    if (s == NULL) {
        Py_XDECREF(list);
        return NULL;
    }
    struct tm_view view = {.tables = s->tables, .passing = true};
    tm_mute_begin();
    for (size_t i = 0; i < s->ntraces; i++) {
        PyObject *trace = tm_view_trace(&view, s, i, 0);
        int status = trace != NULL ? PyList_Append(list, trace) : -1;
        Py_XDECREF(trace);
        if (status < 0) {
            Py_CLEAR(list);
            break;
        }
    }
    tm_view_clear(&view);
    tm_mute_end();
    tm_snapshot_free(s);
    return list;
}

/* An address may be in use in several domains: the trace of domain 0 wins, as
   for a look-up of a single address, and else the first one met.  Not with
   PyDict_SetDefaultRef(): that of 3.13.5 spoils the dictionary, and says that all
   is well, when there is no memory. */
static int
add_if_new(PyObject *traces, PyObject *address, PyObject *trace, int tracked)
{
    int there = tracked ? PyDict_Contains(traces, address) : 0;
    return there != 0 ? there : PyDict_SetItem(traces, address, trace);
}

static int
add_traces(PyObject *traces, struct tm_view *view, const struct tm_snapshot *s,
           int tracked)
{
    for (size_t i = 0; i < s->ntraces; i++) {
        if ((s->domain != NULL && s->domain[i] != 0) != tracked) {
            continue;
        }
        PyObject *address = PyLong_FromUnsignedLongLong(s->address[i]);
        PyObject *trace = tm_view_trace(view, s, i, 1);
        int status = -1;
        if (address != NULL && trace != NULL) {
            status = add_if_new(traces, address, trace, tracked);
        }
        Py_XDECREF(address);
        Py_XDECREF(trace);
        if (status < 0) {
            return -1;
        }
    }
    return 0;
}

PyObject *
_PyTraceMalloc_GetTraces(void)
{
    struct tm_snapshot *s = freeze(FREEZE_TRACES);
    if (s == NULL) {
        return NULL;
    }
    struct tm_view view = {.tables = s->tables};
    PyObject *traces = PyDict_New();
    if (traces != NULL
        && (add_traces(traces, &view, s, 0) < 0
            || (s->domain != NULL && add_traces(traces, &view, s, 1) < 0))) {
        Py_CLEAR(traces);
    }
    tm_view_clear(&view);
    tm_snapshot_free(s);
    return traces;
}

/* --- Traces as Python objects ------------------------------------------------- */

/* Ids of objects met before, by identity: a snapshot has few names, frames and
   tracebacks and many references to them.  A newcomer takes the place of whoever
   has it; when that happens often the memo grows, up to a point: there may be no
   end of new objects.  Holds references, so that no address can come to mean
   something else.  Only for objects that cannot change. */
#define MEMO_BITS_FIRST 8
#define MEMO_BITS_LAST 20

struct memo_entry {
    PyObject *object;
    uint32_t id;
};

struct memo {
    struct memo_entry *entries;     /* 1 << bits; NULL: remembers nothing yet */
    unsigned bits;
    size_t ousted;
};

struct builder {
    struct tm_snapshot *snapshot;
    struct memo names, frames, chains;
    uint32_t *sites;                /* of the chain being read */
    size_t sites_room;
};

static size_t
memo_place(const struct memo *memo, PyObject *object)
{
    return (size_t)(((uint64_t)(uintptr_t)object
                     * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - memo->bits));
}

static int
memo_get(const struct memo *memo, PyObject *object, uint32_t *id)
{
    if (memo->entries == NULL) {
        return 0;
    }
    const struct memo_entry *entry = &memo->entries[memo_place(memo, object)];
    *id = entry->id;
    return entry->object == object;
}

static void
memo_clear(struct memo *memo)
{
    for (size_t i = 0; memo->entries != NULL && i < (size_t)1 << memo->bits; i++) {
        Py_XDECREF(memo->entries[i].object);
    }
    tm_free(memo->entries);
    *memo = (struct memo){0};
}

/* Without memory it stays as it is. */
static void
memo_grow(struct memo *memo)
{
    struct memo bigger = {
        .bits = memo->entries == NULL ? MEMO_BITS_FIRST : memo->bits + 2,
    };
    bigger.entries = tm_calloc((size_t)1 << bigger.bits,
                               sizeof(*bigger.entries));
    if (bigger.entries == NULL) {
        return;
    }
    for (size_t i = 0; memo->entries != NULL && i < (size_t)1 << memo->bits; i++) {
        PyObject *object = memo->entries[i].object;
        if (object != NULL) {
            bigger.entries[memo_place(&bigger, object)] = (struct memo_entry){
                Py_NewRef(object), memo->entries[i].id,
            };
        }
    }
    memo_clear(memo);
    *memo = bigger;
}

static void
memo_put(struct memo *memo, PyObject *object, uint32_t id)
{
    if (memo->entries == NULL
        || (memo->bits < MEMO_BITS_LAST
            && memo->ousted > (size_t)1 << memo->bits)) {
        memo_grow(memo);
        if (memo->entries == NULL) {
            return;
        }
    }
    struct memo_entry *entry = &memo->entries[memo_place(memo, object)];
    PyObject *old = entry->object;
    memo->ousted += old != NULL;
    *entry = (struct memo_entry){Py_NewRef(object), id};
    Py_XDECREF(old);
}

/* An id just interned: TM_NONE becomes a MemoryError. */
static int
made(uint32_t id)
{
    if (id == TM_NONE) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int
read_u64(PyObject *number, const char *what, uint64_t *value)
{
    if (!PyLong_Check(number)) {
        PyErr_Format(PyExc_TypeError, "%s must be int, not %T", what, number);
        return -1;
    }
    *value = PyLong_AsUnsignedLongLong(number);
    if (*value == (uint64_t)-1 && PyErr_Occurred()) {
        PyErr_Format(PyExc_OverflowError, "%s is out of range", what);
        return -1;
    }
    return 0;
}

static int
read_u32(PyObject *number, const char *what, uint32_t *value)
{
    uint64_t wide;
    if (read_u64(number, what, &wide) < 0) {
        return -1;
    }
    if (wide >= UINT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%s is out of range", what);
        return -1;
    }
    *value = (uint32_t)wide;
    return 0;
}

/* A new reference to the items of a tuple or list, as a tuple: nobody can change
   that one meanwhile. */
static PyObject *
as_tuple(PyObject *object, const char *what)
{
    if (PyTuple_Check(object)) {
        return Py_NewRef(object);
    }
    if (PyList_Check(object)) {
        return PyList_AsTuple(object);
    }
    PyErr_Format(PyExc_TypeError, "%s must be a tuple, not %T", what, object);
    return NULL;
}

static int
read_name(struct builder *b, PyObject *name, uint32_t *id)
{
    if (name == Py_None) {
        *id = 0;
        return 0;
    }
    if (memo_get(&b->names, name, id)) {
        return 0;
    }
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "filename must be str or None, not %T",
                     name);
        return -1;
    }
    *id = tm_tables_file(b->snapshot->tables, PyUnicode_KIND(name),
                         PyUnicode_DATA(name),
                         (size_t)PyUnicode_GET_LENGTH(name));
    if (made(*id) < 0) {
        return -1;
    }
    memo_put(&b->names, name, *id);
    return 0;
}

/* *fixed is cleared for a frame that can change later. */
static int
read_frame(struct builder *b, PyObject *frame, uint32_t *site, int *fixed)
{
    uint32_t file, line = 0;
    if (memo_get(&b->frames, frame, site)) {
        return 0;
    }
    PyObject *items = as_tuple(frame, "frame");
    if (items == NULL) {
        return -1;
    }
    int status = -1;
    if (PyTuple_GET_SIZE(items) != 2) {
        PyErr_SetString(PyExc_ValueError, "a frame has two items");
    }
    else if (read_name(b, PyTuple_GET_ITEM(items, 0), &file) == 0
             && (PyTuple_GET_ITEM(items, 1) == Py_None
                 || read_u32(PyTuple_GET_ITEM(items, 1), "lineno", &line) == 0)) {
        *site = tm_tables_site(b->snapshot->tables, file, line);
        status = made(*site);
    }
    Py_DECREF(items);
    if (status == 0 && PyTuple_CheckExact(frame)) {
        memo_put(&b->frames, frame, *site);
    }
    else {
        *fixed = 0;
    }
    return status;
}

static int
read_chain(struct builder *b, PyObject *frames, uint32_t *chain)
{
    int fixed = PyTuple_CheckExact(frames), status = 0;
    if (memo_get(&b->chains, frames, chain)) {
        return 0;
    }
    PyObject *items = as_tuple(frames, "traceback");
    if (items == NULL) {
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(items);
    if (tm_make_room(&b->sites, &b->sites_room, (size_t)n + 1,
                     sizeof(*b->sites)) < 0) {
        PyErr_NoMemory();
        status = -1;
    }
    for (Py_ssize_t i = 0; i < n && status == 0; i++) {
        status = read_frame(b, PyTuple_GET_ITEM(items, i), &b->sites[i], &fixed);
    }
    Py_DECREF(items);
    if (status == 0) {
        *chain = tm_tables_chain(b->snapshot->tables, b->sites, (size_t)n);
        status = made(*chain);
    }
    if (status == 0 && fixed) {
        memo_put(&b->chains, frames, *chain);
    }
    return status;
}

/* `items`: (domain, size, frames) or (domain, size, frames, total). */
static int
read_items(struct builder *b, PyObject *items, uint64_t address)
{
    Py_ssize_t n = PyTuple_GET_SIZE(items);
    uint32_t domain, chain, total = TM_TOTAL_UNKNOWN;
    uint64_t size;
    if (n != 3 && n != 4) {
        PyErr_SetString(PyExc_ValueError, "a trace has three or four items");
        return -1;
    }
    if (read_u32(PyTuple_GET_ITEM(items, 0), "domain", &domain) < 0
        || read_u64(PyTuple_GET_ITEM(items, 1), "size", &size) < 0
        || read_chain(b, PyTuple_GET_ITEM(items, 2), &chain) < 0
        || (n == 4 && PyTuple_GET_ITEM(items, 3) != Py_None
            && read_u32(PyTuple_GET_ITEM(items, 3), "total_nframe",
                        &total) < 0)) {
        return -1;
    }
    uint32_t tb = tm_tables_traceback(b->snapshot->tables, chain, total);
    if (made(tb) < 0) {
        return -1;
    }
    if (tm_snapshot_add(b->snapshot, domain, address, size, tb) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int
read_trace(struct builder *b, PyObject *trace, uint64_t address)
{
    PyObject *items = as_tuple(trace, "trace");
    if (items == NULL) {
        return -1;
    }
    int status = read_items(b, items, address);
    Py_DECREF(items);
    return status;
}

static int
read_traces(struct builder *b, PyObject *traces, PyObject *addresses)
{
    PyObject *trace, *iterator = PyObject_GetIter(traces);
    Py_ssize_t i = 0;
    int status = 0;
    if (iterator == NULL) {
        return -1;
    }
    while (status == 0 && (trace = PyIter_Next(iterator)) != NULL) {
        uint64_t address = 0;
        if (addresses != NULL && i >= PyTuple_GET_SIZE(addresses)) {
            PyErr_SetString(PyExc_ValueError, "more traces than addresses");
            status = -1;
        }
        else if (addresses != NULL) {
            status = read_u64(PyTuple_GET_ITEM(addresses, i), "address",
                              &address);
        }
        if (status == 0) {
            status = read_trace(b, trace, address);
        }
        Py_DECREF(trace);
        i++;
    }
    Py_DECREF(iterator);
    if (status < 0 || PyErr_Occurred()) {
        return -1;
    }
    if (addresses != NULL && i != PyTuple_GET_SIZE(addresses)) {
        PyErr_SetString(PyExc_ValueError, "more addresses than traces");
        return -1;
    }
    return 0;
}

struct tm_snapshot *
tm_build_from_traces(PyObject *traces, PyObject *addresses)
{
    struct builder *b = tm_calloc(1, sizeof(*b));
    struct tm_snapshot *result = NULL;
    if (b == NULL || (b->snapshot = tm_snapshot_new(NULL)) == NULL
        || tm_snapshot_reserve(b->snapshot, 1, addresses != NULL) < 0) {
        PyErr_NoMemory();
    }
    else {
        b->snapshot->ntraces = 0;
        if (read_traces(b, traces, addresses) == 0) {
            result = b->snapshot;
            tm_tables_seal(result->tables);
            tm_snapshot_trim(result);
        }
    }
    if (b != NULL) {
        memo_clear(&b->names);
        memo_clear(&b->frames);
        memo_clear(&b->chains);
        tm_free(b->sites);
        if (result == NULL) {
            tm_snapshot_free(b->snapshot);
        }
        tm_free(b);
    }
    return result;
}
