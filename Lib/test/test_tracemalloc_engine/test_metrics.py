"""What the C door tells about arenas, pymalloc, interned strings and the
garbage collector, and the version of the engine."""

import gc
import os
import re
import subprocess
import sys
import unittest

import _tracemalloc as engine
from test import support
from test.test_tracemalloc_engine import util

HAS_STATS = hasattr(engine, "get_pymalloc_stats")
needs_stats = unittest.skipUnless(HAS_STATS, "built without pymalloc")

# For children: `arenas()` are the bytes that pymalloc has in arenas now,
# `blocks(n)` is a list of so many blocks of it.
TOOLS = """
import _tracemalloc as engine, gc
def arenas():
    stats = engine.get_pymalloc_stats()
    return stats["arenas"] * stats["arena_size"]
def blocks(count):
    return [bytes(400) for _ in range(count)]
def sound():
    assert engine._check() is None, engine._check()
"""
PLAIN = {"PYTHONMALLOC": "pymalloc"}
CONSTANTS = ("alignment", "threshold", "arena_size", "pool_size")


def say(test: unittest.TestCase, wanted: str, code: str, *options: str,
        env: dict[str, str] = PLAIN, before: str = "") -> None:
    util.child_says(test, wanted, code, *options, env=env,
                    before=before + TOOLS)


@needs_stats
class ArenaSizeTests(unittest.TestCase):
    """Sizes are compared with what pymalloc itself says of its arenas."""

    def test_counts_what_pymalloc_gets(self):
        say(self, "True True 0", """
            before = arenas()
            engine.start()
            keep = blocks(50_000)
            grown = arenas() - before
            print(grown > 20_000_000, engine.get_arena_size() == grown, end=" ")
            sound()
            engine.stop()
            print(engine.get_arena_size())
            """)

    def test_counts_what_pymalloc_gives_back(self):
        say(self, "True True", """
            engine.start()
            before = arenas()
            keep = blocks(100_000)
            most = engine.get_arena_size()
            del keep
            print(engine.get_arena_size() < most - 20_000_000,
                  engine.get_arena_size() == arenas() - before)
            sound()
            """)

    def test_clear_starts_from_zero(self):
        say(self, "0 True 0", """
            engine.start()
            keep = blocks(50_000)
            engine.clear_traces()
            print(engine.get_arena_size(), end=" ")
            before = arenas()
            more = blocks(50_000)
            print(engine.get_arena_size() == arenas() - before, end=" ")
            engine.clear_traces()
            del keep, more          # arenas that are no longer ours go
            print(engine.get_arena_size())
            sound()
            """)

    def test_older_arenas_are_not_ours(self):
        say(self, "True 0", """
            keep = blocks(50_000)
            before = arenas()
            engine.start()
            del keep
            print(arenas() < before - 10_000_000, engine.get_arena_size())
            sound()
            """)

    def test_on_and_off(self):
        say(self, "0 True 0 True", """
            kept = []
            for _ in range(2):
                kept.append(blocks(30_000))         # not traced
                print(engine.get_arena_size(), end=" ")
                before = arenas()
                engine.start()
                kept.append(blocks(30_000))
                print(engine.get_arena_size() == arenas() - before > 0,
                      end=" ")
                engine.stop()
            """)

    def test_stacks_of_frames_do_not_count(self):
        # They come from the arena allocator, too.
        say(self, "0", """
            import sys
            sys.setrecursionlimit(100_000)
            engine.start()
            engine.clear_traces()
            def deep(n):
                a = b = c = d = e = f = g = h = i = j = None
                return deep(n - 1) if n else engine.get_arena_size()
            size = deep(20_000)
            print(size % engine.get_pymalloc_stats()["arena_size"])
            """)

    def test_below_the_debug_allocator(self):
        say(self, "True", """
            before = arenas()
            engine.start()
            keep = blocks(50_000)
            print(engine.get_arena_size() == arenas() - before > 0)
            sound()
            """, env={"PYTHONMALLOC": "pymalloc_debug"})

    def test_without_pymalloc(self):
        say(self, "0", """
            engine.start()
            keep = blocks(50_000)
            print(engine.get_arena_size())
            """, env={"PYTHONMALLOC": "malloc"})

    def test_without_memory(self):
        # An arena that cannot be remembered does not count, and nothing fails.
        say(self, "0 0", """
            engine.start()
            engine.clear_traces()
            engine._fail_after(1, True)
            keep = blocks(50_000)
            print(engine.get_arena_size(), end=" ")
            engine._fail_after(0)
            del keep
            print(engine.get_arena_size())
            sound()
            """)

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_fork(self):
        code = """
            import os, sys
            engine.set_fork_policy(sys.argv[1])
            engine.start()
            keep = blocks(50_000)
            size = engine.get_arena_size()
            sys.stdout.flush()
            if os.fork() == 0:
                print(engine.get_arena_size() in (size, 0) and size > 0,
                      engine.get_arena_size() == size, flush=True)
                del keep
                sound()
                os._exit(0)
            os.wait()
            """
        for policy, wanted in ("follow", "True True"), ("disable", "True False"):
            with self.subTest(policy=policy):
                util.child_says(self, wanted, code, env=PLAIN, before=TOOLS,
                                argv=(policy,))

    @support.cpython_only
    def test_interpreters_with_their_own_pymalloc(self):
        # The counter is that of the process, and what ends is given back.
        say(self, "True True", """
            import _interpreters
            engine.start()
            engine.clear_traces()
            size = engine.get_arena_size()
            other = _interpreters.create("isolated")
            trouble = _interpreters.run_string(
                other, "keep = [bytes(400) for _ in range(50_000)]")
            assert trouble is None, trouble
            grown = engine.get_arena_size()
            print(grown - size > 10_000_000, end=" ")
            _interpreters.destroy(other)
            print(engine.get_arena_size() <= grown - 10_000_000)
            sound()
            """)

    def test_threads(self):
        say(self, "True", """
            import threading
            before = arenas()
            engine.start()
            def work():
                for _ in range(5):
                    blocks(20_000)
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            old = engine.get_arena_size() - (arenas() - before)
            print(old >= 0)         # arenas of earlier days may be gone
            sound()
            """)


