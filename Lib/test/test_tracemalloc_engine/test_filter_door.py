"""Live filters through the C door: what is recorded at all."""

import sys
import unittest

import _tracemalloc as engine
from test.test_tracemalloc_engine import util

ANY_LINE, ANY_DOMAIN = 0, -1


def rule(include: bool, pattern: str | None, lineno: int = ANY_LINE,
         every: bool = False, domain: int = ANY_DOMAIN) -> tuple:
    """A filter as _set_filters() takes it."""
    return include, pattern, lineno, every, domain


def keep(*args, **kwargs) -> tuple:
    """An inclusive one."""
    return rule(True, *args, **kwargs)


def drop(*args, **kwargs) -> tuple:
    """An exclusive one."""
    return rule(False, *args, **kwargs)


# Functions that allocate under file names of their own.
SOURCE = """
def make(size=5000):
    return bytearray(size)
def call(func, *args):
    return func(*args)
"""
MAKE_LINE = 3


def place(name: str):
    """Functions make() and call() of the file `name`."""
    names = util.made_in(name, SOURCE)
    return names["make"], names["call"]


class FilterTests(util.Tracing):
    limit = 10

    def setUp(self):
        super().setUp()
        self.a, self.call_a = place("dir/a.py")
        self.b, self.call_b = place("dir/b.py")

    def traced(self, func, *args) -> bool:
        """Whether the block that a call makes is traced."""
        return engine.get_object_trace(func(*args)) is not None

    def both(self) -> tuple[bool, bool]:
        """Whether blocks of a.py and of b.py are traced."""
        return self.traced(self.a), self.traced(self.b)


class VerdictTests(FilterTests):
    def test_none(self):
        engine._set_filters([])
        self.assertEqual(self.both(), (True, True))

    def test_exclude(self):
        engine._set_filters([drop("dir/a.py")])
        self.assertEqual(self.both(), (False, True))
        sizes = [trace.size for trace in util.traces_of("dir/a.py")]
        self.assertLess(sum(sizes), 5000)       # the functions themselves

    def test_include(self):
        engine._set_filters([keep("dir/a.py")])
        self.assertEqual(self.both(), (True, False))
        engine.clear_traces()
        block = self.a()
        self.assertEqual({t.frames[0][0] for t in
                          map(util.Traced._make, engine._get_traces())},
                         {"dir/a.py"})
        del block

    def test_one_inclusive_is_enough(self):
        engine._set_filters([keep("dir/a.py"), keep("dir/c.py"),
                             keep("*/b.py")])
        self.assertEqual(self.both(), (True, True))

    def test_one_exclusive_is_enough(self):
        engine._set_filters([drop("dir/c.py"), drop("*b*"), drop("x")])
        self.assertEqual(self.both(), (True, False))

    def test_both_kinds(self):
        for order in (1, -1):
            rules = [keep("dir/*"), drop("*/b.py")][::order]
            with self.subTest(rules=rules):
                engine._set_filters(rules)
                self.assertEqual(self.both(), (True, False))
                self.assertFalse(self.traced(place("c.py")[0]))

    def test_line(self):
        engine._set_filters([drop("dir/a.py", MAKE_LINE)])
        self.assertEqual(self.both(), (False, True))
        engine._set_filters([drop("dir/a.py", MAKE_LINE + 1)])
        self.assertEqual(self.both(), (True, True))
        engine._set_filters([keep("dir/*", MAKE_LINE + 1)])
        self.assertEqual(self.both(), (False, False))

    def test_patterns(self):
        for pattern, hit in (
                ("*", True), ("dir/?.py", True), ("dir/[ab].py", True),
                ("dir/[!a].py", False), ("a.py", False), ("dir/a.py*", True),
                ("DIR/A.PY", False), ("dir/a.pyc", True), ("dir/a.pyo", True),
                ("", False), ("*" * 100_000 + "a.py", True)):
            with self.subTest(pattern=pattern[:20]):
                engine._set_filters([drop(pattern)])
                self.assertEqual(self.traced(self.a), not hit)

    def test_names_of_any_kind(self):
        for name in "caf\xe9.py", "\u0434.py", "\U0001f40d.py", "\udc80.py":
            make, _ = place(name)
            for pattern in name, "*" + name[-4:], "?" * len(name):
                with self.subTest(name=name, pattern=pattern):
                    engine._set_filters([drop(pattern)])
                    self.assertFalse(self.traced(make))
            engine._set_filters([drop("\U0001f41f" + name)])
            self.assertTrue(self.traced(make))

    def test_compiled_files_count_as_source(self):
        for ending in "pyc", "pyo":
            engine._set_filters([drop("dir/c.py")])
            self.assertFalse(self.traced(place("dir/c." + ending)[0]))

    def test_unknown_file(self):
        # Made while no Python code runs: kept unless something is included.
        code = """
            import _tracemalloc as engine, _testcapi
            engine.start()
            for rules in [], [(False, "*", 0, True, -1)], [(True, "*", 0, True, -1)]:
                engine._set_filters(rules)
                _testcapi.tracemalloc_track(0, 1 << 40, 5, 1)
                print(engine.get_trace(1 << 40) is not None, end=" ")
                engine.clear_traces()
            """
        try:
            import _testcapi
        except ImportError:
            self.skipTest("needs _testcapi")
        del _testcapi
        util.child_says(self, "True False True", code)


