/* Perf maps: /tmp/perf-PID.map, in which a process tells perf(1) the names of
   the machine code that it makes while it runs.  One line an entry:

       address size name        both numbers in hexadecimal

   The functions need no thread state and no GIL, and any thread may call them
   at any time; nothing here calls back into Python or allocates through it.

   `map` below is everything there is to know.  It is guarded by `map_mutex`,
   a leaf: no other lock is taken and the GIL is not waited for while it is
   held, so whoever has it lets go of it soon.  A waiter keeps its GIL, or the
   trampoline that is writing an entry could see other Python code run in the
   middle of it.

   The name of the file is known in advance and its folder is everybody's, so
   what stands there is not trusted: a file is either made by us or it is
   a plain file of ours under one name only; links are not followed. */

#include "Python.h"
#include "pycore_lock.h"          // PyMutex_LockFlags()
#include "pycore_perfmap.h"
#include "pycore_unicodeobject.h" // _PyUnicode_AsUTF8String()

#ifndef MS_WINDOWS

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>              // pthread_atfork()
#include <stdio.h>                // snprintf()
#include <sys/stat.h>             // fstat()
#include <time.h>                 // clock_gettime()
#include <unistd.h>               // write()

#ifndef O_NOFOLLOW
#  define O_NOFOLLOW 0
#endif
#ifndef O_CLOEXEC
#  define O_CLOEXEC 0
#endif

/* A line up to this long is put together on the stack. */
#define SHORT_LINE 1024
/* Two hexadecimal numbers, two spaces and a line feed. */
#define LINE_OVERHEAD (2 * sizeof(void *) + 2 * sizeof(int) + 3)

static PyMutex map_mutex;

static struct {
    int fd;            /* -1: not open */
    dev_t dev;         /* the file that fd was opened for: whoever closes */
    ino_t ino;         /* all descriptors makes fd that of something else */
    struct timespec seen;  /* when that was last checked */
    int torn;          /* the last line was not written to its end */
} map = {.fd = -1};

static void after_fork_child(void);

/* 0, or -1 with errno.  What has to be done in the child of a fork is registered
   before anybody can have the mutex: a thread may fork while another one has it,
   were it only to open the map for the first time.  Twice does no harm. */
static int
lock(void)
{
    static int registered;
    if (!_Py_atomic_load_int_acquire(&registered)) {
        int err = pthread_atfork(NULL, NULL, after_fork_child);
        if (err) {
            errno = err;
            return -1;
        }
        _Py_atomic_store_int_release(&registered, 1);
    }
    PyMutex_LockFlags(&map_mutex, _Py_LOCK_DONT_DETACH);
    return 0;
}

static void
unlock(void)
{
    PyMutex_Unlock(&map_mutex);
}


/* --- the file -------------------------------------------------------- */

static void
close_keeping_errno(int fd)
{
    int err = errno;
    close(fd);
    errno = err;
}

/* Is it a plain file, only under this name, of the user who writes? */
static int
is_ours(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return 0;
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1) {
        errno = EPERM;
        return 0;
    }
    return 1;
}

/* Open a file that exists already, if it can be trusted.  A pipe that waits
   for somebody at its other end must not block us. */
static int
open_existing(const char *path, int flags)
{
    int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && !is_ours(fd)) {
        close_keeping_errno(fd);
        return -1;
    }
    return fd;
}

/* Make the file, or append to the one that another writer of maps in this
   process has made before. */
static int
open_file(const char *path)
{
    const int flags = O_WRONLY | O_APPEND;
    for (int tries = 0; tries < 10; tries++) {
        int fd = open(path, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                      0600);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
        fd = open_existing(path, flags);
        if (fd >= 0 || errno != ENOENT) {
            return fd;
        }
        /* Somebody has removed it in between. */
    }
    return -1;
}

/* Does the descriptor still lead to the map?  Daemons close descriptors that
   they do not know, and what they open next gets the number. */
static int
is_open(void)
{
    struct stat st;
    if (map.fd >= 0) {
        if (fstat(map.fd, &st) == 0
            && st.st_ino == map.ino && st.st_dev == map.dev)
        {
            return 1;
        }
        map.fd = -1;   /* somebody else's now, so it is not closed */
    }
    return 0;
}