WRAPPER = r"""
#include "Python.h"

/* An arena allocator around the present one, as another tool might have. */
static PyObjectArenaAllocator below;
static long allocated, freed;
static int refuse;

static void *
wrap_alloc(void *ctx, size_t size)
{
    (void)ctx;
    allocated++;
    return refuse ? NULL : below.alloc(below.ctx, size);
}

static void
wrap_free(void *ctx, void *arena, size_t size)
{
    (void)ctx;
    freed++;
    below.free(below.ctx, arena, size);
}

/* Two steps, as there may be much time between them. */
static PyObject *
look(PyObject *module, PyObject *none)
{
    PyObject_GetArenaAllocator(&below);
    Py_RETURN_NONE;
}

static PyObject *
put(PyObject *module, PyObject *none)
{
    PyObjectArenaAllocator ours = {&below, wrap_alloc, wrap_free};
    PyObject_SetArenaAllocator(&ours);
    Py_RETURN_NONE;
}

static PyObject *
wrap(PyObject *module, PyObject *none)
{
    look(module, none);
    return put(module, none);
}

static PyObject *
unwrap(PyObject *module, PyObject *none)
{
    PyObject_SetArenaAllocator(&below);
    Py_RETURN_NONE;
}

static PyObject *
refuse_all(PyObject *module, PyObject *flag)
{
    refuse = PyObject_IsTrue(flag);
    Py_RETURN_NONE;
}

/* Arenas that passed the wrapper and are still there. */
static PyObject *
balance(PyObject *module, PyObject *none)
{
    return PyLong_FromLong(allocated - freed);
}

/* The functions of the allocator in force, to tell whether it has changed. */
static PyObject *
outermost(PyObject *module, PyObject *none)
{
    PyObjectArenaAllocator now;
    PyObject_GetArenaAllocator(&now);
    return Py_BuildValue("(nnn)", (Py_ssize_t)now.ctx, (Py_ssize_t)now.alloc,
                         (Py_ssize_t)now.free);
}

static PyMethodDef methods[] = {
    {"look", look, METH_NOARGS, NULL},
    {"put", put, METH_NOARGS, NULL},
    {"wrap", wrap, METH_NOARGS, NULL},
    {"unwrap", unwrap, METH_NOARGS, NULL},
    {"refuse", refuse_all, METH_O, NULL},
    {"balance", balance, METH_NOARGS, NULL},
    {"outermost", outermost, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef def = {
    PyModuleDef_HEAD_INIT, .m_name = "tm_arena_wrapper", .m_methods = methods,
};

PyMODINIT_FUNC
PyInit_tm_arena_wrapper(void)
{
    return PyModule_Create(&def);
}
"""


