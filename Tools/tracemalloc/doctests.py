#!/usr/bin/env python3
"""Run the examples of the documentation with the built interpreter.

usage: doctests.py [--python PATH] [--show] [PAGE ...]

Three kinds of examples are run, in the order of the page and in one folder:

    >>> ...                         each section of the page is one doctest, in a process of its own
    .. code-block:: python          a file, named by its :caption:; without one it only has to compile
    .. code-block:: console         commands after "$ ", and what they write

In the output of commands, numbers, sizes and times stand for any others, since they differ from build to build; numbers of lines
do not.  "..." stands for any text.  --show prints what the commands really wrote, to bring a page up to date.

The last line is "N passed, N failed, N skipped"; the exit status is 1 if any failed.  Without arguments: Doc/library/tracemalloc.rst
and build/release/python.
"""
from __future__ import annotations

import argparse
import doctest
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "Doc/library/tracemalloc.rst"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PATIENCE = 120          # seconds for one command
# Where the reader of the page works; the temporary folder in front of it is taken out of what is written.
FOLDER = "home/ann/shop"

_BLOCK = re.compile(r"^( *)\.\. code-block:: (python|console)\n((?:\1 +:.*\n)*)\n((?:\1 +.*\n|\s*\n)+)", re.M)
_TITLE = re.compile(r"^(\S.*)\n([=\-^~])\2+$", re.M)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_NUMBER = re.compile(r"(?<![\w:.+-])[+-]?\d[\d.]*(?: (?:B|[KMGT]iB))?(?!\w)")
_ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, good: bool) -> None:
        if good:
            self.passed += 1
        else:
            self.failed += 1


@dataclass
class Example:
    """A piece of a page that can be run.  For a doctest, *text* is a whole section."""

    kind: str                               # "doctest", "python", "console"
    line: int                               # of the page, from 1
    text: str
    caption: str = ""
    title: str = field(default="", repr=False)


def examples(page: str) -> Iterator[Example]:
    """The examples of a page in their order; a doctest comes at the end of its section."""
    titles = [(m.start(), m[1]) for m in _TITLE.finditer(page)]
    for (start, title), (end, _) in zip(titles, [*titles[1:], (len(page), "")]):
        section = page[start:end]
        first = page.count("\n", 0, start) + 1
        for block in _BLOCK.finditer(section):
            caption = re.search(r":caption: (\S+)", block[3])
            yield Example(block[2], first + section.count("\n", 0, block.start(4)), textwrap.dedent(block[4]),
                          caption[1] if caption else "", title)
        rest = _BLOCK.sub(lambda block: "\n" * block[0].count("\n"), section)
        if ">>>" in rest:
            yield Example("doctest", first, rest, title=title)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that is expected."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command, output.strip("\n")


def levelled(text: str) -> str:
    """A text without what may differ."""
    text = _TIME.sub("TIME", text)
    text = _ADDRESS.sub("ADDRESS", text)
    return _NUMBER.sub("N", text)


class Runner:
    def __init__(self, python: Path, page: Path, show: bool, scratch: Path) -> None:
        self.python, self.page, self.show, self.scratch = python, page, show, scratch
        self.tally = Tally()
        self.folder = scratch / FOLDER
        self.folder.mkdir(parents=True)
        commands_folder = scratch / "bin"
        commands_folder.mkdir()
        wrapper = commands_folder / "python"
        wrapper.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
        wrapper.chmod(0o755)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") and k != "NO_COLOR"}
        self.environment["PATH"] = f"{commands_folder}:{os.environ.get('PATH', os.defpath)}"
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"

    def run(self) -> Tally:
        for example in examples(self.page.read_text(encoding="utf-8")):
            getattr(self, "run_" + example.kind)(example)
        return self.tally

    def command(self, words: list[str]) -> tuple[int, str]:
        try:
            done = subprocess.run(words, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            return 124, f"no end after {PATIENCE} s"
        return done.returncode, done.stdout.replace(f"{self.scratch}/", "/")

    def verdict(self, example: Example, what: str, good: bool, text: str) -> None:
        self.tally.add(good)
        if not good:
            print(f"FAIL {self.page.name}:{example.line}: {what}")
            print(textwrap.indent(text.rstrip("\n"), "    "))

    def run_python(self, example: Example) -> None:
        name = example.caption or "unnamed.py"
        (self.folder / name).write_text(example.text, encoding="utf-8")
        status, text = self.command([str(self.python), "-m", "py_compile", name])
        self.verdict(example, f"{name} does not compile", status == 0, text)

    def run_console(self, example: Example) -> None:
        checker = doctest.OutputChecker()
        for command, expected in commands(example.text):
            _, text = self.command(["sh", "-c", command])
            if self.show:
                print(f"$ {command}\n{text}", end="")
            good = checker.check_output(levelled(expected) + "\n", levelled(text), FLAGS)
            self.verdict(example, f"$ {command}", good, f"expected:\n{expected}\ngot:\n{text}")

    def run_doctest(self, example: Example) -> None:
        section = self.scratch / "section"
        section.write_text(example.text, encoding="utf-8")
        words = [str(self.python), os.path.abspath(__file__), "--section", str(section), self.page.name, str(example.line)]
        status, text = self.command(words)
        found = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped\Z", text.rstrip(), re.M)
        if found is None:
            self.verdict(example, f"{example.title}: exit status {status}", False, text)
            return
        print(text[:found.start()], end="")
        passed, failed, skipped = map(int, found.groups())
        self.tally.passed += passed
        self.tally.failed += failed
        self.tally.skipped += skipped


def run_section(path: str, name: str, line: int) -> int:
    """In the built interpreter: run the doctest of one section."""
    text = Path(path).read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, name, line - 1)
    skipped = sum(doctest.SKIP in e.options and e.options[doctest.SKIP] for e in test.examples)
    result = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test)
    print(f"{len(test.examples) - skipped - result.failed} passed, {result.failed} failed, {skipped} skipped")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, default=Path(os.environ.get("BUILD_DIR") or ROOT / "build") / "release/python")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--section", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", default=[PAGE])
    args = parser.parse_args()
    if args.section:
        path, name, line = args.section
        return run_section(path, name, int(line))
    total = Tally()
    for page in args.pages:
        with tempfile.TemporaryDirectory() as scratch:
            tally = Runner(args.python.absolute(), page, args.show, Path(scratch).resolve()).run()
        total = Tally(total.passed + tally.passed, total.failed + tally.failed, total.skipped + tally.skipped)
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