class FrameTests(FilterTests):
    def test_most_recent_only(self):
        engine._set_filters([drop("dir/b.py")])
        self.assertTrue(self.traced(self.call_b, self.a))
        self.assertFalse(self.traced(self.call_a, self.b))

    def test_every_frame(self):
        engine._set_filters([drop("dir/b.py", every=True)])
        self.assertFalse(self.traced(self.call_b, self.a))
        self.assertFalse(self.traced(self.call_a, self.b))
        self.assertTrue(self.traced(self.call_a, self.a))
        engine._set_filters([keep("dir/b.py", every=True)])
        self.assertTrue(self.traced(self.call_b, self.a))
        self.assertFalse(self.traced(self.call_a, self.a))

    def test_file_and_line_of_the_same_frame(self):
        engine._set_filters([drop("dir/b.py", MAKE_LINE, every=True)])
        self.assertTrue(self.traced(self.call_b, self.a))
        self.assertFalse(self.traced(self.call_a, self.b))

    def test_frames_beyond_the_limit_are_not_seen(self):
        engine._set_filters([drop("dir/b.py", every=True)])
        for limit, kept in (1, True), (2, True), (3, False), (100, False):
            engine.set_traceback_limit(limit)
            with self.subTest(limit=limit):
                self.assertEqual(
                    self.traced(self.call_b, self.call_a, self.a), kept)

    def test_very_deep(self):
        engine.set_traceback_limit(1000)
        engine._set_filters([drop("dir/b.py", every=True)])
        deep = lambda: util.below(200, self.a)
        self.assertFalse(self.traced(self.call_b, deep))
        self.assertTrue(self.traced(self.call_a, deep))