@needs_stats
class WrappedArenaTests(unittest.TestCase):
    """Somebody else changes the arena allocator while we are in it."""

    def say(self, wanted: str, code: str) -> None:
        say(self, wanted, code,
            before=util.loading("tm_arena_wrapper", WRAPPER)
            + "w = tm_arena_wrapper\n")

    def test_nothing_stays_behind(self):
        self.say("True True", """
            before = w.outermost()
            engine.start()
            changed = w.outermost() != before
            engine.stop()
            print(changed, w.outermost() == before)
            """)

    def test_wrapped_below(self):
        self.say("True True True", """
            w.wrap()
            before, old = w.outermost(), arenas()
            engine.start()
            keep = blocks(50_000)
            print(engine.get_arena_size() == arenas() - old > 0, end=" ")
            print(w.balance() > 0, end=" ")
            engine.stop()
            print(w.outermost() == before)
            """)

    def test_wrapped_while_tracing(self):
        # Tracing cannot be unlinked then; a new start finds the link again.
        self.say("0 True True True", """
            plain = w.outermost()
            engine.start()
            w.wrap()
            engine.stop()
            kept = [blocks(50_000)]
            print(engine.get_arena_size(), end=" ")
            old = arenas()
            engine.start()
            kept.append(blocks(50_000))
            print(engine.get_arena_size() == arenas() - old > 0, end=" ")
            kept.clear()
            print(engine.get_arena_size() >= 0, end=" ")
            sound()
            w.unwrap()
            engine.stop()
            print(w.outermost() == plain)
            """)

    def test_wrapper_with_old_knowledge(self):
        # It was unlinked properly, and yet somebody brings it back.
        self.say("0 True True", """
            engine.start()
            w.look()
            engine.stop()
            w.put()
            print(engine.get_arena_size(), end=" ")
            old = arenas()
            engine.start()
            keep = blocks(50_000)
            print(engine.get_arena_size() == arenas() - old > 0, end=" ")
            sound()
            w.unwrap()
            engine.stop()
            print(w.outermost()[0] == 0)
            """)

    def test_replaced_while_tracing(self):
        # Somebody has put back an allocator from before: link anew.
        self.say("True", """
            w.wrap()
            engine.start()
            w.unwrap()              # throws us out
            engine.stop()
            old = arenas()
            engine.start()
            keep = blocks(50_000)
            print(engine.get_arena_size() == arenas() - old > 0)
            sound()
            """)

    def test_refused(self):
        # No arena is to be had while we look for our link.
        self.say("True", """
            engine.start()
            w.wrap()
            engine.stop()
            w.refuse(True)
            engine.start()
            w.refuse(False)
            old = arenas()
            keep = blocks(50_000)
            print(engine.get_arena_size() == arenas() - old > 0)
            sound()
            """)


