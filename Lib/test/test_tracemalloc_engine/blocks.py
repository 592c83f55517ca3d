"""A C extension that hands out memory blocks one by one, for the tests.

Domains are 0 (raw), 1 (mem), 2 (obj), as in PyMemAllocatorDomain.

    malloc(d, size) calloc(d, n, size) realloc(d, addr, size) free(d, addr)
                            addresses are ints; MemoryError when there is none
    track(domain, addr, size, nogil) untrack(domain, addr, nogil)
                            PyTraceMalloc_Track() and Untrack(): their result
    wrap(d) unwrap(d)       put a counting wrapper over the allocator that is
                            set now; take it away again
    save(d) restore(d)      remember the allocator that is set; set it again
    calls(d) -> (malloc, calloc, realloc, free) seen by the wrapper of d
    fail(n, count)          wrappers: let count calls fail, after n more; a free
                            never fails
    debug_hooks()           PyMem_SetupDebugHooks()
    native_start(threads, rounds) native_join() -> bad results
                            threads that Python has never seen: raw memory, and
                            blocks tracked in domain 77, all given back
    without_gil(sizes) -> addresses: raw blocks made by this thread while it has
                            let go of the GIL
    raise_and_read(signum, fd) -> byte or None at the end
                            the signal is caught just before the read begins;
                            handlers run when it is interrupted
    gilstate(callable, threads)
                            call it once from each of so many fresh C threads
"""

import functools
import types

from . import util

NAME = "tm_blocks"
RAW, MEM, OBJ = 0, 1, 2

