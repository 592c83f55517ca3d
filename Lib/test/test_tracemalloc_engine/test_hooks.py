"""Allocator hooks: put on, taken off, wrapped by others in odd orders, over
whatever allocator is below; a block is never traced twice."""

import unittest
from test import support
from test.support import import_helper

import _tracemalloc as engine

from . import blocks
from .util import GIL_DISABLED, Untraced, child_says, run_child

RAW, MEM, OBJ = blocks.RAW, blocks.MEM, blocks.OBJ


class Wrapped(unittest.TestCase):
    """Somebody wraps the allocators while, before or after we do."""

    # wrapped(d): how often a block of domain d is in the traces, by its size.
    PROGRAM = """
import _tracemalloc as engine, os, sys
SIZES = (40_007, 40_011, 333)

def times(d):
    counts = []
    for size in SIZES:
        before = [t[1] for t in engine._get_traces()].count(size)
        address = tm_blocks.malloc(d, size)
        during = [t[1] for t in engine._get_traces()].count(size)
        address = tm_blocks.realloc(d, address, size + 1)
        moved = [t[1] for t in engine._get_traces()].count(size)
        tm_blocks.free(d, address)
        after = [t[1] for t in engine._get_traces()].count(size)
        assert moved == after == before, (d, size, before, during, moved, after)
        counts.append(during - before)
    return counts

def check(on, sure, what):
    for d in DOMAINS:
        counts = times(d)
        if on and sure:
            assert counts == [1, 1, 1], (what, d, counts)
        elif on:
            # Our hook was taken away; those of other domains are there.
            assert max(counts) <= 1, (what, d, counts)
        else:
            assert counts == [0, 0, 0], (what, d, counts)
    assert engine._check() is None, (what, engine._check())

def walk(steps):
    '''Start and stop, wrap and unwrap; check after each.'''
    on = wrapped = False
    sure = True         # are our hooks reached, when tracing is on?
    below = False       # do they lie below the wrapper?
    for i, step in enumerate(steps):
        if step == "s":
            if on:
                engine.stop()
            else:
                engine.start(3)
                sure = True
            on = not on
        elif wrapped:
            for d in DOMAINS:
                tm_blocks.unwrap(d)
            # What was there before the wrapper is there again: with our hooks
            # or without them.
            sure = below or not on
            wrapped = False
        else:
            for d in DOMAINS:
                tm_blocks.wrap(d)
            below = on and sure
            wrapped = True
        check(on, sure, steps[:i + 1])
    if wrapped:
        for d in DOMAINS:
            tm_blocks.unwrap(d)
    if on:
        engine.stop()
    engine.start(3)
    check(True, True, steps + ("end",))
    engine.stop()
    check(False, True, steps + ("stop",))
"""

    def walk_all(self, domains, length, env=None):
        code = self.PROGRAM + f"""
DOMAINS = {domains!r}
import itertools
done = 0
for steps in itertools.product("sw", repeat={length}):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            walk(steps)
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0, steps
    done += 1
print(done)
"""
        child_says(self, str(2**length), code, before=blocks.loading(), env=env)

    @unittest.skipUnless(support.has_fork_support, "needs fork()")
    def test_every_order(self):
        self.walk_all((RAW, MEM, OBJ), 6)

    @unittest.skipUnless(support.has_fork_support, "needs fork()")
    def test_one_domain_wrapped(self):
        for domain in (RAW, MEM, OBJ):
            self.walk_all((domain,), 4)

    @unittest.skipUnless(support.has_fork_support, "needs fork()")
    def test_over_other_allocators(self):
        self.walk_all((RAW, MEM, OBJ), 4, {"PYTHONMALLOC": "debug"})
        if not GIL_DISABLED:
            self.walk_all((RAW, MEM, OBJ), 4, {"PYTHONMALLOC": "malloc"})

    def test_wrapper_over_ours_sees_every_call_once(self):
        child_says(self, "ok", """
            import _tracemalloc as engine
            engine.start(2)
            for d in range(3):
                tm_blocks.wrap(d)
            for d in range(3):
                for size in (100, 100_000):
                    before = tm_blocks.calls(d)
                    p = tm_blocks.malloc(d, size)
                    assert engine.get_trace(p)[0] == size
                    p = tm_blocks.realloc(d, p, size * 3)
                    assert engine.get_trace(p)[0] == size * 3
                    tm_blocks.free(d, p)
                    assert engine.get_trace(p) is None
                    after = tm_blocks.calls(d)
                    assert after[2] - before[2] == 1
                    assert after[0] > before[0] and after[3] > before[3]
            for d in range(3):
                tm_blocks.unwrap(d)
            assert engine._check() is None
            print("ok")
        """, before=blocks.loading())

    def test_wrapper_below_ours_is_called(self):
        # Tracing goes over what is there, and puts it back.
        child_says(self, "ok", """
            import _tracemalloc as engine
            for d in range(3):
                tm_blocks.wrap(d)
            engine.start(2)
            for d in range(3):
                before = tm_blocks.calls(d)
                p = tm_blocks.malloc(d, 100)
                assert engine.get_trace(p)[0] == 100
                assert tm_blocks.calls(d)[0] > before[0]
                tm_blocks.free(d, p)
            engine.stop()
            for d in range(3):
                before = tm_blocks.calls(d)
                tm_blocks.free(d, tm_blocks.malloc(d, 100))
                assert tm_blocks.calls(d)[0] > before[0]
                tm_blocks.unwrap(d)
            engine.start(2)
            p = tm_blocks.malloc(1, 100)
            assert engine.get_trace(p)[0] == 100
            print("ok")
        """, before=blocks.loading())

    def test_wrapper_of_the_object_domain_that_calls_others(self):
        # An object allocator may be built on PyMem_Malloc(): one trace.  Not
        # above the debug allocators, which tell the domains apart.
        env = {} if GIL_DISABLED else {"PYTHONMALLOC": "pymalloc"}
        child_says(self, "ok", """
            import _tracemalloc as engine
            tm_chain.install()
            for _ in range(2):
                engine.start(2)
                p = tm_blocks.malloc(2, 12_345)
                sizes = [t[1] for t in engine._get_traces()]
                assert sizes.count(12_345) == 1, sizes.count(12_345)
                small = tm_blocks.malloc(2, 333)
                sizes = [t[1] for t in engine._get_traces()]
                assert sizes.count(333) == 1, sizes.count(333)
                tm_blocks.free(2, p)
                tm_blocks.free(2, small)
                assert engine._check() is None
                engine.stop()
            print("ok")
        """, before=blocks.loading() + loading_chain(), env=env)


