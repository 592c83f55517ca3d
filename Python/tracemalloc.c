/* The door of the memory-tracing engine for the interpreter and for C
 * extensions: delegates, and builds the few Python objects they ask for.
 */
#include "Python.h"
#include "pycore_ceval.h"         // _Py_set_eval_breaker_bit()
#include "pycore_fileutils.h"     // _Py_write_noraise()
#include "pycore_initconfig.h"    // _PyStatus_OK()
#include "pycore_object.h"        // _PyType_PreHeaderSize()
#include "pycore_pylifecycle.h"
#include "pycore_pystate.h"       // _PyThreadState_GET()
#include "pycore_reftracer.h"     // _Py_WatchObjects()
#include "pycore_runtime.h"       // _PyRuntime
#include "pycore_traceback.h"     // _Py_DumpDecimal()
#include "pycore_tracemalloc.h"

#include "../Modules/_tracemalloc/engine.h"

#define UNKNOWN_NAME "<unknown>"

/* --- start-up and end --- */

static void ask_for_safe_point(PyThreadState *tstate);
static void hold_task(void *task);

PyStatus
_PyTraceMalloc_Init(void)
{
    _PyRuntime.tracemalloc.initialized = 1;
    tm_task_on_due(ask_for_safe_point, hold_task);
    return _PyStatus_OK();
}

void
_PyTraceMalloc_Fini(void)
{
    tm_fini();
    tm_set_sample_interval(1);
    _PyTraceMalloc_WatchObjects(0);
    _PyRuntime.tracemalloc.initialized = 0;
}

static int
policy_of(const wchar_t *text, enum tm_fork_policy *policy)
{
    if (wcscmp(text, L"disable") == 0) {
        *policy = TM_FORK_DISABLE;
    }
    else if (wcscmp(text, L"follow") == 0) {
        *policy = TM_FORK_FOLLOW;
    }
    else {
        return -1;
    }
    return 0;
}

static PyStatus
read_fork_options(const PyConfig *config)
{
    enum tm_fork_policy policy;
    const wchar_t *option = _Py_get_xoption(&config->xoptions,
                                            L"tracemalloc_fork");
    if (option != NULL) {
        const wchar_t *value = wcschr(option, L'=');
        if (value == NULL || policy_of(value + 1, &policy) < 0) {
            return _PyStatus_ERR("-X tracemalloc_fork=POLICY: "
                                 "the policy must be disable or follow");
        }
        tm_set_fork_policy(policy);
        return _PyStatus_OK();
    }
    const char *env = _Py_GetEnv(config->use_environment,
                                 "PYTHONTRACEMALLOC_FORK");
    if (env == NULL) {
        return _PyStatus_OK();
    }
    if (strcmp(env, "disable") == 0) {
        tm_set_fork_policy(TM_FORK_DISABLE);
    }
    else if (strcmp(env, "follow") == 0) {
        tm_set_fork_policy(TM_FORK_FOLLOW);
    }
    else {
        return _PyStatus_ERR("PYTHONTRACEMALLOC_FORK: "
                             "the policy must be disable or follow");
    }
    return _PyStatus_OK();
}

/* A number of bytes: digits, then nothing, or k, m, g (of 1024 each) in either
   case, which may go on as in KiB.  -1: something else, 0, or too large. */
static int
bytes_of(const wchar_t *text, uint64_t *bytes)
{
    static const char units[] = "kmg";
    uint64_t n = 0, most = UINT64_MAX >> 1;
    const wchar_t *at = text;
    for (; *at >= L'0' && *at <= L'9'; at++) {
        uint64_t digit = (uint64_t)(*at - L'0');
        if (n > (most - digit) / 10) {
            return -1;
        }
        n = n * 10 + digit;
    }
    if (at == text || n == 0) {
        return -1;
    }
    for (unsigned i = 0; *at != 0 && units[i] != 0; i++) {
        if ((*at | 0x20) == units[i]) {
            unsigned shift = 10 * (i + 1);
            if (n > most >> shift) {
                return -1;
            }
            n <<= shift;
            at += at[1] != 0 && (at[1] | 0x20) == 'i' && (at[2] | 0x20) == 'b'
                  ? 3 : 1;
            break;
        }
    }
    *bytes = n;
    return *at == 0 ? 0 : -1;
}

