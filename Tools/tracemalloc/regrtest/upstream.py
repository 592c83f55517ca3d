"""Upstream's own tests in a built interpreter, through upstream's regrtest, judged against the stock build of the same machine.

A test fails when it fails here and passes on stock.  What fails on both is counted as skipped and named.  What fails here, passes on
stock, and passes here when its file is run again alone is counted as passed and named as unstable.
"""
from __future__ import annotations

import filecmp
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from configparser import ConfigParser
from dataclasses import dataclass, field
from pathlib import Path

from counts import BUILD, ROOT, Counts, log_path, python, run_logged

_FAILED_TEST = re.compile(r"^(?:FAIL|ERROR|UNEXPECTED SUCCESS): (\S+) \(([\w.]+)\)", re.M)
_TOTALS = re.compile(r"^Total test files: run=", re.M)
_BLOCK = re.compile(r"^\d+ tests? failed:\n((?:    .*\n)+)", re.M)


@dataclass
class Outcome:
    """What one run of regrtest came to."""

    passed: int = 0
    skipped: int = 0
    failed_files: list[str] = field(default_factory=list)
    failed_tests: dict[str, set[str]] = field(default_factory=dict)     # by file
    complete: bool = True


def pristine() -> Path:
    ini = ConfigParser()
    ini.read(ROOT / "overlay/upstream.ini", encoding="utf-8")
    return BUILD / "upstream" / ini["upstream"]["directory"]


def changed_tests() -> list[str]:
    """Upstream test files that do not stand in the laid tree as upstream wrote them: there must be none."""
    theirs, ours = pristine() / "Lib/test", BUILD / "src/Lib/test"
    return [str(path.relative_to(theirs)) for path in sorted(theirs.rglob("*")) if path.is_file() and "__pycache__" not in path.parts
            and not ((ours / path.relative_to(theirs)).is_file() and filecmp.cmp(path, ours / path.relative_to(theirs), shallow=False))]


def is_ours(name: str) -> bool:
    """Is this test file, as regrtest names it, one of ours?  Those fail on stock for want of what they test."""
    return (ROOT / "Lib/test" / name.removeprefix("test.").split(".")[0]).is_dir()


def file_of(test_id: str, files: list[str]) -> str:
    """The test file, as regrtest names it, that a test id belongs to."""
    for name in sorted(files, key=len, reverse=True):
        full = name if name.startswith("test.") else f"test.{name}"
        if test_id.startswith((full + ".", name + ".")):
            return name
    return ""


def parse(text: str, junit: Path) -> Outcome:
    outcome = Outcome(complete=bool(_TOTALS.search(text)))
    for names in _BLOCK.findall(text):
        outcome.failed_files = names.split()
    ids = {where if where.endswith("." + name) else f"{where}.{name}" for name, where in _FAILED_TEST.findall(text)}
    try:
        cases = list(ElementTree.parse(junit).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        cases = []
    for case in cases:
        # a case without a name is one whose subtests failed: the log names it
        name = case.get("name")
        if case.find("error") is not None or case.find("failure") is not None or case.find("outcome") is not None:
            ids.add(name or "")
        elif case.find("skipped") is not None:
            outcome.skipped += 1
        elif name:
            outcome.passed += 1
    for name in outcome.failed_files:
        outcome.failed_tests[name] = set()
    for test_id in ids:
        name = file_of(test_id, outcome.failed_files)
        if name:
            outcome.failed_tests[name].add(test_id)
    return outcome


def regrtest(variant: str, name: str, tests: list[str], jobs: int = 2, options: tuple[str, ...] = ()) -> tuple[Outcome, Path]:
    """Run tests (all when the list is empty)."""
    log = log_path(variant, re.sub(r"[^a-z0-9_]+", "-", name.lower()))
    junit = log.with_suffix(".xml")
    junit.unlink(missing_ok=True)
    scale = {"asan": 5, "tsan": 10, "debug": 2}.get(variant, 1)
    command = [str(python(variant)), "-m", "test", f"-j{jobs}", "--timeout", str(900 * scale), "-W", "--junit-xml", str(junit), *options, *tests]
    status, text = run_logged(command, log, variant, cwd=BUILD / variant)
    outcome = parse(text, junit)
    if not outcome.complete and not outcome.failed_files:
        outcome.failed_files = [f"regrtest (status {status})"]
    return outcome, log


def own(variant: str, name: str, tests: list[str]) -> tuple[Counts, Path]:
    """Tests of ours: on release every failure counts; on the slower builds, where more is a matter of chance, what passes when its file is run
    again alone is named as unstable."""
    outcome, log = regrtest(variant, name, tests)
    last, unstable = outcome, []
    if variant != "release" and outcome.failed_files and outcome.complete:
        last = regrtest(variant, f"{name}-again", outcome.failed_files, jobs=1)[0]
        unstable = [t for f in outcome.failed_files if f not in last.failed_files for t in sorted(outcome.failed_tests.get(f) or [f])]
    failures = [t for f in last.failed_files for t in sorted(last.failed_tests.get(f) or [f])]
    remarks = [f"unstable, passed when run alone: {t}" for t in unstable]
    return _counts(outcome, 0, len(unstable), failures, remarks), log


def _counts(outcome: Outcome, known: int, unstable: int, failures: list[str], remarks: list[str]) -> Counts:
    return Counts(outcome.passed + unstable, len(failures), outcome.skipped + known, failures, remarks)


def judged(variant: str, name: str, tests: list[str], need_stock: Callable[[], None], options: tuple[str, ...] = ()) -> tuple[Counts, Path]:
    """Tests of upstream's: what fails is run on stock too."""
    outcome, log = regrtest(variant, name, tests, options=options)
    files = outcome.failed_files
    if not files or not outcome.complete:
        return _counts(outcome, 0, 0, files, []), log
    theirs = [f for f in files if not is_ours(f)]
    stock = Outcome()
    if theirs:
        need_stock()
        stock, _ = regrtest("stock", f"{name}-again", theirs, jobs=1)
    suspects = [f for f in files if _new(outcome, stock, f)]
    again = regrtest(variant, f"{name}-again", suspects, jobs=1)[0] if suspects else Outcome()
    failures: list[str] = []
    remarks: list[str] = []
    known = unstable = 0
    for file in files:
        both = sorted(outcome.failed_tests[file] & stock.failed_tests.get(file, set())) or ([file] if file not in suspects else [])
        known += len(both)
        remarks += [f"fails on stock too: {t}" for t in both]
        if file in again.failed_files:
            failures += sorted(_new(again, stock, file))
        elif file in suspects:
            new = sorted(_new(outcome, stock, file))
            unstable += len(new)
            remarks.append(f"unstable, passed when run alone: {', '.join(new)}")
    return _counts(outcome, known, unstable, failures, remarks), log


def _new(ours: Outcome, stock: Outcome, file: str) -> set[str]:
    """Tests of a file that fail in one run and not on stock; the file itself when it died without naming a test."""
    mine = ours.failed_tests.get(file, set())
    if not mine:
        return set() if file in stock.failed_files or file not in ours.failed_files else {file}
    return mine - stock.failed_tests.get(file, set())