CHAIN = r"""
#include <Python.h>

/* An allocator of the OBJ domain on top of the MEM domain.  Blocks of before
   are told apart by a mark in front of ours. */
#define MARK 0x6d61726b6d61726bULL
typedef struct { unsigned long long mark, pad; } head;
static PyMemAllocatorEx old;

static void *
c_malloc(void *ctx, size_t size)
{
    return PyMem_Malloc(size);
}

static void *
c_calloc(void *ctx, size_t n, size_t size)
{
    return PyMem_Calloc(n, size);
}

static void *
c_realloc(void *ctx, void *p, size_t size)
{
    return PyMem_Realloc(p, size);
}

static void
c_free(void *ctx, void *p)
{
    PyMem_Free(p);
}

static PyObject *
install(PyObject *self, PyObject *none)
{
    /* Where both domains are served alike, blocks may change hands. */
    PyMemAllocatorEx mem, ours = {NULL, c_malloc, c_calloc, c_realloc, c_free};
    PyMem_GetAllocator(PYMEM_DOMAIN_MEM, &mem);
    PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &old);
    if (mem.malloc != old.malloc) {
        PyErr_SetString(PyExc_RuntimeError, "domains differ");
        return NULL;
    }
    PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &ours);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"install", install, METH_NOARGS, 0}, {0}};
static PyModuleDef_Slot slots[] = {{Py_mod_gil, Py_MOD_GIL_NOT_USED}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tm_chain", NULL, 0, methods, slots,
};

PyMODINIT_FUNC
PyInit_tm_chain(void)
{
    return PyModuleDef_Init(&module);
}
"""


def loading_chain():
    from .util import loading
    if GIL_DISABLED:
        raise unittest.SkipTest("objects need their own allocator there")
    return loading("tm_chain", CHAIN)


class TakenAway(unittest.TestCase):
    def test_allocators_of_before_are_set_again(self):
        # An extension that puts back what it had found takes our hooks away:
        # frees pass us by, and size classes change without our knowledge.
        # Nothing breaks, and the next start() is whole again.
        child_says(self, "ok", """
            import _tracemalloc as engine
            engine.start(2)
            engine.stop()
            for d in range(3):
                tm_blocks.save(d)
            engine.start(2)
            many = [tm_blocks.malloc(2, 64) for _ in range(20_000)]
            many += [tm_blocks.malloc(1, 5000) for _ in range(200)]
            for d in range(3):
                tm_blocks.restore(d)
            for i, p in enumerate(many):
                tm_blocks.free(2 if i < 20_000 else 1, p)
            for round in range(3):
                many = [tm_blocks.malloc(2, 48 + 96 * round)
                        for _ in range(20_000)]
                engine._get_traces()
                for p in many:
                    tm_blocks.free(2, p)
            for _ in range(3):
                engine.stop()
                assert engine.get_traced_memory() == (0, 0)
                engine.start(2)
                p = tm_blocks.malloc(2, 333)
                assert engine.get_trace(p)[0] == 333
                sizes = [t[1] for t in engine._get_traces()]
                assert sizes.count(333) == 1
                tm_blocks.free(2, p)
                assert engine.get_trace(p) is None
                assert engine._check() is None, engine._check()
            print("ok")
        """, before=blocks.loading())


