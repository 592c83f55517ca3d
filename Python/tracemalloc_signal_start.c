/* Signals reserved from the start: -X tracemalloc_signal=NAME[,option=value...]
 * and PYTHONTRACEMALLOC_SIGNAL; the worker, which does what signals ask for; and
 * what shows other processes that a signal is reserved.
 *
 * The signal is reserved long before anything can be imported.  The other
 * options are for tracemalloc._services to understand, once it can be loaded.
 * At the end, for systems without sigaction(): nothing is ever reserved.
 */
#include "Python.h"
#include "pycore_initconfig.h"    // _PyStatus_ERR()
#include "pycore_interp.h"
#include "pycore_pystate.h"       // _PyInterpreterState_Main()
#include "pycore_tracemalloc_signal.h"

#include <signal.h>
#if defined(HAVE_PTHREAD_H) && defined(HAVE_PTHREAD_SIGMASK)
#  include <pthread.h>
#endif
#ifdef HAVE_UNISTD_H
#  include <unistd.h>             // close(), sysconf()
#endif
#ifdef HAVE_MEMFD_CREATE
#  include <sys/mman.h>           // memfd_create()
#endif

#include "../Modules/_tracemalloc/signals.h"

#define WORKER_KEY "tracemalloc.signal_worker"

/* --- names --- */

static const struct {
    const char *name;
    int signum;
} names[] = {
#define NAMED(name) {#name, SIG##name},
#ifdef SIGHUP
    NAMED(HUP)
#endif
    NAMED(INT)
#ifdef SIGQUIT
    NAMED(QUIT)
#endif
    NAMED(ILL)
#ifdef SIGTRAP
    NAMED(TRAP)
#endif
    NAMED(ABRT)
#ifdef SIGBUS
    NAMED(BUS)
#endif
    NAMED(FPE)
#ifdef SIGKILL
    NAMED(KILL)
#endif
#ifdef SIGUSR1
    NAMED(USR1)
#endif
    NAMED(SEGV)
#ifdef SIGUSR2
    NAMED(USR2)
#endif
#ifdef SIGPIPE
    NAMED(PIPE)
#endif
#ifdef SIGALRM
    NAMED(ALRM)
#endif
    NAMED(TERM)
#ifdef SIGCHLD
    NAMED(CHLD)
#endif
#ifdef SIGCONT
    NAMED(CONT)
#endif
#ifdef SIGSTOP
    NAMED(STOP)
#endif
#ifdef SIGTSTP
    NAMED(TSTP)
#endif
#ifdef SIGTTIN
    NAMED(TTIN)
#endif
#ifdef SIGTTOU
    NAMED(TTOU)
#endif
#ifdef SIGURG
    NAMED(URG)
#endif
#ifdef SIGXCPU
    NAMED(XCPU)
#endif
#ifdef SIGXFSZ
    NAMED(XFSZ)
#endif
#ifdef SIGVTALRM
    NAMED(VTALRM)
#endif
#ifdef SIGPROF
    NAMED(PROF)
#endif
#ifdef SIGWINCH
    NAMED(WINCH)
#endif
#ifdef SIGIO
    NAMED(IO)
#endif
#ifdef SIGPWR
    NAMED(PWR)
#endif
#ifdef SIGSYS
    NAMED(SYS)
#endif
#undef NAMED
};

/* A number of one or two digits; 0: it is none. */
static int
number_of(const char *text, size_t length)
{
    int number = 0;
    if (length < 1 || length > 2) {
        return 0;
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return 0;
        }
        number = number * 10 + (text[i] - '0');
    }
    return number < Py_NSIG ? number : 0;
}

int
_PyTraceMalloc_SignalNumber(const char *name, size_t length)
{
    if (length > 3 && strncmp(name, "SIG", 3) == 0) {
        name += 3;
        length -= 3;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (strlen(names[i].name) == length
            && strncmp(names[i].name, name, length) == 0)
        {
            return names[i].signum;
        }
    }
#ifdef SIGRTMIN
    if (length >= 5 && (strncmp(name, "RTMIN", 5) == 0
                        || strncmp(name, "RTMAX", 5) == 0))
    {
        return SIGRTMIN;    /* any of them meets the same objection */
    }
#endif
    return number_of(name, length);
}

