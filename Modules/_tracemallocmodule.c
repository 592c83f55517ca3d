/* The door of the memory-tracing engine for Python: arguments in, objects out.
 * The package Lib/tracemalloc is built on this module; so is any Python 3.13 or
 * 3.14 tracemalloc.py, which needs the first ten functions only.
 */
#ifndef Py_BUILD_CORE_BUILTIN
#  define Py_BUILD_CORE_MODULE 1
#endif

#include "Python.h"
#include "pycore_modsupport.h"    // _PyArg_CheckPositional()
#include "pycore_tracemalloc.h"

#include "_tracemalloc/engine.h"
#include "_tracemalloc/pycolumns.h"
#include "_tracemalloc/pydoor.h"
#include "_tracemalloc/signals.h"

/* --- today's ten --- */

/* The mean distance of samples in bytes. */
static int
read_interval(PyObject *number, uint64_t *interval)
{
    if (!PyLong_Check(number) || PyBool_Check(number)) {
        PyErr_Format(PyExc_TypeError,
                     "the sample interval must be an int, not %T", number);
        return -1;
    }
    int overflow;
    long long n = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (n == -1 && PyErr_Occurred()) {
        return -1;
    }
    if (overflow != 0 || n < 1) {
        PyErr_SetString(PyExc_ValueError,
                        "the sample interval must be in range [1; 2**63 - 1]; "
                        "1 traces every block");
        return -1;
    }
    *interval = (uint64_t)n;
    return 0;
}

PyDoc_STRVAR(start_doc,
"start($module, nframe=1, /, *, sample_interval=None)\n--\n\n"
"Begin to trace memory blocks, keeping at most nframe frames of each one's\n"
"traceback.  With a sample interval above 1, one block in so many bytes is\n"
"traced, by chance; None: that of set_sample_interval().  Nothing changes when\n"
"tracing is on already.");

/* Vectorcall: a tuple of arguments would be made untraced, and given back to
   a free list while tracing. */
