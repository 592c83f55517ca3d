/* _tracemalloc.Columns: a frozen snapshot as Python sees it, and _fnmatch().
 * Owner of its data: each Columns owns one snapshot (engine memory, counted as
 * such) and the Python objects already made from it.
 *
 * What the methods give back (sizes and counts are exact ints; sums are 128 bits
 * wide inside, so that they never wrap):
 *
 *   len(c), c[i], c.trace(i)     (domain, size, frames, total); frames is a tuple
 *                                of (filename, lineno), the most recent first,
 *                                one object for equal tracebacks; the unknown is
 *                                "<unknown>" and 0; total is None if not known
 *   c.trace(i, draft=True)       (size, frames); the unknown is None
 *   c.tolist(scaled=False)       list of all c.trace(i); scaled: a sample has the
 *                                size of what it stands for
 *   c.address(i)                 int; ValueError if has_addresses is False
 *   c.get_by_address(a)          index of the first trace there, or -1
 *   c.group(key, cumulative=False, draft=False)   list of (key, size, count)
 *        'filename'              ((filename, 0),)        draft: filename
 *        'lineno', 'line'        ((filename, lineno),)   draft: (filename, lineno)
 *                                (3.13 form of no frames at all: ())
 *        'traceback'             frames; tracebacks that show the same frames are
 *                                one group whatever their totals
 *        'address'               int, in ascending order; cumulative is ignored
 *      All but 'address' come sorted as Snapshot.statistics() sorts: by size,
 *      count, traceback, largest first.  cumulative: a trace counts for each of
 *      its frames, also when several have the same key.
 *   c.compare(old, key, cumulative=False)   keys of 3.13, not 'address': list of
 *        (key, size, size_diff, count, count_diff) sorted as
 *        Snapshot.compare_to() sorts
 *   c.filter(filters, draft=False)   new Columns; filters: sequence of (include,
 *        pattern, lineno, all_frames, domain); pattern None: the domain alone
 *        decides; lineno None or below 1: any; domain None or -1: any.  draft: an
 *        unknown file matches no pattern
 *   c.pick(bytes)                new Columns of the traces whose byte is not 0
 *   c.stats()                    {filename: {lineno: (size, count)}}, draft form
 *   c.pack(), Columns.unpack(d)  see pycolumns_pack.c
 *   Columns.from_traces(traces, addresses=None, traceback_limit=1,
 *        sample_interval=1)      traces of three or four items; filename and
 *                                lineno may be None
 *
 * With a sample interval above 1, sums are estimates.  Entries of group() then
 * have a fourth item, the standard error of the size; those of compare() two
 * more, of size (None if that is exact) and of size_diff; stats() has Estimate
 * objects.  Groups by address are blocks, not estimates.
 *
 * Rows of a peak (peak_size is not None) look like traces, but one stands for all
 * blocks of its domain and traceback; its size is that of all of them, rounded.
 *
 * Columns without traces (_freeze(False)) have length 0 and know one sum a line:
 * stats(), pack() and group() by file or line work, the rest is ValueError.
 *
 * from_traces() holds sizes and addresses up to 2**64 - 1, domains, line numbers
 * and totals up to 2**32 - 2.  A trace beyond that, or negative numbers, raise
 * OverflowError, another type TypeError, another shape ValueError: the caller
 * then keeps such hand-made traces as Python objects.
 */
#include "pycolumns.h"
#include "arena.h"
#include "glob.h"
#include "pydoor.h"

struct columns {
    PyObject_HEAD
    struct tm_snapshot *snapshot;   /* NULL only while it is being made */
    struct tm_view view;
};

/* Where the interpreter's dict keeps the types. */
#define TYPE_KEY "_tracemalloc.Columns"
#define ESTIMATE_KEY "_tracemalloc.Estimate"

/* Answers of every method below are computed in a critical section of the
   object: even a question may change what it has cached. */

static struct columns *
as_columns(PyObject *self)
{
    return (struct columns *)self;
}

static void
columns_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tm_view_clear(&as_columns(self)->view);
    tm_snapshot_free(as_columns(self)->snapshot);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject *
