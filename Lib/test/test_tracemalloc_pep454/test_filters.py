"""Filter, DomainFilter, filters of one's own, and the live filters."""

import copy
import os
import pathlib
import pickle
import threading
import tracemalloc
import unittest
from tracemalloc import BaseFilter, DomainFilter, Filter
from test.test_tracemalloc_pep454 import util


class AttributeTests(unittest.TestCase):
    def check(self, filter, include, pattern, lineno, traceback, domain):
        for name, value in (
                ("include", include), ("inclusive", include),
                ("pattern", pattern), ("filename_pattern", pattern),
                ("lineno", lineno), ("traceback", traceback),
                ("all_frames", traceback), ("domain", domain)):
            self.assertEqual(getattr(filter, name), value, name)

    def test_draft_arguments(self):
        self.check(Filter(True, "a.py"), True, "a.py", None, False, None)
        self.check(Filter(False, "a*", 5, True), False, "a*", 5, True, None)
        self.check(Filter(include=False, pattern="b", lineno=3,
                          traceback=True), False, "b", 3, True, None)

    def test_arguments_of_3_13(self):
        self.check(Filter(False, "a.py", 5, True, 7),
                   False, "a.py", 5, True, 7)
        self.check(Filter(inclusive=True, filename_pattern="c.py", lineno=2,
                          all_frames=True, domain=4),
                   True, "c.py", 2, True, 4)

    def test_mixed_arguments(self):
        self.check(Filter(True, filename_pattern="c.py", traceback=True),
                   True, "c.py", None, True, None)

    def test_wrong_arguments(self):
        for args, kwargs in (
                ((), {}), ((True,), {}), ((), {"pattern": "a"}),
                ((True, "a"), {"inclusive": False}),
                ((True, "a"), {"filename_pattern": "a"}),
                ((True, "a", 1, False), {"all_frames": True}),
                ((True, 5), {}), ((True, b"a"), {}), ((True, None), {}),
                ((True, "a", "5"), {}), ((True, "a", 1.5), {}),
                ((True, "a"), {"nothing": 1})):
            with self.subTest(args=args, kwargs=kwargs):
                self.assertRaises(TypeError, Filter, *args, **kwargs)

    def test_read_only(self):
        filter = Filter(True, "a.py", 5)
        for name in ("include", "inclusive", "pattern", "filename_pattern",
                     "lineno", "traceback", "all_frames", "domain"):
            with self.subTest(name=name):
                self.assertRaises(AttributeError, setattr, filter, name, 1)
        self.check(filter, True, "a.py", 5, False, None)

    def test_pattern_may_be_a_path(self):
        filter = Filter(True, pathlib.PurePath("lib", "a.py"))
        self.assertEqual(filter.pattern, os.path.join("lib", "a.py"))

    def test_compiled_names(self):
        # The .pyc and .pyo file extensions are replaced with .py.
        for ending in (".pyc", ".pyo", ".py"):
            self.assertEqual(Filter(True, "a" + ending).pattern, "a.py")
        self.assertEqual(Filter(True, "a.pyd").pattern, "a.pyd")

    def test_copies(self):
        filter = Filter(False, "a.py", 5, True, 3)
        for other in (copy.copy(filter), copy.deepcopy(filter),
                      pickle.loads(pickle.dumps(filter))):
            self.check(other, False, "a.py", 5, True, 3)
            self.assertRaises(AttributeError, setattr, other, "lineno", 1)

    def test_domain_filter(self):
        filter = DomainFilter(False, 5)
        self.assertEqual((filter.inclusive, filter.include, filter.domain),
                         (False, False, 5))
        self.assertRaises(AttributeError, setattr, filter, "domain", 1)
        self.assertIsInstance(filter, BaseFilter)
        self.assertIsInstance(Filter(True, "a"), BaseFilter)

    def test_repr(self):
        self.assertIn("a.py", repr(Filter(True, "a.py", 7)))
        self.assertIn("7", repr(Filter(True, "a.py", 7)))


