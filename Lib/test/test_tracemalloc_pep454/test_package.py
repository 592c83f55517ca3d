"""The module as a whole: its names, documents, cost, and last moments."""

import inspect
import os
import pydoc
import subprocess
import sys
import tracemalloc
import unittest
from test.test_tracemalloc_pep454 import util

FUNCTIONS = """
    cancel_tasks clear_traces disable enable get_stats get_tasks is_enabled
    get_traceback_limit get_object_address get_object_trace get_trace
    get_traces set_traceback_limit
    add_filter add_include_filter add_exclude_filter clear_filters get_filters
    get_allocated_blocks get_arena_size get_process_memory
    get_traced_memory get_tracemalloc_memory get_unicode_interned
    start stop is_tracing take_snapshot get_object_traceback reset_peak
    set_fork_policy get_fork_policy register unregister
    set_sample_interval get_sample_interval
""".split()
CLASSES = """
    DisplayTop DisplayTopTask Filter GroupedStats Metric Snapshot StatsDiff
    Task TakeSnapshotTask
    BaseFilter DomainFilter Estimate Frame Statistic StatisticDiff Trace
    Traceback
""".split()
METHODS = {
    "DisplayTop": "display display_snapshot display_top_diff "
                  "display_top_stats",
    "DisplayTopTask": "display schedule cancel set_delay",
    "Filter": "match match_filename match_lineno match_traceback",
    "GroupedStats": "compare_to",
    "Snapshot": "add_gc_metrics add_metric add_process_memory_metrics "
                "add_pymalloc_metrics add_tracemalloc_metrics "
                "add_unicode_metrics apply_filters create get_metric load "
                "top_by write dump statistics compare_to filter_traces",
    "StatsDiff": "sort",
    "Task": "call cancel get_delay get_memory_threshold schedule set_delay "
            "set_memory_threshold is_scheduled",
    "TakeSnapshotTask": "take_snapshot schedule cancel set_delay",
    "Traceback": "format",
}


def run(code, *options, **environment):
    environ = {name: value for name, value in os.environ.items()
               if not name.startswith("PYTHON") or name == "PYTHONPATH"}
    return subprocess.run([sys.executable, *options, "-c", code], timeout=60,
                          capture_output=True, text=True,
                          env={**environ, **environment})


class NameTests(unittest.TestCase):
    def test_version(self):
        self.assertEqual(tracemalloc.__version__, "1.0")
        self.assertIs(type(tracemalloc.__version__), str)

    def test_all(self):
        names = {*FUNCTIONS, *CLASSES}
        if hasattr(tracemalloc, "get_pymalloc_stats"):
            names.add("get_pymalloc_stats")
        self.assertEqual(set(tracemalloc.__all__), names)
        self.assertEqual(len(tracemalloc.__all__), len(names))
        self.assertLessEqual(names, set(dir(tracemalloc)))

    def test_kinds(self):
        for name in FUNCTIONS:
            self.assertTrue(callable(getattr(tracemalloc, name)), name)
        for name in CLASSES:
            self.assertIsInstance(getattr(tracemalloc, name), type, name)
        for name, methods in METHODS.items():
            for method in methods.split():
                self.assertTrue(
                    callable(getattr(getattr(tracemalloc, name), method)))

    def test_star(self):
        space = {}
        exec("from tracemalloc import *", space)
        self.assertLessEqual(set(tracemalloc.__all__), set(space))

    def test_no_such_name(self):
        with self.assertRaisesRegex(AttributeError, "module 'tracemalloc' has "
                                                    "no attribute 'nothing'"):
            tracemalloc.nothing
        self.assertFalse(hasattr(tracemalloc, "__wrapped__"))
        with self.assertRaises(ImportError):
            exec("from tracemalloc import nothing")

    def test_documented(self):
        # Every public name says what it is for.
        self.assertTrue(tracemalloc.__doc__)
        for name in tracemalloc.__all__:
            thing = getattr(tracemalloc, name)
            self.assertTrue(inspect.getdoc(thing), name)
            if not isinstance(thing, type):
                continue
            self.assertTrue(thing.__doc__, name)
            for attribute, member in vars(thing).items():
                if attribute[0] != "_" and (callable(member) or isinstance(
                        member, (property, classmethod, staticmethod))):
                    self.assertTrue(inspect.getdoc(member),
                                    f"{name}.{attribute}")

    def test_signatures(self):
        for name in tracemalloc.__all__:
            inspect.signature(getattr(tracemalloc, name))

    def test_help(self):
        text = pydoc.plain(pydoc.render_doc(tracemalloc))
        for name in tracemalloc.__all__:
            self.assertIn(name, text)
        # The inner build does not show.
        for word in ("_snapshot", "_filters", "_HOMES", "functools"):
            self.assertNotIn(f"tracemalloc.{word}", text)
        for word in ("object at 0x", "_Memory", "$module"):
            self.assertNotIn(word, text)

    def test_usable_as_base_classes(self):
        for name in CLASSES:
            cls = getattr(tracemalloc, name)
            if cls is tracemalloc.Estimate:     # as other named tuples in C
                continue
            self.assertTrue(issubclass(type("Mine", (cls,), {}), cls))


