#!/usr/bin/env python3
"""`make check`: every honesty check of the overlay and its patches, and the tests of these tools.

Each check is a function that yields what is wrong, a line each.  The last line of the output is "N passed, N failed, N skipped"; a
check that needs a tool which is not installed is skipped with the reason.
"""
from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import patchfile
import refresh
import tree

# -- the rooms of the engine ---------------------------------------------------------------------------------------------------
#
# A room is the files of Modules/_tracemalloc with one stem (snapshot_group.c belongs to the room snapshot).  What a room may include
# besides itself; every room may include BASE.  The doors are the files that other parts of the interpreter see.

ENGINE = "Modules/_tracemalloc/"
BASE = {"types", "sync", "arena"}
SIX = {"stack", "site", "context", "filter", "traces", "domains", "stats", "schedule", "sampler"}
ALLOWED: dict[str, set[str]] = {
    "types": set(),
    "sync": set(),
    "arena": set(),
    # tools of the rooms, which know nothing of tracing
    "table": set(),
    "glob": set(),
    "packing": set(),
    # the rooms proper do not know each other
    "stack": set(),
    "site": set(),
    "context": set(),
    "traces": {"table"},
    "domains": {"table"},
    "filter": {"glob"},
    "stats": set(),
    "schedule": set(),
    "sampler": set(),
    "peak": SIX | {"table"},
    # the corridor, and who stands around it
    "record": SIX | {"peak"},
    "hook": {"record"},
    "arenas": {"record", "table"},
    "lifecycle": SIX | {"peak", "record", "hook", "arenas", "engine", "check"},
    "check": SIX | {"engine", "arenas", "hook", "table"},
    # reads the engine through engine.h
    "snapshot": {"engine", "glob", "packing"},
    # doors: what builds Python objects for the module, by subject
    "engine": {"arenas"},
    "pydoor": set(),
    "pycolumns": {"engine", "pydoor", "snapshot", "packing", "glob"},
    "pyfilters": {"engine", "pydoor", "filter", "glob"},
    "pymetrics": {"engine", "pydoor", "arenas"},
    # reserved signals know nothing of the engine
    "signals": set(),
    "nudge": set(),
    "pysignals": {"signals"},
}
DOORS: dict[str, set[str]] = {
    "Python/tracemalloc.c": {"engine"},
    "Modules/_tracemallocmodule.c": {"engine", "pydoor", "pycolumns", "signals"},
    "Python/tracemalloc_signal.c": {"engine", "nudge", "signals"},
    "Python/tracemalloc_signal_start.c": {"signals"},
    "Objects/obmalloc_trace.h": {"hook", "record", "arenas"},
}

LONGEST_FILE = 770          # "about 700"
TEXT = (".c", ".h", ".py", ".rst", ".md", ".sh", ".in", ".S")
PRODUCTS = re.compile(r"\.(o|a|so|obj|pyc|pyo|exe|dll|whl|deb|gz|xz|bz2|zip|tar|tgz|orig|rej)$")
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


class Skip(Exception):
    """A check that cannot run here; the text is the reason."""


