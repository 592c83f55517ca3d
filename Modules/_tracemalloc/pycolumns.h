/* The part of the Python door that hands out frozen snapshots: what its files
 * share, and what the door's own file calls.  All functions need an attached
 * thread state and follow the rules of the C API: NULL or -1 with an exception.
 */
#ifndef TM_PYCOLUMNS_H
#define TM_PYCOLUMNS_H

#include "Python.h"
#include "snapshot.h"

/* --- for the module (pycolumns.c, pycolumns_build.c) --- */

/* Add the type Columns and the function _fnmatch.  Once for each module. */
int _PyTraceMalloc_AddColumns(PyObject *module);

/* What is traced now; nothing that these functions make is part of it. */
PyObject *_PyTraceMalloc_Freeze(int traces);        /* Columns */
PyObject *_PyTraceMalloc_FreezePeak(void);          /* Columns of rows */
PyObject *_PyTraceMalloc_GetStats(void);            /* dict, draft form */
PyObject *_PyTraceMalloc_GetTraces(void);           /* dict, draft form */
PyObject *_PyTraceMalloc_GetTracesList(void);       /* list, 3.13 form */

/* --- the type (pycolumns.c) --- */

/* New reference to the type of this interpreter: functions without a module at
   hand need it too. */
PyObject *tm_columns_type(void);
/* The same of Estimate: a named tuple (size, count) with the hidden field
   stderr. */
PyObject *tm_estimate_type(void);
/* New Columns; takes over the snapshot, also when it fails.  A snapshot of NULL
   that came with no exception becomes a MemoryError. */
PyObject *tm_columns_wrap(PyTypeObject *type, struct tm_snapshot *snapshot);

/* --- Python objects for the ids of tables (pycolumns_view.c) --- */

/* Objects already made, one of a kind, so that equal frames and chains are the
   same object.  [0]: 3.13 form, [1]: draft form, where the unknown is None.
   Guard: the critical section of the owner. */
struct tm_view {
    const struct tm_tables *tables;     /* borrowed from the owner */
    PyObject **files;
    PyObject **sites[2];
    PyObject **chains[2];
    bool passing;               /* serves one muted call: nothing to hide, and
                                   each traceback has frames of its own */
};

void tm_view_clear(struct tm_view *view);
/* New references. */
PyObject *tm_view_file(struct tm_view *view, uint32_t file, int draft);
PyObject *tm_view_site(struct tm_view *view, uint32_t site, int draft);
PyObject *tm_view_chain(struct tm_view *view, uint32_t chain, int draft);
PyObject *tm_view_key(struct tm_view *view, enum tm_group_by by, uint32_t key,
                      int draft);
/* (domain, size, frames, total) or, draft, (size, frames). */
PyObject *tm_view_trace(struct tm_view *view, const struct tm_snapshot *s,
                        size_t i, int draft);
/* All of them as a list, 3.13 form; scaled: a sample has the size of all the
   blocks that it stands for. */
PyObject *tm_view_list(struct tm_view *view, const struct tm_snapshot *s,
                       int scaled);
PyObject *tm_view_size(const struct tm_sum *sum);
PyObject *tm_view_groups(struct tm_view *view, struct tm_groups *groups,
                         enum tm_group_by by, int draft);
PyObject *tm_view_changes(const struct tm_changes *changes,
                          enum tm_group_by by);
PyObject *tm_view_stats(struct tm_view *view, struct tm_snapshot *s);
PyObject *tm_view_addresses(struct tm_snapshot *s);

/* --- snapshots from Python objects and back --- */

/* A new snapshot, its tables sealed (pycolumns_build.c).  addresses: a tuple of
   as many ints, or NULL. */
struct tm_snapshot *tm_build_from_traces(PyObject *traces, PyObject *addresses);
/* The same from the packed form, which pycolumns_pack.c describes. */
struct tm_snapshot *tm_build_from_pack(PyObject *pack);
PyObject *tm_build_pack(struct tm_snapshot *snapshot);

#endif /* TM_PYCOLUMNS_H */