static PyObject *
tm_mod_start(PyObject *Py_UNUSED(module), PyObject *const *args,
             Py_ssize_t nargs, PyObject *names)
{
    uint64_t before = tm_get_sample_interval(), interval = before;
    int limit = 1;
    if (nargs > 1) {
        PyErr_Format(PyExc_TypeError,
                     "start expected at most 1 argument, got %zd", nargs);
        return NULL;
    }
    if (nargs == 1) {
        limit = PyLong_AsInt(args[0]);
        if (limit == -1 && PyErr_Occurred()) {
            return NULL;
        }
    }
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i), *value = args[nargs + i];
        if (!PyUnicode_EqualToUTF8(name, "sample_interval")) {
            PyErr_Format(PyExc_TypeError,
                         "start() got an unexpected keyword argument '%S'",
                         name);
            return NULL;
        }
        if (value != Py_None && read_interval(value, &interval) < 0) {
            return NULL;
        }
    }
    bool plan = interval != before && !tm_is_tracing();
    if (plan) {
        tm_set_sample_interval(interval);
    }
    if (_PyTraceMalloc_StartTracing(limit, 0) < 0) {
        if (plan) {
            tm_set_sample_interval(before);
        }
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(stop_doc,
"stop($module, /)\n--\n\n"
"End tracing and drop all traces; scheduled tasks are cancelled.");

static PyObject *
tm_mod_stop(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    _PyTraceMalloc_Stop();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(disable_doc,
"disable($module, /)\n--\n\n"
"End tracing, drop all traces and cancel all scheduled tasks.");

PyDoc_STRVAR(is_enabled_doc,
"is_enabled($module, /)\n--\n\n"
"Whether memory blocks are being traced.");

PyDoc_STRVAR(is_tracing_doc,
"is_tracing($module, /)\n--\n\n"
"Whether memory blocks are being traced.");

static PyObject *
tm_mod_is_tracing(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(tm_is_tracing());
}

PyDoc_STRVAR(clear_traces_doc,
"clear_traces($module, /)\n--\n\n"
"Drop all traces and start counting from zero; tracing goes on.");

static PyObject *
tm_mod_clear_traces(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    tm_clear();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(get_traces_list_doc,
"_get_traces($module, /)\n--\n\n"
"All traces as a list of (domain, size, frames, total_nframe).");

static PyObject *
tm_mod_get_traces_list(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return _PyTraceMalloc_GetTracesList();
}

PyDoc_STRVAR(get_object_traceback_doc,
"_get_object_traceback($module, obj, /)\n--\n\n"
"Frames of the code that allocated obj, most recent first, or None.");

static PyObject *
tm_mod_get_object_traceback(PyObject *Py_UNUSED(module), PyObject *obj)
{
    return _PyTraceMalloc_GetTraceback(0, _PyTraceMalloc_ObjectBlock(obj));
}

PyDoc_STRVAR(get_traced_memory_doc,
"get_traced_memory($module, /)\n--\n\n"
"Traced bytes now and at their peak: (size, max_size).");

static PyObject *
tm_mod_get_traced_memory(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    struct tm_totals totals = tm_get_totals();
    PyObject *live = PyLong_FromSize_t(totals.live);
    PyObject *peak = live ? PyLong_FromSize_t(totals.peak) : NULL;
    PyObject *pair = peak ? PyTuple_Pack(2, live, peak) : NULL;
    Py_XDECREF(live);
    Py_XDECREF(peak);
    return pair;
}

PyDoc_STRVAR(reset_peak_doc,
"reset_peak($module, /)\n--\n\n"
"Let the peak be what is traced now.");

static PyObject *
tm_mod_reset_peak(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    tm_reset_peak();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(get_traceback_limit_doc,
"get_traceback_limit($module, /)\n--\n\n"
"How many frames of a traceback are kept at most.");

static PyObject *
tm_mod_get_traceback_limit(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(tm_get_limit());
}

PyDoc_STRVAR(get_tracemalloc_memory_doc,
"get_tracemalloc_memory($module, /)\n--\n\n"
"Bytes that the tracing engine uses for itself; 0 when it is off.");

static PyObject *
tm_mod_get_tracemalloc_memory(PyObject *Py_UNUSED(module),
                              PyObject *Py_UNUSED(none))
{
    return PyLong_FromSize_t(tm_is_tracing() ? tm_arena_size() : 0);
}

/* --- draft 3: main functions --- */

PyDoc_STRVAR(enable_doc,
"enable($module, /)\n--\n\n"
"Begin to trace memory blocks under the limit of set_traceback_limit().\n"
"A forked child starts disabled, unless the fork policy says otherwise.");

static PyObject *
tm_mod_enable(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (_PyTraceMalloc_StartTracing(tm_get_limit(), 1) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(set_traceback_limit_doc,
"set_traceback_limit($module, nframe, /)\n--\n\n"
"Keep at most nframe frames (1 to 65535) of the tracebacks of blocks that are\n"
"traced from now on.");

static PyObject *
tm_mod_set_traceback_limit(PyObject *Py_UNUSED(module), PyObject *arg)
{
    int overflow;
    long limit = PyLong_AsLongAndOverflow(arg, &overflow);
    if (limit == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (overflow || limit < 1 || limit > TM_LIMIT_MAX) {
        return PyErr_Format(PyExc_ValueError,
                            "the number of frames must be in range [1; %d]",
                            TM_LIMIT_MAX);
    }
    if (tm_set_limit((int)limit) < 0) {
        PyErr_SetString(PyExc_RuntimeError,
                        "no memory for another traceback limit, or more than "
                        "255 limits since the last clear_traces()");
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(set_sample_interval_doc,
"set_sample_interval($module, interval, /)\n--\n\n"
"From the next start on, trace one block in so many bytes, by chance; 1: every\n"
"block.  RuntimeError while memory is being traced.");

static PyObject *
tm_mod_set_sample_interval(PyObject *Py_UNUSED(module), PyObject *arg)
{
    uint64_t interval;
    if (read_interval(arg, &interval) < 0) {
        return NULL;
    }
    if (tm_is_tracing()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the sample interval cannot change while memory is "
                        "being traced");
        return NULL;
    }
    tm_set_sample_interval(interval);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(get_sample_interval_doc,
"get_sample_interval($module, /)\n--\n\n"
"Mean number of bytes from one traced block to the next; 1: all are traced.");

static PyObject *
tm_mod_get_sample_interval(PyObject *Py_UNUSED(module),
                           PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLongLong(tm_get_sample_interval());
}

PyDoc_STRVAR(set_fork_policy_doc,
"set_fork_policy($module, policy, /)\n--\n\n"
"What a forked child does: 'disable' or 'follow' tracing; None: as tracing was\n"
"turned on.");

static PyObject *
tm_mod_set_fork_policy(PyObject *Py_UNUSED(module), PyObject *arg)
{
    if (arg == Py_None) {
        tm_set_fork_policy(TM_FORK_BY_START);
        Py_RETURN_NONE;
    }
    if (!PyUnicode_Check(arg)) {
        return PyErr_Format(PyExc_TypeError,
                            "the fork policy must be a str or None, not %T", arg);
    }
    if (PyUnicode_EqualToUTF8(arg, "disable")) {
        tm_set_fork_policy(TM_FORK_DISABLE);
    }
    else if (PyUnicode_EqualToUTF8(arg, "follow")) {
        tm_set_fork_policy(TM_FORK_FOLLOW);
    }
    else {
        return PyErr_Format(PyExc_ValueError,
                            "the fork policy must be 'disable' or 'follow', "
                            "not %R", arg);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(get_fork_policy_doc,
"get_fork_policy($module, /)\n--\n\n"
"'disable', 'follow' or None: see set_fork_policy().");

static PyObject *
tm_mod_get_fork_policy(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    switch (tm_get_fork_policy()) {
    case TM_FORK_DISABLE:
        return PyUnicode_FromString("disable");
    case TM_FORK_FOLLOW:
        return PyUnicode_FromString("follow");
    default:
        Py_RETURN_NONE;
    }
}

PyDoc_STRVAR(memory_doc,
"_memory($module, /)\n--\n\n"
"Bytes of the engine, and how many of them are free: (size, free).");

static PyObject *
tm_mod_memory(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (!tm_is_tracing()) {
        return Py_BuildValue("ii", 0, 0);
    }
    size_t size = tm_arena_size(), idle = tm_memory_free();
    return Py_BuildValue("nn", (Py_ssize_t)size,
                         (Py_ssize_t)Py_MIN(idle, size));
}

/* --- draft 3: traces --- */

PyDoc_STRVAR(get_stats_doc,
"get_stats($module, /)\n--\n\n"
"Traced memory by line: {filename: {lineno: (size, count)}}.");

static PyObject *
tm_mod_get_stats(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return _PyTraceMalloc_GetStats();
}

PyDoc_STRVAR(get_traces_doc,
"get_traces($module, /)\n--\n\n"
"All traces: {address: (size, frames)}, frames as (filename, lineno) tuples,\n"
"most recent first.");

static PyObject *
tm_mod_get_traces(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return _PyTraceMalloc_GetTraces();
}

static PyObject *
trace_object(uintptr_t addr)
{
    size_t size;
    PyObject *frames = _PyTraceMalloc_FindFrames(0, addr, 1, &size);
    if (frames == NULL || frames == Py_None) {
        return frames;
    }
    return Py_BuildValue("KN", (unsigned long long)size, frames);
}

PyDoc_STRVAR(get_trace_doc,
"get_trace($module, address, /)\n--\n\n"
"The trace (size, frames) of the memory block at an address, or None.");

static PyObject *
tm_mod_get_trace(PyObject *Py_UNUSED(module), PyObject *arg)
{
    void *address = PyLong_AsVoidPtr(arg);
    if (address == NULL && PyErr_Occurred()) {
        return NULL;
    }
    return trace_object((uintptr_t)address);
}

PyDoc_STRVAR(get_object_trace_doc,
"get_object_trace($module, obj, /)\n--\n\n"
"The trace (size, frames) of the main memory block of obj, or None.");

static PyObject *
tm_mod_get_object_trace(PyObject *Py_UNUSED(module), PyObject *obj)
{
    return trace_object(_PyTraceMalloc_ObjectBlock(obj));
}

PyDoc_STRVAR(get_object_address_doc,
"get_object_address($module, obj, /)\n--\n\n"
"The address of the main memory block of obj, its pre-header included.");

static PyObject *
tm_mod_get_object_address(PyObject *Py_UNUSED(module), PyObject *obj)
{
    return PyLong_FromVoidPtr((void *)_PyTraceMalloc_ObjectBlock(obj));
}

PyDoc_STRVAR(freeze_doc,
"_freeze($module, traces=True, /)\n--\n\n"
"A consistent copy of what is traced now, as Columns; with traces=False the\n"
"totals of each line only.");

static PyObject *
tm_mod_freeze(PyObject *Py_UNUSED(module), PyObject *const *args,
              Py_ssize_t nargs)
{
    int traces = 1;
    if (!_PyArg_CheckPositional("_freeze", nargs, 0, 1)) {
        return NULL;
    }
    if (nargs == 1 && (traces = PyObject_IsTrue(args[0])) < 0) {
        return NULL;
    }
    return _PyTraceMalloc_Freeze(traces);
}

PyDoc_STRVAR(freeze_peak_doc,
"_freeze_peak($module, /)\n--\n\n"
"What was traced when the traced size last peaked, as Columns of rows.");

static PyObject *
tm_mod_freeze_peak(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return _PyTraceMalloc_FreezePeak();
}

/* --- draft 3: tasks --- */

PyDoc_STRVAR(task_schedule_doc,
"_task_schedule($module, task, delay, threshold, /)\n--\n\n"
"Call task._fire() when delay seconds have passed or the traced size has\n"
"moved by more than threshold bytes; 0: not by this.");

static PyObject *
tm_mod_task_schedule(PyObject *Py_UNUSED(module), PyObject *const *args,
                     Py_ssize_t nargs)
{
    if (!_PyArg_CheckPositional("_task_schedule", nargs, 3, 3)) {
        return NULL;
    }
    unsigned long long delay = PyLong_AsUnsignedLongLong(args[1]);
    if (delay == (unsigned long long)-1 && PyErr_Occurred()) {
        return NULL;
    }
    size_t threshold = PyLong_AsSize_t(args[2]);
    if (threshold == (size_t)-1 && PyErr_Occurred()) {
        return NULL;
    }
    if (_PyTraceMalloc_ScheduleTask(args[0], delay, threshold) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(task_cancel_doc,
"_task_cancel($module, task, /)\n--\n\n"
"Take a task out of the schedule; nothing happens if it is not there.");

static PyObject *
tm_mod_task_cancel(PyObject *Py_UNUSED(module), PyObject *task)
{
    _PyTraceMalloc_CancelTask(task);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(task_list_doc,
"_task_list($module, /)\n--\n\n"
"The scheduled tasks of this interpreter.");

static PyObject *
tm_mod_task_list(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return _PyTraceMalloc_ListTasks();
}

PyDoc_STRVAR(cancel_tasks_doc,
"cancel_tasks($module, /)\n--\n\n"
"Cancel all scheduled tasks.");

static PyObject *
tm_mod_cancel_tasks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    _PyTraceMalloc_CancelAllTasks();
    Py_RETURN_NONE;
}

/* --- draft 3: filters (pyfilters.c) --- */

PyDoc_STRVAR(set_filters_doc,
"_set_filters($module, rules, /)\n--\n\n"
"Replace the live filters by (include, pattern, lineno, traceback, domain)\n"
"tuples: pattern None for the domain alone, lineno 0 and domain -1 for any.");

/* --- for tests --- */

PyDoc_STRVAR(check_doc,
"_check($module, /)\n--\n\n"
"Check the engine's invariants: None, or what is broken.");

static PyObject *
tm_mod_check(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    const char *wrong = tm_check();
    return wrong ? PyUnicode_FromString(wrong) : Py_NewRef(Py_None);
}

PyDoc_STRVAR(null_hook_doc,
"_null_hook($module, on, /)\n--\n\n"
"Link, or unlink, allocator hooks that do nothing but call what is below them:\n"
"for measurements.  RuntimeError while tracing is on.");

static PyObject *
tm_mod_null_hook(PyObject *Py_UNUSED(module), PyObject *const *args,
                 Py_ssize_t nargs)
{
    if (!_PyArg_CheckPositional("_null_hook", nargs, 1, 1)) {
        return NULL;
    }
    int on = PyObject_IsTrue(args[0]);
    if (on < 0) {
        return NULL;
    }
    if (tm_is_tracing()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the null hook is for when tracing is off");
        return NULL;
    }
    tm_null_hook(on);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(fail_after_doc,
"_fail_after($module, n, sticky=False, /)\n--\n\n"
"Let the n-th next allocation of the engine fail, with sticky all later ones\n"
"too; 0: none.  Returns how many there were since the last call.");

static PyObject *
tm_mod_fail_after(PyObject *Py_UNUSED(module), PyObject *const *args,
                  Py_ssize_t nargs)
{
    if (!_PyArg_CheckPositional("_fail_after", nargs, 1, 2)) {
        return NULL;
    }
    unsigned long long n = PyLong_AsUnsignedLongLong(args[0]);
    if (n == (unsigned long long)-1 && PyErr_Occurred()) {
        return NULL;
    }
    int sticky = nargs == 2 ? PyObject_IsTrue(args[1]) : 0;
    if (sticky < 0) {
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(tm_arena_fail_after(n, sticky));
}

PyDoc_STRVAR(sample_seed_doc,
"_sample_seed($module, seed, /)\n--\n\n"
"Let samples be drawn by the sequence of random numbers of this seed.");

static PyObject *
tm_mod_sample_seed(PyObject *Py_UNUSED(module), PyObject *arg)
{
    uint64_t seed = PyLong_AsUnsignedLongLongMask(arg);
    if (seed == (uint64_t)-1 && PyErr_Occurred()) {
        return NULL;
    }
    tm_sample_seed(seed);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(lost_doc,
"_lost($module, /)\n--\n\n"
"Traces dropped because the engine had no memory for them.");

static PyObject *
tm_mod_lost(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLongLong(tm_lost());
}

PyDoc_STRVAR(starts_doc,
"_starts($module, /)\n--\n\n"
"How often tracing was turned on: whether it is still the same.");

static PyObject *
tm_mod_starts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLong(tm_starts());
}

#define ALIAS(name, func) {#name, tm_mod_##func, METH_NOARGS, name##_doc}
#define FAST(name, func) \
    {#name, (PyCFunction)(void (*)(void))tm_mod_##func, METH_FASTCALL, \
     func##_doc}
#define NOARGS(name, func) {#name, tm_mod_##func, METH_NOARGS, func##_doc}
#define ONE(name, func) {#name, tm_mod_##func, METH_O, func##_doc}

static PyMethodDef methods[] = {
    {"start", (PyCFunction)(void (*)(void))tm_mod_start,
     METH_FASTCALL | METH_KEYWORDS, start_doc},
    NOARGS(stop, stop),
    NOARGS(is_tracing, is_tracing),
    NOARGS(clear_traces, clear_traces),
    NOARGS(_get_traces, get_traces_list),
    ONE(_get_object_traceback, get_object_traceback),
    NOARGS(get_traced_memory, get_traced_memory),
    NOARGS(reset_peak, reset_peak),
    NOARGS(get_traceback_limit, get_traceback_limit),
    NOARGS(get_tracemalloc_memory, get_tracemalloc_memory),
    NOARGS(enable, enable),
    ALIAS(disable, stop),
    ALIAS(is_enabled, is_tracing),
    ONE(set_traceback_limit, set_traceback_limit),
    ONE(set_sample_interval, set_sample_interval),
    NOARGS(get_sample_interval, get_sample_interval),
    ONE(set_fork_policy, set_fork_policy),
    NOARGS(get_fork_policy, get_fork_policy),
    NOARGS(_memory, memory),
    NOARGS(get_stats, get_stats),
    NOARGS(get_traces, get_traces),
    ONE(get_trace, get_trace),
    ONE(get_object_trace, get_object_trace),
    ONE(get_object_address, get_object_address),
    FAST(_freeze, freeze),
    NOARGS(_freeze_peak, freeze_peak),
    FAST(_task_schedule, task_schedule),
    {"_set_filters", _PyTraceMalloc_SetFilters, METH_O, set_filters_doc},
    ONE(_task_cancel, task_cancel),
    NOARGS(_task_list, task_list),
    NOARGS(cancel_tasks, cancel_tasks),
    ONE(_sample_seed, sample_seed),
    NOARGS(_check, check),
    FAST(_null_hook, null_hook),
    FAST(_fail_after, fail_after),
    NOARGS(_lost, lost),
    NOARGS(_starts, starts),
    {NULL, NULL, 0, NULL},
};

static int
module_exec(PyObject *module)
{
    if (_PyTraceMalloc_AddMetrics(module) < 0
        || _PyTraceMalloc_AddSignals(module) < 0
        || PyModule_AddStringConstant(module, "__version__",
                                      _PyTraceMalloc_VERSION) < 0)
    {
        return -1;
    }
    return _PyTraceMalloc_AddColumns(module);
}

/* An interpreter ends: its tasks go with it. */
static void
module_free(void *Py_UNUSED(module))
{
    _PyTraceMalloc_CancelTasks(PyInterpreterState_Get());
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_tracemalloc",
    .m_doc = PyDoc_STR("The memory-tracing engine, for the package tracemalloc."),
    .m_methods = methods,
    .m_slots = slots,
    .m_free = module_free,
};

PyMODINIT_FUNC
PyInit__tracemalloc(void)
{
    return PyModuleDef_Init(&module_def);
}