class MatchTests(unittest.TestCase):
    def test_match(self):
        # Return True if the filter matches the filename and line number:
        # M for an inclusive filter, not M for an exclusive one.
        for include in (True, False):
            filter = Filter(include, "a.py", 5)
            self.assertIs(filter.match("a.py", 5), include)
            self.assertIs(filter.match("a.py", 6), not include)
            self.assertIs(filter.match("b.py", 5), not include)
            self.assertIs(filter.match("b.py", 6), not include)

    def test_match_filename(self):
        for include in (True, False):
            filter = Filter(include, "a.py", 5)
            self.assertIs(filter.match_filename("a.py"), include)
            self.assertIs(filter.match_filename("b.py"), not include)

    def test_match_lineno(self):
        for include in (True, False):
            filter = Filter(include, "a.py", 5)
            self.assertIs(filter.match_lineno(5), include)
            self.assertIs(filter.match_lineno(6), not include)
            self.assertIs(filter.match_lineno(None), not include)

    def test_any_line(self):
        # If lineno is None or less than 1, it matches any line number.
        for lineno in (None, 0, -1, -1000):
            for include in (True, False):
                filter = Filter(include, "a.py", lineno)
                self.assertEqual(filter.lineno, lineno)
                for number in (1, 5, 1 << 40, 0, None):
                    self.assertIs(filter.match_lineno(number), True)
                    self.assertIs(filter.match("a.py", number), include)
                    self.assertIs(filter.match("b.py", number), not include)

    def test_unknown_matches_nothing(self):
        for pattern in ("*", "", "None", "<unknown>", "?*"):
            self.assertIs(Filter(True, pattern).match_filename(None), False)
            self.assertIs(Filter(False, pattern).match_filename(None), True)
            self.assertIs(Filter(True, pattern).match(None, None), False)
            self.assertIs(Filter(False, pattern).match(None, None), True)

    def test_match_traceback(self):
        # If traceback is True, all frames are checked, else the most recent.
        frames = (("a.py", 1), ("b.py", 2), ("c.py", 3))
        for include in (True, False):
            for pattern, number, top, anywhere in (
                    ("a.py", None, True, True), ("b.py", None, False, True),
                    ("c.py", 3, False, True), ("c.py", 4, False, False),
                    ("a.py", 2, False, False), ("b.py", 1, False, False),
                    ("d.py", None, False, False), ("*", None, True, True)):
                with self.subTest(include=include, pattern=pattern):
                    filter = Filter(include, pattern, number)
                    self.assertIs(filter.match_traceback(frames),
                                  top == include)
                    filter = Filter(include, pattern, number, traceback=True)
                    self.assertIs(filter.match_traceback(frames),
                                  anywhere == include)

    def test_match_traceback_of_nothing(self):
        for every in (False, True):
            self.assertIs(Filter(True, "*", None, every).match_traceback(()),
                          False)
            self.assertIs(Filter(False, "*", None, every).match_traceback(()),
                          True)

    def test_match_traceback_object(self):
        # 3.13's objects have the most recent call last.
        traceback = tracemalloc.Traceback((("a.py", 1), ("b.py", 2)))
        self.assertIs(Filter(True, "a.py").match_traceback(traceback), True)
        self.assertIs(Filter(True, "b.py").match_traceback(traceback), False)

    def matches(self, pattern, name):
        return Filter(True, pattern).match_filename(name)

    def test_joker(self):
        # * matches any substring, including an empty string.
        for pattern, name, expected in (
                ("", "", True), ("", "a", False), ("*", "", True),
                ("*", "anything", True), ("a*", "a", True),
                ("a*c", "abc", True), ("a*c", "ac", True),
                ("a*c", "acb", False), ("*b*", "abc", True),
                ("a*b*c", "a1b2c", True), ("a*b*c", "acb", False),
                ("**", "x", True), ("*.py", "dir/a.py", True),
                ("?.py", "a.py", True), ("?.py", "ab.py", False),
                ("[ab].py", "b.py", True), ("[!ab].py", "b.py", False),
                ("[a-c]x", "bx", True), ("[a-c]x", "dx", False),
                ("a[", "a[", True), ("[[]x]", "[x]", True)):
            with self.subTest(pattern=pattern, name=name):
                self.assertIs(self.matches(pattern, name), expected)

    def test_same_as_fnmatch(self):
        import fnmatch
        import random
        choose = random.Random(454)
        for _ in range(3000):
            pattern = "".join(choose.choices("ab*?[]!-", k=choose.randrange(8)))
            name = "".join(choose.choices("ab-]!", k=choose.randrange(8)))
            self.assertEqual(self.matches(pattern, name),
                             fnmatch.fnmatchcase(name, pattern),
                             (pattern, name))

    def test_compiled_names(self):
        for ending in (".py", ".pyc", ".pyo"):
            for other in (".py", ".pyc", ".pyo"):
                self.assertTrue(self.matches("a" + ending, "a" + other))
        self.assertFalse(self.matches("a.py", "a.pyx"))

    @unittest.skipUnless(os.name == "posix", "case matters on POSIX")
    def test_case_and_separators(self):
        self.assertFalse(self.matches("A.py", "a.py"))
        self.assertFalse(self.matches("a/b", "a\\b"))
        self.assertTrue(self.matches("c:\\x.py", "c:\\x.py"))

    def test_odd_characters(self):
        for name in ("\0", "a\nb", "\udc80.py", "\U0001f40d.py", "é" * 300):
            self.assertTrue(self.matches("*", name))
            self.assertTrue(self.matches(name, name))
            self.assertTrue(self.matches(name[0] + "*", name))

    def test_linear_time(self):
        # A pattern of a million * answers at once.
        self.assertFalse(self.matches("*" * 1_000_000 + "b", "a" * 10_000))
        self.assertFalse(self.matches("*a" * 2_000 + "b", "a" * 4_000))

    def test_own_file_means_the_package(self):
        own = tracemalloc.__file__
        folder = os.path.dirname(own)
        filter = Filter(False, own)
        self.assertEqual(filter.pattern, own)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                self.assertFalse(
                    filter.match_filename(os.path.join(folder, name)), name)
        self.assertTrue(filter.match_filename(folder + ".py"))
        self.assertTrue(filter.match_filename(os.__file__))


