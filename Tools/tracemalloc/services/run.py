#!/usr/bin/env python3
"""Signal the workers of real servers under load, many times.

Needs a package index the first time.  README.md lists the checks.  The last
line is `N passed, N failed, N skipped`.
"""
from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import servers
from load import Load, ask, wait_until

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
PACKAGES = ("gunicorn", "uvicorn")


class Checks:
    """Each method that begins with check_ yields (name, function) pairs."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.signals = options.signals
        self.random = random.Random(options.seed)
        self.ours = options.python.resolve()
        self.stock = options.stock
        self.folder = options.folder
        self._venvs: dict[Path, Path] = {}

    def venv(self, python: Path) -> Path:
        """The interpreter of a venv with the servers in it."""
        if python not in self._venvs:
            folder = self.folder / ("stock" if python == self.stock else "ours")
            inner = folder / "bin" / "python"
            if not (inner.exists() and self._good(inner)):
                subprocess.run([str(python), "-m", "venv", "--clear", str(folder)], check=True)
                subprocess.run([str(inner), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES], check=True)
            self._venvs[python] = inner
        return self._venvs[python]

    @staticmethod
    def _good(inner: Path) -> bool:
        words = [str(inner), "-c", "import " + ", ".join(PACKAGES)]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    # -- the checks ------------------------------------------------------------------------------------------------------------

    def check_gunicorn(self) -> Iterator[tuple[str, Callable[[], str]]]:
        for kind in ("sync", "gthread"):
            for preload in (False, True):
                name = f"{kind}, {'preload' if preload else 'no preload'}"
                yield name, lambda kind=kind, preload=preload: self._under_load(
                    lambda folder: servers.gunicorn(self.venv(self.ours), folder, kind, preload), lambda server: server.workers())

    def check_uvicorn(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "busy", lambda: self._under_load(lambda folder: servers.uvicorn(self.venv(self.ours), folder),
                                               lambda server: [server.process.pid])
        yield "idle", self._idle

    def _under_load(self, start: Callable[[Path], servers.Server], workers: Callable[[servers.Server], list[int]]) -> str:
        with tempfile.TemporaryDirectory() as name, start(Path(name)) as server:
            pids = self._started(lambda: workers(server))
            pairs = self.signals // 2
            with Load(server.port, pause=0.01) as load:
                for number in range(pairs):
                    self._pair(server, load, pids[number % len(pids)])
            assert workers(server) == pids, f"workers were {pids}, are {workers(server)}"
            assert not load.failures, f"{len(load.failures)} requests failed: {load.failures[:3]}"
            said = server.log.read_text(encoding="utf-8")
            assert "tracemalloc:" not in said, said
            self._check_files(server, pids, pairs)
            return f"{2 * pairs} signals, {sum(load.answers.values())} requests"

    @staticmethod
    def _started(workers: Callable[[], list[int]]) -> list[int]:
        """The workers, once their number has not changed for a second."""
        pids, since = workers(), time.monotonic()
        while not pids or time.monotonic() - since < 1:
            time.sleep(0.05)
            now = workers()
            if now != pids:
                pids, since = now, time.monotonic()
        return pids

    def _pair(self, server: servers.Server, load: Load, pid: int) -> None:
        """Two signals at random moments, and a few requests between them."""
        time.sleep(self.random.uniform(0, 0.05))
        server.signal(pid, ".snapshot")
        enough = load.count(pid) + 4
        wait_until(lambda: load.count(pid) >= enough, f"requests to {pid}")
        time.sleep(self.random.uniform(0, 0.05))
        first = server.signal(pid, ".diff.txt").read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith(servers.LEAK), first

    def _check_files(self, server: servers.Server, pids: list[int], pairs: int) -> None:
        """All snapshots can be loaded, in one process."""
        snapshots = [str(path) for pid in pids for path in server.files(pid, ".snapshot")]
        assert len(snapshots) == 2 * pairs, f"{len(snapshots)} snapshots of {pairs} pairs"
        program = "import sys, tracemalloc\nfor name in sys.argv[1:]: tracemalloc.Snapshot.load(name)"
        subprocess.run([str(self.ours), "-c", program, *snapshots], check=True)

    def _idle(self) -> str:
        """The main thread waits in select, and nobody visits."""
        with tempfile.TemporaryDirectory() as name, servers.uvicorn(self.venv(self.ours), Path(name)) as server:
            for _ in range(10):
                server.signal(server.process.pid, ".snapshot")
            ask(server.port)
        return "10 signals"

    def check_control(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "stock, handler of the leader", lambda: self._control(LEAKY_HANDLER="1")
        yield "stock, no handler", self._control

    def _control(self, **values: str) -> str:
        with tempfile.TemporaryDirectory() as name, servers.gunicorn(
                self.venv(self.stock), Path(name), preload=True, reserve=False, **values) as server:
            pid = wait_until(server.workers, "workers")[0]
            os.kill(pid, signal.SIGUSR2)
            wait_until(lambda: pid not in server.workers(), "the death of the worker")
            return "the worker died"

    def check_examples(self) -> Iterator[tuple[str, Callable[[], str]]]:
        for readme in sorted((ROOT / "Tools/tracemalloc/examples").glob("*/README.md")):
            yield readme.parent.name, lambda readme=readme: self._example(readme)

    def _example(self, readme: Path) -> str:
        """Run the commands of a README in a folder like the one where make was run."""
        text = readme.read_text(encoding="utf-8")
        commands = re.search(r"```sh\n(.*?)```", text, re.S)[1]
        assert len(commands.splitlines()) == 4, commands
        leak = re.search(r"first line(?: for each worker)? is the one that leaks, `([^`]+)`", text)[1]
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "Tools").symlink_to(ROOT / "Tools")
            wrapper = Path(name) / "python"
            wrapper.write_text(f'#!/bin/sh\nexec {self.ours} "$@"\n', encoding="utf-8")
            wrapper.chmod(0o755)
            with subprocess.Popen(["true"]) as unused:
                port = 20000 + unused.pid % 30000
            script = commands.replace("/tmp/leaky", f"{name}/leaky").replace("8000", str(port)) + "status=$?\n" + (
                f"test ! -f {name}/leaky/pid || kill $(cat {name}/leaky/pid); test -z \"$!\" || kill $!\nexit $status\n")
            done = subprocess.run(["sh", "-c", script], cwd=name, capture_output=True, text=True, timeout=300, check=False,
                                  env=servers.environment(PIP_DISABLE_PIP_VERSION_CHECK="1"))
        shown = [line for line in done.stdout.splitlines() if f"{leak}: size=" in line]
        assert done.returncode == 0 and shown, done.stdout + done.stderr
        before = done.stdout.splitlines()[done.stdout.splitlines().index(shown[0]) - 1]
        assert before.startswith("[") or "visits" in before, f"{leak} is not the first line:\n{done.stdout}"
        return shown[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, default=Path("build/release/python"))
    parser.add_argument("--stock", type=Path, default=Path("build/stock/python"))
    parser.add_argument("--folder", type=Path, default=Path("build/services"), help="for the venvs")
    parser.add_argument("--signals", type=int, default=200, help="for each server (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None)
    names = [name.removeprefix("check_") for name in dir(Checks) if name.startswith("check_")]
    parser.add_argument("checks", nargs="*", choices=[[], *names])
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.stock = options.stock.absolute()
    options.seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    print(f"seed {options.seed}", flush=True)
    checks = Checks(options)
    passed = failed = skipped = 0
    for group in options.checks or names:
        if group == "control" and not options.stock.exists():
            print("skip   control: there is no stock interpreter", flush=True)
            skipped += 1
            continue
        for name, check in getattr(checks, f"check_{group}")():
            at = time.monotonic()
            try:
                text = check()
                passed += 1
                print(f"ok     {group}: {name}: {text} ({time.monotonic() - at:.0f} s)", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"FAILED {group}: {name}: {type(error).__name__}: {error}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
