"""Patch files in canonical form: reading, strict applying, and writing.

A patch file is a header of free text with four named lines, then one unified diff per upstream file in the order of the names:

    Purpose: ...            what the patch is for
    Why-not-overlay: ...    why a file of ours cannot do it
    Removal-condition: ...  when the patch can go
    Proving-test: ...       the test that fails without it

    --- a/Python/ceval.c
    +++ b/Python/ceval.c
    @@ -10,2 +10,3 @@ int function_it_lands_in(...)

Hunks carry one line of context and, after the second @@, the heading of the function that the first changed line stands in.  A hunk
applies only where it says, and only if every line of it matches: no fuzz, no offset.  Patches change files; they neither add nor
delete any (overlay files and removed.list do that).
"""
from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HEADER_FIELDS = ("Purpose", "Why-not-overlay", "Removal-condition", "Proving-test")
CONTEXT = 1

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)\n\Z")

# What opens a function or another named stretch of a file, by kind of file.
_C_HEADING = re.compile(rb"[A-Za-z_][^:;]*\(?[^;]*$")
_C_LABEL = re.compile(rb"[A-Za-z_]\w*:\s*(/\*.*)?$")
_INST_HEADING = re.compile(rb"\s*(?:(?:tier1|tier2|pure|specializing|register|override|replicate\(\d+\))\s+)*(?:inst|op|macro|family|pseudo|label)\s*\(")
_PY_HEADING = re.compile(rb"\s*(?:async def|def|class)\s")
_MAKE_HEADING = re.compile(rb"[^\s#=:@][^=:]*:(?!=)")
_REST_HEADING = re.compile(rb"\.\. (?:c:)?(?:\w+)::|[A-Za-z].*$")
_ANY_HEADING = re.compile(rb"[A-Za-z_$]")


class PatchError(Exception):
    """A patch that cannot be read, or does not apply exactly."""


def is_heading(path: str, line: bytes) -> bool:
    line = line.rstrip(b"\r\n")
    name = path.rsplit("/", 1)[-1]
    if name in ("bytecodes.c", "optimizer_bytecodes.c") and _INST_HEADING.match(line):
        return True
    if name.endswith((".c", ".h")):
        return bool(_C_HEADING.match(line)) and not _C_LABEL.match(line)
    if name.endswith(".py"):
        return bool(_PY_HEADING.match(line))
    if name.startswith("Makefile"):
        return bool(_MAKE_HEADING.match(line))
    return bool(_ANY_HEADING.match(line))


def section_of(path: str, lines: list[bytes], index: int) -> bytes:
    """Heading of the stretch in which the line with this index stands: the nearest one before it."""
    for i in range(min(index, len(lines)) - 1, -1, -1):
        if is_heading(path, lines[i]):
            return lines[i].strip()[:80].rstrip()
    return b""


@dataclass
class Hunk:
    start: int                  # first line in the old file, from 1 (0 when the old side is empty)
    section: bytes
    lines: list[bytes] = field(default_factory=list)      # with their leading ' ', '-' or '+'

    @property
    def old(self) -> list[bytes]:
        return [line[1:] for line in self.lines if line[:1] in b" -"]

    @property
    def new(self) -> list[bytes]:
        return [line[1:] for line in self.lines if line[:1] in b" +"]

    @property
    def index(self) -> int:
        """Index of the first old line."""
        return self.start - 1 if self.old else self.start

    def first_change(self) -> int:
        """Index in the old file of the place of the first change."""
        return self.index + next(i for i, line in enumerate(self.lines) if line[:1] != b" ")


@dataclass
class FilePatch:
    """The part of a patch that changes one file."""

    patch: str
    path: str
    hunks: list[Hunk]
    text: bytes                 # as it stands in the patch file

    def apply(self, data: bytes) -> bytes:
        """Apply to the contents of the file; every hunk must match exactly at its place."""
        lines = data.splitlines(True)
        result: list[bytes] = []
        done = 0
        for hunk in self.hunks:
            old = hunk.old
            if hunk.index < done or lines[hunk.index:hunk.index + len(old)] != old:
                raise PatchError(f"patches/{self.patch}: the hunk at line {hunk.start} of {self.path} does not apply exactly there")
            result += lines[done:hunk.index]
            result += hunk.new
            done = hunk.index + len(old)
        return b"".join(result + lines[done:])

    def apply_moved(self, data: bytes) -> bytes:
        """Apply where the lines of each hunk are found nearest to their stated place: for refreshing only."""
        lines = data.splitlines(True)
        result: list[bytes] = []
        done = shift = 0
        for hunk in self.hunks:
            old = hunk.old
            places = [i for i in range(done, len(lines) - len(old) + 1) if lines[i:i + len(old)] == old]
            if not places:
                raise PatchError(f"patches/{self.patch}: the hunk at line {hunk.start} of {self.path} fits nowhere")
            at = min(places, key=lambda i: abs(i - hunk.index - shift))
            shift = at - hunk.index
            result += lines[done:at] + hunk.new
            done = at + len(old)
        return b"".join(result + lines[done:])

    def misplaced(self, data: bytes) -> list[str]:
        """Hunks whose @@ line names another function than the one they change."""
        lines = data.splitlines(True)
        found = []
        for hunk in self.hunks:
            want = section_of(self.path, lines, hunk.first_change())
            if hunk.section != want:
                found.append(f"{self.path}:{hunk.start}: the hunk names {hunk.section.decode()!r}, but changes {want.decode()!r}")
        return found