class SnapshotFilterTests(unittest.TestCase):
    """filter_traces(), with filters of all kinds."""

    TRACES = [
        (0, 1, (("a.py", 1), ("m.py", 9)), 2),
        (0, 2, (("a.py", 2), ("b.py", 9)), 2),
        (0, 4, (("b.py", 1), ("a.py", 5)), 2),
        (5, 8, (("a.py", 1),), 1),
        (0, 16, (("<unknown>", 0),), 1),
        (0, 32, (("old.pyo", 3),), 1),
    ]
    ALL = 63

    def sizes(self, *filters, traces=TRACES):
        snapshot = tracemalloc.Snapshot(traces, 2)
        return sum(t.size for t in snapshot.filter_traces(filters).traces)

    def test_rules(self):
        for filters, expected in (
                ([], self.ALL),
                ([Filter(True, "a.py")], 11),
                ([Filter(False, "a.py")], self.ALL - 11),
                ([Filter(True, "a.py", 1)], 9),
                ([Filter(True, "a.py", 0)], 11),
                ([Filter(True, "a.py", traceback=True)], 15),
                ([Filter(False, "a.py", traceback=True)], self.ALL - 15),
                ([Filter(True, "a.py"), Filter(True, "b.py")], 15),
                ([Filter(True, "*"), Filter(False, "b.py")], self.ALL - 4),
                ([Filter(True, "a.py", domain=5)], 8),
                ([Filter(False, "a.py", domain=5)], self.ALL - 8),
                ([DomainFilter(True, 5)], 8),
                ([DomainFilter(False, 5)], self.ALL - 8),
                ([Filter(True, "<unknown>")], 16),
                ([Filter(True, "old.py")], 32),
                ([Filter(True, "a.py"), Filter(False, "a.py", 2)], 9)):
            with self.subTest(filters=filters):
                self.assertEqual(self.sizes(*filters), expected)

    def test_generator(self):
        self.assertEqual(self.sizes(*(f for f in [Filter(True, "b.py")])), 4)

    def test_not_a_list(self):
        snapshot = tracemalloc.Snapshot(self.TRACES, 2)
        with self.assertRaisesRegex(TypeError, "filters must be a list of "
                                               "filters, not Filter"):
            snapshot.filter_traces(Filter(True, "a"))

    def test_same_in_python_and_c(self):
        # Sizes that columns cannot hold are filtered in Python.
        odd = [(d, s + 0.0, f, n) for d, s, f, n in self.TRACES]
        for filters in ([Filter(True, "a.py")], [Filter(False, "a.py", 2)],
                        [Filter(True, "a.py", traceback=True)],
                        [DomainFilter(False, 5)],
                        [Filter(True, "a.py", domain=5)]):
            with self.subTest(filters=filters):
                self.assertEqual(self.sizes(*filters),
                                 self.sizes(*filters, traces=odd))

    def test_own_match(self):
        class Even(Filter):
            def match(self, filename, lineno):
                return lineno % 2 == 0

        self.assertEqual(self.sizes(Even(True, "*")), 2 + 16)

    def test_own_match_filename(self):
        class Anywhere(Filter):
            def match_filename(self, filename):
                return self.pattern in filename

        self.assertEqual(self.sizes(Anywhere(True, "a")), 1 + 2 + 8)
        self.assertEqual(self.sizes(Anywhere(True, "a", 1)), 1 + 8)

    def test_own_match_traceback(self):
        class Deep(BaseFilter):
            calls = 0

            def match_traceback(self, traceback):
                type(self).calls += 1
                return len(traceback) > 1

        self.assertEqual(self.sizes(Deep(True)), 7)
        Deep.calls = 0
        self.assertEqual(self.sizes(Deep(False), traces=self.TRACES * 50), 350)
        # Asked for each different traceback, not for each trace.
        self.assertLessEqual(Deep.calls, 6)

    def test_own_match_of_3_13(self):
        class Big(BaseFilter):
            def _match(self, trace):
                return trace[1] >= 8

        self.assertEqual(self.sizes(Big(True)), self.ALL - 7)

    def test_base_filter_has_no_opinion(self):
        self.assertRaises(NotImplementedError, self.sizes, BaseFilter(True))

    def test_subclass_without_matching_of_its_own(self):
        class Named(Filter):
            title = "mine"

        self.assertEqual(self.sizes(Named(True, "b.py")), 4)

    def test_mapping(self):
        old, _ = util.two_snapshots()
        new = old.filter_traces([Filter(True, "lib/a.py", 9)])
        self.assertEqual(dict(new.traces), {
            0x3000: (40, (("lib/a.py", 9), ("main.py", 2)))})
        self.assertEqual(new.timestamp, old.timestamp)
        self.assertEqual(len(old.traces), 5)