tm_columns_wrap(PyTypeObject *type, struct tm_snapshot *snapshot)
{
    if (snapshot == NULL) {
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    PyObject *self = type->tp_alloc(type, 0);
    if (self == NULL) {
        tm_snapshot_free(snapshot);
        return NULL;
    }
    as_columns(self)->snapshot = snapshot;
    as_columns(self)->view.tables = snapshot->tables;
    return self;
}

static int
need_traces(const struct tm_snapshot *s)
{
    if (s->has_traces) {
        return 0;
    }
    PyErr_SetString(PyExc_ValueError, "need traces");
    return -1;
}

static int
need_addresses(const struct tm_snapshot *s)
{
    if (need_traces(s) < 0) {
        return -1;
    }
    if (s->address == NULL) {
        PyErr_SetString(PyExc_ValueError, "addresses are not known");
        return -1;
    }
    return 0;
}

/* --- Single traces ---------------------------------------------------------- */

static Py_ssize_t
columns_length(PyObject *self)
{
    return (Py_ssize_t)as_columns(self)->snapshot->ntraces;
}

static PyObject *
trace_at(struct columns *c, Py_ssize_t i, int draft)
{
    PyObject *trace;
    if (i < 0 || (size_t)i >= c->snapshot->ntraces) {
        PyErr_SetString(PyExc_IndexError, "trace index out of range");
        return NULL;
    }
    Py_BEGIN_CRITICAL_SECTION(c);
    trace = tm_view_trace(&c->view, c->snapshot, (size_t)i, draft);
    Py_END_CRITICAL_SECTION();
    return trace;
}

static PyObject *
columns_item(PyObject *self, Py_ssize_t i)
{
    return trace_at(as_columns(self), i, 0);
}

/* An index as Python counts: negative from the end. */
static int
read_index(PyObject *self, PyObject *number, Py_ssize_t *i)
{
    *i = PyNumber_AsSsize_t(number, PyExc_IndexError);
    if (*i == -1 && PyErr_Occurred()) {
        return -1;
    }
    *i += *i < 0 ? columns_length(self) : 0;
    return 0;
}

static PyObject *
columns_trace(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"index", "draft", NULL};
    PyObject *number;
    Py_ssize_t i;
    int draft = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:trace", names, &number,
                                     &draft)
        || read_index(self, number, &i) < 0) {
        return NULL;
    }
    return trace_at(as_columns(self), i, draft);
}

static PyObject *
columns_address(PyObject *self, PyObject *number)
{
    const struct tm_snapshot *s = as_columns(self)->snapshot;
    Py_ssize_t i;
    if (need_addresses(s) < 0 || read_index(self, number, &i) < 0) {
        return NULL;
    }
    if (i < 0 || (size_t)i >= s->ntraces) {
        PyErr_SetString(PyExc_IndexError, "trace index out of range");
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(s->address[i]);
}

static PyObject *
columns_get_by_address(PyObject *self, PyObject *number)
{
    struct columns *c = as_columns(self);
    size_t found;
    int status;
    if (need_addresses(c->snapshot) < 0) {
        return NULL;
    }
    if (!PyLong_Check(number)) {
        PyErr_Format(PyExc_TypeError, "address must be int, not %T", number);
        return NULL;
    }
    uint64_t address = PyLong_AsUnsignedLongLong(number);
    if (address == (uint64_t)-1 && PyErr_Occurred()) {
        /* No block is there. */
        PyErr_Clear();
        return PyLong_FromLong(-1);
    }
    Py_BEGIN_CRITICAL_SECTION(self);
    status = tm_snapshot_find(c->snapshot, address, &found);
    Py_END_CRITICAL_SECTION();
    if (status < 0) {
        return PyErr_NoMemory();
    }
    return found == SIZE_MAX ? PyLong_FromLong(-1) : PyLong_FromSize_t(found);
}

static PyObject *
columns_tolist(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"scaled", NULL};
    struct columns *c = as_columns(self);
    PyObject *list = NULL;
    int scaled = 0;
    if (PyArg_ParseTupleAndKeywords(args, kwargs, "|p:tolist", names, &scaled)
        && need_traces(c->snapshot) == 0) {
        Py_BEGIN_CRITICAL_SECTION(self);
        list = tm_view_list(&c->view, c->snapshot, scaled);
        Py_END_CRITICAL_SECTION();
    }
    return list;
}

/* --- Groups ----------------------------------------------------------------- */

/* Which key is meant: an enum tm_group_by, or BY_ADDRESS; -1: an exception. */
#define BY_ADDRESS 100

