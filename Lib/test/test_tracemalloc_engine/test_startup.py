"""Tracing from the first moment: -X tracemalloc, PYTHONTRACEMALLOC, the fork
policy's options, and what a wrong value does."""

import os
import subprocess
import sys
import unittest
from test.support import os_helper

from .util import GIL_DISABLED, Ended, clean_env, run_child

SHOW = "import _tracemalloc as t; print(t.is_tracing(), t.get_traceback_limit())"
SHOW_POLICY = "import _tracemalloc as t; print(t.get_fork_policy())"

X_INVALID = ("Fatal Python error: config_init_tracemalloc: "
             "-X tracemalloc=NFRAME: invalid number of frames")
ENV_INVALID = ("Fatal Python error: config_init_tracemalloc: "
               "PYTHONTRACEMALLOC: invalid number of frames")
TOO_MANY = "Fatal Python error: init_interp_main: can't start tracemalloc"

OFF = "False 1"
# What the standard library's interpreter makes of each value.
VALUES = {
    "": OFF, "0": OFF, "1": "True 1", "65535": "True 65535", " 5": "True 5",
    "05": "True 5", "+5": "True 5", "65536": TOO_MANY,
    "foo": None, "-1": None, "5 ": None, "1x": None, "1.0": None, "0x5": None,
    "4294967297": None, "99999999999999999999": None,
}


class Options(unittest.TestCase):
    maxDiff = None

    def check(self, done: Ended, wanted: str | None, invalid: str) -> None:
        lines = done.err.splitlines()
        if wanted is None or wanted == TOO_MANY:
            self.assertEqual(done.status, 1)
            self.assertEqual(done.out, "")
            self.assertEqual(lines[0], wanted or invalid)
        else:
            self.assertEqual((done.status, done.out.strip(), lines),
                             (0, wanted, []))
        if wanted is None:
            self.assertEqual(lines[1:],
                             ["Python runtime state: preinitialized", ""])
        elif wanted == TOO_MANY:
            self.assertEqual(lines[1:3], [
                "Python runtime state: core initialized",
                "ValueError: the number of frames must be in range [1; 65535]"])

    def test_x_option(self):
        for value, wanted in VALUES.items():
            with self.subTest(value=value):
                done = run_child(SHOW, "-X", f"tracemalloc={value}")
                self.check(done, wanted, X_INVALID)
        self.check(run_child(SHOW, "-X", "tracemalloc"), "True 1", "")

    def test_environment(self):
        for value, wanted in VALUES.items():
            with self.subTest(value=value):
                done = run_child(SHOW, env={"PYTHONTRACEMALLOC": value})
                self.check(done, wanted, ENV_INVALID)

    def test_which_one_counts(self):
        env = {"PYTHONTRACEMALLOC": "4"}
        for options, wanted in (((), "True 4"),
                                (("-X", "tracemalloc"), "True 1"),
                                (("-X", "tracemalloc=7"), "True 7"),
                                (("-X", "tracemalloc=0"), OFF),
                                (("-X", "tracemalloc=2",
                                  "-X", "tracemalloc=3"), "True 2"),
                                (("-E",), OFF),
                                (("-I",), OFF),
                                (("-E", "-X", "tracemalloc=3"), "True 3"),
                                (("-I", "-X", "tracemalloc=3"), "True 3")):
            with self.subTest(options=options):
                self.check(run_child(SHOW, *options, env=env), wanted, "")

    def test_ignored_environment_may_be_wrong(self):
        for option in ("-E", "-I"):
            for name in ("PYTHONTRACEMALLOC", "PYTHONTRACEMALLOC_FORK"):
                with self.subTest(option=option, name=name):
                    done = run_child(SHOW, option, env={name: "nonsense"})
                    self.check(done, OFF, "")

    def test_off_by_default(self):
        self.check(run_child(SHOW), OFF, "")

    def test_help(self):
        for options, wanted in (
                (("--help-xoptions",), ("-X tracemalloc[=N]:", "-X tracemalloc_fork=")),
                (("--help-env",), ("PYTHONTRACEMALLOC:",
                                   "PYTHONTRACEMALLOC_FORK:")),
                (("--help-all",), ("-X tracemalloc_fork=",
                                   "PYTHONTRACEMALLOC_FORK:"))):
            done = subprocess.run([sys.executable, *options], env=clean_env(),
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0)
            for text in wanted:
                self.assertIn(text, done.stdout)