class LiveTests(util.Traced):
    limit = 4

    def kept(self):
        """Allocate here and elsewhere; tell which was traced."""
        elsewhere = util.allocate()
        here = b"x" * len(elsewhere)
        return (tracemalloc.get_object_trace(here) is not None,
                tracemalloc.get_object_trace(elsewhere) is not None)

    def test_none(self):
        self.assertEqual(tracemalloc.get_filters(), [])
        self.assertEqual(self.kept(), (True, True))

    def test_get_and_clear(self):
        filters = [Filter(True, "a"), Filter(False, "b")]
        for filter in filters:
            self.assertIsNone(tracemalloc.add_filter(filter))
        found = tracemalloc.get_filters()
        self.assertIs(type(found), list)
        self.assertEqual(found, filters)
        found.clear()
        self.assertEqual(len(tracemalloc.get_filters()), 2)
        self.assertIsNone(tracemalloc.clear_filters())
        self.assertEqual(tracemalloc.get_filters(), [])
        self.assertEqual(self.kept(), (True, True))

    def test_include(self):
        tracemalloc.add_filter(Filter(True, __file__))
        self.assertEqual(self.kept(), (True, False))

    def test_exclude(self):
        tracemalloc.add_filter(Filter(False, __file__))
        self.assertEqual(self.kept(), (False, True))

    def test_inclusive_filters_are_applied_at_once(self):
        # Ignored only if no inclusive filter matches.
        tracemalloc.add_include_filter("nothing like that")
        self.assertEqual(self.kept(), (False, False))
        tracemalloc.add_include_filter(__file__)
        self.assertEqual(self.kept(), (True, False))
        tracemalloc.add_include_filter(util.PLACE[0])
        self.assertEqual(self.kept(), (True, True))

    def test_one_exclusive_filter_is_enough(self):
        # Ignored if at least one exclusive filter matches.
        tracemalloc.add_include_filter("*")
        tracemalloc.add_exclude_filter(__file__)
        tracemalloc.add_exclude_filter("nothing like that")
        self.assertEqual(self.kept(), (False, True))

    def test_helpers(self):
        tracemalloc.add_include_filter("a.py", 5, True)
        tracemalloc.add_exclude_filter("b.py", lineno=6, traceback=True)
        tracemalloc.add_exclude_filter("c.py")
        self.assertEqual(
            [(f.include, f.pattern, f.lineno, f.traceback)
             for f in tracemalloc.get_filters()],
            [(True, "a.py", 5, True), (False, "b.py", 6, True),
             (False, "c.py", None, False)])

    def test_line(self):
        _, number = util.line(2)
        tracemalloc.add_exclude_filter(__file__, number)
        dropped = b"x" * len(util.PLACE[0])
        kept = b"y" * len(util.PLACE[0])
        self.assertIsNone(tracemalloc.get_object_trace(dropped))
        self.assertIsNotNone(tracemalloc.get_object_trace(kept))

    def test_all_frames(self):
        tracemalloc.add_exclude_filter(__file__, traceback=True)
        self.assertEqual(self.kept(), (False, False))
        tracemalloc.clear_filters()
        tracemalloc.add_include_filter(__file__, traceback=True)
        self.assertEqual(self.kept(), (True, True))

    def test_all_frames_needs_more_than_one(self):
        # Ignored if the traceback limit is less than 2.
        tracemalloc.set_traceback_limit(1)
        tracemalloc.add_exclude_filter(__file__, traceback=True)
        self.assertEqual(self.kept(), (False, True))

    def test_not_applied_to_what_is_traced_already(self):
        block = util.allocate()
        tracemalloc.add_exclude_filter("*")
        self.assertIsNotNone(tracemalloc.get_object_trace(block))
        self.assertIsNone(tracemalloc.get_object_trace(util.allocate()))
        # clear_traces() makes all traces match
        tracemalloc.clear_traces()
        self.assertIsNone(tracemalloc.get_object_trace(block))

    def test_live_for_places_seen_before(self):
        # The verdict for a place may be remembered, but not too long.
        for _ in range(3):
            self.assertEqual(self.kept(), (True, True))
            tracemalloc.add_exclude_filter(util.PLACE[0])
            self.assertEqual(self.kept(), (True, False))
            tracemalloc.clear_filters()

    def test_excluded_blocks_do_not_count(self):
        tracemalloc.add_exclude_filter(util.PLACE[0])
        before, _ = tracemalloc.get_traced_memory()
        keep = [util.allocate(1 << 16) for _ in range(100)]
        after, _ = tracemalloc.get_traced_memory()
        self.assertLess(after - before, 1 << 16)
        del keep

    def test_own_module(self):
        # add_exclude_filter(tracemalloc.__file__) ignores memory blocks
        # allocated by the tracemalloc module.
        def own_blocks():
            folder = os.path.dirname(tracemalloc.__file__)
            return sum(count
                       for name, lines in tracemalloc.get_stats().items()
                       if name and name.startswith(folder)
                       for _, count in lines.values())

        keep = [tracemalloc.Snapshot([], 1)]
        self.assertGreater(own_blocks(), 0)
        tracemalloc.add_exclude_filter(tracemalloc.__file__)
        tracemalloc.clear_traces()
        keep += [tracemalloc.Snapshot([], 1) for _ in range(10)]
        self.assertEqual(own_blocks(), 0)

    def test_survive_disable(self):
        tracemalloc.add_exclude_filter(util.PLACE[0])
        tracemalloc.disable()
        self.assertEqual(len(tracemalloc.get_filters()), 1)
        tracemalloc.enable()
        self.assertEqual(self.kept(), (True, False))

    def test_can_be_set_before(self):
        tracemalloc.disable()
        tracemalloc.add_exclude_filter(util.PLACE[0])
        tracemalloc.enable()
        self.assertEqual(self.kept(), (True, False))

    def test_domain_only_when_given(self):
        tracemalloc.add_filter(Filter(False, util.PLACE[0], domain=1))
        self.assertEqual(self.kept(), (True, True))
        tracemalloc.add_filter(Filter(False, util.PLACE[0], domain=0))
        self.assertEqual(self.kept(), (True, False))

    def test_only_filters(self):
        for thing in (None, "a.py", DomainFilter(True, 0), BaseFilter(True)):
            self.assertRaises(TypeError, tracemalloc.add_filter, thing)

        class Own(Filter):
            def match_filename(self, filename):
                return True

        self.assertRaises(TypeError, tracemalloc.add_filter, Own(True, "a"))
        self.assertEqual(tracemalloc.get_filters(), [])

    def test_many(self):
        for n in range(500):
            tracemalloc.add_exclude_filter(f"*/no-such-file-{n}.py")
        self.assertEqual(len(tracemalloc.get_filters()), 500)
        self.assertEqual(self.kept(), (True, True))

    def test_threads(self):
        def work():
            for n in range(100):
                tracemalloc.add_exclude_filter(f"no-such-file-{n}.py")
                util.allocate()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(tracemalloc.get_filters()), 400)

    def test_less_memory(self):
        # Filters can be used to reduce the memory usage of the module.
        # What grows is the list of arenas, by some bytes each.
        tracemalloc.add_exclude_filter(util.PLACE[0])
        for count in (2_000, 100_000):
            size, free = tracemalloc.get_tracemalloc_memory()
            keep = [util.allocate(100) for _ in range(count)]
            more_size, more_free = tracemalloc.get_tracemalloc_memory()
        self.assertLess((more_size - more_free) - (size - free), 10_000)
        del keep


if __name__ == "__main__":
    unittest.main()