@dataclass
class Patch:
    name: str
    header: bytes               # up to the first '--- ' line
    files: list[FilePatch]

    def missing_fields(self) -> list[str]:
        """Header fields that are absent, empty, or still hold the template's dots."""
        missing = []
        for name in HEADER_FIELDS:
            match = re.search(rf"^{name}:[ \t]*(.*(?:\n[ \t]+\S.*)*)".encode(), self.header, re.M)
            value = match.group(1).strip() if match else b""
            if not value or value == b"...":
                missing.append(name)
        return missing

    def render(self) -> bytes:
        return self.header + b"".join(part.text for part in self.files)


def _parse_file(patch: str, lines: list[bytes], at: int) -> tuple[FilePatch, int]:
    first = at
    old, new = lines[at], lines[at + 1] if at + 1 < len(lines) else b""
    if not (old.startswith(b"--- a/") and new.startswith(b"+++ b/") and old[6:] == new[6:]):
        raise PatchError(f"patches/{patch}:{at + 1}: expected '--- a/FILE' and '+++ b/FILE' with one name")
    path = old[6:].rstrip(b"\n").decode()
    at += 2
    hunks: list[Hunk] = []
    while at < len(lines) and lines[at].startswith(b"@@ "):
        match = _HUNK.match(lines[at])
        if not match:
            raise PatchError(f"patches/{patch}:{at + 1}: not a hunk header")
        old_count, new_count = int(match.group(2) or 1), int(match.group(4) or 1)
        hunk = Hunk(int(match.group(1)), match.group(5))
        at += 1
        while old_count or new_count:
            line = lines[at] if at < len(lines) else b""
            if line[:1] not in (b" ", b"-", b"+"):
                raise PatchError(f"patches/{patch}:{at + 1}: a hunk of {path} ends early")
            old_count -= line[:1] in b" -"
            new_count -= line[:1] in b" +"
            hunk.lines.append(line)
            at += 1
        hunks.append(hunk)
    if not hunks:
        raise PatchError(f"patches/{patch}: no hunk for {path}")
    return FilePatch(patch, path, hunks, b"".join(lines[first:at])), at


def parse(name: str, data: bytes) -> Patch:
    lines = data.splitlines(True)
    at = 0
    while at < len(lines) and not lines[at].startswith(b"--- "):
        at += 1
    header = b"".join(lines[:at])
    files: list[FilePatch] = []
    while at < len(lines):
        part, at = _parse_file(name, lines, at)
        if files and part.path <= files[-1].path:
            raise PatchError(f"patches/{name}: files are not in the order of their names at {part.path}")
        files.append(part)
    return Patch(name, header, files)


def make(patch: str, path: str, old: bytes, new: bytes) -> FilePatch | None:
    """The canonical diff between two states of a file; None when they are equal."""
    if old == new:
        return None
    if old[-1:] not in (b"\n", b"") or new[-1:] not in (b"\n", b""):
        raise PatchError(f"{path}: a file that a patch touches must end with a newline")
    with tempfile.TemporaryDirectory(prefix="refresh-") as name:
        (Path(name) / "old").write_bytes(old)
        (Path(name) / "new").write_bytes(new)
        done = subprocess.run(["diff", "-a", f"-U{CONTEXT}", "--label", "x", "--label", "x", "old", "new"], cwd=name, capture_output=True, check=False)
    if done.returncode != 1:
        raise PatchError(f"diff failed on {path}: {done.stderr.decode().strip()}")
    lines = old.splitlines(True)
    text = [f"--- a/{path}\n".encode(), f"+++ b/{path}\n".encode()]
    hunks: list[bytes] = done.stdout.splitlines(True)[2:]
    raw, _ = _parse_file(patch, [*text, *hunks], 0)
    numbers = iter([line for line in hunks if _HUNK.match(line)])
    for hunk in raw.hunks:
        hunk.section = section_of(path, lines, hunk.first_change())
        ranges = next(numbers).split(b" @@")[0] + b" @@"
        text.append((ranges + b" " + hunk.section).rstrip() + b"\n")
        text += hunk.lines
    raw.text = b"".join(text)
    return raw
