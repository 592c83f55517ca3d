/* Python objects for what a snapshot holds, see pycolumns.h.  Owner of the
 * cached objects: the view, which its Columns (or a single call) owns. */
#include "pycolumns.h"
#include "pycore_object.h"        // _PyType_PreHeaderSize()

#include "arena.h"
#include "engine.h"

#include <math.h>

/* --- Cached objects --------------------------------------------------------- */

static void
clear_cache(PyObject ***cache, uint32_t n)
{
    PyObject **objects = *cache;
    *cache = NULL;
    for (uint32_t i = 0; objects != NULL && i < n; i++) {
        Py_XDECREF(objects[i]);
    }
    tm_free(objects);
}

void
tm_view_clear(struct tm_view *v)
{
    if (v->tables == NULL) {
        return;
    }
    for (int draft = 0; draft < 2; draft++) {
        clear_cache(&v->chains[draft], v->tables->nchains);
        clear_cache(&v->sites[draft], v->tables->nsites);
    }
    clear_cache(&v->files, v->tables->nfiles);
    v->tables = NULL;
}

/* The place of an object in its cache, which is made when missing. */
static PyObject **
cached(PyObject ***cache, uint32_t n, uint32_t i)
{
    if (*cache == NULL) {
        *cache = tm_calloc((size_t)n + 1, sizeof(**cache));
        if (*cache == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
    }
    return &(*cache)[i];
}

/* Drop the trace of an object just made.  What a snapshot keeps for itself is its
   own memory, not the program's: looking at one must not show up in the next. */
static void
hide(PyObject *object)
{
    (void)tm_untrack(0, (uintptr_t)object
                        - _PyType_PreHeaderSize(Py_TYPE(object)));
}

/* Keep an object just made, NULL if that failed, and return what is kept: making
   it may have let another thread in, which has then made the same one. */
static PyObject *
keep(const struct tm_view *v, PyObject **place, PyObject *object)
{
    if (*place == NULL) {
        *place = object;
        if (object != NULL && !v->passing) {
            hide(object);
        }
    }
    else {
        Py_XDECREF(object);
    }
    return Py_XNewRef(*place);
}

PyObject *
tm_view_file(struct tm_view *v, uint32_t file, int draft)
{
    if (draft && file == 0) {
        Py_RETURN_NONE;
    }
    PyObject **place = cached(&v->files, v->tables->nfiles, file);
    if (place == NULL || *place != NULL) {
        return place != NULL ? Py_NewRef(*place) : NULL;
    }
    const struct tm_name *name = &v->tables->files[file];
    return keep(v, place, PyUnicode_FromKindAndData(name->kind, name->data,
                                                 name->length));
}

static PyObject *
new_frame(struct tm_view *v, const struct tm_place *place, int draft)
{
    PyObject *file = tm_view_file(v, place->file, draft);
    PyObject *line = draft && place->line == 0
                     ? Py_NewRef(Py_None)
                     : PyLong_FromUnsignedLong(place->line);
    PyObject *frame = file != NULL && line != NULL
                      ? PyTuple_Pack(2, file, line) : NULL;
    Py_XDECREF(file);
    Py_XDECREF(line);
    return frame;
}

static int
is_unknown(const struct tm_tables *t, uint32_t site)
{
    return t->sites[site].file == 0 || t->sites[site].line == 0;
}

PyObject *
tm_view_site(struct tm_view *v, uint32_t site, int draft)
{
    draft = draft && is_unknown(v->tables, site);
    if (v->passing) {
        return new_frame(v, &v->tables->sites[site], draft);
    }
    PyObject **place = cached(&v->sites[draft], v->tables->nsites, site);
    if (place == NULL || *place != NULL) {
        return place != NULL ? Py_NewRef(*place) : NULL;
    }
    PyObject *frame = new_frame(v, &v->tables->sites[site], draft);
    if (frame != NULL && v->tables->sites[site].line != 0) {
        hide(PyTuple_GET_ITEM(frame, 1));
    }
    return keep(v, place, frame);
}

static PyObject *
new_chain(struct tm_view *v, uint32_t chain, int draft)
{
    const uint32_t *links = tm_chain_links(v->tables, chain);
    size_t n = tm_chain_length(v->tables, chain);
    PyObject *frames = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; frames != NULL && i < n; i++) {
        PyObject *frame = tm_view_site(v, links[i], draft);
        if (frame == NULL) {
            Py_CLEAR(frames);
            break;
        }
        PyTuple_SET_ITEM(frames, (Py_ssize_t)i, frame);
    }
    return frames;
}