const char *
_PyTraceMalloc_SignalObjection(int signum)
{
#ifndef TM_CAN_RESERVE
    return "signals cannot be reserved on this system";
#else
    switch (signum) {
    case SIGKILL: case SIGSTOP:
        return "it cannot be caught";
    case SIGSEGV: case SIGBUS: case SIGFPE: case SIGILL: case SIGABRT:
    case SIGTRAP: case SIGSYS:
        return "it tells of a fault in the program";
    case SIGCHLD: case SIGPIPE: case SIGCONT:
        return "the system and the interpreter need it";
    }
    if (signum < 1 || signum >= Py_NSIG) {
        return "there is no such signal";
    }
#ifdef __SIGRTMIN
    /* Those below SIGRTMIN are the C library's own. */
    if (signum >= __SIGRTMIN) {
        return "real-time signals cannot be reserved";
    }
#endif
#ifdef SIGRTMIN
    if (signum >= SIGRTMIN) {
        return "real-time signals cannot be reserved";
    }
#endif
    return NULL;
#endif
}

/* --- the worker --- */

/* Borrowed, NULL without an exception if there is none.  The dictionary of the
   main interpreter owns it, and forgets it when that ends. */
static PyObject *
worker(void)
{
    PyObject *keep = PyInterpreterState_GetDict(_PyInterpreterState_Main());
    PyObject *found = keep != NULL ? PyDict_GetItemString(keep, WORKER_KEY)
                                   : NULL;
    return found;
}

int
_PyTraceMalloc_SetSignalWorker(PyObject *callable)
{
    PyObject *keep = PyInterpreterState_GetDict(_PyInterpreterState_Main());
    if (keep == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (PyDict_SetItemString(keep, WORKER_KEY, callable) < 0) {
        return -1;
    }
    _PyTraceMalloc_SignalFlagHeld();
    return 0;
}

int
_PyTraceMalloc_HasSignalWorker(void)
{
    return worker() != NULL;
}

PyObject *
_PyTraceMalloc_SignalWorker(void)
{
    return Py_XNewRef(worker());
}

/* --- what shows other processes that a signal is safe to send --- */

/* A mapping is inherited by fork and ended by exec, just as the handler. */
void *
_PyTraceMalloc_SignalMarkerNew(int signum)
{
#ifdef HAVE_MEMFD_CREATE
    char name[32];
    PyOS_snprintf(name, sizeof(name), TM_SIGNAL_MARKER "%d", signum);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *marker = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    return marker == MAP_FAILED ? NULL : marker;
#else
    return NULL;
#endif
}

void
_PyTraceMalloc_SignalMarkerFree(void *marker)
{
#ifdef HAVE_MEMFD_CREATE
    if (marker != NULL) {
        munmap(marker, (size_t)sysconf(_SC_PAGESIZE));
    }
#endif
}

/* --- options --- */

/* What the option says, for _PyTraceMalloc_SignalReady(); owned by this file. */
static wchar_t *option_text;
static const char *option_origin;
/* A message for PyStatus, which does not copy. */
static char message[400];

static PyStatus
refuse(const char *name, const char *reason)
{
    PyOS_snprintf(message, sizeof(message), "%s=%.40s: %.250s", option_origin,
                  name, reason);
    PyStatus status = _PyStatus_ERR(message);
    status.func = NULL;     /* the message says where it comes from */
    return status;
}

/* The text of the option, RawMalloc'ed; NULL: there is none. */
static wchar_t *
read_option(const PyConfig *config)
{
    const wchar_t *option = _Py_get_xoption(&config->xoptions,
                                            L"tracemalloc_signal");
    if (option != NULL) {
        const wchar_t *value = wcschr(option, L'=');
        option_origin = "-X tracemalloc_signal";
        return _PyMem_RawWcsdup(value != NULL ? value + 1 : L"");
    }
    const char *env = _Py_GetEnv(config->use_environment,
                                 "PYTHONTRACEMALLOC_SIGNAL");
    if (env == NULL) {
        return NULL;
    }
    option_origin = "PYTHONTRACEMALLOC_SIGNAL";
    return Py_DecodeLocale(env, NULL);
}

/* What stands before the first comma, as ASCII with '?' for all else; a name
   that is too long is cut, and then it is none. */
static size_t
name_in(const wchar_t *text, char *name, size_t room)
{
    size_t n = 0;
    while (text[n] != 0 && text[n] != L',' && n < room - 1) {
        name[n] = text[n] > L' ' && text[n] < 0x7f ? (char)text[n] : '?';
        n++;
    }
    name[n] = 0;
    return n;
}

/* A signal that the parent had blocked when it called exec is of no use. */
static void
unblock(int signum)
{
#if defined(HAVE_PTHREAD_H) && defined(HAVE_PTHREAD_SIGMASK)
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signum);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
#endif
}

static void
forget_option(void)
{
    PyMem_RawFree(option_text);
    option_text = NULL;
}