/* The same, but asks the system, which can cost as much as writing an entry,
   only once a tick of its coarse clock (some milliseconds). */
static int
was_open(void)
{
#ifdef CLOCK_MONOTONIC_COARSE
    struct timespec now;
    if (map.fd >= 0 && clock_gettime(CLOCK_MONOTONIC_COARSE, &now) == 0) {
        if (now.tv_nsec == map.seen.tv_nsec && now.tv_sec == map.seen.tv_sec) {
            return 1;
        }
        map.seen = now;
    }
#endif
    return is_open();
}

static void
close_map(void)
{
    if (is_open()) {
        close(map.fd);
        map.fd = -1;
    }
}

/* The child has a file of its own, named after itself.  The thread that held
   the mutex may not exist there. */
static void
after_fork_child(void)
{
    _PyMutex_at_fork_reinit(&map_mutex);
    close_map();
}

/* Open the map unless it is open.  0, or -1 with errno; the mutex is held. */
static int
ensure_open(void)
{
    if (is_open()) {
        return 0;
    }
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/tmp/perf-%jd.map", (intmax_t)getpid());
    int fd = open_file(path);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &st) < 0) {
        close_keeping_errno(fd);
        return -1;
    }
    map.fd = fd;
    map.dev = st.st_dev;
    map.ino = st.st_ino;
    map.torn = 0;
    return 0;
}

/* All of it, however often it takes.  0, or -1 with errno. */
static int
write_all(const char *text, size_t size)
{
    while (size > 0) {
        ssize_t n = write(map.fd, text, size);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        if (n > 0) {
            map.torn = text[n - 1] != '\n';
            text += n;
            size -= (size_t)n;
        }
    }
    return 0;
}

/* Append whole lines.  That is one write() in the usual case, so they stay
   whole even beside writers that do not know our mutex.  When the disk was
   full in the middle of a line, the next one goes below the stump instead of
   behind it.  0, or -1 with errno; the mutex is held. */
static int
append(const char *text, size_t size)
{
    for (;;) {
        if (!was_open() && ensure_open() < 0) {
            return -1;
        }
        if ((!map.torn || write_all("\n", 1) == 0)
            && write_all(text, size) == 0)
        {
            return 0;
        }
        if (errno != EBADF) {
            return -1;
        }
        map.fd = -1;   /* closed by somebody since the last look */
    }
}


/* --- a line ---------------------------------------------------------- */

static char *
put_hex(char *to, uintptr_t value)
{
    char digits[2 * sizeof(value)];
    int n = 0;
    do {
        digits[n++] = Py_hexdigits[value & 15];
        value >>= 4;
    } while (value);
    while (n) {
        *to++ = digits[--n];
    }
    return to;
}

/* How many bytes at `s` are a character that ends a line for some reader, or
   that steers a terminal?  The control characters but for the tabulator, and
   in UTF-8 also U+0080..U+009F, U+2028 and U+2029.  `s` ends with a zero. */
static int
control_length(const unsigned char *s)
{
    if (s[0] < ' ' || s[0] == 0x7f) {
        return s[0] != '\t';
    }
    if (s[0] == 0xc2) {
        return s[1] >= 0x80 && s[1] <= 0x9f ? 2 : 0;
    }
    if (s[0] == 0xe2 && s[1] == 0x80) {
        return s[2] == 0xa8 || s[2] == 0xa9 ? 3 : 0;
    }
    return 0;
}

/* Copy a name as it is, in whatever encoding; each such character is a '?'. */
static char *
put_name(char *to, const char *name)
{
    const unsigned char *s = (const unsigned char *)name;
    while (*s) {
        int n = control_length(s);
        *to++ = n ? '?' : (char)*s;
        s += n ? n : 1;
    }
    return to;
}