PyObject *
tm_view_chain(struct tm_view *v, uint32_t chain, int draft)
{
    const struct tm_tables *t = v->tables;
    PyObject **place = cached(&v->chains[draft != 0], t->nchains, chain);
    if (place == NULL || *place != NULL) {
        return place != NULL ? Py_NewRef(*place) : NULL;
    }
    int differs = 0;
    if (draft) {
        const uint32_t *links = tm_chain_links(t, chain);
        size_t n = tm_chain_length(t, chain);
        for (size_t i = 0; i < n && !differs; i++) {
            differs = is_unknown(t, links[i]);
        }
    }
    return keep(v, place, draft && !differs ? tm_view_chain(v, chain, 0)
                                         : new_chain(v, chain, draft));
}

/* --- Traces ----------------------------------------------------------------- */

static PyObject *
view_trace(struct tm_view *v, const struct tm_snapshot *s, size_t i, int draft,
           uint64_t shown_size)
{
    const struct tm_traceback *tb = &s->tables->tracebacks[s->traceback[i]];
    PyObject *frames = tm_view_chain(v, tb->chain, draft);
    PyObject *size = PyLong_FromUnsignedLongLong(shown_size);
    PyObject *trace = NULL;
    if (frames == NULL || size == NULL) {
        Py_XDECREF(frames);
        Py_XDECREF(size);
        return NULL;
    }
    if (draft) {
        trace = PyTuple_Pack(2, size, frames);
    }
    else {
        PyObject *domain = PyLong_FromUnsignedLong(s->domain != NULL
                                                   ? s->domain[i] : 0);
        PyObject *total = tb->total == TM_TOTAL_UNKNOWN
                          ? Py_NewRef(Py_None)
                          : PyLong_FromUnsignedLong(tb->total);
        if (domain != NULL && total != NULL) {
            trace = PyTuple_Pack(4, domain, size, frames, total);
        }
        Py_XDECREF(domain);
        Py_XDECREF(total);
    }
    Py_DECREF(frames);
    Py_DECREF(size);
    return trace;
}

PyObject *
tm_view_trace(struct tm_view *v, const struct tm_snapshot *s, size_t i,
              int draft)
{
    return view_trace(v, s, i, draft, s->size[i]);
}

PyObject *
tm_view_list(struct tm_view *v, const struct tm_snapshot *s, int scaled)
{
    PyObject *list = PyList_New((Py_ssize_t)s->ntraces);
    scaled = scaled && s->rows == NULL && s->interval > 1;
    for (size_t i = 0; list != NULL && i < s->ntraces; i++) {
        uint64_t size = s->size[i];
        if (scaled) {
            struct tm_estimate estimate = tm_estimate_block(size, s->interval);
            size = tm_row_size(&estimate);
        }
        PyObject *trace = view_trace(v, s, i, 0, size);
        if (trace == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, trace);
    }
    return list;
}

/* --- Groups ----------------------------------------------------------------- */

PyObject *
tm_view_size(const struct tm_sum *sum)
{
    if (sum->high == 0) {
        return PyLong_FromUnsignedLongLong(sum->low);
    }
    unsigned char bytes[16];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(sum->low >> (8 * i));
        bytes[i + 8] = (unsigned char)(sum->high >> (8 * i));
    }
    return PyLong_FromUnsignedNativeBytes(
        bytes, sizeof(bytes), Py_ASNATIVEBYTES_LITTLE_ENDIAN);
}

/* ((filename, 0),): how 3.13 writes the key of a file. */
static PyObject *
file_key(struct tm_view *v, uint32_t file)
{
    PyObject *key = NULL;
    PyObject *frame = new_frame(v, &(struct tm_place){file, 0}, 0);
    if (frame != NULL) {
        key = PyTuple_Pack(1, frame);
        Py_DECREF(frame);
    }
    return key;
}

