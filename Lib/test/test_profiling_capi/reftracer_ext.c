/* Reference tracers for the tests: public C API only, and valid as C and as
   C++.  Built by _build.py when the tests run.

   Three tracers:
     counter   counts events of one type
     ledger    keeps the book of every address: made, gone; reports an object
               that is made where one lives, or dies where none does
     tags      eight tracers that differ in their data pointer only and can
               be told to misbehave; they log how they are removed

   What the tracers share with the module functions is guarded by `guard`,
   which is never held while anything of Python is called. */

#include <Python.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static PyThread_type_lock guard;

static void
lock(void)
{
    PyThread_acquire_lock(guard, WAIT_LOCK);
}

static void
unlock(void)
{
    PyThread_release_lock(guard);
}


/* --- counter ---------------------------------------------------------- */

static struct {
    PyTypeObject *type;            /* borrowed; NULL: all */
    Py_ssize_t made, gone, removed;
} counter;

static int
count(PyObject *op, PyRefTracerEvent event, void *data)
{
    (void)data;
    if (event != PyRefTracer_TRACKER_REMOVED
        && counter.type != NULL && Py_TYPE(op) != counter.type)
    {
        return 0;
    }
    lock();
    switch (event) {
    case PyRefTracer_CREATE: counter.made++; break;
    case PyRefTracer_DESTROY: counter.gone++; break;
    case PyRefTracer_TRACKER_REMOVED: counter.removed++; break;
    }
    unlock();
    return 0;
}