SOURCE = r"""
#include <Python.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/* --- single blocks --- */

static void *
do_malloc(int d, size_t n)
{
    return d == 0 ? PyMem_RawMalloc(n) : d == 1 ? PyMem_Malloc(n)
                                                : PyObject_Malloc(n);
}

static PyObject *
address(void *p)
{
    return p ? PyLong_FromVoidPtr(p) : PyErr_NoMemory();
}

static PyObject *
b_malloc(PyObject *self, PyObject *args)
{
    int d;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "in", &d, &size)) {
        return NULL;
    }
    return address(do_malloc(d, (size_t)size));
}

static PyObject *
b_calloc(PyObject *self, PyObject *args)
{
    int d;
    Py_ssize_t n, size;
    if (!PyArg_ParseTuple(args, "inn", &d, &n, &size)) {
        return NULL;
    }
    return address(d == 0 ? PyMem_RawCalloc(n, size)
                   : d == 1 ? PyMem_Calloc(n, size) : PyObject_Calloc(n, size));
}

static PyObject *
b_realloc(PyObject *self, PyObject *args)
{
    int d;
    unsigned long long addr;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "iKn", &d, &addr, &size)) {
        return NULL;
    }
    void *p = (void *)(uintptr_t)addr;
    return address(d == 0 ? PyMem_RawRealloc(p, size)
                   : d == 1 ? PyMem_Realloc(p, size) : PyObject_Realloc(p, size));
}

static PyObject *
b_free(PyObject *self, PyObject *args)
{
    int d;
    unsigned long long addr;
    if (!PyArg_ParseTuple(args, "iK", &d, &addr)) {
        return NULL;
    }
    void *p = (void *)(uintptr_t)addr;
    if (d == 0) {
        PyMem_RawFree(p);
    }
    else if (d == 1) {
        PyMem_Free(p);
    }
    else {
        PyObject_Free(p);
    }
    Py_RETURN_NONE;
}

static PyObject *
b_track(PyObject *self, PyObject *args)
{
    unsigned int domain;
    unsigned long long addr;
    Py_ssize_t size;
    int nogil = 0, result;
    if (!PyArg_ParseTuple(args, "IKn|p", &domain, &addr, &size, &nogil)) {
        return NULL;
    }
    if (nogil) {
        Py_BEGIN_ALLOW_THREADS
        result = PyTraceMalloc_Track(domain, (uintptr_t)addr, (size_t)size);
        Py_END_ALLOW_THREADS
    }
    else {
        result = PyTraceMalloc_Track(domain, (uintptr_t)addr, (size_t)size);
    }
    return PyLong_FromLong(result);
}

static PyObject *
b_untrack(PyObject *self, PyObject *args)
{
    unsigned int domain;
    unsigned long long addr;
    int nogil = 0, result;
    if (!PyArg_ParseTuple(args, "IK|p", &domain, &addr, &nogil)) {
        return NULL;
    }
    if (nogil) {
        Py_BEGIN_ALLOW_THREADS
        result = PyTraceMalloc_Untrack(domain, (uintptr_t)addr);
        Py_END_ALLOW_THREADS
    }
    else {
        result = PyTraceMalloc_Untrack(domain, (uintptr_t)addr);
    }
    return PyLong_FromLong(result);
}

/* --- wrappers --- */

typedef struct {
    PyMemAllocatorEx below;
    int wrapped;
    long calls[4];
} wrapper;

static wrapper wrappers[3];
static long fail_after = -1, fail_count;    /* guard: the GIL; tests of one thread */

static int
must_fail(void)
{
    if (fail_after < 0) {
        return 0;
    }
    if (fail_after > 0) {
        fail_after--;
        return 0;
    }
    if (--fail_count <= 0) {
        fail_after = -1;
    }
    return 1;
}

static void *
w_malloc(void *ctx, size_t size)
{
    wrapper *w = ctx;
    w->calls[0]++;
    return must_fail() ? NULL : w->below.malloc(w->below.ctx, size);
}

static void *
w_calloc(void *ctx, size_t n, size_t size)
{
    wrapper *w = ctx;
    w->calls[1]++;
    return must_fail() ? NULL : w->below.calloc(w->below.ctx, n, size);
}

static void *
w_realloc(void *ctx, void *p, size_t size)
{
    wrapper *w = ctx;
    w->calls[2]++;
    return must_fail() ? NULL : w->below.realloc(w->below.ctx, p, size);
}

static void
w_free(void *ctx, void *p)
{
    wrapper *w = ctx;
    w->calls[3]++;
    w->below.free(w->below.ctx, p);
}

static PyObject *
b_wrap(PyObject *self, PyObject *arg)
{
    int d = (int)PyLong_AsLong(arg);
    if (wrappers[d].wrapped) {
        PyErr_SetString(PyExc_RuntimeError, "wrapped already");
        return NULL;
    }
    memset(&wrappers[d], 0, sizeof(wrapper));
    wrappers[d].wrapped = 1;
    PyMem_GetAllocator((PyMemAllocatorDomain)d, &wrappers[d].below);
    PyMemAllocatorEx w = {&wrappers[d], w_malloc, w_calloc, w_realloc, w_free};
    PyMem_SetAllocator((PyMemAllocatorDomain)d, &w);
    Py_RETURN_NONE;
}

static PyObject *
b_unwrap(PyObject *self, PyObject *arg)
{
    int d = (int)PyLong_AsLong(arg);
    if (wrappers[d].wrapped) {
        wrappers[d].wrapped = 0;
        PyMem_SetAllocator((PyMemAllocatorDomain)d, &wrappers[d].below);
    }
    Py_RETURN_NONE;
}

static PyMemAllocatorEx saved[3];

static PyObject *
b_save(PyObject *self, PyObject *arg)
{
    int d = (int)PyLong_AsLong(arg);
    PyMem_GetAllocator((PyMemAllocatorDomain)d, &saved[d]);
    Py_RETURN_NONE;
}

static PyObject *
b_restore(PyObject *self, PyObject *arg)
{
    int d = (int)PyLong_AsLong(arg);
    PyMem_SetAllocator((PyMemAllocatorDomain)d, &saved[d]);
    Py_RETURN_NONE;
}

static PyObject *
b_calls(PyObject *self, PyObject *arg)
{
    long *c = wrappers[PyLong_AsLong(arg)].calls;
    return Py_BuildValue("llll", c[0], c[1], c[2], c[3]);
}

static PyObject *
b_fail(PyObject *self, PyObject *args)
{
    long after, count;
    if (!PyArg_ParseTuple(args, "ll", &after, &count)) {
        return NULL;
    }
    fail_after = after;
    fail_count = count;
    Py_RETURN_NONE;
}

static PyObject *
b_debug_hooks(PyObject *self, PyObject *none)
{
    PyMem_SetupDebugHooks();
    Py_RETURN_NONE;
}

/* --- threads --- */

#define MAX_NATIVE 16
static pthread_t native[MAX_NATIVE];
static int natives, native_rounds;
static atomic_long bad;

static void *
native_work(void *arg)
{
    uintptr_t me = (uintptr_t)arg + 1, base = me << 32;
    for (int i = 0; i < native_rounds; i++) {
        uintptr_t addr = base + (uintptr_t)(i % 50) * 64;
        int r = PyTraceMalloc_Track(77, addr, 10);
        atomic_fetch_add(&bad, r != 0 && r != -2);
        char *p = PyMem_RawMalloc(100 + i % 900);
        char *q = PyMem_RawCalloc(3, 70);
        if (p == NULL || q == NULL) {
            atomic_fetch_add(&bad, 1);
            break;
        }
        p[0] = q[0] = (char)me;
        char *moved = PyMem_RawRealloc(p, 3000);
        p = moved ? moved : p;
        atomic_fetch_add(&bad, p[0] != (char)me || q[0] != (char)me);
        PyMem_RawFree(q);
        PyMem_RawFree(p);
        r = PyTraceMalloc_Untrack(77, addr);
        atomic_fetch_add(&bad, r != 0 && r != -2);
    }
    return NULL;
}

static PyObject *
b_native_start(PyObject *self, PyObject *args)
{
    int n, rounds;
    if (!PyArg_ParseTuple(args, "ii", &n, &rounds)) {
        return NULL;
    }
    if (natives || n > MAX_NATIVE) {
        PyErr_SetString(PyExc_RuntimeError, "native threads are running");
        return NULL;
    }
    atomic_store(&bad, 0);
    native_rounds = rounds;
    for (; natives < n; natives++) {
        if (pthread_create(&native[natives], NULL, native_work,
                           (void *)(uintptr_t)natives) != 0)
        {
            PyErr_SetString(PyExc_RuntimeError, "no thread");
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

static PyObject *
b_native_join(PyObject *self, PyObject *none)
{
    Py_BEGIN_ALLOW_THREADS
    while (natives > 0) {
        pthread_join(native[--natives], NULL);
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(atomic_load(&bad));
}

static PyObject *
b_without_gil(PyObject *self, PyObject *arg)
{
    Py_ssize_t n = PyList_Size(arg);
    size_t sizes[64];
    void *blocks[64];
    if (n < 0 || n > 64) {
        PyErr_SetString(PyExc_ValueError, "at most 64 sizes");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        sizes[i] = PyLong_AsSize_t(PyList_GET_ITEM(arg, i));
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; i++) {
        blocks[i] = PyMem_RawMalloc(sizes[i]);
    }
    Py_END_ALLOW_THREADS
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        PyObject *a = address(blocks[i]);
        if (a == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, a);
    }
    return list;
}

static PyObject *callable;

static void *
fresh_thread(void *arg)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallNoArgs(callable);
    if (result == NULL) {
        PyErr_WriteUnraisable(callable);
        atomic_fetch_add(&bad, 1);
    }
    Py_XDECREF(result);
    PyGILState_Release(state);
    return NULL;
}

static PyObject *
b_gilstate(PyObject *self, PyObject *args)
{
    pthread_t threads[MAX_NATIVE];
    int n, made = 0;
    if (!PyArg_ParseTuple(args, "Oi", &callable, &n) || n > MAX_NATIVE) {
        return NULL;
    }
    atomic_store(&bad, 0);
    Py_BEGIN_ALLOW_THREADS
    while (made < n
           && pthread_create(&threads[made], NULL, fresh_thread, NULL) == 0)
    {
        made++;
    }
    for (int i = 0; i < made; i++) {
        pthread_join(threads[i], NULL);
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(n - made + atomic_load(&bad));
}

static PyObject *
b_raise_and_read(PyObject *self, PyObject *args)
{
    int signum, fd;
    unsigned char byte;
    ssize_t n;
    if (!PyArg_ParseTuple(args, "ii", &signum, &fd)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    raise(signum);
    n = read(fd, &byte, 1);
    Py_END_ALLOW_THREADS
    while (n < 0 && errno == EINTR) {
        if (PyErr_CheckSignals() < 0) {
            return NULL;
        }
        Py_BEGIN_ALLOW_THREADS
        n = read(fd, &byte, 1);
        Py_END_ALLOW_THREADS
    }
    if (n < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if (n == 0) {
        Py_RETURN_NONE;
    }
    return PyLong_FromLong(byte);
}

static PyMethodDef methods[] = {
    {"malloc", b_malloc, METH_VARARGS, 0},
    {"calloc", b_calloc, METH_VARARGS, 0},
    {"realloc", b_realloc, METH_VARARGS, 0},
    {"free", b_free, METH_VARARGS, 0},
    {"track", b_track, METH_VARARGS, 0},
    {"untrack", b_untrack, METH_VARARGS, 0},
    {"wrap", b_wrap, METH_O, 0},
    {"unwrap", b_unwrap, METH_O, 0},
    {"save", b_save, METH_O, 0},
    {"restore", b_restore, METH_O, 0},
    {"calls", b_calls, METH_O, 0},
    {"fail", b_fail, METH_VARARGS, 0},
    {"debug_hooks", b_debug_hooks, METH_NOARGS, 0},
    {"native_start", b_native_start, METH_VARARGS, 0},
    {"native_join", b_native_join, METH_NOARGS, 0},
    {"without_gil", b_without_gil, METH_O, 0},
    {"raise_and_read", b_raise_and_read, METH_VARARGS, 0},
    {"gilstate", b_gilstate, METH_VARARGS, 0},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tm_blocks", NULL, 0, methods, slots,
};

PyMODINIT_FUNC
PyInit_tm_blocks(void)
{
    return PyModuleDef_Init(&module);
}
"""


@functools.cache
def _loaded() -> types.ModuleType:
    return util.loaded(NAME, SOURCE)


def load() -> types.ModuleType:
    """The extension; raises SkipTest when it cannot be had."""
    util.compiled(NAME, SOURCE)
    return _loaded()


def loading() -> str:
    """Statements with which a child imports it as tm_blocks."""
    return util.loading(NAME, SOURCE)