static PyObject *
line_key(struct tm_view *v, uint32_t site, int draft)
{
    if (site == TM_NONE) {
        return draft ? PyTuple_Pack(2, Py_None, Py_None) : PyTuple_New(0);
    }
    PyObject *frame = tm_view_site(v, site, draft);
    if (frame == NULL || draft) {
        return frame;
    }
    PyObject *key = PyTuple_Pack(1, frame);
    Py_DECREF(frame);
    return key;
}

PyObject *
tm_view_key(struct tm_view *v, enum tm_group_by by, uint32_t key, int draft)
{
    switch (by) {
    case TM_BY_FILE:
        return draft ? tm_view_file(v, key, 1) : file_key(v, key);
    case TM_BY_LINE:
        return line_key(v, key, draft);
    default:
        return tm_view_chain(v, key, draft);
    }
}

/* A tuple of `n` items, to which references are taken over; NULL if one of
   them could not be made. */
static PyObject *
pack_row(PyObject **items, Py_ssize_t n)
{
    int complete = 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        complete = complete && items[i] != NULL;
    }
    PyObject *row = complete ? PyTuple_New(n) : NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (row != NULL) {
            PyTuple_SET_ITEM(row, i, items[i]);
        }
        else {
            Py_XDECREF(items[i]);
        }
    }
    return row;
}

/* In the draft form traces without frames and traces of an unknown line have
   the same key. */
static void
join_unknown(const struct tm_tables *t, struct tm_groups *lines)
{
    struct tm_group *none = NULL, *unknown = NULL;
    for (size_t i = 0; i < lines->n; i++) {
        struct tm_group *g = &lines->rows[i];
        if (g->key == TM_NONE) {
            none = g;
        }
        else if (t->sites[g->key].file == 0 && t->sites[g->key].line == 0) {
            unknown = g;
        }
    }
    if (none != NULL && unknown != NULL) {
        tm_sum_add(&unknown->sum, &none->sum);
        tm_sum_settle(&unknown->sum);
        size_t behind = (size_t)(lines->rows + lines->n - (none + 1));
        memmove(none, none + 1, behind * sizeof(*none));
        lines->n--;
    }
}

/* Standard error of an estimated size; None if it is exact. */
static PyObject *
view_error(double variance, bool estimated)
{
    return estimated ? PyFloat_FromDouble(sqrt(variance)) : Py_NewRef(Py_None);
}

PyObject *
tm_view_groups(struct tm_view *v, struct tm_groups *groups,
               enum tm_group_by by, int draft)
{
    if (draft && by == TM_BY_LINE) {
        join_unknown(v->tables, groups);
    }
    PyObject *list = PyList_New((Py_ssize_t)groups->n);
    for (size_t i = 0; list != NULL && i < groups->n; i++) {
        const struct tm_group *g = &groups->rows[i];
        PyObject *row = pack_row((PyObject *[]){
            tm_view_key(v, by, g->key, draft),
            tm_view_size(&g->sum),
            PyLong_FromUnsignedLongLong(g->sum.count),
            groups->estimated ? view_error(g->sum.estimate.variance, true)
                              : NULL,
        }, groups->estimated ? 4 : 3);
        if (row == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, row);
    }
    return list;
}

static PyObject *
new_change(struct tm_view *v, const struct tm_change *c,
           const struct tm_changes *all, enum tm_group_by by)
{
    PyObject *size = tm_view_size(&c->now), *old = tm_view_size(&c->before);
    PyObject *difference = size != NULL && old != NULL
                           ? PyNumber_Subtract(size, old) : NULL;
    bool estimated = all->now_estimated || all->before_estimated;
    Py_XDECREF(old);
    return pack_row((PyObject *[]){
        tm_view_key(v, by, c->key, 0), size, difference,
        PyLong_FromUnsignedLongLong(c->now.count),
        PyLong_FromLongLong((long long)(c->now.count - c->before.count)),
        estimated ? view_error(c->now.estimate.variance, all->now_estimated)
                  : NULL,
        estimated ? view_error(c->now.estimate.variance
                               + c->before.estimate.variance, true) : NULL,
    }, estimated ? 7 : 5);
}

