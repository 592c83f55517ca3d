"""DisplayTop and DisplayTopTask: the text they write."""

import contextlib
import io
import os
import re
import textwrap
import tracemalloc
import unittest
from test.support import os_helper
from test.test_tracemalloc_pep454 import util
from tracemalloc import (DisplayTop, DisplayTopTask, GroupedStats, Snapshot,
                         Task)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def text_of(function, *args, **kwargs):
    file = io.StringIO()
    function(*args, file=file, **kwargs)
    return file.getvalue()


class TextTests(unittest.TestCase):
    def setUp(self):
        self.top = DisplayTop()
        self.top.metrics = False
        self.old, self.new = util.two_snapshots()

    def check(self, text, expected):
        self.assertEqual(text, textwrap.dedent(expected).lstrip("\n"))

    def test_attributes(self):
        top = DisplayTop()
        self.assertEqual(
            (top.size, top.count, top.average, top.metrics,
             top.filename_parts, top.color, top.compare_to_previous,
             top.previous_top_stats),
            (True, True, True, True, 3, None, True, None))

    def test_line(self):
        self.check(text_of(self.top.display_snapshot, self.old), """
            2026-01-31 09:05:07: Top 4 allocations per filename and line number
            #1: lib/a.py:7: size=200 B, count=2, average=100 B
            #2: lib/a.py:9: size=40 B, count=1
            #3: lib/b.py:1: size=5 B, count=1
            #4: ???:?: size=3 B, count=1
            Traced Python memory: size=248 B, count=5, average=49 B

            """)

    def test_compared(self):
        text_of(self.top.display_snapshot, self.old)
        self.check(text_of(self.top.display_snapshot, self.new, 2), """
            2026-01-31 10:30:00: Top 2 allocations per filename and line number (compared to 2026-01-31 09:05:07)
            #1: lib/a.py:7: size=6 KiB (+6000 B), count=3 (+1), average=2066 B
            #2: lib/c.py:8: size=12 B (+12 B), count=1 (+1)
            3 more: size=40 B (-8 B), count=1 (-2)
            Traced Python memory: size=6 KiB (+6004 B), count=5 (+0), average=1250 B

            """.replace("(+6000 B)", "(+5 KiB)").replace("(+6004 B)",
                                                        "(+5 KiB)"))

    def test_filename(self):
        self.check(text_of(self.top.display_snapshot, self.old,
                           group_by="filename", count=1), """
            2026-01-31 09:05:07: Top 1 allocations per filename
            #1: lib/a.py: size=240 B, count=3, average=80 B
            2 more: size=8 B, count=2, average=4 B
            Traced Python memory: size=248 B, count=5, average=49 B

            """)

    def test_address(self):
        self.check(text_of(self.top.display_snapshot, self.old,
                           group_by="address", count=2), """
            2026-01-31 09:05:07: Top 2 allocations per address
            #1: memory block 0x2000: size=100 B
            #2: memory block 0x1000: size=100 B
            3 more: size=48 B, average=16 B
            Traced Python memory: size=248 B, average=49 B

            """)

    def test_cumulative(self):
        self.check(text_of(self.top.display_snapshot, self.old, 2, "filename",
                           True), """
            2026-01-31 09:05:07: Cumulative top 2 allocations per filename
            #1: main.py: size=240 B, count=3, average=80 B
            #2: lib/a.py: size=240 B, count=3, average=80 B
            2 more: size=8 B, count=2, average=4 B

            """)

    def test_traceback(self):
        self.check(text_of(self.top.display_snapshot, self.old,
                           group_by="traceback", count=1), """
            2026-01-31 09:05:07: Top 1 allocations per traceback
            #1: lib/a.py:7: size=200 B, count=2, average=100 B
                main.py:1
            3 more: size=48 B, count=3, average=16 B
            Traced Python memory: size=248 B, count=5, average=49 B

            """)

    def test_metrics(self):
        self.top.metrics = True
        self.check(text_of(self.top.display_snapshot, self.old, 0), """
            2026-01-31 09:05:07: Top 0 allocations per filename and line number
            4 more: size=248 B, count=5, average=49 B
            Traced Python memory: size=248 B, count=5, average=49 B

            apples: 12
            room: 4096 B

            """)
        text = text_of(self.top.display_snapshot, self.new)
        self.assertTrue(text.endswith(
            "\n\napples: 10 (-2)\nroom: 8 KiB (+4096 B)\nshare: 25.0%\n\n"),
            text)

    def test_empty(self):
        self.check(text_of(self.top.display_snapshot,
                           Snapshot(util.BEFORE, 1)), """
            2026-01-31 09:05:07: Top 0 allocations per filename and line number
            Traced Python memory: size=0 B, count=0

            """)

    def entry(self, **attributes):
        for name, value in attributes.items():
            setattr(self.top, name, value)
        text = text_of(self.top.display_snapshot, self.old)
        return text.splitlines()[1].removeprefix("#1: lib/a.py:7: ")

    def test_what_to_show(self):
        for attributes, expected in (
                ({"count": False}, "size=200 B, average=100 B"),
                ({"average": False}, "size=200 B, count=2"),
                ({"size": False}, "count=2, average=100 B"),
                ({"size": False, "average": False}, "count=2"),
                ({"size": False, "count": False}, "average=100 B"),
                # The bare size stands without "size=".
                ({"count": False, "average": False}, "200 B")):
            with self.subTest(attributes):
                self.top = DisplayTop()
                self.assertEqual(self.entry(**attributes), expected)

    def test_sizes(self):
        for size, expected in (
                (0, "0 B"), (5119, "5119 B"), (5120, "5 KiB"),
                (5120 * 1024 - 1, "5119 KiB"), (5120 * 1024, "5 MiB"),
                (6 << 30, "6 GiB"), (7 << 40, "7 TiB"), (9 << 60,
                                                         "9437184 TiB"),
                (5002, "5002 B"), (6143, "5 KiB")):
            snapshot = Snapshot(util.BEFORE, 1,
                                None, {"a.py": {1: (size, 1)}})
            text = text_of(DisplayTop().display_snapshot, snapshot)
            self.assertIn(f"#1: a.py:1: size={expected}, count=1\n", text)

    def test_negative_sizes(self):
        self.top.display_snapshot(self.new, file=io.StringIO())
        text = text_of(self.top.display_snapshot, self.old, 1)
        self.assertIn("#1: lib/a.py:7: size=200 B (-5 KiB), count=2 (-1)",
                      text)

    def test_filename_parts(self):
        name = os.sep.join(["", "usr", "lib", "python", "json", "a.py"])
        snapshot = Snapshot(util.BEFORE, 1, None, {name: {7: (9, 1)}})
        for parts, expected in ((1, ".../a.py:7"), (2, ".../json/a.py:7"),
                                (3, ".../python/json/a.py:7"),
                                (6, name + ":7"), (99, name + ":7")):
            top = DisplayTop()
            top.filename_parts = parts
            text = text_of(top.display_snapshot, snapshot)
            self.assertIn("#1: " + expected.replace("/", os.sep) + ": ", text)

    def test_lost(self):
        self.old.lost = 3
        text = text_of(self.top.display_snapshot, self.old)
        self.assertRegex(text, r"(?m)^Lost: 3 traces")
        self.assertNotIn("Lost", text_of(self.top.display_snapshot, self.new))

    def test_previous(self):
        for compare_to_previous, expected in ((True, "10:30:00"),
                                              (False, "09:05:07")):
            top = DisplayTop()
            top.compare_to_previous = compare_to_previous
            text_of(top.display_snapshot, self.old)
            text_of(top.display_snapshot, self.new)
            text = text_of(top.display_snapshot, self.new)
            self.assertIn(f"(compared to 2026-01-31 {expected})", text)
            self.assertIsInstance(top.previous_top_stats, GroupedStats)

    def test_previous_can_be_set(self):
        self.top.previous_top_stats = self.old.top_by("filename")
        text = text_of(self.top.display_snapshot, self.new, 1, "filename")
        self.assertIn("(compared to 2026-01-31 09:05:07)", text)
        self.top.previous_top_stats = None
        self.assertNotIn("compared", text_of(self.top.display_snapshot,
                                             self.new, 1, "filename"))

    def test_other_grouping_is_not_compared(self):
        text_of(self.top.display_snapshot, self.old)
        text = text_of(self.top.display_snapshot, self.new,
                       group_by="filename")
        self.assertNotIn("compared", text)
        self.assertNotIn("(+", text)

    def test_display_top_stats(self):
        text = text_of(self.top.display_top_stats, self.old.top_by("line"), 1)
        self.assertIn("Top 1 allocations", text)
        text = text_of(self.top.display_top_stats, self.new.top_by("line"),
                       count=1)
        self.assertIn("compared to", text)

    def test_display_top_diff(self):
        diff = self.new.top_by("line").compare_to(self.old.top_by("line"))
        text = text_of(self.top.display_top_diff, diff, count=1)
        self.assertIn("#1: lib/a.py:7: size=6 KiB (+5 KiB)", text)
        self.assertIn("compared to 2026-01-31 09:05:07", text)

    def test_default_file(self):
        with contextlib.redirect_stdout(io.StringIO()) as file:
            self.top.display_snapshot(self.old, 1)
        self.assertIn("Top 1 allocations", file.getvalue())

    def test_default_count(self):
        many = Snapshot(util.BEFORE, 1, None,
                        {"a.py": {n: (n, 1) for n in range(1, 31)}})
        text = text_of(self.top.display_snapshot, many)
        self.assertIn("#10: ", text)
        self.assertNotIn("#11: ", text)
        self.assertIn("20 more: ", text)