static int
read_key(PyObject *key)
{
    static const struct {
        const char *name;
        int by;
    } known[] = {
        {"filename", TM_BY_FILE}, {"lineno", TM_BY_LINE}, {"line", TM_BY_LINE},
        {"traceback", TM_BY_CHAIN}, {"address", BY_ADDRESS},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(known); i++) {
        if (PyUnicode_Check(key)
            && PyUnicode_EqualToUTF8(key, known[i].name)) {
            return known[i].by;
        }
    }
    PyErr_Format(PyExc_ValueError, "not a key to group by: %R", key);
    return -1;
}

/* Checks what a group needs that only traces have. */
static int
check_group(const struct tm_snapshot *s, int by, int cumulative)
{
    if (by == BY_ADDRESS) {
        return need_addresses(s);
    }
    if (by == TM_BY_CHAIN && cumulative) {
        PyErr_SetString(PyExc_ValueError,
                        "whole tracebacks cannot be cumulated");
        return -1;
    }
    return by == TM_BY_CHAIN || cumulative ? need_traces(s) : 0;
}

static PyObject *
group(struct columns *c, enum tm_group_by by, int cumulative, int draft)
{
    struct tm_groups groups;
    if (tm_snapshot_group(c->snapshot, by, cumulative, &groups) < 0) {
        return PyErr_NoMemory();
    }
    PyObject *list = tm_view_groups(&c->view, &groups, by, draft);
    tm_groups_clear(&groups);
    return list;
}

static PyObject *
columns_group(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"key", "cumulative", "draft", NULL};
    struct columns *c = as_columns(self);
    PyObject *key, *list;
    int by, cumulative = 0, draft = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|pp:group", names, &key,
                                     &cumulative, &draft)
        || (by = read_key(key)) < 0
        || check_group(c->snapshot, by, cumulative) < 0) {
        return NULL;
    }
    Py_BEGIN_CRITICAL_SECTION(self);
    list = by == BY_ADDRESS ? tm_view_addresses(c->snapshot)
                            : group(c, (enum tm_group_by)by, cumulative, draft);
    Py_END_CRITICAL_SECTION();
    return list;
}

static PyObject *
columns_compare(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"old", "key", "cumulative", NULL};
    PyObject *old, *key;
    struct tm_changes changes;
    int by, cumulative = 0, status;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|p:compare", names,
                                     Py_TYPE(self), &old, &key, &cumulative)
        || (by = read_key(key)) < 0) {
        return NULL;
    }
    struct tm_snapshot *now = as_columns(self)->snapshot;
    struct tm_snapshot *before = as_columns(old)->snapshot;
    if (by == BY_ADDRESS) {
        PyErr_SetString(PyExc_ValueError, "addresses cannot be compared");
        return NULL;
    }
    if (check_group(now, by, cumulative) < 0
        || check_group(before, by, cumulative) < 0) {
        return NULL;
    }
    Py_BEGIN_CRITICAL_SECTION2(self, old);
    status = tm_snapshot_compare(now, before, (enum tm_group_by)by, cumulative,
                                 &changes);
    Py_END_CRITICAL_SECTION2();
    if (status < 0) {
        return PyErr_NoMemory();
    }
    PyObject *list = tm_view_changes(&changes, (enum tm_group_by)by);
    tm_changes_clear(&changes);
    return list;
}

static PyObject *
columns_stats(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    struct columns *c = as_columns(self);
    PyObject *stats;
    Py_BEGIN_CRITICAL_SECTION(self);
    stats = tm_view_stats(&c->view, c->snapshot);
    Py_END_CRITICAL_SECTION();
    return stats;
}

/* --- Selection -------------------------------------------------------------- */

struct tm_glob *
_PyTraceMalloc_CompilePattern(PyObject *pattern, bool source_names)
{
    if (!PyUnicode_Check(pattern)) {
        PyErr_Format(PyExc_TypeError, "pattern must be str, not %T", pattern);
        return NULL;
    }
    unsigned kind = PyUnicode_KIND(pattern);
    const void *data = PyUnicode_DATA(pattern);
    size_t length = (size_t)PyUnicode_GET_LENGTH(pattern);
    if (source_names) {
        length = tm_glob_source_length(kind, data, length);
    }
    struct tm_glob *glob = tm_glob_compile(kind, data, length);
    if (glob == NULL) {
        PyErr_NoMemory();
    }
    return glob;
}

