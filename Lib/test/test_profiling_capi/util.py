"""What the tests of this folder share: fresh interpreters, and the stock build to compare with."""

import os
import subprocess
import sys
import textwrap
import threading
import time
import unittest

from test import support

from . import _build

GIL_DISABLED = support.Py_GIL_DISABLED
#: Names a build of the same version without our changes, to compare with.
STOCK_VARIABLE = "TRACEMALLOC_STOCK_PYTHON"


def run_python(code: str, *arguments: str, options: tuple[str, ...] = (), extensions: tuple[str, ...] = (),
               python: str = sys.executable, environment: dict[str, str] | None = None,
               timeout: float = support.LONG_TIMEOUT, launcher: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter of its own, with the test extensions named on its path; a launcher that ends with 76 is run again."""
    folders = [_build.folder_of(name) for name in extensions]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    clean["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(folders))
    clean.update(environment or {})
    command = [*launcher, python, *options, "-c", textwrap.dedent(code), *arguments]
    while True:
        done = subprocess.run(command, env=clean, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="backslashreplace", timeout=timeout)
        if not launcher or done.returncode != 76:
            return done


def stock_python() -> str:
    """The interpreter of the stock build; SkipTest when there is none."""
    built = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
    path = os.environ.get(STOCK_VARIABLE) or os.path.join(built, "stock", "python")
    if not os.path.exists(path):
        raise unittest.SkipTest(f"no stock build to compare with: {path}; set {STOCK_VARIABLE}")
    return path


def wait_while(condition) -> None:
    """Let other threads run until the condition is false."""
    for _ in support.sleeping_retry(support.LONG_TIMEOUT):
        if not condition():
            return


class BusyThreads:
    """Threads that call a function over and over while the block is executed; each has called it before the block begins."""

    def __init__(self, function, count: int = 3) -> None:
        self.stop = False
        self.function = function
        self.started = threading.Semaphore(0)
        self.threads = [threading.Thread(target=self._run) for _ in range(count)]

    def _run(self) -> None:
        self.function()
        self.started.release()
        while not self.stop:
            self.function()
            time.sleep(0)

    def __enter__(self) -> "BusyThreads":
        for thread in self.threads:
            thread.start()
        for _ in self.threads:
            self.started.acquire()
        return self

    def __exit__(self, *unused) -> None:
        self.stop = True
        for thread in self.threads:
            thread.join()


class CapiTestCase(unittest.TestCase):
    """Tests that run code in other interpreters."""

    #: Test extensions that the code imports.
    extensions: tuple[str, ...] = ()

    @classmethod
    def setUpClass(cls) -> None:
        for name in cls.extensions:
            _build.folder_of(name)

    def run_code(self, code: str, *arguments: str, wanted: str | None = "", **options) -> str:
        """Run code that has to succeed; what it prints, which has to be `wanted` unless that is None."""
        options.setdefault("extensions", self.extensions)
        done = run_python(code, *arguments, **options)
        if done.returncode == 77:
            self.skipTest(done.stdout.strip() or "cannot run here")
        self.assertEqual(done.returncode, 0, f"\n{done.stdout}\n{done.stderr}")
        if wanted is not None:
            self.assertEqual(done.stdout.strip(), wanted, done.stderr)
        return done.stdout
