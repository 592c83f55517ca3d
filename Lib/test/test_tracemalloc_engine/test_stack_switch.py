"""Several stacks in one thread, as extensions for light threads have them: the
frame that runs may change without a call or a return.  A switch is noticed by
the identity of frames; then the whole stack is walked."""

import random
import sys
import unittest

import _tracemalloc as engine
from test import support

from .util import GIL_DISABLED, Probe, Tracing, below, loaded

# make(callable) -> n: a stack that will run it; to(n): go on there until
# somebody comes back, False when it has ended; the main stack is 0.
SOURCE = r"""
#include <Python.h>
#include <ucontext.h>

#define STACKS 8
#define BYTES (1 << 20)

typedef struct {
    ucontext_t place;
    PyObject *callable;         /* NULL: ended, or never made */
    void *memory;
    /* What of the thread state belongs to a stack. */
    struct _PyInterpreterFrame *frame;
    _PyStackChunk *chunk;
    PyObject **top, **limit;
    _PyErr_StackItem item, *exc_info;
    int python_left, c_left;
} stack;

static stack stacks[STACKS];
static int made = 1, now;

static void
leave(stack *s, PyThreadState *t)
{
    s->frame = t->current_frame;
    s->chunk = t->datastack_chunk;
    s->top = t->datastack_top;
    s->limit = t->datastack_limit;
    s->exc_info = t->exc_info;
    s->python_left = t->py_recursion_remaining;
    s->c_left = t->c_recursion_remaining;
}

static void
enter(stack *s, PyThreadState *t)
{
    t->current_frame = s->frame;
    t->datastack_chunk = s->chunk;
    t->datastack_top = s->top;
    t->datastack_limit = s->limit;
    t->exc_info = s->exc_info;
    t->py_recursion_remaining = s->python_left;
    t->c_recursion_remaining = s->c_left;
}

static void
go(int n)
{
    PyThreadState *t = PyThreadState_Get();
    int from = now;
    leave(&stacks[from], t);
    now = n;
    enter(&stacks[n], t);
    swapcontext(&stacks[from].place, &stacks[n].place);
}

static void
run(void)
{
    stack *s = &stacks[now];
    PyObject *result = PyObject_CallNoArgs(s->callable);
    if (result == NULL) {
        PyErr_WriteUnraisable(s->callable);
    }
    Py_XDECREF(result);
    Py_CLEAR(s->callable);
    go(0);
}

static PyObject *
make(PyObject *self, PyObject *callable)
{
    /* Ended ones are used again; their memory is kept. */
    int n = 1;
    while (n < made && stacks[n].callable != NULL) {
        n++;
    }
    if (n == STACKS) {
        PyErr_SetString(PyExc_RuntimeError, "too many stacks");
        return NULL;
    }
    stack *s = &stacks[n];
    if (n == made) {
        made++;
        s->memory = malloc(BYTES);
    }
    PyThreadState *t = PyThreadState_Get();
    s->callable = Py_NewRef(callable);
    s->frame = NULL;
    s->chunk = NULL;
    s->top = s->limit = NULL;
    s->item = (_PyErr_StackItem){NULL, NULL};
    s->exc_info = &s->item;
    s->python_left = t->py_recursion_limit;
    s->c_left = 200;
    getcontext(&s->place);
    s->place.uc_stack.ss_sp = s->memory;
    s->place.uc_stack.ss_size = BYTES;
    s->place.uc_link = NULL;
    makecontext(&s->place, run, 0);
    return PyLong_FromLong(n);
}

static PyObject *
to(PyObject *self, PyObject *arg)
{
    int n = (int)PyLong_AsLong(arg);
    if (n < 0 || n >= made || n == now || (n > 0 && stacks[n].callable == NULL)) {
        Py_RETURN_FALSE;
    }
    go(n);
    Py_RETURN_TRUE;
}

static PyObject *
current(PyObject *self, PyObject *none)
{
    return PyLong_FromLong(now);
}

static PyMethodDef methods[] = {
    {"make", make, METH_O, 0},
    {"to", to, METH_O, 0},
    {"current", current, METH_NOARGS, 0},
    {0},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tm_switch", NULL, -1, methods,
};

PyMODINIT_FUNC
PyInit_tm_switch(void)
{
    return PyModule_Create(&module);
}
"""