static PyObject *
counter_on(PyObject *self, PyObject *type)
{
    (void)self;
    lock();
    memset(&counter, 0, sizeof(counter));
    counter.type = PyType_Check(type) ? (PyTypeObject *)type : NULL;
    unlock();
    if (PyRefTracer_SetTracer(count, &counter) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* (made, gone, told of the removal) */
static PyObject *
counter_off(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    if (PyRefTracer_SetTracer(NULL, NULL) < 0) {
        return NULL;
    }
    return Py_BuildValue("nnn", counter.made, counter.gone, counter.removed);
}

/* Nothing at all, to measure what a tracer costs. */
static int
nothing(PyObject *op, PyRefTracerEvent event, void *data)
{
    (void)op, (void)event, (void)data;
    return 0;
}

static PyObject *
nothing_on(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    if (PyRefTracer_SetTracer(nothing, NULL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
remove_tracer(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    if (PyRefTracer_SetTracer(NULL, &counter) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}


/* --- ledger ----------------------------------------------------------- */

enum { UNKNOWN, LIVE, GONE };

struct entry {
    PyObject *op;                  /* NULL: free place */
    PyTypeObject *type;            /* at its creation */
    int state;
};

static struct {
    struct entry *entries;
    size_t size, used;             /* size is a power of two */
    Py_ssize_t made, gone, twice_made, twice_gone, null_events;
    char sample[200];              /* of the first fault */
} book;

static struct entry *
find(PyObject *op)
{
    size_t i = ((size_t)op >> 4) * (size_t)0x9E3779B1u;
    for (;; i++) {
        struct entry *e = &book.entries[i & (book.size - 1)];
        if (e->op == op || e->op == NULL) {
            return e;
        }
    }
}

static void
grow(void)
{
    struct entry *old = book.entries;
    size_t old_size = book.size;
    book.size = old_size ? old_size * 2 : 1 << 16;
    book.entries = (struct entry *)calloc(book.size, sizeof(struct entry));
    if (book.entries == NULL) {
        Py_FatalError("no memory for the ledger");
    }
    for (size_t i = 0; i < old_size; i++) {
        if (old[i].op != NULL) {
            *find(old[i].op) = old[i];
        }
    }
    free(old);
}

static void
fault(Py_ssize_t *kind, const char *what, PyObject *op)
{
    if (book.twice_made + book.twice_gone == 0) {
        PyOS_snprintf(book.sample, sizeof(book.sample), "%s: %.100s", what,
                      Py_TYPE(op)->tp_name);
    }
    ++*kind;
}

static int
enter(PyObject *op, PyRefTracerEvent event, void *data)
{
    (void)data;
    if (event == PyRefTracer_TRACKER_REMOVED) {
        return 0;
    }
    lock();
    if (op == NULL) {
        book.null_events++;
        unlock();
        return 0;
    }
    if (book.used * 2 >= book.size) {
        grow();
    }
    struct entry *e = find(op);
    if (e->op == NULL) {
        e->op = op;
        book.used++;
    }
    if (event == PyRefTracer_CREATE) {
        if (e->state == LIVE) {
            fault(&book.twice_made, "made where one lives", op);
        }
        e->state = LIVE;
        e->type = Py_TYPE(op);
        book.made++;
    }
    else {
        if (e->state == GONE) {
            fault(&book.twice_gone, "died where none lives", op);
        }
        e->state = GONE;
        book.gone++;
    }
    unlock();
    return 0;
}

static PyObject *
ledger_on(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    lock();
    free(book.entries);
    memset(&book, 0, sizeof(book));
    grow();
    unlock();
    if (PyRefTracer_SetTracer(enter, &book) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* A dictionary of what was counted. */
static PyObject *
ledger_off(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    if (PyRefTracer_SetTracer(NULL, NULL) < 0) {
        return NULL;
    }
    return Py_BuildValue(
        "{s:n,s:n,s:n,s:n,s:n,s:s}", "made", book.made, "gone", book.gone,
        "twice_made", book.twice_made, "twice_gone", book.twice_gone,
        "null_events", book.null_events, "sample", book.sample);
}

/* How many objects of a type were made while the ledger was on and are still
   there, as far as it knows? */
static PyObject *
ledger_live(PyObject *self, PyObject *type)
{
    (void)self;
    Py_ssize_t n = 0;
    lock();
    for (size_t i = 0; i < book.size; i++) {
        struct entry *e = &book.entries[i];
        n += e->op != NULL && e->state == LIVE
             && e->type == (PyTypeObject *)type;
    }
    unlock();
    return PyLong_FromSsize_t(n);
}

/* Is a given object in the book as living? */
static PyObject *
ledger_knows(PyObject *self, PyObject *op)
{
    (void)self;
    lock();
    int live = book.size && find(op)->state == LIVE;
    unlock();
    return PyBool_FromLong(live);
}


/* --- tags ------------------------------------------------------------- */

enum behaviour {
    QUIET, RAISES, RETURNS_ERROR, SETS_TRACER, MAKES_OBJECTS
};

#define TAGS 8
static struct tag {
    enum behaviour at_removal;
    long change_at;                /* the how many-th object */
    int change_to;                 /* tag, or -1: none */
    Py_ssize_t made, gone, after_removal;
    int removed;
} tags[TAGS];

/* How a tracer was removed. */
static struct removal {
    int tag, null_object, current, set_result;
} removals[64];
static int removal_count;

static int tagged(PyObject *, PyRefTracerEvent, void *);

static int
set_tag(int i)
{
    if (i < 0) {
        return PyRefTracer_SetTracer(NULL, NULL);
    }
    lock();
    tags[i].removed = 0;
    unlock();
    return PyRefTracer_SetTracer(tagged, &tags[i]);
}

static int
current_tag(void)
{
    void *data;
    PyRefTracer func = PyRefTracer_GetTracer(&data);
    if (func == NULL) {
        return data == NULL ? -1 : -2;
    }
    return func == tagged ? (int)((struct tag *)data - tags) : -3;
}

static void
note_removal(PyObject *op, struct tag *t, int set_result)
{
    int current = current_tag();
    lock();
    t->removed = 1;
    if (removal_count < 64) {
        struct removal *r = &removals[removal_count++];
        r->tag = (int)(t - tags);
        r->null_object = op == NULL;
        r->current = current;
        r->set_result = set_result;
    }
    unlock();
}

static int
leave(PyObject *op, struct tag *t)
{
    int result = 0;
    PyObject *made;
    switch (t->at_removal) {
    case SETS_TRACER:
        result = set_tag(TAGS - 1);
        if (result < 0) {
            PyErr_Clear();
        }
        break;
    case MAKES_OBJECTS:
        note_removal(op, t, 0);
        made = PyList_New(3);
        Py_XDECREF(made);
        return 0;
    case RAISES:
        PyErr_SetString(PyExc_LookupError, "I stay");
        break;
    case RETURNS_ERROR:
        note_removal(op, t, 0);
        return -1;
    case QUIET:
        break;
    }
    note_removal(op, t, result);
    return 0;
}

static int
tagged(PyObject *op, PyRefTracerEvent event, void *data)
{
    struct tag *t = (struct tag *)data;
    if (event == PyRefTracer_TRACKER_REMOVED) {
        return leave(op, t);
    }
    lock();
    t->after_removal += t->removed;
    int change = 0;
    if (event == PyRefTracer_CREATE) {
        t->made++;
        change = t->made == t->change_at;
    }
    else {
        t->gone++;
    }
    unlock();
    if (change) {
        (void)set_tag(t->change_to);
    }
    return 0;
}

/* tag_on(tag, at_removal=0, change_at=0, change_to=-1) */
static PyObject *
tag_on(PyObject *self, PyObject *args)
{
    (void)self;
    int i, at_removal = QUIET, change_to = -1;
    long change_at = 0;
    if (!PyArg_ParseTuple(args, "i|ili", &i, &at_removal, &change_at,
                          &change_to)) {
        return NULL;
    }
    lock();
    memset(&tags[i], 0, sizeof(tags[i]));
    tags[i].at_removal = (enum behaviour)at_removal;
    tags[i].change_at = change_at;
    tags[i].change_to = change_to;
    unlock();
    if (set_tag(i) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
tag_off(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    if (set_tag(-1) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* As tag_off(), called with an exception set, which has to survive. */
static PyObject *
tag_off_with_error(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyErr_SetString(PyExc_KeyError, "pending");
    int err = set_tag(-1);
    if (err == 0 && PyErr_ExceptionMatches(PyExc_KeyError)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    return NULL;
}

/* The current tag; -1: none, -2: none but with data, -3: another tracer. */
static PyObject *
tag_current(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromLong(current_tag());
}

/* (made, gone, events after it was told that it is removed) */
static PyObject *
tag_events(PyObject *self, PyObject *tag)
{
    (void)self;
    long i = PyLong_AsLong(tag);
    if (i < 0 || i >= TAGS) {
        return PyErr_Format(PyExc_ValueError, "no such tag");
    }
    return Py_BuildValue("nnn", tags[i].made, tags[i].gone,
                         tags[i].after_removal);
}

/* A list of (tag, object was NULL, current tag then, result of the tracer's
   own PyRefTracer_SetTracer()); it is emptied. */
static PyObject *
tag_removals(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < removal_count; i++) {
        struct removal *r = &removals[i];
        PyObject *item = Py_BuildValue("iOii", r->tag,
                                       r->null_object ? Py_True : Py_False,
                                       r->current, r->set_result);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    removal_count = 0;
    return list;
}


/* --- from a thread that Python has not made ---------------------------- */

static int toggling;               /* threads at work */

static void
toggle(void *rounds)
{
    for (long i = 0; i < (long)(intptr_t)rounds; i++) {
        PyGILState_STATE state = PyGILState_Ensure();
        if (set_tag((int)(i % 3) - 1) < 0) {
            PyErr_Clear();
        }
        PyGILState_Release(state);
    }
    lock();
    toggling--;
    unlock();
}

/* Start a thread that sets and removes tracers so many times. */
static PyObject *
toggle_start(PyObject *self, PyObject *rounds)
{
    (void)self;
    long n = PyLong_AsLong(rounds);
    if (n == -1 && PyErr_Occurred()) {
        return NULL;
    }
    lock();
    toggling++;
    unlock();
    if (PyThread_start_new_thread(toggle, (void *)(intptr_t)n)
        == PYTHREAD_INVALID_THREAD_ID)
    {
        lock();
        toggling--;
        unlock();
        return PyErr_Format(PyExc_RuntimeError, "cannot start a thread");
    }
    Py_RETURN_NONE;
}

static PyObject *
toggle_running(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    lock();
    int n = toggling;
    unlock();
    return PyBool_FromLong(n);
}


/* --- objects that move, and such that come back ------------------------- */

typedef struct {
    PyObject_VAR_HEAD
    char items[1];
} Growing;

static void
growing_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_Del(op);
    Py_DECREF(type);
}

static int
growing_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    return 0;
}

static PyType_Slot growing_slots[] = {
    {Py_tp_dealloc, (void *)growing_dealloc},
    {Py_tp_traverse, (void *)growing_traverse},
    {0, NULL},
};

static PyType_Spec growing_spec = {
    "reftracer_ext.Growing", (int)offsetof(Growing, items), 1,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    growing_slots,
};

/* Make an object of the type, resize it through the sizes, let it go. */
static PyObject *
resize_object(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *type, *sizes;
    if (!PyArg_ParseTuple(args, "OO!", &type, &PyTuple_Type, &sizes)) {
        return NULL;
    }
    Growing *op = PyObject_GC_NewVar(Growing, (PyTypeObject *)type, 1);
    for (Py_ssize_t i = 0; op != NULL && i < PyTuple_GET_SIZE(sizes); i++) {
        Py_ssize_t n = PyLong_AsSsize_t(PyTuple_GET_ITEM(sizes, i));
        Growing *moved = PyObject_GC_Resize(Growing, op, n);
        if (moved == NULL) {
            Py_DECREF(op);
            return NULL;
        }
        op = moved;
    }
    Py_XDECREF(op);
    return op != NULL ? Py_NewRef(Py_None) : NULL;
}

static PyObject *revived;          /* list, or NULL: nothing is brought back */

static int
revive(PyObject *op)
{
    return revived != NULL ? PyList_Append(revived, op) : 0;
}

static int
watch_dict(PyDict_WatchEvent event, PyObject *dict, PyObject *key,
           PyObject *value)
{
    (void)key, (void)value;
    return event == PyDict_EVENT_DEALLOCATED ? revive(dict) : 0;
}

static int
watch_code(PyCodeEvent event, PyCodeObject *code)
{
    return event == PY_CODE_EVENT_DESTROY ? revive((PyObject *)code) : 0;
}

static int
watch_function(PyFunction_WatchEvent event, PyFunctionObject *func,
               PyObject *value)
{
    (void)value;
    return event == PyFunction_EVENT_DESTROY ? revive((PyObject *)func) : 0;
}

/* Call func(), and while it runs bring back dictionaries, code objects or
   functions ("dict", "code", "function") that die, once each; of dictionaries
   only the one in the list that is given.  Returns how many, when they have
   died for good. */
static PyObject *
revive_during(PyObject *self, PyObject *args)
{
    (void)self;
    const char *kind;
    PyObject *func, *list_of_one = NULL;
    if (!PyArg_ParseTuple(args, "sO|O!", &kind, &func, &PyList_Type,
                          &list_of_one)) {
        return NULL;
    }
    int id = *kind == 'd' ? PyDict_AddWatcher(watch_dict)
             : *kind == 'c' ? PyCode_AddWatcher(watch_code)
             : PyFunction_AddWatcher(watch_function);
    if (id < 0
        || (*kind == 'd'
            && PyDict_Watch(id, PyList_GET_ITEM(list_of_one, 0)) < 0))
    {
        return NULL;
    }
    PyObject *list = revived = PyList_New(0);
    Py_XDECREF(PyObject_CallFunctionObjArgs(func, NULL));
    revived = NULL;
    if (*kind == 'd') {
        PyDict_ClearWatcher(id);
    }
    else if (*kind == 'c') {
        PyCode_ClearWatcher(id);
    }
    else {
        PyFunction_ClearWatcher(id);
    }
    Py_ssize_t n = list != NULL ? PyList_GET_SIZE(list) : 0;
    Py_XDECREF(list);
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(n);
}


/* --- the module ------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"counter_on", counter_on, METH_O, NULL},
    {"counter_off", counter_off, METH_NOARGS, NULL},
    {"nothing_on", nothing_on, METH_NOARGS, NULL},
    {"remove_tracer", remove_tracer, METH_NOARGS, NULL},
    {"ledger_on", ledger_on, METH_NOARGS, NULL},
    {"ledger_off", ledger_off, METH_NOARGS, NULL},
    {"ledger_live", ledger_live, METH_O, NULL},
    {"ledger_knows", ledger_knows, METH_O, NULL},
    {"tag_on", tag_on, METH_VARARGS, NULL},
    {"tag_off", tag_off, METH_NOARGS, NULL},
    {"tag_off_with_error", tag_off_with_error, METH_NOARGS, NULL},
    {"tag_current", tag_current, METH_NOARGS, NULL},
    {"tag_events", tag_events, METH_O, NULL},
    {"tag_removals", tag_removals, METH_NOARGS, NULL},
    {"toggle_start", toggle_start, METH_O, NULL},
    {"toggle_running", toggle_running, METH_NOARGS, NULL},
    {"resize_object", resize_object, METH_VARARGS, NULL},
    {"revive_during", revive_during, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int
exec_module(PyObject *module)
{
    if (guard == NULL) {
        guard = PyThread_allocate_lock();
    }
    PyObject *type = PyType_FromSpec(&growing_spec);
    if (guard == NULL || PyModule_Add(module, "Growing", type) < 0) {
        return -1;
    }
    static const struct { const char *name; int value; } constants[] = {
        {"CREATE", PyRefTracer_CREATE}, {"DESTROY", PyRefTracer_DESTROY},
        {"TRACKER_REMOVED", PyRefTracer_TRACKER_REMOVED},
        {"QUIET", QUIET}, {"RAISES", RAISES}, {"RETURNS_ERROR", RETURNS_ERROR},
        {"SETS_TRACER", SETS_TRACER}, {"MAKES_OBJECTS", MAKES_OBJECTS},
    };
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (PyModule_AddIntConstant(module, constants[i].name,
                                    constants[i].value) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)exec_module},
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "reftracer_ext", NULL, 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit_reftracer_ext(void)
{
    return PyModuleDef_Init(&definition);
}
