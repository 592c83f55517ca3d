/* Part of the door for Python: reserving signals, and asking another process
 * that has reserved one.
 */
#ifndef Py_BUILD_CORE_BUILTIN
#  define Py_BUILD_CORE_MODULE 1
#endif

#include "Python.h"
#include "pycore_modsupport.h"    // _PyArg_CheckPositional()
#include "pycore_pystate.h"       // _Py_IsMainInterpreter()
#include "pycore_tracemalloc_signal.h"

#include <signal.h>
#ifdef HAVE_UNISTD_H
#  include <unistd.h>             // syscall()
#endif
#ifdef HAVE_SYS_SYSCALL_H
#  include <sys/syscall.h>        // SYS_pidfd_send_signal
#endif

#include "signals.h"

static int
in_main_interpreter(void)
{
    if (_Py_IsMainInterpreter(PyInterpreterState_Get())) {
        return 1;
    }
    PyErr_SetString(PyExc_RuntimeError,
                    "signals belong to the main interpreter");
    return 0;
}

static PyObject *
signal_reserve(PyObject *Py_UNUSED(module), PyObject *args)
{
    int signum;
    PyObject *worker;
    if (!PyArg_ParseTuple(args, "iO:_signal_reserve", &signum, &worker)) {
        return NULL;
    }
    const char *objection = _PyTraceMalloc_SignalObjection(signum);
    if (objection != NULL) {
        return PyErr_Format(PyExc_ValueError, "signal %d: %s", signum,
                            objection);
    }
    if (!in_main_interpreter()) {
        return NULL;
    }
    if (_PyTraceMalloc_SetSignalWorker(worker) < 0) {
        return NULL;
    }
    if (_PyTraceMalloc_ReserveSignal(signum, 0) < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyObject *
signal_release(PyObject *Py_UNUSED(module), PyObject *arg)
{
    int signum = PyLong_AsInt(arg);
    if (signum == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (!in_main_interpreter()) {
        return NULL;
    }
    int res = _PyTraceMalloc_ReleaseSignal(signum);
    if (res < 0) {
        return PyErr_Format(PyExc_RuntimeError,
                            "signal %d was reserved by an option of the "
                            "interpreter and stays so", signum);
    }
    return PyBool_FromLong(res);
}

static PyObject *
signal_answered(PyObject *Py_UNUSED(module), PyObject *arg)
{
    int signum = PyLong_AsInt(arg);
    if (signum == -1 && PyErr_Occurred()) {
        return NULL;
    }
    _PyTraceMalloc_SignalAnswered(signum);
    Py_RETURN_NONE;
}

static PyObject *
signal_number(PyObject *Py_UNUSED(module), PyObject *arg)
{
    Py_ssize_t length;
    const char *name = PyUnicode_AsUTF8AndSize(arg, &length);
    if (name == NULL) {
        return NULL;
    }
    return PyLong_FromLong(_PyTraceMalloc_SignalNumber(name, (size_t)length));
}

#if defined(SYS_pidfd_send_signal) && defined(SI_QUEUE)
static PyObject *
signal_ask(PyObject *Py_UNUSED(module), PyObject *args)
{
    int pidfd, signum;
    siginfo_t info;
    if (!PyArg_ParseTuple(args, "ii:_signal_ask", &pidfd, &signum)) {
        return NULL;
    }
    memset(&info, 0, sizeof(info));
    info.si_signo = signum;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = TM_SIGNAL_ASKS;
    if (syscall(SYS_pidfd_send_signal, pidfd, signum, &info, 0) < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}
#endif

static PyMethodDef functions[] = {
    {"_signal_reserve", signal_reserve, METH_VARARGS, PyDoc_STR(
     "_signal_reserve($module, signum, worker, /)\n--\n\n"
     "Catch a signal whatever the program sets for it; worker(signum, kinds)\n"
     "is called for all reserved ones.  kinds: 1 plain, 2 asked, 3 both.")},
    {"_signal_release", signal_release, METH_O, PyDoc_STR(
     "_signal_release($module, signum, /)\n--\n\n"
     "Give a signal back; whether it was reserved.")},
    {"_signal_answered", signal_answered, METH_O, PyDoc_STR(
     "_signal_answered($module, signum, /)\n--\n\n"
     "For a worker: signals that come from here on are a new request.")},
    {"_signal_number", signal_number, METH_O, PyDoc_STR(
     "_signal_number($module, name, /)\n--\n\n"
     "The number of 'USR2', 'SIGUSR2' or '12'; 0: no such signal.")},
#if defined(SYS_pidfd_send_signal) && defined(SI_QUEUE)
    {"_signal_ask", signal_ask, METH_VARARGS, PyDoc_STR(
     "_signal_ask($module, pidfd, signum, /)\n--\n\n"
     "Tell a process that has reserved this signal to look for requests.")},
#endif
    {NULL, NULL, 0, NULL},
};

int
_PyTraceMalloc_AddSignals(PyObject *module)
{
    return PyModule_AddStringConstant(module, "_SIGNAL_MARKER",
                                      TM_SIGNAL_MARKER) < 0
           ? -1 : PyModule_AddFunctions(module, functions);
}