/* A number of a filter: any if it is None or below `least`; `*value` is
   UINT32_MAX, which no trace has, if it is too large. */
static int
read_choice(PyObject *number, long least, bool *any, uint32_t *value)
{
    int overflow = 0;
    *any = number == Py_None;
    if (*any) {
        return 0;
    }
    long long n = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (n == -1 && overflow == 0 && PyErr_Occurred()) {
        return -1;
    }
    *any = overflow < 0 || (overflow == 0 && n < least);
    *value = overflow > 0 || n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
    return 0;
}

static int
read_selector(PyObject *filter, struct tm_selector *s, int draft)
{
    PyObject *pattern, *line, *domain;
    int include, all_frames;
    if (!PyTuple_Check(filter)) {
        PyErr_Format(PyExc_TypeError, "filter must be a tuple, not %T", filter);
        return -1;
    }
    if (!PyArg_ParseTuple(filter, "pOOpO;a filter has five items", &include,
                          &pattern, &line, &all_frames, &domain)
        || read_choice(line, 1, &s->any_line, &s->line) < 0
        || read_choice(domain, 0, &s->any_domain, &s->domain) < 0) {
        return -1;
    }
    s->include = include;
    s->all_frames = all_frames;
    s->known_only = draft;
    if (pattern != Py_None) {
        s->glob = _PyTraceMalloc_CompilePattern(pattern, true);
    }
    return s->glob == NULL && pattern != Py_None ? -1 : 0;
}

static struct tm_snapshot *
select_traces(PyObject *self, PyObject *filters, int draft)
{
    size_t n = (size_t)PyTuple_GET_SIZE(filters);
    struct tm_snapshot *kept = NULL;
    struct tm_selector *selectors = tm_calloc(n + 1, sizeof(*selectors));
    if (selectors == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    int status = 0;
    for (size_t i = 0; i < n && status == 0; i++) {
        status = read_selector(PyTuple_GET_ITEM(filters, (Py_ssize_t)i),
                               &selectors[i], draft);
    }
    if (status == 0) {
        Py_BEGIN_CRITICAL_SECTION(self);
        kept = tm_snapshot_select(as_columns(self)->snapshot, selectors, n);
        Py_END_CRITICAL_SECTION();
    }
    for (size_t i = 0; i < n; i++) {
        tm_glob_free(selectors[i].glob);
    }
    tm_free(selectors);
    return kept;
}

static PyObject *
columns_filter(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"filters", "draft", NULL};
    PyObject *filters;
    int draft = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:filter", names,
                                     &filters, &draft)
        || need_traces(as_columns(self)->snapshot) < 0) {
        return NULL;
    }
    /* A tuple: reading one filter may run code that changes a list. */
    filters = PySequence_Tuple(filters);
    if (filters == NULL) {
        return NULL;
    }
    struct tm_snapshot *kept = select_traces(self, filters, draft);
    Py_DECREF(filters);
    return tm_columns_wrap(Py_TYPE(self), kept);
}

static PyObject *
columns_pick(PyObject *self, PyObject *keep)
{
    struct tm_snapshot *s = as_columns(self)->snapshot, *kept;
    if (need_traces(s) < 0) {
        return NULL;
    }
    if (!PyBytes_Check(keep) || (size_t)PyBytes_GET_SIZE(keep) != s->ntraces) {
        PyErr_SetString(PyExc_ValueError, "bytes are needed, one a trace");
        return NULL;
    }
    kept = tm_snapshot_pick(s, (const uint8_t *)PyBytes_AS_STRING(keep));
    return tm_columns_wrap(Py_TYPE(self), kept);
}

static PyObject *
tracemalloc_fnmatch(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *name, *pattern;
    if (!PyArg_ParseTuple(args, "UU:_fnmatch", &name, &pattern)) {
        return NULL;
    }
    struct tm_glob *glob = _PyTraceMalloc_CompilePattern(pattern, false);
    if (glob == NULL) {
        return NULL;
    }
    bool matches = tm_glob_match(glob, PyUnicode_KIND(name),
                                 PyUnicode_DATA(name),
                                 (size_t)PyUnicode_GET_LENGTH(name));
    tm_glob_free(glob);
    return PyBool_FromLong(matches);
}

/* --- Making and packing ----------------------------------------------------- */