class TestCapi(Untraced):
    """Upstream's helpers that play with allocators, while we trace."""

    def test_allocators_set_and_reset(self):
        _testcapi = import_helper.import_module("_testcapi")
        engine.start(3)
        for name in ("test_pymem_alloc0", "test_pymem_setrawallocators",
                     "test_pymem_setallocators", "test_pyobject_setallocators"):
            if hasattr(_testcapi, name):
                getattr(_testcapi, name)()
                self.check_engine()
        block = bytearray(1)
        self.assertIsNotNone(engine._get_object_traceback(block))

    def test_nomemory_installed_and_removed(self):
        import_helper.import_module("_testcapi")
        # (set before start?, removed before stop?)
        child_says(self, "ok", """
            import _testcapi, _tracemalloc as engine, itertools
            def traced_once():
                block = bytearray(7777)
                sizes = [t[1] for t in engine._get_traces()]
                return sizes.count(7778)
            for order in itertools.permutations("+-se"):
                tracing = False
                for step in order:
                    if step == "+":
                        _testcapi.set_nomemory(2**31 - 1)
                    elif step == "-":
                        _testcapi.remove_mem_hooks()
                    elif step == "s":
                        engine.start(2)
                    else:
                        engine.stop()
                    if engine.is_tracing():
                        assert traced_once() in (0, 1), (order, step)
                        assert engine._check() is None, (order, step)
                _testcapi.remove_mem_hooks()
                engine.stop()
                engine.start(2)
                assert traced_once() == 1, order
                assert engine._check() is None, order
                engine.stop()
            print("ok")
        """)


class DebugHooks(unittest.TestCase):
    """PyMem_SetupDebugHooks() and the reports of the debug allocators."""

    def test_set_up_again_before_tracing(self):
        child_says(self, "ok", """
            import _tracemalloc as engine
            tm_blocks.debug_hooks()         # they are there: nothing changes
            engine.start(2)
            p = tm_blocks.malloc(1, 100)
            assert engine.get_trace(p)[0] == 100
            tm_blocks.free(1, p)
            assert engine._check() is None
            print("ok")
        """, before=blocks.loading(), env={"PYTHONMALLOC": "debug"})

    def test_report_tells_where_the_block_was_made(self):
        import_helper.import_module("_testcapi")
        code = ("import faulthandler, _testcapi\n"
                "faulthandler.disable()\n"
                "def make():\n"
                "    _testcapi.pymem_buffer_overflow()\n"
                "def call():\n"
                "    make()\n"
                "call()\n")
        with support.SuppressCrashReport():
            done = run_child(code, "-X", "tracemalloc=10",
                             env={"PYTHONMALLOC": "debug"})
        self.assertNotEqual(done.status, 0)
        self.assertIn("Debug memory block at address", done.err)
        where = done.err.index(
            "Memory block allocated at (most recent call first)")
        self.assertEqual(done.err[where:].splitlines()[1:5],
                         ['  File "<string>", line 4',
                          '  File "<string>", line 6',
                          '  File "<string>", line 7', ""])

    def test_report_of_a_block_without_a_trace(self):
        # Nothing is told of a block that stood there before, least of all when
        # its contexts are no more.
        import_helper.import_module("_testcapi")
        for between in ("engine.clear_traces()", "engine.stop()",
                        "engine.stop(); engine.start(2)", "pass"):
            code = ("import faulthandler, _testcapi\n"
                    "import _tracemalloc as engine\n"
                    "faulthandler.disable()\n"
                    "for _ in range(50):\n"
                    "    tm_blocks.free(1, tm_blocks.malloc(1, 16))\n"
                    f"{between}\n"
                    "engine._fail_after(1, True)\n"
                    "_testcapi.pymem_buffer_overflow()\n")
            with self.subTest(between=between), support.SuppressCrashReport():
                done = run_child(code, "-X", "tracemalloc=10",
                                 before=blocks.loading(),
                                 env={"PYTHONMALLOC": "debug"})
                self.assertEqual(done.status, -6, done)
                self.assertIn("Debug memory block at address", done.err)

    def test_report_without_tracing(self):
        import_helper.import_module("_testcapi")
        with support.SuppressCrashReport():
            done = run_child("import faulthandler, _testcapi\n"
                             "faulthandler.disable()\n"
                             "_testcapi.pymem_buffer_overflow()",
                             env={"PYTHONMALLOC": "debug"})
        self.assertNotEqual(done.status, 0)
        self.assertIn("Enable tracemalloc to get the memory block", done.err)


class Quiet(Untraced):
    """When tracing is off it leaves nothing behind."""

    def test_hooks_are_unlinked(self):
        module = import_helper.import_module("_testinternalcapi")
        name = module.pymem_getallocatorsname()
        for _ in range(20):
            engine.start(2)
            engine.stop()
            self.assertEqual(module.pymem_getallocatorsname(), name)

    def test_start_and_stop_many_times(self):
        for i in range(200):
            engine.start(i % 9 + 1)
            block = bytearray(7777)
            sizes = [t[1] for t in engine._get_traces()]
            self.assertEqual(sizes.count(7778), 1)
            engine.stop()
            self.assertEqual(engine._get_traces(), [])
            self.assertEqual(engine.get_traced_memory(), (0, 0))


if __name__ == "__main__":
    unittest.main()