static PyStatus
reserve_option(void)
{
    char name[40];
    size_t length = name_in(option_text, name, sizeof(name));
    int signum = _PyTraceMalloc_SignalNumber(name, length);
    const char *objection = length == 0
        ? "the name of a signal is needed, such as USR2"
        : _PyTraceMalloc_SignalObjection(signum);
    if (objection != NULL) {
        return refuse(name, objection);
    }
    if (_PyTraceMalloc_ReserveSignal(signum, 1) < 0) {
        return refuse(name, strerror(errno));
    }
    unblock(signum);
    return _PyStatus_OK();
}

PyStatus
_PyTraceMalloc_SignalOptions(const PyConfig *config)
{
    forget_option();
    option_text = config->install_signal_handlers ? read_option(config) : NULL;
    if (option_text == NULL) {
        return _PyStatus_OK();
    }
    PyStatus status = reserve_option();
    if (_PyStatus_EXCEPTION(status)) {
        forget_option();
    }
    return status;
}

/* Turn the exception that is set into an error of the start. */
static PyStatus
refuse_by_exception(void)
{
    char name[40];
    PyObject *raised = PyErr_GetRaisedException();
    PyObject *text = PyObject_Str(raised);
    const char *reason = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
    PyErr_Clear();
    (void)name_in(option_text, name, sizeof(name));
    PyStatus status = refuse(name, reason != NULL ? reason : "no memory");
    Py_XDECREF(text);
    Py_XDECREF(raised);
    return status;
}

/* Let tracemalloc._services understand the rest of the option. */
static PyStatus
begin_services(void)
{
    PyObject *module = PyImport_ImportModule("tracemalloc._services");
    if (module == NULL && wcsstr(option_text, L",inherited") != NULL) {
        /* A program with a library of its own.  The signal does nothing. */
        PyErr_Clear();
        return _PyStatus_OK();
    }
    PyObject *text = module != NULL ? PyUnicode_FromWideChar(option_text, -1)
                                    : NULL;
    PyObject *res = text != NULL
                    ? PyObject_CallMethod(module, "_begin", "O", text) : NULL;
    PyStatus status = res != NULL ? _PyStatus_OK() : refuse_by_exception();
    Py_XDECREF(res);
    Py_XDECREF(text);
    Py_XDECREF(module);
    return status;
}

PyStatus
_PyTraceMalloc_SignalReady(void)
{
    PyStatus status = option_text != NULL ? begin_services() : _PyStatus_OK();
    forget_option();
    return status;
}

#ifndef TM_CAN_RESERVE

/* --- what tracemalloc_signal.c has where signals can be reserved --- */

int
_PyTraceMalloc_ReserveSignal(int Py_UNUSED(signum), int Py_UNUSED(pinned))
{
    errno = ENOSYS;
    return -1;
}

int
_PyTraceMalloc_ReleaseSignal(int Py_UNUSED(signum))
{
    return 0;
}

int
_PyTraceMalloc_SignalReserved(int Py_UNUSED(signum))
{
    return 0;
}

int
_PyTraceMalloc_SetSignal(int Py_UNUSED(signum),
                         PyOS_sighandler_t Py_UNUSED(handler),
                         PyOS_sighandler_t *Py_UNUSED(old))
{
    return 0;
}

int
_PyTraceMalloc_GetSignal(int Py_UNUSED(signum),
                         PyOS_sighandler_t *Py_UNUSED(handler))
{
    return 0;
}

int
_PyTraceMalloc_SignalBusy(void)
{
    return 0;
}

int
_PyTraceMalloc_SignalAgain(void)
{
    return 0;
}

int
_PyTraceMalloc_SignalArrived(PyThreadState *Py_UNUSED(tstate),
                             int Py_UNUSED(signum))
{
    return 0;
}

struct _tracemalloc_signal_counts
_PyTraceMalloc_SignalCounts(void)
{
    return (struct _tracemalloc_signal_counts){0};
}

int
_PyTraceMalloc_SignalOnlyOurs(
    struct _tracemalloc_signal_counts Py_UNUSED(before))
{
    return 0;
}

void _PyTraceMalloc_SignalFlagHeld(void) {}
void _PyTraceMalloc_SignalAnswered(int Py_UNUSED(signum)) {}
void _PyTraceMalloc_SignalFini(void) {}
void _PyTraceMalloc_SignalAfterFork(void) {}
void _PyTraceMalloc_SignalChildExec(void) {}
void _PyTraceMalloc_SignalBeforeExec(void) {}
void _PyTraceMalloc_SignalAfterExec(void) {}
#ifndef MS_WINDOWS
void _PyTraceMalloc_SignalSpare(sigset_t *Py_UNUSED(set)) {}
#endif

#endif /* !TM_CAN_RESERVE */