static PyObject *
columns_from_traces(PyObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"traces", "addresses", "traceback_limit",
                            "sample_interval", NULL};
    PyObject *traces, *addresses = Py_None;
    long long limit = 1, interval = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OLL:from_traces", names,
                                     &traces, &addresses, &limit, &interval)) {
        return NULL;
    }
    if (limit < 1 || limit > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError,
                        "traceback_limit is out of range");
        return NULL;
    }
    if (interval < 1) {
        PyErr_SetString(PyExc_OverflowError,
                        "sample_interval is out of range");
        return NULL;
    }
    addresses = addresses == Py_None ? NULL : PySequence_Tuple(addresses);
    if (addresses == NULL && PyErr_Occurred()) {
        return NULL;
    }
    struct tm_snapshot *s = tm_build_from_traces(traces, addresses);
    Py_XDECREF(addresses);
    if (s != NULL) {
        s->limit = (uint32_t)limit;
        s->interval = (uint64_t)interval;
    }
    return tm_columns_wrap((PyTypeObject *)type, s);
}

static PyObject *
columns_pack(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *pack;
    Py_BEGIN_CRITICAL_SECTION(self);
    pack = tm_build_pack(as_columns(self)->snapshot);
    Py_END_CRITICAL_SECTION();
    return pack;
}

static PyObject *
columns_unpack(PyObject *type, PyObject *pack)
{
    return tm_columns_wrap((PyTypeObject *)type, tm_build_from_pack(pack));
}

/* --- The type --------------------------------------------------------------- */

static PyObject *
columns_repr(PyObject *self)
{
    const struct tm_snapshot *s = as_columns(self)->snapshot;
    if (!s->has_traces) {
        return PyUnicode_FromString("<Columns without traces>");
    }
    return PyUnicode_FromFormat("<Columns of %zu traces>", s->ntraces);
}

static PyObject *
get_limit(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLong(as_columns(self)->snapshot->limit);
}

static PyObject *
get_lost(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(as_columns(self)->snapshot->lost);
}

static PyObject *
get_sample_interval(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(as_columns(self)->snapshot->interval);
}

static PyObject *
get_peak_size(PyObject *self, void *Py_UNUSED(closure))
{
    const struct tm_snapshot *s = as_columns(self)->snapshot;
    return s->rows != NULL ? PyLong_FromUnsignedLongLong(s->peak_size)
                           : Py_NewRef(Py_None);
}

static PyObject *
get_total_size(PyObject *self, void *Py_UNUSED(closure))
{
    struct tm_sum total;
    int status;
    Py_BEGIN_CRITICAL_SECTION(self);
    status = tm_snapshot_total(as_columns(self)->snapshot, &total);
    Py_END_CRITICAL_SECTION();
    return status < 0 ? PyErr_NoMemory() : tm_view_size(&total);
}

static PyObject *
get_has_traces(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(as_columns(self)->snapshot->has_traces);
}

static PyObject *
get_has_addresses(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(as_columns(self)->snapshot->address != NULL);
}

static PyGetSetDef columns_getset[] = {
    {"traceback_limit", get_limit, NULL, "frames in a traceback, at most", NULL},
    {"lost", get_lost, NULL, "traces that were dropped for want of memory", NULL},
    {"sample_interval", get_sample_interval, NULL,
     "mean bytes between samples; 1: exact", NULL},
    {"peak_size", get_peak_size, NULL,
     "traced bytes at a peak, whose traces are rows; else None", NULL},
    {"total_size", get_total_size, NULL, "bytes of all blocks", NULL},
    {"has_traces", get_has_traces, NULL, "false: only sums are known", NULL},
    {"has_addresses", get_has_addresses, NULL, NULL, NULL},
    {0},
};

