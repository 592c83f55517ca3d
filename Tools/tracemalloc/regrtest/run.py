#!/usr/bin/env python3
"""Run the test suites of the fork and add up what they came to.

usage: run.py [--variant V] PLAN

    test            release: checks, rooms, our suites, upstream's related tests, cases, documentation, binary compatibility; then our suites, upstream's
                    test_tracemalloc and the cases on debug and nogil.  With another variant: everything that needs an interpreter, on it.
    test-engine     our suites and the cases on the variant
    test-upstream   upstream's related tests on the variant, and its pure-Python tracemalloc on our engine
    test-cases      the cases on the variant
    test-rooms      the fuzzers of the rooms, which need no interpreter
    regrtest        upstream's whole suite on the variant

A line a suite; whole outputs are in build/logs.  The last line is "N passed, N failed, N skipped"; the exit status is 1 if any failed.
"""
from __future__ import annotations

import argparse
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import counts
import upstream
from counts import BUILD, ROOT, Counts, Report

HERE = Path(__file__).resolve().parent
# How much longer than a release build a variant takes over the same work.
SLOWER = {"asan": 4, "tsan": 8, "debug": 3}


def ours() -> list[str]:
    """Our test files and packages: those of the overlay's Lib/test."""
    return sorted({path.stem for path in (ROOT / "Lib/test").glob("test_*")})


def files(suite: str) -> list[str]:
    """The test files of a suite as regrtest takes them, so that several run at a time."""
    inside = sorted((ROOT / "Lib/test" / suite).glob("test_*.py"))
    return [f"test.{suite}.{path.stem}" for path in inside] or [suite]


def related() -> list[str]:
    lines = (HERE / "related.txt").read_text(encoding="utf-8").splitlines()
    return [word for line in lines for word in line.split("#", 1)[0].split()]


class BuildFailed(Exception):
    pass


def part(method: Callable[..., None]) -> Callable[..., None]:
    """A part of a plan: when a build that it needs has failed, which counts as a failure once, the parts after it are run all the same."""
    @functools.wraps(method)
    def run(self: Runner, *arguments) -> None:
        try:
            method(self, *arguments)
        except BuildFailed as error:
            print(f"{error}: {method.__name__.replace('_', ' ')} not run: no build", flush=True)
    return run


class Runner:
    def __init__(self, variant: str) -> None:
        self.variant = variant
        self.report = Report()
        self._built: dict[str, bool] = {}

    def need(self, variant: str) -> None:
        """Have a variant built."""
        if variant not in self._built:
            at = time.monotonic()
            status = subprocess.run(["sh", str(ROOT / "overlay/variant.sh"), "build", variant], check=False).returncode
            self._built[variant] = status == 0
            if status:
                self.report.add(f"{variant}: build", Counts(failed=1, failures=[f"build of {variant}"]))
            self.report.pause(time.monotonic() - at)
        if not self._built[variant]:
            raise BuildFailed(variant)

    def checks(self) -> None:
        log = counts.log_path("all", "checks")
        self.report.add("checks", counts.reporting([sys.executable, str(ROOT / "overlay/check.py")], log, ""), log)

    def rooms(self) -> None:
        log = counts.log_path("all", "rooms")
        command = ["make", "-s", "-C", str(ROOT / "Tools/tracemalloc/ctest"), f"OUT={BUILD / 'ctest'}", "check"]
        self.report.add("room fuzzers", counts.reporting(command, log, ""), log)

    @part
    def engine(self, variant: str) -> None:
        self.need(variant)
        for suite in ours():
            result, log = upstream.own(variant, suite, files(suite))
            self.report.add(f"{variant}: {suite}", result, log)

    @part
    def cases(self, variant: str) -> None:
        self.need(variant)
        log = counts.log_path(variant, "cases")
        command = [sys.executable, str(ROOT / "Tools/tracemalloc/cases/run.py"), "--python", str(counts.python(variant)), "-j", "2"]
        if variant in SLOWER:
            command += ["--scale", str(SLOWER[variant])]
        self.report.add(f"{variant}: cases", counts.reporting(command, log, variant), log)

    @part
    def upstream_tests(self, variant: str, name: str, tests: list[str], options: tuple[str, ...] = ()) -> None:
        self.need(variant)
        result, log = upstream.judged(variant, name, tests, lambda: self.need("stock"), options)
        changed = upstream.changed_tests()
        if changed:
            result += Counts(failed=len(changed), failures=[f"Lib/test/{path} is not upstream's" for path in changed])
        self.report.add(f"{variant}: {name}", result, log)

    @part
    def pure(self, variant: str) -> None:
        self.need(variant)
        log = counts.log_path(variant, "pure-python")
        status, text = counts.run_logged([str(counts.python(variant)), str(HERE / "pure.py"), str(upstream.pristine())], log, variant, timeout=900)
        result = counts.unittest_counts(text) or Counts(failed=1, failures=[f"pure.py: exit status {status}"])
        self.report.add(f"{variant}: upstream's tracemalloc.py on our engine", result, log)

    @part
    def examples(self, variant: str) -> None:
        self.need(variant)
        log = counts.log_path(variant, "examples")
        command = [sys.executable, str(ROOT / "Tools/tracemalloc/doctests.py"), "--python", str(counts.python(variant))]
        self.report.add(f"{variant}: examples of the documentation", counts.reporting(command, log, variant), log)

    @part
    def symbols(self) -> None:
        """The dynamic symbols of the release build are a superset of stock's."""
        self.need("release")
        self.need("stock")
        names = {}
        for variant in ("stock", "release"):
            done = subprocess.run(["nm", "-D", "--defined-only", str(counts.python(variant))], capture_output=True, text=True, check=True)
            names[variant] = {line.split()[-1] for line in done.stdout.splitlines()}
        gone = sorted(names["stock"] - names["release"])
        self.report.add("release: symbols of the stock binary", Counts(len(names["stock"]) - len(gone), len(gone), 0, gone))

    # -- plans -----------------------------------------------------------------------------------------------------------------

    def plan_test_rooms(self) -> None:
        self.rooms()

    def plan_test_engine(self) -> None:
        self.engine(self.variant)
        self.cases(self.variant)

    def plan_test_cases(self) -> None:
        self.cases(self.variant)

    def plan_test_upstream(self) -> None:
        self.upstream_tests(self.variant, "upstream's related tests", related())
        self.pure(self.variant)

    def plan_regrtest(self) -> None:
        self.upstream_tests(self.variant, "whole regression suite", [])

    def plan_test(self) -> None:
        if self.variant == "release":
            self.checks()
            self.rooms()
        self.plan_test_engine()
        self.plan_test_upstream()
        if self.variant == "release":
            self.examples("release")
            self.symbols()
            # TEST_VARIANTS: the builds tested besides release, "debug nogil" unless the environment says otherwise.
            for variant in os.environ.get("TEST_VARIANTS", "debug nogil").split():
                self.engine(variant)
                self.upstream_tests(variant, "test_tracemalloc", ["test_tracemalloc"])
                self.cases(variant)


def main() -> int:
    # A background job of a shell ignores SIGINT, and so would the interpreters under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    plans = [name.removeprefix("plan_").replace("_", "-") for name in dir(Runner) if name.startswith("plan_")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default=os.environ.get("VARIANT") or "release")
    parser.add_argument("plan", choices=plans)
    args = parser.parse_args()
    runner = Runner(args.variant)
    getattr(runner, f"plan_{args.plan.replace('-', '_')}")()
    return runner.report.finish()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
