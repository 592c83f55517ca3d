/* The parts of the Python door that have files of their own, for the module's
 * file.  An attached thread state is needed; NULL or -1: an exception is set.
 */
#ifndef TM_PYDOOR_H
#define TM_PYDOOR_H

#include "Python.h"

#include <stdbool.h>

/* --- pycolumns.c --- */

struct tm_glob;
/* A str compiled, or NULL with an exception; the glob is the caller's.
   source_names: .pyc and .pyo count as .py. */
struct tm_glob *_PyTraceMalloc_CompilePattern(PyObject *pattern,
                                              bool source_names);

/* --- pyfilters.c --- */

/* Method _set_filters(): replace the live filters by those of a sequence of
   rules. */
PyObject *_PyTraceMalloc_SetFilters(PyObject *module, PyObject *rules);

/* --- pymetrics.c --- */

/* Add the functions that read metrics.  Once for each module. */
int _PyTraceMalloc_AddMetrics(PyObject *module);

#endif /* TM_PYDOOR_H */