class ChangeTests(FilterTests):
    """Verdicts are remembered; a change must reach every memory of one."""

    def test_changes_reach_known_places(self):
        def same_place():
            return self.both()
        for rules, wanted in (
                ([], (True, True)), ([drop("*a.py")], (False, True)),
                ([keep("*a.py")], (True, False)), ([], (True, True)),
                ([drop("*")], (False, False)), ([], (True, True))):
            engine._set_filters(rules)
            self.assertEqual(same_place(), wanted)

    def test_changes_within_a_running_frame(self):
        # Neither the frame nor the instruction is a new one.
        seen = []
        for i in range(6):
            engine._set_filters([drop(__file__)] if i % 2 else [])
            seen.append(engine.get_object_trace(bytearray(5000)) is not None)
        self.assertEqual(seen, [True, False] * 3)

    def test_many_changes(self):
        # More than any counter of changes that is kept in a few bits.
        for i in range(300):
            engine._set_filters([drop("*a.py" if i % 2 else "*b.py")])
            self.assertEqual(self.both(), (not i % 2, bool(i % 2)), i)

    def test_change_among_many_without_looking(self):
        # A verdict must not come alive again when a counter has gone round.
        for changes in range(55, 135):
            engine._set_filters([drop("*a.py")])
            self.assertFalse(self.traced(self.a))
            for _ in range(changes - 1):
                engine._set_filters([drop("*b.py")])
            self.assertTrue(self.traced(self.a), changes)

    def test_old_traces_stay(self):
        block = self.a()
        engine._set_filters([drop("*")])
        self.assertIsNotNone(engine.get_object_trace(block))
        size, _ = engine.get_traced_memory()
        self.assertGreaterEqual(size, 5000)
        del block
        self.assertLessEqual(engine.get_traced_memory()[0], size - 5000)

    def test_survive_clear_stop_and_limit(self):
        engine._set_filters([drop("*a.py")])
        engine.clear_traces()
        self.assertEqual(self.both(), (False, True))
        engine.set_traceback_limit(3)
        self.assertEqual(self.both(), (False, True))
        engine.stop()
        engine.start(5)
        self.assertEqual(self.both(), (False, True))
        engine.stop()
        engine._set_filters([drop("*b.py")])
        engine.start(5)
        self.assertEqual(self.both(), (True, False))

    def test_other_threads(self):
        # A thread that waits in known code meets new filters, too.
        import threading
        go, done = threading.Semaphore(0), threading.Semaphore(0)
        seen = []

        def work():
            for _ in range(4):
                go.acquire()
                seen.append(self.both())
                done.release()

        thread = threading.Thread(target=work)
        thread.start()
        for rules in [], [drop("*a.py")], [keep("*a.py")], []:
            engine._set_filters(rules)
            go.release()
            done.acquire()
        thread.join()
        self.assertEqual(seen, [(True, True), (False, True), (True, False),
                                (True, True)])

    def test_changes_while_threads_allocate(self):
        import threading
        stop = threading.Event()

        def work():
            while not stop.is_set():
                [self.a(600) for _ in range(20)]
                [self.b(60) for _ in range(20)]

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for i in range(200):
                engine._set_filters([drop(f"*{i}"), drop("*a.py")][:i % 3])
                util.below(i % 7, self.a)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.check_engine()


class CostTests(FilterTests):
    def test_ignored_blocks_cost_no_memory(self):
        engine._set_filters([drop("dir/a.py")])
        keep_alive = [self.a(40) for _ in range(1000)]     # all that is to learn
        before, _ = engine._memory()
        traced, _ = engine.get_traced_memory()
        # In a list that exists, so that it alone is here.
        more = [None] * 100_000
        extra = sys.getsizeof(more)
        for i in range(len(more)):
            more[i] = self.a(40)
        size, _ = engine._memory()
        # Slots of pools come with the pool, whatever is in it; the list, the
        # integers and their like are traced.
        self.assertLess(size - before, 1_500_000)
        self.assertLess(engine.get_traced_memory()[0] - traced,
                        extra + 200_000)
        engine._set_filters([])
        last = [self.a(4000) for _ in range(50_000)]
        self.assertGreater(engine._memory()[0] - size, 500_000)
        del keep_alive, last

    def test_nothing_included(self):
        engine._set_filters([keep("no such file")])
        engine.clear_traces()
        before, _ = engine._memory()
        blocks = [bytearray(i) for i in range(20_000)]
        self.assertEqual(engine.get_traced_memory()[0], 0)
        self.assertEqual(engine._get_traces(), [])
        self.assertLess(engine._memory()[0] - before, 200_000)
        del blocks

    def test_resized_in_excluded_code(self):
        # The block belongs to who resized it last, as without filters.
        array = self.a(10_000)
        grow = util.made_in("dir/b.py", "def grow(x): x.extend(bytes(50_000))")
        engine._set_filters([drop("dir/b.py")])
        size, _ = engine.get_traced_memory()
        grow["grow"](array)
        self.assertLessEqual(engine.get_traced_memory()[0], size - 9_000)
        self.check_engine()