class ForkOptions(unittest.TestCase):
    def policy(self, *options, env=None):
        return run_child(SHOW_POLICY, *options, env=env)

    def test_values(self):
        self.assertEqual(self.policy().out.strip(), "None")
        for value in ("disable", "follow"):
            with self.subTest(value=value):
                done = self.policy("-X", f"tracemalloc_fork={value}")
                self.assertEqual((done.status, done.out.strip(), done.err),
                                 (0, value, ""))
                done = self.policy(env={"PYTHONTRACEMALLOC_FORK": value})
                self.assertEqual((done.status, done.out.strip(), done.err),
                                 (0, value, ""))

    def test_which_one_counts(self):
        env = {"PYTHONTRACEMALLOC_FORK": "disable"}
        done = self.policy("-X", "tracemalloc_fork=follow", env=env)
        self.assertEqual(done.out.strip(), "follow")
        for option in ("-E", "-I"):
            self.assertEqual(self.policy(option, env=env).out.strip(), "None")

    def test_invalid(self):
        for value in ("tracemalloc_fork", "tracemalloc_fork=",
                      "tracemalloc_fork=no", "tracemalloc_fork=Follow",
                      "tracemalloc_fork=follow "):
            with self.subTest(value=value):
                done = self.policy("-X", value)
                self.assertEqual(done.status, 1)
                self.assertIn("the policy must be disable or follow", done.err)
        for value in ("no", "FOLLOW", "1"):
            with self.subTest(value=value):
                done = self.policy(env={"PYTHONTRACEMALLOC_FORK": value})
                self.assertEqual(done.status, 1)
                self.assertIn("PYTHONTRACEMALLOC_FORK", done.err)

    def test_does_not_start_tracing(self):
        done = run_child(SHOW, "-X", "tracemalloc_fork=follow")
        self.assertEqual(done.out.strip(), OFF)


class Early(unittest.TestCase):
    """Traced from the first allocations on."""

    def test_imports_of_startup_are_traced(self):
        done = run_child("""
            import _tracemalloc, os, sys
            assert _tracemalloc._check() is None
            # The module was imported long before this line.
            traced = _tracemalloc._get_object_traceback(os.__dict__["walk"])
            assert traced is not None
            print(len(_tracemalloc._get_traces()) > 1000,
                  any(t[2][0][0].startswith("<frozen ")
                      for t in _tracemalloc._get_traces()))
        """, "-X", "tracemalloc=5")
        self.assertEqual(done.out.strip(), "True True", done)

    def test_what_the_site_module_runs(self):
        with os_helper.temp_dir() as folder:
            with open(os.path.join(folder, "sitecustomize.py"), "w") as f:
                f.write("import sys\nsys.early = bytearray(1)\n")
            done = run_child("""
                import _tracemalloc, sys
                name, line = _tracemalloc._get_object_traceback(sys.early)[0]
                print(name.endswith("sitecustomize.py"), line)
            """, "-X", "tracemalloc", env={"PYTHONPATH": folder})
        self.assertEqual(done.out.strip(), "True 2", done)

    def test_with_dev_mode_and_debug_allocators(self):
        for options, env in ((("-X", "dev"), {}),
                             ((), {"PYTHONMALLOC": "debug"}),
                             ((), {"PYTHONMALLOC": "malloc"}),
                             ((), {"PYTHONDEVMODE": "1"}),
                             (("-X", "perf"), {}),
                             (("-S", "-B"), {}),
                             (("-X", "importtime"), {}),
                             (("-X", "frozen_modules=off"), {})):
            if GIL_DISABLED and env.get("PYTHONMALLOC") == "malloc":
                continue        # the free-threaded build has mimalloc only
            with self.subTest(options=options, env=env):
                done = run_child("""
                    import _tracemalloc as t, os, sys
                    block = bytearray(1)
                    line = sys._getframe().f_lineno - 1
                    assert t._get_object_traceback(block)[0][1] == line
                    assert t._check() is None
                    if "perf" in sys._xoptions:
                        try:
                            os.remove(f"/tmp/perf-{os.getpid()}.map")
                        except FileNotFoundError:
                            pass
                    print("ok")
                """, "-X", "tracemalloc=3", *options, env=env)
                self.assertEqual((done.status, done.out.strip()), (0, "ok"),
                                 done)

    def test_stop_what_was_started_by_an_option(self):
        done = run_child("""
            import _tracemalloc as t
            t.stop()
            print(t.is_tracing(), t.get_traced_memory())
            t.start(2)
            x = bytearray(1)
            print(len(t._get_object_traceback(x)), t._check())
        """, "-X", "tracemalloc=9")
        self.assertEqual(done.out.split("\n")[:2],
                         ["False (0, 0)", "1 None"], done)

    def test_other_ways_to_run(self):
        with os_helper.temp_dir() as folder:
            script = os.path.join(folder, "script.py")
            with open(script, "w") as f:
                f.write("import _tracemalloc as t, sys\n"
                        "x = bytearray(1)\n"
                        "print(t._get_object_traceback(x)[0])\n")
            for arguments in ([script], ["-m", "script"]):
                done = subprocess.run(
                    [sys.executable, "-X", "tracemalloc=2", *arguments],
                    env=clean_env(), cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.stdout.strip(), repr((script, 2)))
            done = subprocess.run(
                [sys.executable, "-X", "tracemalloc=2", "-"], env=clean_env(),
                input="import _tracemalloc as t\nx = bytearray(1)\n"
                      "print(t._get_object_traceback(x)[0])\n",
                capture_output=True, text=True)
            self.assertEqual(done.stdout.strip(), repr(("<stdin>", 2)))


if __name__ == "__main__":
    unittest.main()