static int
write_entry(const void *addr, unsigned int size, const char *name)
{
    char small[SHORT_LINE];
    char *line = small;
    const size_t length = strlen(name);
    if (length > sizeof(small) - LINE_OVERHEAD) {
        /* Not from Python's allocators: they may be traced, and a thread
           without a thread state may be calling. */
        line = malloc(length + LINE_OVERHEAD);
        if (line == NULL) {
            errno = ENOMEM;
            return -1;
        }
    }
    char *end = put_hex(line, (uintptr_t)addr);
    *end++ = ' ';
    end = put_hex(end, size);
    *end++ = ' ';
    end = put_name(end, name);
    *end++ = '\n';

    int err = lock();
    if (err == 0) {
        err = append(line, (size_t)(end - line));
        unlock();
    }
    if (line != small) {
        int saved = errno;
        free(line);
        errno = saved;
    }
    return err;
}


/* --- the interface --------------------------------------------------- */

/* -2, the failure to make a lock, cannot happen here. */
int
PyUnstable_PerfMapState_Init(void)
{
    int err = lock();
    if (err == 0) {
        err = ensure_open();
        unlock();
    }
    return err;
}

int
PyUnstable_WritePerfMapEntry(const void *code_addr, unsigned int code_size,
                             const char *entry_name)
{
    return write_entry(code_addr, code_size,
                       entry_name != NULL ? entry_name : "");
}

void
PyUnstable_PerfMapState_Fini(void)
{
    if (lock() == 0) {
        close_map();
        unlock();
    }
}

/* Append what another map holds.  0, or -1 with errno; the mutex is held. */
static int
copy_lines(int from)
{
    char text[4096];
    struct stat st;
    /* No more than is there now: it may be the very file that we write to, or
       one that its owner goes on writing. */
    int err = fstat(from, &st) < 0 ? -1 : append("", 0);
    off_t left = err == 0 ? st.st_size : 0;
    while (err == 0 && left > 0) {
        ssize_t n = read(from, text, (size_t)Py_MIN(left, (off_t)sizeof(text)));
        if (n > 0) {
            left -= n;
            err = write_all(text, (size_t)n);
        }
        else if (n == 0) {
            break;
        }
        else if (errno != EINTR) {
            err = -1;
        }
    }
    return err;
}

/* For the child of a fork that goes on with the code of its parent. */
int
PyUnstable_CopyPerfMapFile(const char *parent_filename)
{
    int from = open_existing(parent_filename, O_RDONLY);
    if (from < 0) {
        return -1;
    }
    int err = lock();
    if (err == 0) {
        err = copy_lines(from);
        unlock();
    }
    close_keeping_errno(from);
    return err;
}


/* --- names of Python functions ---------------------------------------- */

/* A name that is not plain UTF-8: bytes of a file name get themselves back,
   other lone surrogates are spelled out.  New reference, or NULL. */
static PyObject *
odd_name(PyObject *name)
{
    PyObject *bytes = _PyUnicode_AsUTF8String(name, "surrogateescape");
    if (bytes == NULL) {
        PyErr_Clear();
        bytes = _PyUnicode_AsUTF8String(name, "backslashreplace");
    }
    return bytes;
}

/* The text of `name`, which *keep (to be released) may have to keep alive;
   NULL with an exception when there is no memory. */
static const char *
text_of(PyObject *name, PyObject **keep)
{
    *keep = NULL;
    if (name == NULL) {
        return "";
    }
    const char *text = PyUnicode_AsUTF8(name);
    if (text == NULL) {
        PyErr_Clear();
        *keep = odd_name(name);
        text = *keep != NULL ? PyBytes_AS_STRING(*keep) : NULL;
    }
    return text;
}

/* This runs in the middle of a call that may carry an exception. */
void
_PyPerf_WriteCode(const void *addr, unsigned int size, PyCodeObject *co)
{
    PyObject *pending = PyErr_GetRaisedException();
    PyObject *keep_name, *keep_file;
    const char *name = text_of(co->co_qualname, &keep_name);
    const char *file = text_of(co->co_filename, &keep_file);
    if (name != NULL && file != NULL) {
        const size_t length = strlen(name) + strlen(file) + sizeof("py:::");
        char *entry = malloc(length);
        if (entry != NULL) {
            snprintf(entry, length, "py::%s:%s", name, file);
            (void)write_entry(addr, size, entry);
            free(entry);
        }
    }
    Py_XDECREF(keep_name);
    Py_XDECREF(keep_file);
    PyErr_SetRaisedException(pending);
}

#endif   /* !MS_WINDOWS */