class ColorTests(unittest.TestCase):
    def shows_color(self, file, color=None, **environment):
        top = DisplayTop()
        top.color = color
        old, new = util.two_snapshots()
        with os_helper.EnvironmentVarGuard() as environ:
            for name in ("NO_COLOR", "PYTHON_COLORS", "TERM"):
                environ.unset(name)
            environ["TERM"] = "xterm"
            environ.update(environment)
            top.display_snapshot(old, file=file)
            top.display_snapshot(new, file=file)
        text = file.getvalue()
        plain = re.sub(r"\x1b\[[\d;]*m", "", text)
        self.assertNotIn("\x1b", plain)
        return plain != text

    def test_by_file(self):
        # None: use colors if the file is a TTY device.
        self.assertFalse(self.shows_color(io.StringIO()))
        self.assertTrue(self.shows_color(Terminal()))

    def test_always_or_never(self):
        self.assertTrue(self.shows_color(io.StringIO(), True))
        self.assertTrue(self.shows_color(io.StringIO(), True, NO_COLOR="1"))
        self.assertFalse(self.shows_color(Terminal(), False))

    def test_environment(self):
        self.assertFalse(self.shows_color(Terminal(), NO_COLOR="1"))
        self.assertFalse(self.shows_color(Terminal(), PYTHON_COLORS="0"))
        self.assertTrue(self.shows_color(Terminal(), PYTHON_COLORS="1",
                                         NO_COLOR="1"))
        self.assertFalse(self.shows_color(Terminal(), TERM="dumb"))

    def test_same_text(self):
        old, _ = util.two_snapshots()
        plain, colored = DisplayTop(), DisplayTop()
        colored.color = True
        text = text_of(colored.display_snapshot, old)
        self.assertEqual(re.sub(r"\x1b\[[\d;]*m", "", text),
                         text_of(plain.display_snapshot, old))
        # Only sizes and differences have a color.
        for colored_text in re.findall(r"\x1b\[1;33m(.*?)\x1b\[0m", text):
            self.assertRegex(colored_text, r"^[+-]?\d+( [KMGT]?i?B)?$|%$")


