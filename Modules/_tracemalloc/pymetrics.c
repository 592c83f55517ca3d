/* Figures about the process for the metrics of a snapshot.  Owns no data. */
#ifndef Py_BUILD_CORE_BUILTIN
#  define Py_BUILD_CORE_MODULE 1
#endif

#include "Python.h"
#include "pycore_dict.h"          // _PyDict_SizeOf()
#include "pycore_gc.h"            // _PyGC_GetFreezeCount()
#include "pycore_hashtable.h"     // _Py_hashtable_size()
#include "pycore_interp.h"        // _Py_INTERP_CACHED_OBJECT()
#include "pycore_object.h"        // _PyType_PreHeaderSize()
#include "pycore_runtime.h"       // _PyRuntime
#include "engine.h"
#include "pydoor.h"

static PyObject *
arena_size(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromSize_t(tm_arenas_size());
}

/* Interned strings are in one of two tables:
 *
 *   the dict of the interpreter   mortal ones and immortal ones, made at run
 *                                 time; shared by interpreters that share the
 *                                 GIL and the memory of the main one
 *   a hash table of the process   strings compiled into the interpreter; never
 *                                 changes once Python runs
 *
 * Both count, with the size that sys.getsizeof() gives for the dict. */
static PyObject *
unicode_interned(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    PyObject *dict = _Py_INTERP_CACHED_OBJECT(interp, interned_strings);
    const _Py_hashtable_t *fixed = _PyRuntime.cached_objects.interned_strings;
    size_t size = 0, length = 0;
    if (fixed != NULL) {
        size += _Py_hashtable_size(fixed);
        length += _Py_hashtable_len(fixed);
    }
    if (dict != NULL) {
        Py_BEGIN_CRITICAL_SECTION(dict);
        size += (size_t)_PyDict_SizeOf((PyDictObject *)dict)
                + _PyType_PreHeaderSize(Py_TYPE(dict));
        length += (size_t)PyDict_GET_SIZE(dict);
        Py_END_CRITICAL_SECTION();
    }
    return Py_BuildValue("nn", (Py_ssize_t)size, (Py_ssize_t)length);
}

static int
count_one(PyObject *Py_UNUSED(obj), void *arg)
{
    ++*(Py_ssize_t *)arg;
    return 1;
}

/* As many as gc.get_objects() would list, without making that list. */
static PyObject *
gc_objects(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    Py_ssize_t count = 0;
    Py_ssize_t frozen = _PyGC_GetFreezeCount(PyInterpreterState_Get());
    PyUnstable_GC_VisitObjects(count_one, &count);
    return PyLong_FromSsize_t(Py_MAX(count - frozen, 0));
}

#ifdef TM_HAVE_PYMALLOC_STATS

static PyObject *
pymalloc_stats(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    struct tm_pymalloc_stats stats;
    _PyTraceMalloc_PymallocStats(&stats);
    /* All is read before the first object is made: the dict is not in it. */
    const struct { const char *name; uint64_t value; } items[] = {
#define ITEM(field) {#field, stats.field}
        ITEM(alignment), ITEM(threshold), ITEM(nalloc), ITEM(arena_size),
        ITEM(total_arenas), ITEM(max_arenas), ITEM(arenas),
        ITEM(allocated_bytes), ITEM(available_bytes), ITEM(pool_size),
        ITEM(free_pools), ITEM(pool_headers), ITEM(quantization),
        ITEM(arena_alignment),
#undef ITEM
    };
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < Py_ARRAY_LENGTH(items); i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(items[i].value);
        if (value == NULL
            || PyDict_SetItemString(dict, items[i].name, value) < 0)
        {
            Py_CLEAR(dict);
        }
        Py_XDECREF(value);
    }
    return dict;
}

#endif /* TM_HAVE_PYMALLOC_STATS */

static PyMethodDef functions[] = {
    {"get_arena_size", arena_size, METH_NOARGS, PyDoc_STR(
     "get_arena_size($module, /)\n--\n\n"
     "Bytes of the arenas that pymalloc has got since tracing started, or\n"
     "traces were cleared, and still holds.")},
    {"get_unicode_interned", unicode_interned, METH_NOARGS, PyDoc_STR(
     "get_unicode_interned($module, /)\n--\n\n"
     "Bytes and length of the tables of interned strings, without the\n"
     "strings: (size, length).")},
    {"_gc_objects", gc_objects, METH_NOARGS, PyDoc_STR(
     "_gc_objects($module, /)\n--\n\n"
     "How many objects gc.get_objects() would list.")},
#ifdef TM_HAVE_PYMALLOC_STATS
    {"get_pymalloc_stats", pymalloc_stats, METH_NOARGS, PyDoc_STR(
     "get_pymalloc_stats($module, /)\n--\n\n"
     "Figures about pymalloc in this interpreter, as a dict: number and size\n"
     "of arenas and pools, and what their bytes are used for.  Where pymalloc\n"
     "is compiled in but not in use, there are no arenas.")},
#endif
    {NULL, NULL, 0, NULL},
};

int
_PyTraceMalloc_AddMetrics(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