def probe():
    return Probe(bytearray(1), sys._getframe())


@unittest.skipUnless(sys.platform == "linux", "needs ucontext")
@unittest.skipIf(GIL_DISABLED, "a thread state cannot be switched so simply")
@unittest.skipIf(support.check_sanitizer(address=True, memory=True, thread=True),
                 "sanitizers follow one stack a thread")
class Switching(Tracing):
    def setUp(self):
        self.switch = loaded("tm_switch", SOURCE)
        super().setUp()
        self.found = []
        self.addCleanup(self.assertEqual, self.switch.current(), 0)

    def note(self):
        self.found.append(probe())

    def finish(self, *stacks):
        """Run stacks to their end, and check all blocks."""
        while any([self.switch.to(n) for n in stacks]):
            self.note()
        for one in self.found:
            one.check(self)
        self.check_engine()

    def test_there_and_back(self):
        def work():
            self.note()
            self.switch.to(0)
            self.note()
            below(5, lambda: self.switch.to(0))
            self.note()

        n = self.switch.make(work)
        self.note()
        for depth in (0, 9, 3):
            below(depth, lambda: self.switch.to(n))
            self.note()
            below(depth, self.note)
        self.finish(n)
        self.assertEqual(len(self.found), 10)

    def test_other_stack_is_no_caller(self):
        # A stack that is entered at depth 20 has a depth of its own.
        blocks = []

        def work():
            self.note()
            blocks.append(self.found[-1].trace().total)

        n = self.switch.make(work)
        below(20, lambda: self.switch.to(n))
        self.finish(n)
        self.assertEqual(blocks, [3])

    def test_same_function_on_all_stacks(self):
        # The same instructions below different callers, in turn.
        def work(depth):
            if depth:
                return work(depth - 1)
            for _ in range(30):
                self.note()
                turn()

        def turn():
            ready = [n for n in stacks if n != self.switch.current()]
            self.switch.to(ready[len(self.found) % len(ready)])
            self.note()

        stacks = [0]
        for depth in (0, 1, 40, 100):
            stacks.append(self.switch.make(lambda depth=depth: work(depth)))
        work(7)
        self.finish(*stacks[1:])
        self.assertGreater(len(self.found), 150)

    def test_generators_go_from_stack_to_stack(self):
        def numbers():
            while True:
                self.note()
                yield
                self.note()

        shared = numbers()

        def work():
            for i in range(10):
                below(i, lambda: next(shared))
                self.switch.to(0)

        n = self.switch.make(work)
        for i in range(10):
            below(9 - i, lambda: next(shared))
            self.switch.to(n)
        self.finish(n)

    def test_traces_dropped_between(self):
        def work():
            for _ in range(6):
                below(70, lambda: (self.note(), self.switch.to(0)))

        n = self.switch.make(work)
        for i in range(6):
            below(80, lambda: (self.note(), self.switch.to(n)))
            if i == 2:
                self.found.clear()
                below(90, engine.clear_traces)
            if i == 4:
                self.found.clear()
                engine.stop()
                engine.start(self.limit)
            self.note()
        self.finish(n)

    def walk(self, seed):
        rnd = random.Random(seed)
        left = [2500]

        def step(depth):
            while left[0] > 0:
                left[0] -= 1
                what = rnd.randrange(10)
                if what < 3:
                    self.note()
                elif what < 5 and depth < 60:
                    step(depth + 1)
                elif what == 5 and depth < 15:
                    sorted([1], key=lambda _: step(depth + 20))
                elif what < 8:
                    self.switch.to(rnd.choice(stacks))
                elif depth:
                    return

        stacks = [0]
        stacks += [self.switch.make(lambda: step(0)) for _ in range(4)]
        while left[0] > 0:
            step(0)
        self.finish(*stacks[1:])

    def test_random_walks(self):
        for seed in range(8):
            self.found.clear()
            self.walk(seed)
            self.assertGreater(len(self.found), 300)

    def test_random_walks_at_limit_one(self):
        engine.set_traceback_limit(1)
        self.walk(99)
        for one in self.found[::5]:
            self.assertEqual(one.trace().total, len(one.expected))


if __name__ == "__main__":
    unittest.main()