class DisplayTests(util.Traced):
    limit = 2

    def test_display(self):
        top, file = DisplayTop(), io.StringIO()
        keep = [util.allocate(1 << 20) for _ in range(20)]
        snapshot = top.display(file=file)
        self.assertIsInstance(snapshot, Snapshot)
        self.assertIsNone(snapshot.traces)
        text = file.getvalue()
        self.assertRegex(text, r"Top \d+ allocations per filename and line")
        self.assertRegex(text, r"#1: .*util\.py:\d+: size=20 MiB, count=20")
        self.assertRegex(text, r"(?m)^Traced Python memory: ")
        self.assertRegex(text, r"(?m)^gc\.objects: \d+$")
        del keep

    def test_arguments(self):
        top, file = DisplayTop(), io.StringIO()
        top.metrics = False
        keep = [util.allocate(1 << 20) for _ in range(20)]
        for group_by, cumulative, expected in (
                ("filename", False, "Top 3 allocations per filename\n"),
                ("filename", True, "Cumulative top 3 allocations per file"),
                ("line", True, "Cumulative top 3 allocations per filename and"),
                ("address", False, "Top 3 allocations per address\n"),
                ("address", True, "Top 3 allocations per address\n"),
                ("traceback", False, "Top 3 allocations per traceback\n")):
            with self.subTest(group_by=group_by, cumulative=cumulative):
                top.previous_top_stats = None
                text = text_of(top.display, 3, group_by, cumulative)
                self.assertIn(expected, text)
                self.assertIn("#3: ", text)
                self.assertNotIn("#4: ", text)
        self.assertEqual(file.getvalue(), "")
        del keep

    def test_cumulative_is_ignored_at_limit_one(self):
        tracemalloc.set_traceback_limit(1)
        text = text_of(DisplayTop().display, cumulative=True)
        self.assertNotIn("umulative", text)

    def test_callback(self):
        def callback(snapshot):
            seen.append(snapshot)
            snapshot.add_metric("mine", 5000, "size")

        seen, file = [], io.StringIO()
        snapshot = DisplayTop().display(1, file=file, callback=callback)
        self.assertEqual(seen, [snapshot])
        self.assertIn("\nmine: 5000 B\n", file.getvalue())

    def test_no_metrics(self):
        top = DisplayTop()
        top.metrics = False
        self.assertNotIn("gc.objects", text_of(top.display))

    def test_changes(self):
        top, keep = DisplayTop(), []
        text_of(top.display)
        keep += [bytearray(1 << 20) for _ in range(8)]
        text = text_of(top.display, 1)
        self.assertRegex(text, r"\(compared to \d+-\d+-\d+ \d+:\d+:\d+\)\n"
                               r"#1: .*test_display_top\.py:\d+: size=8 MiB "
                               r"\(\+8 MiB\), count=\d+ \(\+\d+\)")

    def test_needs_tracing(self):
        tracemalloc.disable()
        self.assertRaises(RuntimeError, text_of, DisplayTop().display)


