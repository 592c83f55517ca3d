#!/usr/bin/env python3
"""Measure what a reserved signal and tracing cost a server, against stock.

One gunicorn worker serves JSON and templates to one client.  Processor time of
the worker for a request is what counts: it does not depend on what else the
machine does.  Servers take turns, and ratios are taken within a turn.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import servers
from load import ask, wait_until
from run import Checks

HERE = Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")


def processor_time(pid: int) -> float:
    """Seconds of processor time of all threads of a process."""
    with contextlib.suppress(OSError, ValueError):
        words = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()
        return int(words[0]) / 1e9
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICK


class Subject:
    """A server, measured in turns."""

    def __init__(self, name: str, server: servers.Server, trace: bool) -> None:
        self.name = name
        self.server = server
        self.worker = wait_until(server.workers, "a worker")[0]
        self.times: list[float] = []        # processor time of a request, a turn each
        self.rates: list[float] = []        # requests a second
        if trace:
            server.signal(self.worker, ".snapshot")

    def turn(self, requests: int, keep: bool = True) -> None:
        before, at = processor_time(self.worker), time.monotonic()
        for _ in range(requests):
            ask(self.server.port, "/bench")
        if keep:
            self.times.append((processor_time(self.worker) - before) / requests)
            self.rates.append(requests / (time.monotonic() - at))


def serve(checks: Checks, stack: contextlib.ExitStack, turns: int, requests: int) -> list[Subject]:
    def subject(name: str, python: Path, trace: bool = False, **values: object) -> Subject:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = servers.gunicorn(checks.venv(python), folder, workers=1, application="bench_app", **values)
        return Subject(name, stack.enter_context(server), trace)

    subjects = [subject("stock", checks.stock, reserve=False),
                subject("reserved, not tracing", checks.ours),
                subject("reserved, tracing, 25 frames", checks.ours, trace=True),
                subject("stock, tracing, 25 frames", checks.stock, reserve=False, PYTHONTRACEMALLOC="25"),
                subject("without the option", checks.ours, reserve=False)]
    for one in subjects:
        one.turn(requests, keep=False)
    for number in range(turns):
        for one in subjects[number % 5:] + subjects[:number % 5]:
            one.turn(requests)
    return subjects


def ratio(over: list[float], under: list[float]) -> tuple[float, float]:
    """Median of the ratios within turns, and how far off it may be."""
    ratios = sorted(a / b for a, b in zip(over, under, strict=True))
    quarter = len(ratios) // 4
    return statistics.median(ratios), (ratios[-1 - quarter] - ratios[quarter]) / len(ratios) ** 0.5


def show(subjects: list[Subject]) -> None:
    base, reserved, tracing, stock_tracing, plain = subjects
    print(f"{'server':32} {'ms a request':>12} {'requests/s':>12}")
    for one in subjects:
        print(f"{one.name:32} {1000 * statistics.median(one.times):12.3f} {statistics.median(one.rates):12.0f}")
    print()
    for text, slow, fast, bar in (("reserved against stock", reserved, base, "at least 0.99"),
                                  ("reserved against the same without the option", reserved, plain, "at least 0.99"),
                                  ("tracing against not tracing", tracing, reserved, "at least 0.85"),
                                  ("the same with stock", stock_tracing, base, "no bar")):
        value, spread = ratio(fast.times, slow.times)
        print(f"{text:46} {value:6.3f} +- {spread:.3f} requests for the same processor time ({bar})")


def pause(python: Path, blocks: int) -> None:
    """From kill to the files, and how long the program stood still."""
    with tempfile.TemporaryDirectory() as name:
        command = [str(python), "-X", "tracemalloc_signal=USR2", str(HERE / "pause.py"), str(blocks)]
        process = subprocess.Popen(command, cwd=name, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=servers.environment())

        def say(line: str = "") -> None:
            process.stdin.write(line + "\n")
            process.stdin.flush()

        def measure(pattern: str) -> tuple[float, float]:
            say()
            process.stdout.readline()
            at = time.monotonic()
            process.send_signal(signal.SIGUSR2)
            wait_until(lambda: list(Path(name).glob(pattern)), pattern)
            taken = time.monotonic() - at
            say()
            return taken, float(process.stdout.readline())

        process.stdout.readline()
        process.send_signal(signal.SIGUSR2)
        wait_until(lambda: list(Path(name).glob("*-0001.snapshot")), "the first snapshot")
        say()
        process.stdout.readline()
        before = processor_time(process.pid)
        taken, still = measure("*-0002.diff.txt")
        used = processor_time(process.pid) - before
        size = max(path.stat().st_size for path in Path(name).glob("*.snapshot"))
        print(f"{blocks} blocks: {taken:.3f} s from kill to both snapshots and the difference (at most 1), the program stood still for "
              f"{still:.3f} s (at most 0.3; {used:.3f} s of processor time in all), {size / 1e6:.1f} MB", flush=True)
        process.stdin.close()
        process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, default=Path("build/release/python"))
    parser.add_argument("--stock", type=Path, default=Path("build/stock/python"))
    parser.add_argument("--folder", type=Path, default=Path("build/services"), help="for the venvs")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--requests", type=int, default=100, help="a turn (default: %(default)s)")
    parser.add_argument("--blocks", type=int, default=1_000_000)
    parser.add_argument("--only", choices=("rates", "pause"))
    options = parser.parse_args()
    options.folder, options.stock = options.folder.resolve(), options.stock.absolute()
    options.signals = options.seed = 0
    checks = Checks(options)
    if options.only != "rates":
        for _ in range(3):
            pause(checks.ours, options.blocks)
        print()
    if options.only != "pause":
        with contextlib.ExitStack() as stack:
            show(serve(checks, stack, options.turns, options.requests))
    return 0


if __name__ == "__main__":
    sys.exit(main())