@needs_stats
class PymallocStatsTests(unittest.TestCase):
    def assert_adds_up(self, stats: dict[str, int]) -> None:
        uses = ("allocated_bytes", "available_bytes", "pool_headers",
                "quantization", "arena_alignment")
        total = sum(stats[use] for use in uses)
        total += stats["free_pools"] * stats["pool_size"]
        self.assertEqual(total, stats["arenas"] * stats["arena_size"])

    def test_keys(self):
        stats = engine.get_pymalloc_stats()
        self.assertEqual(sorted(stats), [
            "alignment", "allocated_bytes", "arena_alignment", "arena_size",
            "arenas", "available_bytes", "free_pools", "max_arenas", "nalloc",
            "pool_headers", "pool_size", "quantization", "threshold",
            "total_arenas"])
        for name, value in stats.items():
            self.assertIs(type(value), int, name)

    def test_adds_up_always(self):
        keep = []
        for size in range(1, 513, 7):
            keep.append([bytes(size) for _ in range(500)])
            self.assert_adds_up(engine.get_pymalloc_stats())
        for i in range(0, len(keep), 2):
            keep[i] = None
            self.assert_adds_up(engine.get_pymalloc_stats())

    def test_same_as_debugmallocstats(self):
        done = util.run_child("""
            import _tracemalloc as engine, sys, random
            keep = [bytes(random.randrange(400)) for _ in range(50_000)]
            del keep[::2]
            sys._debugmallocstats()         # lets stderr have its buffer
            sys.stderr.flush()
            stats = engine.get_pymalloc_stats()
            sys._debugmallocstats()
            print(stats)
            """, env=PLAIN)
        self.assertEqual(done.status, 0, done.err)
        stats = eval(done.out)
        self.assert_adds_up(stats)
        # The two are separated by the dict alone.
        table = done.err[done.err.rindex("Small block threshold"):]

        def told(text: str) -> int:
            found = re.search(rf"{text} *= *([\d,]+)", table)
            self.assertTrue(found, text)
            return int(found[1].replace(",", ""))

        self.assertEqual(told("Small block threshold"), stats["threshold"])
        self.assertEqual(told("# arenas allocated total"),
                         stats["total_arenas"])
        self.assertEqual(told("# arenas highwater mark"), stats["max_arenas"])
        self.assertEqual(told("# arenas allocated current"), stats["arenas"])
        self.assertEqual(told(r"arenas \* \d+ bytes/arena"),
                         stats["arenas"] * stats["arena_size"])
        self.assertEqual(told("# bytes lost to arena alignment"),
                         stats["arena_alignment"])
        few = 4 * stats["pool_size"]
        for name, text in (
                ("allocated_bytes", "# bytes in allocated blocks"),
                ("available_bytes", "# bytes in available blocks"),
                ("pool_headers", "# bytes lost to pool headers"),
                ("quantization", "# bytes lost to quantization")):
            self.assertAlmostEqual(told(text), stats[name], delta=few,
                                   msg=name)
        unused = re.search(r"(\d+) unused pools \* (\d+) bytes", table)
        self.assertEqual(int(unused[2]), stats["pool_size"])
        self.assertAlmostEqual(int(unused[1]), stats["free_pools"], delta=4)

    def test_moves_with_blocks(self):
        say(self, "True True True", """
            old = engine.get_pymalloc_stats()
            keep = [bytes(range(200)) for _ in range(10_000)]
            new = engine.get_pymalloc_stats()
            print(2_000_000 < new["allocated_bytes"] - old["allocated_bytes"]
                  < 3_000_000, end=" ")
            del keep
            last = engine.get_pymalloc_stats()
            print(abs(last["allocated_bytes"] - old["allocated_bytes"])
                  < 20_000, last["max_arenas"] >= new["arenas"])
            """)

    def test_allocations(self):
        # Counted from the moment tracing began.
        say(self, "0 True True 0", """
            def count():
                return engine.get_pymalloc_stats()["nalloc"]
            print(count(), end=" ")
            for _ in range(2):
                engine.start()
                begin = count()
                blocks(10_000)
                print(begin < 1000 and 10_000 <= count() - begin < 25_000,
                      end=" ")
                engine.stop()
            print(count())
            """)

    def test_other_allocator(self):
        say(self, "True True", f"""
            engine.start()
            keep = blocks(1000)
            stats = engine.get_pymalloc_stats()
            print(stats.pop("nalloc") >= 1000, end=" ")
            print(all((value > 0) == (name in {CONSTANTS})
                      for name, value in stats.items()))
            """, env={"PYTHONMALLOC": "malloc"})

    def test_debug_allocator(self):
        say(self, "True", """
            keep = blocks(10_000)
            print(engine.get_pymalloc_stats()["allocated_bytes"] > 4_000_000)
            """, env={"PYTHONMALLOC": "pymalloc_debug"})

    @support.cpython_only
    def test_of_the_calling_interpreter(self):
        say(self, "True True True", """
            import _interpreters
            keep = blocks(100_000)
            ask = "import _tracemalloc as e; print(e.get_pymalloc_stats()"
            for config, compare in ("isolated", "<"), ("legacy", ">"):
                other = _interpreters.create(config)
                trouble = _interpreters.run_string(other, ask +
                    f"['allocated_bytes'] {compare} 20_000_000, end=' ')")
                assert trouble is None, trouble
                _interpreters.destroy(other)
            print(engine.get_pymalloc_stats()["allocated_bytes"] > 40_000_000)
            """)