class Checks:
    def __init__(self, overlay: tree.Overlay) -> None:
        self.overlay = overlay
        self.root = overlay.root
        self.tracked = overlay.tracked()

    def text(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    # -- patches ---------------------------------------------------------------------------------------------------------------

    def check_series(self) -> Iterator[str]:
        """patches/series and the patch files agree, headers are complete."""
        series = self.overlay.series()
        there = {n.removeprefix("patches/") for n in self.tracked if re.fullmatch(r"patches/[^/]+\.patch", n)}
        yield from (f"patches/{n} is not in patches/series" for n in sorted(there - set(series)))
        yield from (f"patches/series names {n} twice" for n in sorted({n for n in series if series.count(n) > 1}))
        for patch in self.overlay.patches():
            yield from (f"patches/{patch.name}: no {field}: line, or nothing in it" for field in patch.missing_fields())

    def check_patches_apply(self) -> Iterator[str]:
        """Every hunk applies exactly at its place and stands in the function that it names."""
        state: dict[str, bytes] = {}
        for patch in self.overlay.patches():
            for part in patch.files:
                original = self.overlay.pristine / part.path
                if not original.is_file():
                    yield f"patches/{patch.name}: upstream has no {part.path}"
                    continue
                data = state.setdefault(part.path, original.read_bytes())
                try:
                    state[part.path] = part.apply(data)
                    yield from (f"patches/{patch.name}: {text}" for text in part.misplaced(data))
                except patchfile.PatchError as error:
                    yield str(error)

    def check_patches_canonical(self) -> Iterator[str]:
        """refresh has nothing to do."""
        for name, text in refresh.canonical(self.overlay).items():
            if (self.root / "patches" / name).read_bytes() != text:
                yield f"patches/{name} is not canonical: run overlay/refresh.py"

    # -- lists -----------------------------------------------------------------------------------------------------------------

    def check_shadowed(self) -> Iterator[str]:
        """shadowed.list has exactly the upstream files that ours replace, with the hashes of the originals."""
        rows = {name: digest for digest, name in tree.read_list(self.root / "overlay/shadowed.list")}
        ours = set(self.overlay.overlay_files())
        for name in sorted(ours):
            if (self.overlay.pristine / name).exists() and name not in rows:
                yield f"{name} replaces an upstream file and is not in shadowed.list: run overlay/refresh.py shadow {name}"
        for name, digest in rows.items():
            if name not in ours:
                yield f"shadowed.list names {name}, which is no file of ours"
            elif not (self.overlay.pristine / name).is_file():
                yield f"shadowed.list names {name}, which upstream does not have"
            elif tree.sha256_file(self.overlay.pristine / name) != digest:
                yield f"upstream's {name} is not the one that ours was written for: compare, then run overlay/refresh.py shadow {name}"

    def check_removed(self) -> Iterator[str]:
        """Every line of removed.list exists upstream and is not also a file of ours or patched."""
        ours = set(self.overlay.overlay_files())
        patched = {part.path for patch in self.overlay.patches() for part in patch.files}
        for name in self.overlay.removed:
            if not (self.overlay.pristine / name).is_file():
                yield f"removed.list names {name}, which upstream does not have"
            if name in ours:
                yield f"{name} is in removed.list and a file of ours: list it as shadowed instead"
            if name in patched:
                yield f"{name} is in removed.list and patched"

    def check_upstream_tests(self) -> Iterator[str]:
        """Upstream's tests stay as they are: neither replaced nor patched nor removed."""
        touched = set(self.overlay.overlay_files()) | {part.path for patch in self.overlay.patches() for part in patch.files} | set(self.overlay.removed)
        for name in sorted(touched):
            if name.startswith("Lib/test/") and (self.overlay.pristine / name).exists():
                yield f"{name} is a test of upstream's"

    # -- what is in the repository ---------------------------------------------------------------------------------------------

    def check_contents(self) -> Iterator[str]:
        """No upstream file, tarball or build product, and no path of this machine."""
        theirs = {tree.sha256_file(self.overlay.pristine / n): n for n in tree.walk_files(self.overlay.pristine)
                  if (self.overlay.pristine / n).stat().st_size > 200}
        here = str(self.root).encode()
        for name in self.tracked:
            path = self.root / name
            if path.is_symlink():
                continue
            data = path.read_bytes()
            if PRODUCTS.search(name) or data[:4] == b"\x7fELF" or len(data) > 1_000_000:
                yield f"{name} looks like a build product or a bundle"
            digest = hashlib.sha256(data).hexdigest()
            if digest in theirs:
                yield f"{name} is upstream's {theirs[digest]}"
            if len(here) > 6 and re.search(re.escape(here) + rb"(?![\w-])", data):
                yield f"{name} holds the path of this clone"

    def check_originality(self) -> Iterator[str]:
        """No run of five or more non-trivial lines stands in upstream's tree too, patches aside."""
        wanted: dict[tuple[str, ...], list[str]] = {}
        for name in self.tracked:
            if name.endswith(TEXT) and not name.startswith("patches/"):
                for first, last, run in windows(self.root / name):
                    wanted.setdefault(run, []).append(f"{name}:{first}-{last}")
        for name in tree.walk_files(self.overlay.pristine):
            if name.endswith(TEXT):
                for first, last, run in windows(self.overlay.pristine / name):
                    for place in wanted.pop(run, ()):
                        yield f"{place} stands in upstream's {name}:{first}-{last}"

    def check_includes(self) -> Iterator[str]:
        """Files of the engine include only what the table at the top of this file allows."""
        stems = set(ALLOWED)
        for name in self.tracked:
            if name.startswith(ENGINE) and name.endswith((".c", ".h")):
                room = room_of(name, stems)
                if room is None:
                    yield f"{name}: no such room in overlay/check.py"
                    continue
                allowed = ALLOWED[room] | BASE | {room}
            elif name in DOORS:
                room, allowed = name, DOORS[name]
            else:
                continue
            for include in _INCLUDE.findall(self.text(name)):
                if include.endswith(".c"):
                    yield f"{name} includes {include}: no .c file includes another"
                inside = "_tracemalloc/" in include or (name.startswith(ENGINE) and (self.root / ENGINE / include).exists())
                target = room_of(include, stems) if inside else None
                if target and target not in allowed:
                    yield f"{name} includes {include}: {room} may not know {target}"

    def check_sizes(self) -> Iterator[str]:
        """Source files stay readable."""
        for name in self.tracked:
            if name.endswith((".c", ".h", ".py", ".sh")):
                count = self.text(name).count("\n")
                if count > LONGEST_FILE:
                    yield f"{name} has {count} lines: more than {LONGEST_FILE}"

    def check_whitespace(self) -> Iterator[str]:
        """No tabs in C and Python, no blanks at the ends of lines, a newline at the end of files."""
        for name in self.tracked:
            if name.startswith("patches/") and name.endswith(".patch") or not name.endswith((*TEXT, ".ini", ".list", ".txt")):
                continue
            text = self.text(name)
            if text and not text.endswith("\n"):
                yield f"{name}: no newline at the end"
            for number, line in enumerate(text.split("\n"), 1):
                if line != line.rstrip():
                    yield f"{name}:{number}: blanks at the end of the line"
                if "\t" in line and name.endswith((".c", ".h", ".py")):
                    yield f"{name}:{number}: a tab"

    # -- tools that may be installed -------------------------------------------------------------------------------------------

    def check_shellcheck(self) -> Iterator[str]:
        """shellcheck has nothing to say about our shell scripts."""
        scripts = [n for n in self.tracked if n == "configure" or n.endswith(".sh") or n.startswith(".ci/")]
        yield from self.tool("shellcheck", ["-f", "gcc", *scripts])

    def check_ruff(self) -> Iterator[str]:
        """ruff has nothing to say about our Python."""
        yield from self.tool("ruff", ["check", "--output-format", "concise", "--no-cache", "--quiet", "."])

    def tool(self, name: str, words: list[str]) -> Iterator[str]:
        if not shutil.which(name):
            raise Skip(f"{name} is not installed")
        done = subprocess.run([name, *words], cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        yield from (line for line in done.stdout.splitlines() if line.strip())


def room_of(name: str, stems: set[str]) -> str | None:
    """The room that a file of the engine belongs to."""
    stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    while stem and stem not in stems:
        stem = stem.rpartition("_")[0]
    return stem or None


_EIGHT = re.compile(r"(?:\W*\w){8}")
_TRIVIAL = re.compile(r"^(#\s*(include|endif|else|ifdef|ifndef|undef)\b|import |from \S+ import |\.\. |[-=*/#\s]*$)")


def windows(path: Path, size: int = 5) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Runs of consecutive non-trivial lines, white space and comment marks folded: first line, last line, texts."""
    rows: list[tuple[int, str]] = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            folded = " ".join(line.split()).strip("/*# ")
            if _EIGHT.match(folded) and not _TRIVIAL.match(folded):
                rows.append((number, folded))
    except (UnicodeDecodeError, OSError):
        return
    for i in range(len(rows) - size + 1):
        yield rows[i][0], rows[i + size - 1][0], tuple(text for _, text in rows[i:i + size])


def unit_tests(root: Path) -> tuple[int, int, int]:
    """Run overlay/tests; returns passed, failed, skipped."""
    done = subprocess.run([sys.executable, "-B", "-m", "unittest", "discover", "-s", "overlay/tests", "-t", "overlay/tests"], cwd=root,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    ran = re.search(r"^Ran (\d+) tests? in", done.stdout, re.M)
    number = {word: int(n) for word, n in re.findall(r"(failures|errors|skipped)=(\d+)", done.stdout)}
    failed = number.get("failures", 0) + number.get("errors", 0) or (1 if done.returncode else 0)
    skipped = number.get("skipped", 0)
    if failed:
        print(done.stdout.rstrip())
    total = int(ran.group(1)) if ran else 0
    print(f"{'ok  ' if not failed else 'FAIL'} tests of the tools ({total})")
    return max(total - failed - skipped, 0), failed, skipped


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="checks to run (default: all, and the unit tests)")
    args = parser.parse_args()
    overlay = tree.Overlay(Path(__file__).resolve().parent.parent)
    try:
        with tree.locked(overlay.build / ".lay.lock"):
            overlay.ensure_pristine(None)
    except (tree.TreeError, OSError) as error:
        print(f"check: {error}", file=sys.stderr)
        return 1
    checks = Checks(overlay)
    passed = failed = skipped = 0
    for attribute in [name for name in vars(Checks) if name.startswith("check_")]:
        name = attribute.removeprefix("check_")
        if args.names and name not in args.names:
            continue
        check: Callable[[], Iterator[str]] = getattr(checks, attribute)
        title = f"{name}: {(check.__doc__ or '').strip()}"
        try:
            problems = list(check())
        except Skip as reason:
            skipped += 1
            print(f"skip {name}: {reason}")
            continue
        except (tree.TreeError, patchfile.PatchError, OSError, ValueError) as error:
            problems = [str(error)]
        passed, failed = passed + (not problems), failed + bool(problems)
        print(f"{'FAIL' if problems else 'ok  '} {title}")
        for problem in problems[:40]:
            print(f"       {problem}")
        if len(problems) > 40:
            print(f"       and {len(problems) - 40} more")
    if not args.names and (overlay.root / "overlay/tests").is_dir():
        a, b, c = unit_tests(overlay.root)
        passed, failed, skipped = passed + a, failed + b, skipped + c
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