class FreelistTests(FilterTests):
    """An object taken from a free list is a block that was allocated long ago;
    it belongs to the code that uses it now."""

    SOURCE = """
def objects():
    return [x + 0.25 for x in range(80)]
"""

    def setUp(self):
        super().setUp()
        self.objects_a = util.made_in("dir/a.py", self.SOURCE)["objects"]
        self.objects_b = util.made_in("dir/b.py", self.SOURCE)["objects"]
        # The free list may hold what was made before tracing began: empty it.
        self.held = [x + 0.5 for x in range(1000)]

    def count(self, objects) -> tuple[int, int]:
        """How many belong to a.py, and how many are traced at all."""
        traces = [engine.get_object_trace(x) for x in objects]
        return (sum(t is not None and t[1][0][0] == "dir/a.py"
                    for t in traces),
                sum(t is not None for t in traces))

    def test_reused_in_excluded_code(self):
        # (Afterwards their size is not known any more, so that they are not
        # traced in a.py either, as after an allocation in b.py.)
        engine._set_filters([drop("dir/b.py")])
        for i in range(5):
            mine = self.objects_a()
            ours, traced = self.count(mine)
            self.assertEqual(ours, traced)
            if i == 0:
                self.assertEqual(ours, 80)
            del mine
            theirs = self.objects_b()
            self.assertEqual(self.count(theirs), (0, 0))
            del theirs
            self.check_engine()

    def test_bytes_go_with_them(self):
        def work(objects):
            size, _ = engine.get_traced_memory()
            keep_alive = objects()
            grown = engine.get_traced_memory()[0] - size
            del keep_alive
            return grown
        engine._set_filters([drop("dir/b.py")])
        for _ in range(3):
            work(self.objects_a)
            self.assertLess(work(self.objects_b), 80 * 16)

    def test_back_in_included_code(self):
        # What was not recorded when it was allocated has no known size, so
        # that it is not traced now either, or traced as ours; never as theirs.
        engine._set_filters([drop("dir/b.py")])
        theirs = self.objects_b()
        del theirs
        mine = self.objects_a()
        ours, traced = self.count(mine)
        self.assertEqual(ours, traced)
        del mine

    def test_cleared_filters(self):
        engine._set_filters([drop("dir/b.py")])
        mine = self.objects_a()
        del mine
        engine._set_filters([])
        theirs = self.objects_b()
        ours, traced = self.count(theirs)
        self.assertEqual(ours, 0)
        self.assertGreater(traced, 0)
        del theirs


class DomainTests(FilterTests):
    ADDRESS = 1 << 40

    def setUp(self):
        super().setUp()
        try:
            from _testcapi import tracemalloc_track, tracemalloc_untrack
        except ImportError:
            self.skipTest("needs _testcapi")
        self.track, self.untrack = tracemalloc_track, tracemalloc_untrack

    def domains(self) -> list[int]:
        """Which of some domains are traced, by domain."""
        found = []
        for domain in 0, 1, 7, 2**32 - 1:
            self.track(domain, self.ADDRESS, 100)
            if any(t[0] == domain and t[1] == 100
                   for t in engine._get_traces()
                   if domain or engine.get_trace(self.ADDRESS)):
                found.append(domain)
            self.untrack(domain, self.ADDRESS)
        return found

    def test_all(self):
        self.assertEqual(self.domains(), [0, 1, 7, 2**32 - 1])

    def test_exclude_domain(self):
        engine._set_filters([drop(None, domain=7)])
        self.assertEqual(self.domains(), [0, 1, 2**32 - 1])
        self.assertEqual(self.both(), (True, True))
        engine._set_filters([drop(None, domain=0)])
        self.assertEqual(self.domains(), [1, 7, 2**32 - 1])
        self.assertEqual(self.both(), (False, False))

    def test_include_domain(self):
        engine._set_filters([keep(None, domain=2**32 - 1)])
        self.assertEqual(self.domains(), [2**32 - 1])
        self.assertEqual(self.both(), (False, False))

    def test_domain_and_pattern(self):
        engine._set_filters([drop(__file__, domain=1),
                             drop("*a.py", domain=0), drop("*", domain=5)])
        self.assertEqual(self.domains(), [0, 7, 2**32 - 1])
        self.assertEqual(self.both(), (False, True))

    def test_pattern_alone_means_all_domains(self):
        engine._set_filters([drop(__file__)])
        self.assertEqual(self.domains(), [])

    def test_no_such_domain(self):
        for domain in 2**32, 2**63, 2**100:
            engine._set_filters([drop(None, domain=domain)])
            self.assertEqual(self.domains(), [0, 1, 7, 2**32 - 1])
            engine._set_filters([keep(None, domain=domain)])
            self.assertEqual(self.domains(), [])

    def test_pattern_none(self):
        engine._set_filters([drop(None)])
        self.assertEqual(self.domains(), [])
        self.assertEqual(self.both(), (False, False))
        engine._set_filters([keep(None)])
        self.assertEqual(self.both(), (True, True))