class DisplayTopTaskTests(util.Traced):
    def test_defaults(self):
        with contextlib.redirect_stdout(io.StringIO()) as file:
            task = DisplayTopTask()
        self.assertIsInstance(task, Task)
        self.assertEqual((task.count, task.group_by, task.cumulative,
                          task.callback), (10, "line", False, None))
        self.assertIs(task.file, file)
        self.assertIsInstance(task.display_top, DisplayTop)

    def test_arguments(self):
        file = io.StringIO()
        task = DisplayTopTask(5, "filename", True, file, print)
        self.assertEqual(
            (task.count, task.group_by, task.cumulative, task.file,
             task.callback), (5, "filename", True, file, print))

    def test_display(self):
        file = io.StringIO()
        task = DisplayTopTask(count=2, file=file)
        task.display_top.metrics = False
        self.assertIsInstance(task.display(), Snapshot)
        self.assertIn("Top 2 allocations", file.getvalue())
        self.assertIsInstance(task.call(), Snapshot)
        self.assertIn("(compared to ", file.getvalue())

    def test_attributes_count(self):
        task = DisplayTopTask(file=io.StringIO())
        task.count, task.group_by, task.file = 1, "filename", io.StringIO()
        seen = []
        task.callback = seen.append
        task.display()
        self.assertIn("Top 1 allocations per filename\n",
                      task.file.getvalue())
        self.assertEqual(len(seen), 1)

    def test_scheduled(self):
        file, keep = io.StringIO(), []
        task = DisplayTopTask(3, file=file)
        task.set_memory_threshold(1 << 20)
        task.schedule(repeat=2)
        for times in (1, 2):
            keep.append(bytearray(2 << 20))
            self.assertTrue(util.wait_for(
                lambda: file.getvalue().count("Top 3") == times))
        self.assertTrue(util.wait_for(lambda: not task.is_scheduled()))


if __name__ == "__main__":
    unittest.main()
