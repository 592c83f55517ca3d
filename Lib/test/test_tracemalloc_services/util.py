"""What the tests of services share: programs that run beside the test, which
can be signalled and talked to, and the files that they write."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import tracemalloc
import unittest
from collections.abc import Callable, Iterable

from test import support

SIGNAL = signal.SIGUSR2

# For programs: what leaks, and a way to do what the test says.
HELPERS = '''\
import os, signal, sys, time
kept = []
def leak(n=20):
    for _ in range(n):
        kept.append(bytearray(50_000))      # the leak
def say(*words):
    print(*words, flush=True)
def hear():
    return sys.stdin.readline().strip()
'''
LEAK_LINE = 5
# The main thread sleeps; another one signals itself when it is told to.
OTHER_THREAD = '''
import threading
def run():
    hear()
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
    time.sleep(1000)
threading.Thread(target=run, daemon=True).start()
say("ready")
time.sleep(1000)
'''


def environment(**values: str | None) -> dict[str, str]:
    """The environment without options of tracing; None removes a name."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PYTHON")}
    for name, value in values.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def wait_until(condition: Callable[[], object], what: str) -> object:
    """Wait for a condition to be true, and return what it gives."""
    for _ in support.sleeping_retry(support.LONG_TIMEOUT, error=False):
        found = condition()
        if found:
            return found
    raise AssertionError(f"waited in vain: {what}")


class Service:
    """A program that runs beside the test.

    Its text comes after HELPERS, in a file of its own; it talks by lines.
    """

    def __init__(self, test: "ServiceTest", program: str, *arguments: str,
                 options: Iterable[str] = ("-X", "tracemalloc_signal=USR2"),
                 env: dict[str, str] | None = None, cwd=None):
        self.script = test.folder / "program.py"
        self.script.write_text(HELPERS + textwrap.dedent(program))
        self.test = test
        self.folder = pathlib.Path(cwd or test.folder)
        self.process = subprocess.Popen(
            [sys.executable, *options, str(self.script), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env=environment() if env is None else env)
        self.pid = self.process.pid
        self.errors: str | None = None
        test.addCleanup(self._end)

    def _end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout,
                       self.process.stderr):
            stream.close()

    def hear(self) -> str:
        """Read a line that the program says."""
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise AssertionError("the program ended with "
                                 f"{self.process.returncode}: "
                                 f"{self.process.stderr.read()}")
        return line.strip()

    def expect(self, line: str) -> None:
        self.test.assertEqual(self.hear(), line)

    def say(self, line: str = "") -> None:
        """Let the program read a line."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def signal(self, pid: int | None = None, signum: int = SIGNAL) -> None:
        os.kill(self.pid if pid is None else pid, signum)

    def files(self, pattern: str = "*", pid: int | None = None
              ) -> list[pathlib.Path]:
        """What the program, or another process, has written; in order."""
        name = f"tracemalloc-{self.pid if pid is None else pid}-{pattern}"
        return sorted(self.folder.glob(name))

    def wait_files(self, number: int, pattern: str = "*",
                   pid: int | None = None) -> list[pathlib.Path]:
        """Wait until that many files are there."""
        wait_until(lambda: len(self.files(pattern, pid)) >= number
                   or self.process.poll() is not None,
                   f"{number} files {pattern}")
        found = self.files(pattern, pid)
        self.test.assertEqual(len(found), number, found)
        return found

    def pair(self, between: Callable[[], object], pid: int | None = None):
        """Signal twice; return both snapshots and the lines of the diff."""
        snapshots = len(self.files("*.snapshot", pid))
        diffs = len(self.files("*.diff.txt", pid))
        self.signal(pid)
        self.wait_files(snapshots + 1, "*.snapshot", pid)
        between()
        self.signal(pid)
        found = self.wait_files(diffs + 1, "*.diff.txt", pid)
        both = self.files("*.snapshot", pid)[-2:]
        return (*map(tracemalloc.Snapshot.load, both),
                found[-1].read_text().splitlines())

    def finish(self, status: int = 0, errors: str | None = "") -> str:
        """Let it end; check its exit status and what it said on stderr."""
        output, self.errors = self.process.communicate(
            timeout=support.LONG_TIMEOUT)
        self.test.assertEqual(self.process.returncode, status, self.errors)
        if errors is not None:
            self.test.assertEqual(self.errors, errors)
        return output


class ServiceTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(os.path.realpath(temporary.name))

    def service(self, program: str, *arguments: str, **options) -> Service:
        return Service(self, program, *arguments, **options)

    def talker(self, before: str = "", **options) -> Service:
        """A program that executes each line it hears, and says "done"."""
        service = self.service(textwrap.dedent(before) + textwrap.dedent('''
            say("ready")
            for line in sys.stdin:
                exec(line)
                say("done")
            '''), **options)
        service.expect("ready")
        return service

    def tell(self, service: Service, line: str) -> None:
        service.say(line)
        service.expect("done")

    def check_leak(self, lines: list[str], script: pathlib.Path) -> None:
        """The difference begins with the line that leaks."""
        self.assertTrue(lines[0].startswith(f"{script}:{LEAK_LINE}: size="),
                        lines[0])

    def check_json(self, path: pathlib.Path, script: pathlib.Path) -> None:
        data = json.loads(path.read_text())
        self.assertEqual(data["tracemalloc"], "difference")
        first = data["lines"][0]
        self.assertEqual((first["filename"], first["lineno"]),
                         (str(script), LEAK_LINE))


def run_python(*arguments: str, **options) -> subprocess.CompletedProcess:
    """Run the interpreter to its end."""
    options.setdefault("env", environment())
    return subprocess.run([sys.executable, *arguments], text=True,
                          capture_output=True, check=False,
                          timeout=support.LONG_TIMEOUT, **options)
