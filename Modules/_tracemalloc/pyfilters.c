/* _set_filters(): live filters on their way from Python to the engine.
 * A rule is the tuple (include, pattern, lineno, traceback, domain), the same
 * as Columns.filter() takes: see pycolumns.c.  Owns no data.
 */
#ifndef Py_BUILD_CORE_BUILTIN
#  define Py_BUILD_CORE_MODULE 1
#endif

#include "Python.h"
#include "engine.h"
#include "filter.h"
#include "glob.h"
#include "pydoor.h"

/* Numbers beyond what a trace can have are clamped to one that none has. */
#define NO_LINE UINT32_MAX
#define NO_DOMAIN INT64_MAX

/* -1 with an exception: not an int.  None and anything below `least` give
   `any`, what is above `most` gives `none`. */
static int
read_number(PyObject *number, int64_t least, int64_t most, int64_t any,
            int64_t none, int64_t *result)
{
    int overflow = 0;
    if (number == Py_None) {
        *result = any;
        return 0;
    }
    long long n = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (n == -1 && overflow == 0 && PyErr_Occurred()) {
        return -1;
    }
    if (overflow < 0 || (overflow == 0 && n < least)) {
        *result = any;
    }
    else {
        *result = overflow > 0 || n > most ? none : n;
    }
    return 0;
}

/* -1 with an exception; else the pattern of `filter` is the caller's, also when
   a later item is bad. */
static int
read_rule(PyObject *rule, struct tm_filter *filter)
{
    PyObject *pattern, *lineno, *domain;
    int include, all_frames;
    int64_t line;
    if (!PyTuple_Check(rule)) {
        PyErr_Format(PyExc_TypeError, "a filter must be a tuple, not %T",
                     rule);
        return -1;
    }
    if (!PyArg_ParseTuple(rule, "pOOpO;a filter has five items", &include,
                          &pattern, &lineno, &all_frames, &domain)
        || read_number(lineno, 1, NO_LINE - 1, 0, NO_LINE, &line) < 0
        || read_number(domain, 0, UINT32_MAX, -1, NO_DOMAIN,
                       &filter->domain) < 0)
    {
        return -1;
    }
    filter->line = (uint32_t)line;
    filter->include = (uint8_t)include;
    filter->all_frames = (uint8_t)all_frames;
    if (pattern != Py_None) {
        filter->pattern = _PyTraceMalloc_CompilePattern(pattern, true);
        return filter->pattern == NULL ? -1 : 0;
    }
    return 0;
}

static void
free_filters(struct tm_filter *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tm_glob_free(list[i].pattern);
    }
    tm_free(list);
}

PyObject *
_PyTraceMalloc_SetFilters(PyObject *Py_UNUSED(module), PyObject *rules)
{
    /* A tuple: reading one rule may run code that changes a list. */
    rules = PySequence_Tuple(rules);
    if (rules == NULL) {
        return NULL;
    }
    struct tm_filter *list = NULL;
    size_t count = (size_t)PyTuple_GET_SIZE(rules);
    if (count > 0) {
        list = tm_calloc(count, sizeof(*list));
        if (list == NULL) {
            Py_DECREF(rules);
            return PyErr_NoMemory();
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (read_rule(PyTuple_GET_ITEM(rules, (Py_ssize_t)i), &list[i]) < 0) {
            free_filters(list, count);
            Py_DECREF(rules);
            return NULL;
        }
    }
    Py_DECREF(rules);
    tm_set_filters(list, count);
    Py_RETURN_NONE;
}
