"""Counting tests: what one suite came to, and running a suite with its output in a log.

A suite that is not a Python test of the interpreter (room fuzzers, cases, oracle runs) reports itself by a last line
"N passed, N failed, N skipped".
"""
from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUILD_DIR") or ROOT / "build").absolute()

_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)      # names, for the reader
    remarks: list[str] = field(default_factory=list)

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped,
                      self.failures + other.failures, self.remarks + other.remarks)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def last_line_counts(text: str) -> Counts | None:
    """Counts of the last line of that form in a text."""
    found = _LINE.findall(text)
    return Counts(*(int(n or 0) for n in found[-1])) if found else None


def unittest_counts(text: str) -> Counts | None:
    """Counts of the summary that unittest prints."""
    ran = re.findall(r"^Ran (\d+) tests? in ", text, re.M)
    if not ran:
        return None
    end = text[text.rindex("\nRan "):]
    number = {word: int(n) for word, n in re.findall(r"(failures|errors|skipped|unexpected successes)=(\d+)", end)}
    failed = number.get("failures", 0) + number.get("errors", 0) + number.get("unexpected successes", 0)
    skipped = number.get("skipped", 0)
    names = re.findall(r"^(?:FAIL|ERROR): (.*)$", text, re.M)
    return Counts(max(int(ran[-1]) - failed - skipped, 0), failed, skipped, names)


def environment(variant: str) -> dict[str, str]:
    """What the tests see: no PYTHON* of the caller, and sane sanitizers."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") and k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "VARIANT")}
    if variant == "asan":
        env.setdefault("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1:handle_segv=0:detect_stack_use_after_return=0")
        env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
    if variant == "tsan":
        env.setdefault("TSAN_OPTIONS", f"handle_segv=0:suppressions={BUILD}/src/Tools/tsan/suppressions_free_threading.txt")
    return env


def python(variant: str) -> Path:
    return BUILD / variant / "python"


def log_path(variant: str, name: str) -> Path:
    folder = BUILD / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{variant}-{name}.log"


def run_logged(command: list[str], log: Path, variant: str, cwd: Path = ROOT, timeout: float | None = None) -> tuple[int, str]:
    """Run a command with all output in a log; returns its status and what it printed.  A time limit gives status 124."""
    with open(log, "wb") as out:
        out.write((" ".join(command) + "\n").encode())
        out.flush()
        try:
            done = subprocess.run(command, cwd=cwd, env=environment(variant), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                  timeout=timeout, check=False)
            status = done.returncode
        except subprocess.TimeoutExpired:
            status = 124
    return status, log.read_text(encoding="utf-8", errors="replace")


def reporting(command: list[str], log: Path, variant: str, timeout: float | None = None) -> Counts:
    """Run a suite that ends with a line of counts."""
    status, text = run_logged(command, log, variant, timeout=timeout)
    counts = last_line_counts(text)
    if counts is None:
        return Counts(failed=1, failures=[f"{command[-1]}: no line of counts at the end (status {status})"])
    if status and not counts.failed:
        counts.failed += 1
        counts.failures.append(f"{command[-1]}: exit status {status}")
    elif counts.failed:
        lines = [line.split() for line in text.splitlines() if re.match(r"\s*(\S+\s+)?(FAIL|FAILED|TIMEOUT)\b", line)]
        counts.failures += [" ".join(words[1:] if words[0] in ("FAIL", "FAILED", "TIMEOUT") else words) for words in lines][:40]
    return counts


class Report:
    """Prints a line a suite as it ends, and keeps the sum."""

    def __init__(self) -> None:
        self.total = Counts()
        self._started = time.monotonic()

    def start(self) -> None:
        self._started = time.monotonic()

    def pause(self, seconds: float) -> None:
        """Do not count the time that something else took."""
        self._started += seconds

    def add(self, title: str, counts: Counts, log: Path | None = None) -> None:
        seconds = int(time.monotonic() - self._started)
        print(f"{title}: {counts} ({seconds} s)", flush=True)
        for remark in counts.remarks:
            print(f"    {remark}")
        for name in counts.failures[:40]:
            print(f"    FAILED {name}")
        if counts.failed and log:
            print(f"    log: {log}")
        sys.stdout.flush()
        self.total += counts
        self.start()

    def finish(self) -> int:
        print(self.total, flush=True)
        return 1 if self.total.failed else 0