class AbsentTests(unittest.TestCase):
    def test_there_where_pymalloc_is(self):
        import sysconfig
        self.assertEqual(HAS_STATS,
                         bool(sysconfig.get_config_var("WITH_PYMALLOC"))
                         and not support.Py_GIL_DISABLED)

    @unittest.skipIf(HAS_STATS, "has pymalloc")
    def test_no_arenas_without_pymalloc(self):
        util.child_says(self, "0", """
            import _tracemalloc as engine
            engine.start()
            keep = [bytes(400) for _ in range(50_000)]
            def deep(n): return n and deep(n - 1)
            deep(500)
            print(engine.get_arena_size())
            """)


class InternedTests(unittest.TestCase):
    def test_length(self):
        # The same strings as sys counts.  A collection that comes due with the
        # first answer would let some of them die before the second.
        gc.collect()
        self.enterContext(support.disable_gc())
        self.assertEqual(engine.get_unicode_interned()[1],
                         sys.getunicodeinternedsize())

    def test_grows_with_strings(self):
        # In a process of its own: the dictionary never becomes smaller.
        util.child_says(self, "True True True True", """
            import sys, _tracemalloc as engine
            size, length = engine.get_unicode_interned()
            # More than a dictionary has in reserve, whatever its length was.
            new = 20_000 + 3 * length
            keep = [sys.intern("a long and otherwise unused string " * 20 + str(n))
                    for n in range(new)]
            more_size, more_length = engine.get_unicode_interned()
            # Strings of 700 characters are not part of it.
            print(more_length - length == new, more_size > size,
                  more_size - size < 200 * new, end=" ")
            del keep
            # These are mortal but where there is no GIL.
            print(not sys._is_gil_enabled()
                  or engine.get_unicode_interned()[1] <= length + 10)
            """)

    def test_size_is_that_of_a_dict(self):
        # A dict of as many strings is as large as ours, but for the table of
        # static strings and the room that either has in reserve.
        size, length = engine.get_unicode_interned()
        like = dict.fromkeys(map(str, range(length)))
        self.assertGreater(size, sys.getsizeof(like) / 5)
        self.assertLess(size, sys.getsizeof(like) * 5)

    @support.cpython_only
    def test_other_interpreter(self):
        code = """
            import _interpreters, _tracemalloc as engine, sys
            keep = [sys.intern(f"only in the main one {n}")
                    for n in range(30_000)]
            for config in "isolated", "legacy":
                other = _interpreters.create(config)
                trouble = _interpreters.run_string(other,
                    "import _tracemalloc as e; "
                    "print(e.get_unicode_interned()[1] > 30_000, end=' ')")
                assert trouble is None, trouble
                _interpreters.destroy(other)
            print(engine.get_unicode_interned()[1] > 30_000)
            """
        util.child_says(self, "False True True", code)


class CollectorTests(unittest.TestCase):
    def test_as_many_as_the_collector_lists(self):
        with support.disable_gc():
            self.check_count()

    def check_count(self):
        gc.collect()
        listed = len(gc.get_objects())
        self.assertAlmostEqual(engine._gc_objects(), listed, delta=50)
        keep = [[] for _ in range(10_000)]
        self.assertAlmostEqual(engine._gc_objects(), listed + 10_000, delta=50)
        del keep

    def test_without_frozen_ones(self):
        util.child_says(self, "True", """
            import gc, _tracemalloc as engine
            keep = [[] for _ in range(10_000)]
            gc.freeze()
            print(abs(engine._gc_objects() - len(gc.get_objects())) < 50)
            """)


class VersionTests(unittest.TestCase):
    def ask(self, *options: str) -> list[str]:
        return subprocess.run([sys.executable, *options], check=True,
                              capture_output=True, text=True,
                              env=util.clean_env()).stdout.splitlines()

    def test_command_line(self):
        version = "Python " + sys.version.partition(" ")[0]
        self.assertEqual(self.ask("-V"), [version])
        self.assertEqual(self.ask("--version"), [version])
        self.assertEqual(self.ask("-VV"),
                         [*f"Python {sys.version}".splitlines(),
                          f"tracemalloc engine {engine.__version__}"])

    def test_package(self):
        util.child_says(self, engine.__version__, """
            import tracemalloc
            print(tracemalloc.__version__)
            """)
        self.assertRegex(engine.__version__, r"\A\d+(\.\d+)+\Z")


if __name__ == "__main__":
    unittest.main()
