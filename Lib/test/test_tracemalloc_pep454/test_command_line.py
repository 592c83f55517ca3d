"""python -m tracemalloc: options, output, exit status."""

import contextlib
import errno
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tracemalloc
import unittest
from test.support import os_helper
from test.test_tracemalloc_pep454 import util
from tracemalloc import Snapshot
from tracemalloc.__main__ import main


class CommandLineTests(unittest.TestCase):
    def setUp(self):
        self.enterContext(os_helper.temp_cwd())
        old, new = util.two_snapshots()
        old.write("old")
        new.write("new")
        old.traces = None
        old.write("sums")
        new.dump("dumped")

    def run_it(self, *arguments, **environment):
        """Run the command in this process; as subprocess.run() returns."""
        out, err = io.StringIO(), io.StringIO()
        with (contextlib.redirect_stdout(out),
              contextlib.redirect_stderr(err),
              os_helper.EnvironmentVarGuard() as environ):
            for name in ("NO_COLOR", "PYTHON_COLORS"):
                environ.unset(name)
            environ.update(environment)
            try:
                status = main(list(arguments))
            except SystemExit as end:
                status = end.code or 0
        return subprocess.CompletedProcess(arguments, status, out.getvalue(),
                                           err.getvalue())

    def output(self, *arguments, **environment):
        done = self.run_it(*arguments, **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def complaint(self, status, *arguments):
        """The one line on stderr, for arguments that cannot work."""
        done = self.run_it(*arguments)
        self.assertEqual((done.returncode, done.stdout), (status, ""),
                         done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        if status == 1:
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_one_file(self):
        text = self.output("old")
        self.assertEqual(text, (
            "2026-01-31 09:05:07: Top 4 allocations per filename and line "
            "number\n"
            "#1: lib/a.py:7: size=200 B, count=2, average=100 B\n"
            "#2: lib/a.py:9: size=40 B, count=1\n"
            "#3: lib/b.py:1: size=5 B, count=1\n"
            "#4: ???:?: size=3 B, count=1\n"
            "Traced Python memory: size=248 B, count=5, average=49 B\n"
            "\n"
            "apples: 12\n"
            "room: 4096 B\n"
            "\n"))

    def test_as_a_program(self):
        for arguments, status, out, err in (
                (("old",), 0, self.output("old"), ""),
                (("-n1", "old"), 0, self.output("-n1", "old"), ""),
                (("nowhere",), 1, "", self.complaint(1, "nowhere")),
                ((), 2, "", self.complaint(2))):
            done = subprocess.run(
                [sys.executable, "-m", "tracemalloc", *arguments],
                capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (status, out, err))

    def test_name_of_the_command(self):
        self.assertEqual(self.output("show", "old"), self.output("old"))

    def test_several_files(self):
        # Each is compared with the previous.
        text = self.output("old", "new")
        self.assertIn("09:05:07: Top 4", text)
        self.assertIn("10:30:00: Top 5", text)
        self.assertIn("(compared to 2026-01-31 09:05:07)", text)
        self.assertIn("apples: 10 (-2)\n", text)
        # In the order of time, whatever the order of the arguments.
        self.assertEqual(self.output("new", "old"), text)

    def test_first(self):
        for arguments, expected in ((("old", "new", "new"), "10:30:00"),
                                    (("old", "new", "new", "--first"),
                                     "09:05:07")):
            last = self.output(*arguments).split("\n2026")[-1]
            self.assertIn(f"compared to 2026-01-31 {expected}", last)

    def test_grouping(self):
        for options in (("-f",), ("--file",)):
            self.assertIn("Top 3 allocations per filename\n"
                          "#1: lib/a.py: size=240 B, count=3",
                          self.output(*options, "old"))
        for options in (("-a",), ("--address",)):
            self.assertIn("Top 5 allocations per address\n"
                          "#1: memory block 0x2000: size=100 B\n",
                          self.output(*options, "old"))

    def test_number(self):
        for options in (("-n", "2"), ("--number", "2"), ("-n2",),
                        ("--number=2",)):
            text = self.output(*options, "old")
            self.assertIn("Top 2 allocations", text)
            self.assertIn("2 more: size=8 B, count=2", text)
        many = Snapshot(util.BEFORE, 10, None,
                        {"a.py": {n: (n, 1) for n in range(1, 31)}})
        many.write("many")
        self.assertIn("Top 10 ", self.output("many"))
        self.assertIn("Top 30 ", self.output("many", "-n", "0"))
        self.assertIn("Top 34 ", self.output("-n0", "many", "old")
                      .split("\n2026")[-1])

    def test_cumulative(self):
        for option in ("-c", "--cumulative"):
            text = self.output(option, "old")
            self.assertIn("Cumulative top 6 allocations per filename and", text)
            self.assertIn("#1: main.py:1: size=200 B, count=2", text)

    def test_block(self):
        for options in (("-b", "0x3000"), ("--block", "12288"),
                        ("--block=0x3000",)):
            text = self.output(*options, "old")
            self.assertIn("memory block 0x3000: 40 B\n", text)
            self.assertIn('  File "lib/a.py", line 9\n'
                          '  File "main.py", line 2\n', text)
        text = self.output("-b", "0x4000", "old", "new")
        self.assertIn("memory block 0x4000: 5 B", text)
        self.assertIn("memory block 0x4000: (not found)", text)

    def test_block_not_found(self):
        done = self.run_it("-b", "0x7", "old")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "tracemalloc: no block at 0x7\n")

    def test_traceback(self):
        for option in ("-t", "--traceback"):
            text = self.output(option, "-n", "3", "old")
            self.assertIn("Top 3 biggest memory blocks\n", text)
            self.assertIn("#1: memory block 0x1000: size=100 B\n", text)
            self.assertIn('#3: memory block 0x3000: size=40 B\n'
                          '    Traceback (most recent call first):\n'
                          '      File "lib/a.py", line 9\n'
                          '      File "main.py", line 2\n', text)
            self.assertIn("2 more: size=8 B\n", text)

    def test_traceback_with_source(self):
        with open("source.py", "w") as file:
            file.write("first = 1\nsecond = bytearray(5)\n")
        Snapshot(util.BEFORE, 1, {16: (5, (("source.py", 2),))}).write("s")
        self.assertIn('File "source.py", line 2\n'
                      '        second = bytearray(5)\n',
                      self.output("-t", "s"))

    def test_filters(self):
        everything = {"lib/a.py:7", "lib/a.py:9", "lib/b.py:1", "???:?"}
        for options, expected in (
                (("-i", "lib/a.py"), {"lib/a.py:7", "lib/a.py:9"}),
                (("--include", "*a.py:7"), {"lib/a.py:7"}),
                (("-i", "*a.py:7", "-i", "*b.py"),
                 {"lib/a.py:7", "lib/b.py:1"}),
                (("-x", "lib/a.py"), {"lib/b.py:1", "???:?"}),
                (("--exclude=lib/a.py:9",), everything - {"lib/a.py:9"}),
                (("-x", "lib/a.py:9", "-x", "lib/b.py"),
                 {"lib/a.py:7", "???:?"}),
                (("-I", "main.py"), {"lib/a.py:7", "lib/a.py:9"}),
                (("--include-traceback", "main.py:2"), {"lib/a.py:9"}),
                (("-X", "main.py"), {"lib/b.py:1", "???:?"}),
                (("--exclude-traceback=main.py:1",),
                 everything - {"lib/a.py:7"}),
                (("-i", "main.py"), set())):
            with self.subTest(options=options):
                text = self.output(*options, "old")
                shown = re.findall(r"(?m)^#\d+: (\S+): ", text)
                self.assertEqual(set(shown), expected)

    def test_filter_with_colons(self):
        Snapshot(util.BEFORE, 1, None, {"c:x": {3: (5, 1)}}).write("s")
        self.assertIn("#1: c:x:3", self.output("-i", "c:x", "s"))
        self.assertIn("#1: c:x:3", self.output("-i", "c:x:3", "s"))
        self.assertNotIn("#1", self.output("-i", "c:x:4", "s"))

    def test_what_to_show(self):
        for options, expected in (
                (("-S",), "count=2, average=100 B"),
                (("--hide-size",), "count=2, average=100 B"),
                (("-C",), "size=200 B, average=100 B"),
                (("--hide-count",), "size=200 B, average=100 B"),
                (("-A",), "size=200 B, count=2"),
                (("--hide-average",), "size=200 B, count=2"),
                (("-A", "-C"), "200 B"), (("-CAM",), "200 B")):
            with self.subTest(options=options):
                self.assertIn(f"#1: lib/a.py:7: {expected}\n",
                              self.output(*options, "old"))
        for option in ("-M", "--hide-metrics"):
            self.assertNotIn("apples", self.output(option, "old"))

    def test_filename_parts(self):
        for options in (("-P", "1"), ("--filename-parts", "1")):
            self.assertIn("#1: .../a.py:7: ", self.output(*options, "old"))

    def test_color(self):
        self.assertNotIn("\x1b[", self.output("old"))
        self.assertIn("\x1b[", self.output("--color", "old"))
        self.assertIn("\x1b[", self.output("--color", "old", NO_COLOR="1"))
        self.assertNotIn("\x1b[", self.output("--no-color", "old",
                                              PYTHON_COLORS="1"))
        self.assertIn("\x1b[", self.output("old", PYTHON_COLORS="1"))

    def test_dumped(self):
        text = self.output("dumped")
        self.assertIn("2026-01-31 10:30:00: Top 3 allocations", text)
        self.assertIn("#1: lib/a.py:7: size=6 KiB, count=3", text)
        self.assertIn("share: 25.0%", text)
        self.assertIn('File "main.py", line 3', self.output("-t", "dumped"))

    def test_sums_only(self):
        self.assertEqual(self.output("sums"), self.output("old"))
        for option in ("-a", "-t", "-c", "-b1"):
            with self.subTest(option=option):
                self.assertIn("sums: has no traces",
                              self.complaint(1, option, "sums"))

    def test_no_addresses(self):
        self.assertIn("dumped: has no addresses",
                      self.complaint(1, "-a", "dumped"))
        self.assertIn("dumped: has no addresses",
                      self.complaint(1, "-b1", "dumped"))

    def test_help(self):
        text = self.output("--help")
        self.assertEqual(text, self.output("-h"))
        for option in (
                "-a", "--address", "-f", "--file", "-n", "--number",
                "--first", "-c", "--cumulative", "-b", "--block", "-t",
                "--traceback", "-i", "--include", "-I",
                "--include-traceback", "-x", "--exclude", "-X",
                "--exclude-traceback", "-S", "--hide-size", "-C",
                "--hide-count", "-A", "--hide-average", "-M",
                "--hide-metrics", "-P", "--filename-parts", "--color",
                "--no-color"):
            self.assertRegex(text, rf"(?m)(^|[\s,\[]){option}\b")
        text = self.output("-h", COLUMNS="80")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_usage_errors(self):
        for arguments in ((), ("--nothing", "old"), ("-n", "x", "old"),
                          ("-n", "-1", "old"), ("-b", "x", "old"),
                          ("-P", "x", "old"), ("-i",), ("-a", "-f", "old")):
            with self.subTest(arguments=arguments):
                said = self.complaint(2, *arguments)
                self.assertIn("usage: python -m tracemalloc", said)
                self.assertNotIn("invalid _", said)

    def test_files_that_cannot_be_read(self):
        with open("text", "w") as file:
            file.write("hello\n")
        with open("new", "rb") as file:
            data = file.read()
        for name, content in (("cut", data[:-20]), ("empty", b""),
                              ("changed", data[:200] + b"?" + data[201:])):
            with open(name, "wb") as file:
                file.write(content)
        os.mkdir("folder")
        for name in ("nowhere", "text", "cut", "empty", "changed", "folder"):
            with self.subTest(name=name):
                self.assertIn(f"tracemalloc: {name}: ",
                              self.complaint(1, name))
                self.complaint(1, "old", name)

    @unittest.skipIf(hasattr(os, "geteuid") and os.geteuid() == 0,
                     "root may read everything")
    def test_no_permission(self):
        os.chmod("old", 0)
        self.assertIn("Permission denied", self.complaint(1, "old"))

    def test_different_processes(self):
        one, two = util.two_snapshots()
        two.pid = 99
        two.write("other")
        done = self.run_it("old", "other")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"different processes: 10, 99")

    def test_names_that_would_upset_a_terminal(self):
        Snapshot(util.BEFORE, 10, {
            1: (5, (("a\x1b[2Jb.py", 3),)), 2: (6, (("\udc80\n.py", 4),))},
            metrics={"\x1b[0m": tracemalloc.Metric("\x1b[0m", 1, "int")}
            ).write("s")
        for options in ((), ("-f",), ("-t",), ("-b1",), ("-c",)):
            text = self.output(*options, "s")
            self.assertNotIn("\x1b", text)
            self.assertNotIn("\udc80", text)
            self.assertIn("a\\x1b[2Jb.py", text)

    def test_output_that_cannot_be_written(self):
        snapshot = Snapshot(util.BEFORE, 10, {1: (5, (("\xe9.py", 3),))})
        snapshot.write("s")
        for target, status in (("/dev/full", 1), (os.devnull, 0)):
            if not os.path.exists(target):
                continue
            with open(target, "w") as file:
                done = subprocess.run(
                    [sys.executable, "-m", "tracemalloc", "s"], stdout=file,
                    stderr=subprocess.PIPE, text=True, timeout=60,
                    env={**os.environ, "PYTHONIOENCODING": "ascii"})
            self.assertEqual(done.returncode, status)
            self.assertEqual(done.stderr.count("\n"), status)

    def test_lost(self):
        old, _ = util.two_snapshots()
        old.lost = 5
        old.write("lossy")
        self.assertIn("\nLost: 5 traces", self.output("lossy"))