/* The message lives as long as the process: nothing frees that of a status. */
static PyStatus
bad_interval(const char *option, const wchar_t *value)
{
    static char message[256];
    char shown[64];
    size_t n = 0;
    for (; value[n] != 0 && n < sizeof(shown) - 1; n++) {
        shown[n] = value[n] >= ' ' && value[n] < 0x7f ? (char)value[n] : '?';
    }
    shown[n] = 0;
    PyOS_snprintf(message, sizeof(message),
                  "%s=%s: the sample interval must be a number of bytes from "
                  "1 on, such as 512k or 1m", option, shown);
    return _PyStatus_ERR(message);
}

static PyStatus
set_interval(const char *option, const wchar_t *value)
{
    uint64_t bytes;
    if (bytes_of(value, &bytes) < 0) {
        return bad_interval(option, value);
    }
    if (!tm_is_tracing()) {
        tm_set_sample_interval(bytes);
    }
    return _PyStatus_OK();
}

static PyStatus
read_sample_options(const PyConfig *config)
{
    const wchar_t *option = _Py_get_xoption(&config->xoptions,
                                            L"tracemalloc_sample");
    if (option != NULL) {
        const wchar_t *value = wcschr(option, L'=');
        return set_interval("-X tracemalloc_sample",
                            value != NULL ? value + 1 : L"");
    }
    const char *env = _Py_GetEnv(config->use_environment,
                                 "PYTHONTRACEMALLOC_SAMPLE");
    if (env == NULL) {
        return _PyStatus_OK();
    }
    wchar_t value[64];
    size_t n = 0;
    for (; env[n] != 0 && n < Py_ARRAY_LENGTH(value) - 1; n++) {
        value[n] = (unsigned char)env[n];
    }
    value[n] = 0;
    return set_interval("PYTHONTRACEMALLOC_SAMPLE", value);
}

PyStatus
_PyTraceMalloc_ReadOptions(const PyConfig *config)
{
    PyStatus status = read_fork_options(config);
    if (!_PyStatus_EXCEPTION(status)) {
        status = read_sample_options(config);
    }
    return status;
}