class ImportTests(unittest.TestCase):
    def test_little_is_loaded(self):
        done = run("import sys; before = set(sys.modules); import tracemalloc;"
                   "print(*sorted(set(sys.modules) - before))", "-I")
        self.assertEqual(done.stderr, "")
        # Nothing from elsewhere, and only what 3.13 has, too.
        self.assertEqual(done.stdout.split(), [
            "_tracemalloc", "tracemalloc", *(
                f"tracemalloc._{name}" for name in (
                    "filters", "frames", "plain", "snapshot", "stats",
                    "views"))])

    def test_what_3_13_has_loads_nothing_more(self):
        # ... so that it does not add to the memory that is being watched
        done = run("import sys, tracemalloc as t; before = set(sys.modules);"
                   "t.start(2); x = []; t.get_object_traceback(x);"
                   "t.get_traced_memory(); t.get_tracemalloc_memory();"
                   "a = t.take_snapshot(); b = t.take_snapshot();"
                   "a = a.filter_traces([t.Filter(False, t.__file__)]);"
                   "[str(s) for s in b.compare_to(a, 'lineno')];"
                   "[str(s) for s in b.statistics('traceback')];"
                   "[str(s) for s in b.traces]; t.is_tracing(); t.stop();"
                   "print(*sorted(set(sys.modules) - before))", "-I")
        self.assertEqual((done.stdout, done.stderr), ("\n", ""))

    def test_submodules_load_by_themselves(self):
        folder = os.path.dirname(tracemalloc.__file__)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py") and not name.startswith("__"):
                with self.subTest(name=name):
                    done = run(f"import tracemalloc.{name[:-3]}", "-I")
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_in_a_thread_while_others_do(self):
        done = run(
            "import sys, threading\n"
            "import tracemalloc\n"
            "errors = []\n"
            "def work(name):\n"
            "    try: getattr(tracemalloc, name)\n"
            "    except BaseException as error: errors.append(error)\n"
            "threads = [threading.Thread(target=work, args=(name,))\n"
            "           for name in tracemalloc.__all__ * 3]\n"
            "for thread in threads: thread.start()\n"
            "for thread in threads: thread.join()\n"
            "print(errors)\n", "-I")
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))


class WarningTests(unittest.TestCase):
    CODE = ("import warnings, sys\n"
            "class Thing:\n"
            "    def __del__(self, warn=warnings.warn, kind=ResourceWarning):\n"
            "        warn('left', kind, source=self)\n")

    def test_traceback_of_the_source(self):
        done = run(self.CODE + "t = Thing()\ndel t\n", "-Wd", "-X",
                   "tracemalloc=3")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"Object allocated at \(most recent "
                                      r"call last\):\n  File .*, lineno 5")

    def test_late(self):
        for keep in ("thing = Thing()", "sys.thing = Thing()",
                     "import builtins; builtins.thing = Thing()",
                     "import tracemalloc; sys.thing = Thing()",
                     "import tracemalloc; tracemalloc.thing = Thing()",
                     "import tracemalloc; tracemalloc.Snapshot.x = Thing()"):
            with self.subTest(keep=keep):
                done = run(self.CODE + keep, "-Wd", "-X", "tracemalloc")
                self.assertEqual(done.returncode, 0)
                for word in ("Traceback", "AttributeError", "ImportError"):
                    self.assertNotIn(word, done.stderr)

    def test_snapshot_at_exit(self):
        done = run("import atexit, tracemalloc as t\n"
                   "atexit.register(lambda: print(len(t.take_snapshot()"
                   ".statistics('filename')) > 0))\n"
                   "t.start()\n"
                   "keep = [bytearray(99)]\n")
        self.assertEqual((done.stdout, done.stderr), ("True\n", ""))