PyObject *
tm_view_changes(const struct tm_changes *changes, enum tm_group_by by)
{
    struct tm_view view = {.tables = changes->tables};
    PyObject *list = PyList_New((Py_ssize_t)changes->n);
    for (size_t i = 0; list != NULL && i < changes->n; i++) {
        PyObject *row = new_change(&view, &changes->rows[i], changes, by);
        if (row == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, row);
    }
    tm_view_clear(&view);
    return list;
}

/* (size, count), or an Estimate. */
static PyObject *
new_stat(const struct tm_sum *sum, PyTypeObject *estimate)
{
    if (estimate == NULL) {
        return pack_row((PyObject *[]){
            tm_view_size(sum), PyLong_FromUnsignedLongLong(sum->count),
        }, 2);
    }
    PyObject *items[] = {
        tm_view_size(sum), PyLong_FromUnsignedLongLong(sum->count),
        view_error(sum->estimate.variance, true),
    };
    PyObject *stat = items[0] != NULL && items[1] != NULL && items[2] != NULL
                     ? PyStructSequence_New(estimate) : NULL;
    for (Py_ssize_t i = 0; i < 3; i++) {
        if (stat != NULL) {
            PyStructSequence_SetItem(stat, i, items[i]);
        }
        else {
            Py_XDECREF(items[i]);
        }
    }
    return stat;
}

/* stats[file][line] = (size, count), where file and line may be None. */
static int
add_stat(struct tm_view *v, PyObject *stats, const struct tm_group *g,
         PyTypeObject *estimate)
{
    const struct tm_place none = {0, 0};
    const struct tm_place *place = g->key == TM_NONE
                                   ? &none : &v->tables->sites[g->key];
    PyObject *file = tm_view_file(v, place->file, 1), *lines = NULL;
    PyObject *line = place->line == 0 ? Py_NewRef(Py_None)
                                      : PyLong_FromUnsignedLong(place->line);
    PyObject *stat = new_stat(&g->sum, estimate);
    int status = -1;
    if (file != NULL && line != NULL && stat != NULL
        && PyDict_GetItemRef(stats, file, &lines) >= 0) {
        if (lines == NULL && (lines = PyDict_New()) != NULL
            && PyDict_SetItem(stats, file, lines) < 0) {
            Py_CLEAR(lines);
        }
        if (lines != NULL) {
            status = PyDict_SetItem(lines, line, stat);
        }
    }
    Py_XDECREF(file);
    Py_XDECREF(line);
    Py_XDECREF(stat);
    Py_XDECREF(lines);
    return status;
}

PyObject *
tm_view_stats(struct tm_view *v, struct tm_snapshot *s)
{
    struct tm_groups groups;
    PyObject *estimate = NULL, *stats = NULL;
    if (tm_snapshot_group(s, TM_BY_LINE, false, &groups) < 0) {
        return PyErr_NoMemory();
    }
    join_unknown(s->tables, &groups);
    if (!groups.estimated || (estimate = tm_estimate_type()) != NULL) {
        stats = PyDict_New();
    }
    for (size_t i = 0; stats != NULL && i < groups.n; i++) {
        if (add_stat(v, stats, &groups.rows[i], (PyTypeObject *)estimate) < 0) {
            Py_CLEAR(stats);
        }
    }
    tm_groups_clear(&groups);
    Py_XDECREF(estimate);
    return stats;
}

/* (address, size, count) in order of address; blocks of several domains that
   share an address are one row. */
PyObject *
tm_view_addresses(struct tm_snapshot *s)
{
    if (tm_snapshot_order(s) < 0) {
        return PyErr_NoMemory();
    }
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < s->ntraces;) {
        uint64_t address = s->address[s->by_address[i]];
        struct tm_sum sum = {0};
        while (i < s->ntraces && s->address[s->by_address[i]] == address) {
            tm_sum_add_block(&sum, s->size[s->by_address[i]]);
            i++;
        }
        PyObject *row = pack_row((PyObject *[]){
            PyLong_FromUnsignedLongLong(address), tm_view_size(&sum),
            PyLong_FromUnsignedLongLong(sum.count),
        }, 3);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}