#define WITH_KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef columns_methods[] = {
    {"trace", WITH_KEYWORDS(columns_trace), METH_VARARGS | METH_KEYWORDS,
     "trace($self, /, index, draft=False)\n--\n\nOne trace as a tuple."},
    {"tolist", WITH_KEYWORDS(columns_tolist), METH_VARARGS | METH_KEYWORDS,
     "tolist($self, /, scaled=False)\n--\n\nAll traces as a list of tuples."},
    {"address", columns_address, METH_O,
     "address($self, index, /)\n--\n\nAddress of the block of a trace."},
    {"get_by_address", columns_get_by_address, METH_O,
     "get_by_address($self, address, /)\n--\n\n"
     "Index of the trace of a block, or -1."},
    {"group", WITH_KEYWORDS(columns_group), METH_VARARGS | METH_KEYWORDS,
     "group($self, /, key, cumulative=False, draft=False)\n--\n\n"
     "List of (key, size, count)."},
    {"compare", WITH_KEYWORDS(columns_compare), METH_VARARGS | METH_KEYWORDS,
     "compare($self, /, old, key, cumulative=False)\n--\n\n"
     "List of (key, size, size_diff, count, count_diff)."},
    {"stats", columns_stats, METH_NOARGS,
     "stats($self, /)\n--\n\nSize and count of each line of each file."},
    {"filter", WITH_KEYWORDS(columns_filter), METH_VARARGS | METH_KEYWORDS,
     "filter($self, /, filters, draft=False)\n--\n\n"
     "New columns with the traces that the filters keep."},
    {"pick", columns_pick, METH_O,
     "pick($self, keep, /)\n--\n\n"
     "New columns with the traces whose byte is not 0."},
    {"pack", columns_pack, METH_NOARGS,
     "pack($self, /)\n--\n\nDict of plain containers, numbers and bytes."},
    {"unpack", columns_unpack, METH_O | METH_CLASS,
     "unpack($type, pack, /)\n--\n\nColumns from what pack() gave."},
    {"from_traces", WITH_KEYWORDS(columns_from_traces),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "from_traces($type, /, traces, addresses=None, traceback_limit=1,\n"
     "            sample_interval=1)\n--\n\n"
     "Columns from traces as tuples."},
    {0},
};

static PyType_Slot columns_slots[] = {
    {Py_tp_doc, "Frozen traces of memory blocks, as columns."},
    {Py_tp_dealloc, columns_dealloc},
    {Py_tp_repr, columns_repr},
    {Py_tp_methods, columns_methods},
    {Py_tp_getset, columns_getset},
    {Py_sq_length, columns_length},
    {Py_sq_item, columns_item},
    {0, NULL},
};

static PyType_Spec columns_spec = {
    .name = "_tracemalloc.Columns",
    .basicsize = sizeof(struct columns),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION
             | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = columns_slots,
};

static PyStructSequence_Field estimate_fields[] = {
    {"size", "bytes, rounded"},
    {"count", "blocks, rounded"},
    {"stderr", "standard error of the size"},
    {0},
};

static PyStructSequence_Desc estimate_desc = {
    .name = "tracemalloc.Estimate",
    .doc = "Sums that were estimated from samples: a tuple (size, count) with the\n"
           "attribute stderr, the standard error of the size.",
    .fields = estimate_fields,
    .n_in_sequence = 2,
};

static PyMethodDef functions[] = {
    {"_fnmatch", tracemalloc_fnmatch, METH_VARARGS,
     "_fnmatch($module, name, pattern, /)\n--\n\n"
     "Whether the name matches, in linear time and with regard to case."},
    {0},
};

int
_PyTraceMalloc_AddColumns(PyObject *module)
{
    PyObject *keep = PyInterpreterState_GetDict(PyInterpreterState_Get());
    PyObject *type = PyType_FromModuleAndSpec(module, &columns_spec, NULL);
    PyTypeObject *estimate = PyStructSequence_NewType(&estimate_desc);
    int status = -1;
    if (keep == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the interpreter has no dict");
    }
    else if (type != NULL && estimate != NULL
             && PyDict_SetItemString(keep, TYPE_KEY, type) == 0
             && PyDict_SetItemString(keep, ESTIMATE_KEY,
                                     (PyObject *)estimate) == 0
             && PyModule_AddType(module, (PyTypeObject *)type) == 0
             && PyModule_AddType(module, estimate) == 0) {
        status = PyModule_AddFunctions(module, functions);
    }
    Py_XDECREF(type);
    Py_XDECREF(estimate);
    return status;
}

static PyObject *
kept_type(const char *key)
{
    PyObject *type = NULL;
    PyObject *keep = PyInterpreterState_GetDict(PyInterpreterState_Get());
    if (keep != NULL && PyDict_GetItemStringRef(keep, key, &type) == 0) {
        PyErr_SetString(PyExc_RuntimeError, "_tracemalloc is not loaded");
    }
    return type;
}

PyObject *
tm_columns_type(void)
{
    return kept_type(TYPE_KEY);
}

PyObject *
tm_estimate_type(void)
{
    return kept_type(ESTIMATE_KEY);
}