class TypeTests(util.Untraced):
    """What 3.13 promises and its own tests do not hold."""

    def test_frames_are_ordered(self):
        frames = [tracemalloc.Frame(pair) for pair in
                  (("b", 1), ("a", 2), ("a", 1))]
        self.assertEqual([str(f) for f in sorted(frames)],
                         ["a:1", "a:2", "b:1"])
        self.assertTrue(frames[0] > frames[1] >= frames[1])
        self.assertFalse(frames[0] < frames[1])
        self.assertNotEqual(frames[0], ("b", 1))
        self.assertRaises(TypeError, lambda: frames[0] < 5)
        self.assertRaises(TypeError, lambda: frames[0] <= tracemalloc.Traceback(
            (("a", 1),)))

    def test_tracebacks(self):
        one = tracemalloc.Traceback((("b", 2), ("a", 1)), 7)
        self.assertEqual([str(f) for f in one], ["a:1", "b:2"])
        self.assertEqual(one, tracemalloc.Traceback((("b", 2), ("a", 1))))
        self.assertEqual(hash(one),
                         hash(tracemalloc.Traceback((("b", 2), ("a", 1)))))
        self.assertIn(one[1], one)
        self.assertEqual(one.index(one[1]), 1)
        self.assertLess(tracemalloc.Traceback((("a", 1),)), one)
        self.assertRaises(AttributeError, setattr, one, "total_nframe", 1)

    def test_format(self):
        frames = [(f"no{n}.py", n) for n in range(5)]
        one = tracemalloc.Traceback(frames)
        lines = [f'  File "no{n}.py", line {n}' for n in (4, 3, 2, 1, 0)]
        for limit, expected in ((None, lines), (2, lines[-2:]), (-2, lines[:3]),
                                (0, []), (99, lines), (-99, [])):
            self.assertEqual(one.format(limit), expected)
            self.assertEqual(one.format(limit, True), expected[::-1])

    def test_sizes_in_text(self):
        for size, expected in (
                (0, "0 B"), (10239, "10239 B"), (10240, "10.0 KiB"),
                (102399, "100.0 KiB"), (102400, "100 KiB"), (10 << 20, "10.0 MiB"),
                (1 << 40, "1024 GiB"), (1 << 60, "1048576 TiB"),
                (1.5, "2 B")):
            trace = tracemalloc.Trace((0, size, (("a", 1),), 1))
            self.assertEqual(str(trace), f"a:1: {expected}")

    def test_traces(self):
        rows = [(0, n, (("a", n),), 1) for n in range(5)]
        for traces in (tracemalloc.Snapshot(rows, 1).traces,
                       tracemalloc.Snapshot(rows, 1).filter_traces(
                           [tracemalloc.Filter(True, "a")]).traces):
            self.assertEqual([t.size for t in traces], [0, 1, 2, 3, 4])
            self.assertEqual([t.size for t in reversed(traces)],
                             [4, 3, 2, 1, 0])
            self.assertEqual(traces[-1].size, 4)
            self.assertEqual([t.size for t in traces[1:-1:2]], [1, 3])
            self.assertRaises(IndexError, traces.__getitem__, 5)
            self.assertRaises(IndexError, traces.__getitem__, -6)
            self.assertRaises(TypeError, traces.__getitem__, "0")
            self.assertIn(traces[2], traces)
            self.assertNotIn(tracemalloc.Trace(rows[0][:3]), traces)
            self.assertEqual(traces.index(traces[3]), 3)
            self.assertEqual(traces.count(traces[3]), 1)
            self.assertEqual(repr(traces), "<Traces len=5>")
            self.assertEqual(traces, tracemalloc.Snapshot(rows, 1).traces)
            self.assertNotEqual(traces,
                                tracemalloc.Snapshot(rows[:4], 1).traces)
            self.assertNotEqual(traces, rows)
            self.assertRaises(TypeError, hash, traces)
            self.assertEqual(list(traces._traces), rows)

    def test_messages(self):
        snapshot = tracemalloc.Snapshot([], 1)
        for arguments, message in (
                (("file",), "unknown key_type: 'file'"),
                ((None,), "unknown key_type: None"),
                (("traceback", True), "cumulative mode cannot by used with "
                                      "key type 'traceback'")):
            for method in (snapshot.statistics,
                           lambda *a: snapshot.compare_to(snapshot, *a)):
                with self.assertRaises(ValueError) as caught:
                    method(*arguments)
                self.assertEqual(str(caught.exception), message)

    def test_equal_sizes_are_sorted_by_place(self):
        rows = [(0, 5, ((name, line), ("m", 1)), 2)
                for name, line in (("a", 2), ("b", 1), ("a", 1))]
        snapshot = tracemalloc.Snapshot(rows, 2)
        self.assertEqual([str(s.traceback) for s in
                          snapshot.statistics("lineno")], ["b:1", "a:2", "a:1"])
        self.assertEqual([str(s.traceback[-1]) for s in
                          snapshot.statistics("traceback")],
                         ["b:1", "a:2", "a:1"])

    def test_another_kind_of_old_snapshot(self):
        # Anything with the method that 3.13 asks for will do.
        class Old:
            def _group_by(self, key_type, cumulative):
                place = tracemalloc.Traceback((("a", 1),))
                return {place: tracemalloc.Statistic(place, 7, 2)}

        snapshot = tracemalloc.Snapshot([(0, 5, (("a", 1),), 1)], 1)
        (diff,) = snapshot.compare_to(Old(), "lineno")
        self.assertEqual((diff.size_diff, diff.count_diff), (-2, -1))


if __name__ == "__main__":
    unittest.main()