class ArgumentTests(FilterTests):
    def test_any_iterable(self):
        for rules in ((drop("*a.py"),), iter([drop("*a.py")]),
                      {drop("*a.py"): 1}):
            engine._set_filters([])
            self.assertIsNone(engine._set_filters(rules))
            self.assertEqual(self.both(), (False, True))

    def test_wrong_arguments(self):
        engine._set_filters([drop("*a.py")])
        for rules in (None, 5, [5], [None], ["abcde"], [()],
                      [drop("x")[:4]], [(*drop("x"), 1)], [drop(b"x")],
                      [drop(5)], [drop("x", "1")], [drop("x", 1.5)],
                      [drop("x", domain="1")], [drop("x"), 7]):
            with self.subTest(rules=rules):
                self.assertRaises((TypeError, ValueError),
                                  engine._set_filters, rules)
        self.assertRaises(TypeError, engine._set_filters)
        self.assertRaises(TypeError, engine._set_filters, [], [])
        # What was in force still is.
        self.assertEqual(self.both(), (False, True))

    def test_errors_of_others_pass(self):
        class Bad:
            def __bool__(self):
                raise ZeroDivisionError
        self.assertRaises(ZeroDivisionError, engine._set_filters,
                          [drop("x"), (Bad(), "x", 0, False, -1)])
        self.assertRaises(ZeroDivisionError, engine._set_filters,
                          (1 // 0 for _ in [1]))

    def test_numbers(self):
        for lineno in None, 0, -1, -2**100:
            engine._set_filters([drop("*a.py", lineno)])
            self.assertEqual(self.both(), (False, True))
        for lineno in 2**31, 2**32 - 1, 2**32, 2**32 + MAKE_LINE, 2**100:
            engine._set_filters([drop("*a.py", lineno)])
            self.assertEqual(self.both(), (True, True))
        for domain in None, -1, -2, -2**100:
            engine._set_filters([drop("*a.py", domain=domain)])
            self.assertEqual(self.both(), (False, True))

    def test_no_reference_is_kept(self):
        pattern = "".join(["no such ", "file"])
        rules = [drop(pattern)]
        before = sys.getrefcount(pattern)
        engine._set_filters(rules)
        self.assertEqual(sys.getrefcount(pattern), before)

    def test_memory_of_filters(self):
        before = None
        for i in range(20):
            engine._set_filters([drop("*x?y[ab]*" * 100)] * 50)
            full, _ = engine._memory()
            engine._set_filters([])
            empty, _ = engine._memory()
            self.assertGreater(full, empty + 50_000)
            if i == 2:
                before = empty
        self.assertLess(engine._memory()[0] - before, 20_000)

    def test_no_memory(self):
        # Each allocation of the change fails in turn: it is made, or not.
        engine._set_filters([drop("*b.py")])
        for n in range(1, 100):
            engine._fail_after(n)
            try:
                engine._set_filters([drop("*a.py"), drop("a?[b]*c")])
            except MemoryError:
                engine._fail_after(0)
                self.assertEqual(self.both(), (True, False))
            else:
                engine._fail_after(0)
                break
        self.assertGreater(n, 2)
        self.assertEqual(self.both(), (False, True))


if __name__ == "__main__":
    unittest.main()