int
_PyTraceMalloc_StartTracing(int limit, int by_enable)
{
    if (limit < 1 || limit > TM_LIMIT_MAX) {
        PyErr_Format(PyExc_ValueError,
                     "the number of frames must be in range [1; %d]",
                     TM_LIMIT_MAX);
        return -1;
    }
    if (tm_start(limit, by_enable ? TM_BY_ENABLE : TM_BY_START) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    /* A sample keeps the traceback of its block: what objects of free lists
       would add is less than their lists hold. */
    _PyTraceMalloc_WatchObjects(tm_get_sample_interval() == 1);
    return 0;
}

int
_PyTraceMalloc_Start(int limit)
{
    return _PyTraceMalloc_StartTracing(limit, 1);
}

void
_PyTraceMalloc_Stop(void)
{
    _PyTraceMalloc_WatchObjects(0);
    /* First the tasks: stopping forgets the threads that must be told. */
    _PyTraceMalloc_CancelAllTasks();
    tm_stop();
}

/* --- events --- */

void
_PyTraceMalloc_WatchObjects(int on)
{
    _Py_WatchObjects(_Py_WATCH_TRACEMALLOC, on);
}

uintptr_t
_PyTraceMalloc_ObjectBlock(PyObject *op)
{
    return (uintptr_t)op - _PyType_PreHeaderSize(Py_TYPE(op));
}

void
_PyTraceMalloc_CodeGone(PyCodeObject *code)
{
    if (tm_is_tracing()) {
        tm_code_gone(code);
    }
}

void
_PyTraceMalloc_ThreadGone(PyThreadState *tstate)
{
    if (((_PyThreadStateImpl *)tstate)->tracemalloc != NULL) {
        tm_thread_gone(tstate);
    }
}

void
_PyTraceMalloc_FrameMoved(void)
{
    if (tm_is_tracing()) {
        tm_frame_moved();
    }
}

/* Whoever makes an interpreter may have detached its thread state, while other
   threads are in the middle of a hook; those are to see the gate open or shut,
   so it is shut under the GIL that they hold. */
void
_PyTraceMalloc_SecondHeap(void)
{
    if (tm_is_shared()) {
        return;
    }
    PyThreadState *tstate = NULL;
    if (_PyThreadState_GET() == NULL) {
        tstate = PyThreadState_New(PyInterpreterState_Main());
        if (tstate != NULL) {
            PyEval_AcquireThread(tstate);
        }
    }
    tm_share();
    if (tstate != NULL) {
        PyThreadState_Clear(tstate);
        PyThreadState_DeleteCurrent();
    }
}

void
_PyTraceMalloc_BeforeFork(void)
{
    tm_before_fork();
}

void
_PyTraceMalloc_AfterForkParent(void)
{
    tm_after_fork_parent();
}

void
_PyTraceMalloc_AfterForkChild(void)
{
    tm_after_fork_child();
    if (!tm_is_tracing()) {
        _PyTraceMalloc_WatchObjects(0);
    }
}

int
PyTraceMalloc_Track(unsigned int domain, uintptr_t ptr, size_t size)
{
    return tm_track(domain, ptr, size);
}

int
PyTraceMalloc_Untrack(unsigned int domain, uintptr_t ptr)
{
    return tm_untrack(domain, ptr);
}

/* --- tracebacks --- */

static PyObject *
frame_object(const struct tm_frame_copy *frame, int draft)
{
    PyObject *name = frame->unknown && draft
                     ? Py_NewRef(Py_None)
                     : PyUnicode_FromKindAndData(frame->kind, frame->text,
                                                 frame->length);
    PyObject *line = frame->line == 0 && draft
                     ? Py_NewRef(Py_None)
                     : PyLong_FromUnsignedLong(frame->line);
    PyObject *pair = name != NULL && line != NULL ? PyTuple_Pack(2, name, line)
                                                  : NULL;
    Py_XDECREF(name);
    Py_XDECREF(line);
    return pair;
}

static PyObject *
frames_object(const struct tm_frame_copy *frame, int n, int draft)
{
    PyObject *frames = PyTuple_New(n);
    for (int i = 0; frames != NULL && i < n; i++, frame = frame->next) {
        PyObject *pair = frame_object(frame, draft);
        if (pair == NULL) {
            Py_CLEAR(frames);
            break;
        }
        PyTuple_SET_ITEM(frames, i, pair);
    }
    return frames;
}

PyObject *
_PyTraceMalloc_FindFrames(unsigned int domain, uintptr_t ptr, int draft,
                          size_t *size)
{
    struct tm_trace trace;
    struct tm_frame_copy *first;
    PyObject *frames = NULL;
    int n = tm_find_frames(domain, ptr, &trace, &first);
    if (n == -1) {
        Py_RETURN_NONE;
    }
    if (n < 0) {
        PyErr_NoMemory();
    }
    else {
        *size = trace.size;
        frames = frames_object(first, n, draft);
    }
    while (first != NULL) {
        struct tm_frame_copy *next = first->next;
        tm_free(first);
        first = next;
    }
    return frames;
}

PyObject *
_PyTraceMalloc_GetTraceback(unsigned int domain, uintptr_t ptr)
{
    size_t size;
    return _PyTraceMalloc_FindFrames(domain, ptr, 0, &size);
}

/* --- the debug allocator's report: may be called in a broken process --- */

static void
put(int fd, const char *text)
{
    (void)_Py_write_noraise(fd, text, strlen(text));
}

static void
put_name(int fd, const struct tm_file *file)
{
    char escape[16];
    for (uint32_t i = 0; i < file->length; i++) {
        Py_UCS4 ch = PyUnicode_READ((int)file->kind, file->data, i);
        if (ch >= ' ' && ch < 0x7f) {
            char c[2] = {(char)ch, 0};
            put(fd, c);
            continue;
        }
        PyOS_snprintf(escape, sizeof(escape),
                      ch < 0x100 ? "\\x%02x" : ch < 0x10000 ? "\\u%04x"
                                                            : "\\U%08x", ch);
        put(fd, escape);
    }
}

/* Write where the block at `ptr` was allocated to a file descriptor. */
void
_PyMem_DumpTraceback(int fd, const void *ptr)
{
    struct tm_trace trace;
    if (!tm_is_tracing()) {
        put(fd, "Enable tracemalloc to get the memory block "
                "allocation traceback\n\n");
        return;
    }
    if (!tm_find(0, (uintptr_t)ptr, &trace)
        && !tm_find_leaving((uintptr_t)ptr, &trace))
    {
        return;
    }
    put(fd, "Memory block allocated at (most recent call first):\n");
    unsigned left = (unsigned)tm_context_limit(trace.ctx);
    for (tm_ctx_t ctx = trace.ctx; left > 0 && ctx != TM_CTX_NONE; left--) {
        tm_site_t site;
        tm_file_t file;
        uint32_t line;
        tm_context_parts(ctx, &site, &ctx);
        tm_site_get(site, &file, &line);
        put(fd, "  File \"");
        put_name(fd, tm_file_get(file));
        put(fd, "\", line ");
        _Py_DumpDecimal(fd, line);
        put(fd, "\n");
    }
    put(fd, "\n");
}

/* --- tasks --- */

static void
ask_for_safe_point(PyThreadState *tstate)
{
    _Py_set_eval_breaker_bit(tstate, _PY_TRACEMALLOC_TASKS_BIT);
}

/* For a task that the engine hands out. */
static void
hold_task(void *task)
{
    Py_INCREF((PyObject *)task);
}

int
_PyTraceMalloc_ScheduleTask(PyObject *task, uint64_t delay, size_t threshold)
{
    int res = tm_task_schedule(task, PyInterpreterState_Get(), delay,
                               threshold);
    if (res < 0) {
        PyErr_NoMemory();
        return -1;
    }
    if (res > 0) {
        Py_INCREF(task);        /* the engine's reference */
    }
    return 0;
}

void
_PyTraceMalloc_CancelTask(PyObject *task)
{
    if (tm_task_cancel(task)) {
        Py_DECREF(task);
    }
}

PyObject *
_PyTraceMalloc_ListTasks(void)
{
    PyObject *list = PyList_New(0);
    PyObject *task;
    for (size_t i = 0; list != NULL; i++) {
        task = tm_task_get(PyInterpreterState_Get(), i);
        if (task == NULL) {
            break;
        }
        if (PyList_Append(list, task) < 0) {
            Py_CLEAR(list);
        }
        Py_DECREF(task);
    }
    return list;
}

/* Release what was cancelled from another interpreter. */
static void
release_gone_tasks(PyInterpreterState *interp)
{
    PyObject *task;
    while ((task = tm_task_gone(interp)) != NULL) {
        _PyTraceMalloc_CancelTask(task);
        Py_DECREF(task);
    }
}

void
_PyTraceMalloc_CancelTasks(PyInterpreterState *interp)
{
    PyObject *task;
    while ((task = tm_task_get(interp, 0)) != NULL) {
        _PyTraceMalloc_CancelTask(task);
        Py_DECREF(task);
    }
    release_gone_tasks(interp);
}

void
_PyTraceMalloc_CancelAllTasks(void)
{
    tm_task_cancel_all();
    release_gone_tasks(PyInterpreterState_Get());
}

/* One call of task._fire().  A false result, or an exception, ends the task. */
static void
fire(PyObject *task)
{
    PyObject *again = PyObject_CallMethod(task, "_fire", NULL);
    int go_on = again != NULL ? PyObject_IsTrue(again) : -1;
    if (go_on < 0) {
        PyErr_WriteUnraisable(task);
    }
    if (go_on > 0) {
        tm_task_called(task);
    }
    else {
        _PyTraceMalloc_CancelTask(task);
    }
    Py_XDECREF(again);
}

void
_PyTraceMalloc_RunTasks(PyThreadState *tstate)
{
    /* A task that runs Python reaches safe points of its own: others may run
       there, but none waits anew before the outermost is through, or tasks that
       set each other off would never end. */
    static _Py_thread_local PyInterpreterState *running;
    PyInterpreterState *owner = tstate->interp, *outer = running;
    PyObject *task;
    running = owner;
    release_gone_tasks(owner);
    while ((task = tm_task_take_due(owner)) != NULL) {
        PyObject *pending = PyErr_GetRaisedException();
        fire(task);
        PyErr_SetRaisedException(pending);
        Py_DECREF(task);
    }
    running = outer;
    if (outer != owner) {
        tm_task_rearm(owner);
    }
}