class InterruptionTests(unittest.TestCase):
    def setUp(self):
        self.enterContext(os_helper.temp_cwd())
        snapshot = Snapshot(util.BEFORE, 1, None, {
            f"{name}.py": {n: (n, 1) for n in range(1, 400)}
            for name in range(300)})
        snapshot.write("big")

    def start(self, *arguments, **more):
        # Debug builds warn of a file that was open when the signal came.
        return subprocess.Popen(
            [sys.executable, "-W", "ignore::ResourceWarning", "-m",
             "tracemalloc", *arguments], stderr=subprocess.PIPE, **more)

    def test_broken_pipe(self):
        process = self.start("-n", "0", "big", stdout=subprocess.PIPE)
        self.assertTrue(process.stdout.read(10))
        process.stdout.close()
        _, errors = process.communicate(timeout=60)
        self.assertEqual(errors, b"")
        self.assertNotEqual(process.returncode, 1)

    @unittest.skipUnless(hasattr(os, "mkfifo"), "needs named pipes")
    def test_interrupt(self):
        os.mkfifo("pipe")
        process = self.start("pipe", stdout=subprocess.DEVNULL)
        with open("pipe", "wb"):        # it is waiting for us now
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        self.assertEqual(errors, b"")
        self.assertEqual(process.returncode, 130)

    def read_terminal(self, descriptor):
        pieces = []
        while True:
            ready, _, _ = select.select([descriptor], [], [], util.TIMEOUT)
            try:
                piece = os.read(descriptor, 4096) if ready else b""
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                piece = b""
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)

    @unittest.skipUnless(hasattr(os, "mkfifo"), "needs named pipes")
    def test_progress_on_a_terminal(self):
        os.mkfifo("pipe")
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "tracemalloc", "pipe"],
            stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        with open("big", "rb") as file:
            data = file.read()
        with open("pipe", "wb", buffering=0) as pipe:
            pipe.write(data[:1000])
            # Slow enough to be worth showing.
            ready = []
            import time
            end = time.monotonic() + util.TIMEOUT
            position = 1000
            while not ready and time.monotonic() < end:
                pipe.write(data[position:position + 1000])
                position += 1000
                ready, _, _ = select.select([master], [], [], 0.05)
            pipe.write(data[position:])
        shown = self.read_terminal(master)
        os.close(master)
        self.assertEqual(process.wait(util.TIMEOUT), 0)
        self.assertIn(b"reading pipe: ", shown)
        # The line is wiped at the end.
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown[-50:])

    def test_no_progress_elsewhere(self):
        process = self.start("big", stdout=subprocess.DEVNULL)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(errors, b"")


if __name__ == "__main__":
    unittest.main()
