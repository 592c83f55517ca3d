"""python -m tracemalloc run: a program traced from start to exit."""

import importlib.util
import marshal
import signal
import textwrap
import tracemalloc
import unittest
import zipfile

from test.test_tracemalloc_services.util import ServiceTest, run_python


class RunTests(ServiceTest):
    def write(self, text, name="program.py"):
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def run_it(self, *arguments, options=(), **kwargs):
        kwargs.setdefault("cwd", self.folder)
        return run_python(*options, "-m", "tracemalloc", "run", *arguments,
                          **kwargs)

    def check(self, done, status=0, line=2, name="program.py"):
        """The exit status, and that the top names the line that allocates."""
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^#1: (\S*/)?"
                         rf"{name}:{line}: size=4\d\d\d KiB")

    PROGRAM = ("import sys, os, signal, time\n"
               "kept = [bytes(100_000) for _ in range(42)]\n")

    def test_end(self):
        self.write(self.PROGRAM + "print(sys.argv, __name__)\n")
        done = self.run_it("program.py", "-x", "--top", "a b")
        self.check(done)
        self.assertEqual(done.stdout, "['program.py', '-x', '--top', 'a b'] "
                         "__main__\n")

    def test_exit_statuses(self):
        for end, status in (("sys.exit(3)", 3), ("sys.exit()", 0),
                            ("sys.exit('reason')", 1), ("1 / 0", 1),
                            ("raise SystemExit(0)", 0)):
            with self.subTest(end=end):
                self.write(self.PROGRAM + f"{end}\n")
                done = self.run_it("program.py")
                self.check(done, status)
                if "reason" in end:
                    self.assertIn("reason\n", done.stderr)

    def test_traceback_is_the_program_s(self):
        path = self.write("def f():\n    raise KeyError(1)\nf()\n")
        stock = run_python("program.py", cwd=self.folder)
        done = self.run_it("program.py", "--top", "0")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith(stock.stderr), done.stderr)
        self.assertIn(str(path), done.stderr)

    def test_two_hyphens(self):
        self.write("print(__import__('sys').argv)\n")
        done = self.run_it("--", "program.py", "--", "-n")
        self.assertEqual(done.stdout, "['program.py', '--', '-n']\n")

    def test_program_that_spoils_it(self):
        for line in ("sys.modules.clear()",
                     "sys.modules['tracemalloc'] = None",
                     "sys.path.clear()"):
            self.write(f"import sys\n{line}\n")
            done = self.run_it("program.py")
            self.assertEqual(done.returncode, 0)
            self.assertRegex(done.stderr,
                             "Traced Python memory|cannot be shown")
            self.assertNotIn("Traceback", done.stderr)

    def test_no_memory_for_the_top(self):
        self.write("""\
            import tracemalloc._run as run
            def fail(*args, **names): raise MemoryError
            run.Snapshot.create = fail
            """)
        done = self.run_it("program.py")
        self.assertEqual((done.returncode, done.stderr), (
            0, "tracemalloc: the top cannot be shown: MemoryError\n"))

    def test_builtins(self):
        self.write("print(__builtins__.__name__, __builtins__.len('ab'))\n")
        self.assertEqual(self.run_it("program.py").stdout, "builtins 2\n")

    def test_file_name(self):
        self.write("import os\nprint(__file__, (lambda: 0)"
                   ".__code__.co_filename, __import__('sys').argv)\n")
        stock = run_python("program.py", cwd=self.folder)
        self.assertEqual(self.run_it("program.py").stdout, stock.stdout)

    def test_own_lines_are_not_shown(self):
        for end in ("", "1 / 0", "import sys; sys.exit(3)"):
            self.write(end)
            done = self.run_it("-n", "1000", "program.py")
            self.assertIn("Traced Python memory", done.stderr)
            self.assertNotIn("tracemalloc/", done.stderr)
            self.assertNotIn("<frozen runpy>", done.stderr)

    def test_no_excepthook(self):
        for what in ("sys.excepthook = None", "del sys.excepthook"):
            self.write(f"import sys\n{what}\n1 / 0\n")
            done = self.run_it("--top", "0", "program.py")
            self.assertEqual(done.returncode, 1)
            self.assertIn("ZeroDivisionError", done.stderr)
            self.assertNotIn("AttributeError", done.stderr)

    def test_excepthook_of_the_program(self):
        self.write("import sys\n"
                   "sys.excepthook = lambda *a: print('hook', a[0])\n1 / 0\n")
        done = self.run_it("--top", "0", "program.py")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, "hook <class 'ZeroDivisionError'>\n", ""))

    def test_exception_in_a_small_program(self):
        # What shows the traceback does not push the program off the top.
        self.write("""\
            def fail(kept): return kept["a key"]
            kept = [bytes(1000) for _ in range(20)]
            fail(kept)
            """)
        done = self.run_it("program.py")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"(?m)^#1: (\S*/)?program.py:2: ")

    def test_sigterm(self):
        self.write(self.PROGRAM
                   + "os.kill(os.getpid(), signal.SIGTERM)\n"
                   + "time.sleep(1000)\n")
        self.check(self.run_it("program.py"), -signal.SIGTERM)

    def test_sigterm_of_the_program(self):
        self.write(self.PROGRAM
                   + "signal.signal(signal.SIGTERM,"
                   + " lambda *a: sys.exit(7))\n"
                   + "os.kill(os.getpid(), signal.SIGTERM)\n")
        self.check(self.run_it("program.py"), 7)

    def test_ctrl_c(self):
        self.write(self.PROGRAM
                   + "os.kill(os.getpid(), signal.SIGINT)\n"
                   + "time.sleep(1000)\n")
        done = self.run_it("program.py")
        self.check(done, -signal.SIGINT)
        self.assertIn("KeyboardInterrupt", done.stderr)

    def test_threads_and_exit_functions(self):
        self.write("""\
            import atexit, threading, time
            def later():
                global kept
                kept = [bytes(100_000) for _ in range(42)]
            def run():
                time.sleep(0.1)
                atexit.register(later)
            threading.Thread(target=run).start()
            """)
        self.check(self.run_it("program.py"), line=4)

    def test_forked_child_shows_nothing(self):
        self.write(self.PROGRAM + "pid = os.fork()\n"
                   "if pid:\n    assert os.waitpid(pid, 0)[1] == 0\n")
        done = self.run_it("program.py")
        self.check(done)
        self.assertEqual(done.stderr.count("Traced Python memory"), 1)

    def test_output(self):
        self.write(self.PROGRAM + "os.chdir('/')\n")
        done = self.run_it("-o", "out.snapshot", "--nframe", "3", "-n", "1",
                           "program.py")
        self.assertEqual(done.stderr.count("#"), 1)
        self.check(done)
        snapshot = tracemalloc.Snapshot.load(self.folder / "out.snapshot")
        self.assertEqual(snapshot.traceback_limit, 3)
        top = snapshot.statistics("lineno")[0]
        self.assertEqual(top.traceback[0].lineno, 2)

    def test_sample(self):
        self.write(self.PROGRAM)
        done = self.run_it("-o", "x.snapshot", "--sample", "1000",
                           "program.py")
        self.check(done)
        snapshot = tracemalloc.Snapshot.load(self.folder / "x.snapshot")
        self.assertEqual(snapshot.sample_interval, 1000)

    def test_sample_with_a_unit(self):
        self.write("import tracemalloc\nprint(tracemalloc.get_sample_interval())\n")
        for text, interval in (("4k", 4096), ("1MiB", 1 << 20), ("3", 3)):
            done = self.run_it("--sample", text, "program.py")
            self.assertEqual(done.stdout, f"{interval}\n")
        for text in ("0", "k", "4x", "-1", "9" * 30):
            done = self.run_it("--sample", text, "program.py")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("number of bytes from 1 on, such as 512k", done.stderr)

    def test_output_fails(self):
        self.write(self.PROGRAM)
        for output, why in (("no/such/folder", "No such file"),
                            (".", "Is a directory")):
            # Before the program has done its work for nothing.
            done = self.run_it("-o", output, "program.py")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(f"{output}: {why}", done.stderr)

    def test_output_fails_at_the_end(self):
        (self.folder / "gone").mkdir()
        self.write(self.PROGRAM + "os.rmdir('gone')\n")
        done = self.run_it("-o", "gone/x.snapshot", "program.py")
        self.check(done)
        self.assertIn("gone/x.snapshot: No such file", done.stderr)

    def test_module(self):
        package = self.folder / "package"
        package.mkdir()
        self.write("", "package/__init__.py")
        self.write("""\
            import sys
            kept = [bytes(100_000) for _ in range(42)]
            from . import other
            print(sys.argv[1:], __package__, __spec__.name, sys.path[0])
            """, "package/__main__.py")
        self.write("", "package/other.py")
        done = self.run_it("-m", "package", "-m", "-o", "x")
        self.check(done, name="__main__.py")
        self.assertEqual(done.stdout, "['-m', '-o', 'x'] package "
                         f"package.__main__ {self.folder}\n")

    def test_archive_and_folder(self):
        self.write(self.PROGRAM + "print(sys.argv[0], sys.path[0])\n",
                   "__main__.py")
        with zipfile.ZipFile(self.folder / "app.zip", "w") as archive:
            archive.write(self.folder / "__main__.py", "__main__.py")
        for name in ("app.zip", str(self.folder)):
            with self.subTest(name=name):
                done = self.run_it(name)
                self.check(done, name="__main__.py")
                self.assertEqual(done.stdout, f"{name} {name}\n")

    def test_main_module_is_the_program(self):
        self.write("""\
            import sys, multiprocessing, pickle
            kept = [bytes(100_000) for _ in range(42)]
            class C: pass
            def double(n): return n * 2
            if __name__ == "__main__":
                assert sys.modules["__main__"].__dict__ is globals()
                pickle.loads(pickle.dumps(C()))
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    print(pool.map(double, [21]))
            """)
        done = self.run_it("program.py")
        self.check(done)
        self.assertEqual(done.stdout, "[42]\n")

    def test_usage(self):
        for name, data in (("bad", bytes(12) + b"?"), ("short", b""),
                           ("odd", bytes(12) + marshal.dumps(1))):
            (self.folder / f"{name}.pyc").write_bytes(
                importlib.util.MAGIC_NUMBER + data)
        for arguments, status in (((), 2), (("-m",), 2), (("none.py",), 1),
                                  (("-m", "no_such_module"), 1),
                                  (("--",), 2), (("bad.pyc",), 1),
                                  (("short.pyc",), 1), (("odd.pyc",), 1),
                                  (("--nframe", "0", "x.py"), 2),
                                  (("--sample", "0", "x.py"), 2)):
            with self.subTest(arguments=arguments):
                done = self.run_it(*arguments)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn("tracemalloc", done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_streams_are_the_program_s(self):
        self.write("import sys\nprint(sys.stdout, sys.stdout.errors)\n")
        stock = run_python("program.py", cwd=self.folder)
        done = self.run_it("program.py")
        self.assertEqual(done.stdout, stock.stdout)
        # a reader that has gone is the program's problem
        self.write("import os\ntry:\n    raise OSError(5, 'mine')\n"
                   "finally:\n    print('end')\n")
        done = self.run_it("program.py")
        self.assertEqual((done.returncode, done.stdout), (1, "end\n"))
        self.assertIn("OSError: [Errno 5] mine", done.stderr)


if __name__ == "__main__":
    unittest.main()
