#!/usr/bin/env python3
"""The laid source tree: what stands in it, where each file comes from, and how it is brought up to date.

A laid tree is the pristine upstream tree, minus removed.list, plus the overlay files of this repository, plus the patches of
patches/series in their order, plus the files that upstream's own generators make from patched inputs.  It lives in build/src and is
owned by this module: nobody else writes there.  build/src/.laid.json records for every file the key of its source and the size and
time of what was written; a file is looked at again only when one of these changes, and written only when its contents do, so that
make rebuilds just what is concerned.  An interrupted run leaves either no record (everything is compared afresh) or a true one.
"""
from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

import patchfile

# Folders of the repository whose files belong in a CPython tree; everything else is about the overlay itself.
OVERLAY_ROOTS = ("Include/", "Python/", "Modules/", "Objects/", "Parser/", "Programs/", "Lib/", "Doc/", "InternalDocs/", "Tools/tracemalloc/")
STATE = ".laid.json"
STATE_FORMAT = 2


class TreeError(Exception):
    """A condition the user has to act on; the text says what to do."""


@dataclass(frozen=True)
class Generator:
    """Files that upstream's generator makes from inputs that patches may touch."""

    target: str                 # make target of upstream's Makefile
    triggers: tuple[str, ...]   # a change to one of these makes the target due
    needs: tuple[str, ...]      # further files and folders the generator reads
    outputs: tuple[str, ...]


GENERATORS = (
    Generator(
        target="regen-cases",
        triggers=("Python/bytecodes.c", "Python/optimizer_bytecodes.c"),
        needs=("Makefile.pre.in", "Tools/cases_generator", "Tools/build/update_file.py"),
        outputs=(
            "Include/opcode_ids.h", "Include/internal/pycore_uop_ids.h", "Include/internal/pycore_opcode_metadata.h",
            "Include/internal/pycore_uop_metadata.h", "Lib/_opcode_metadata.py", "Python/opcode_targets.h",
            "Python/generated_cases.c.h", "Python/executor_cases.c.h", "Python/optimizer_cases.c.h",
        ),
    ),
)


@dataclass(frozen=True)
class Upstream:
    version: str
    directory: str
    tarball: str
    size: int
    sha256: str
    digest: str


def read_list(path: Path) -> list[list[str]]:
    """Fields of the lines of a list file; '#' starts a comment."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = line.split("#", 1)[0].split()
        if fields:
            rows.append(fields)
    return rows


def sha256_file(path: Path) -> str:
    with open(path, "rb") as f:
        digest = hashlib.sha256()
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_atomic(path: Path, data: bytes, mode: int | None = None) -> None:
    """Replace a file in one step; a reader sees the old contents or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(data)
        os.chmod(name, 0o644 if mode is None else mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a lock file, waiting for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def walk_files(root: Path) -> Iterator[str]:
    """Relative paths of the files below root, without what running a Python leaves behind."""
    base = len(str(root)) + 1
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(d for d in folders if d not in ("__pycache__", ".git"))
        for name in sorted(names):
            if not name.endswith((".pyc", ".pyo")):
                yield f"{folder}/{name}"[base:]


def tree_digest(root: Path) -> str:
    """One digest over the names and contents of a source tree."""
    digest = hashlib.sha256()
    for name in sorted(walk_files(root)):
        digest.update(f"{sha256_file(root / name)}  {name}\n".encode())
    return digest.hexdigest()


class Overlay:
    """This repository: upstream's description, the lists, the patches, and the overlay files."""

    def __init__(self, root: Path, build: Path | None = None) -> None:
        self.root = root
        self.build = build or Path(os.environ.get("BUILD_DIR") or root / "build").absolute()
        self.src = self.build / "src"
        self.upstream = self._read_upstream()
        self.pristine = self.build / "upstream" / self.upstream.directory
        self.removed = [row[0] for row in read_list(root / "overlay/removed.list")]

    def _read_upstream(self) -> Upstream:
        ini = ConfigParser()
        ini.read(self.root / "overlay/upstream.ini", encoding="utf-8")
        section = ini["upstream"]
        return Upstream(section["version"], section["directory"], section["tarball"], int(section["size"]), section["sha256"],
                        section.get("digest", ""))

    def tracked(self) -> list[str]:
        """Files of the repository: tracked, or new and not ignored.  Without git (a source tarball) all that is there."""
        if (self.root / ".git").exists():
            done = subprocess.run(["git", "-C", str(self.root), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=False)
            if done.returncode == 0:
                names = {n for n in os.fsdecode(done.stdout).split("\0") if n}
                return sorted(n for n in names if (self.root / n).is_file())
        return [n for n in walk_files(self.root) if not n.startswith("build/") and n not in ("Makefile", "python")]

    def overlay_files(self) -> list[str]:
        return [n for n in self.tracked() if n.startswith(OVERLAY_ROOTS)]

    def series(self) -> list[str]:
        path = self.root / "patches/series"
        return [row[0] for row in read_list(path)] if path.exists() else []

    def patches(self) -> list[patchfile.Patch]:
        result = []
        for name in self.series():
            path = self.root / "patches" / name
            try:
                result.append(patchfile.parse(name, path.read_bytes()))
            except FileNotFoundError:
                raise TreeError(f"patches/series names {name}, which does not exist") from None
        return result

    # -- pristine tree ---------------------------------------------------------------------------------------------------------

    def cache_dir(self) -> Path:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cpython-tracemalloc"

    def verify_tarball(self, path: Path) -> None:
        size = path.stat().st_size
        if size != self.upstream.size:
            raise TreeError(f"{path}: {size} bytes, expected {self.upstream.size}: not the tarball of Python {self.upstream.version}, or cut short")
        if sha256_file(path) != self.upstream.sha256:
            raise TreeError(f"{path}: wrong sha256: not the tarball of Python {self.upstream.version}, or damaged")

    def verify_directory(self, path: Path) -> None:
        if tree_digest(path) != self.upstream.digest:
            raise TreeError(f"{path}: not the pristine tree of Python {self.upstream.version} (files changed, missing or added)")

    def ensure_pristine(self, source: Path | None) -> None:
        """Have the pristine tree unpacked in build/upstream, from a tarball or a directory, checked first."""
        if source is not None and source.is_dir():
            self.verify_directory(source)
        if self.pristine.is_dir():
            return
        if source is None:
            source = self.cache_dir() / self.upstream.tarball
        if not source.exists():
            raise TreeError(f"{source} does not exist: run ./configure, which fetches it")
        scratch = self.pristine.parent / ".unpacking"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        try:
            if source.is_dir():
                unpacked = scratch / self.upstream.directory
                shutil.copytree(source, unpacked, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".git"))
            else:
                self.verify_tarball(source)
                done = subprocess.run(["tar", "-xf", str(source), "-C", str(scratch), "--no-same-owner"], stderr=subprocess.PIPE, text=True, check=False)
                if done.returncode:
                    raise TreeError(f"cannot unpack {source}: {done.stderr.strip().splitlines()[-1:]}")
                unpacked = scratch / self.upstream.directory
            os.rename(unpacked, self.pristine)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


# -- contents ------------------------------------------------------------------------------------------------------------------


class Contents:
    """What each file of the laid tree has to contain, computed on demand."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay
        self.patches = overlay.patches()
        self.ours = set(overlay.overlay_files())
        self.patched: dict[str, list[patchfile.FilePatch]] = {}
        for patch in self.patches:
            for part in patch.files:
                self.patched.setdefault(part.path, []).append(part)
        self._made: dict[str, dict[str, bytes]] = {}
        for path in self.patched:
            if path in self.ours:
                raise TreeError(f"{path} is both an overlay file and the target of a patch: change the overlay file instead")
            if path in overlay.removed:
                raise TreeError(f"{path} is both in removed.list and the target of a patch")

    def due(self) -> Iterator[Generator]:
        """Generators whose inputs differ from upstream's."""
        for generator in GENERATORS:
            if any(t in self.patched or t in self.ours for t in generator.triggers):
                yield generator

    def key(self, path: str) -> str:
        """Names the source of a file; changes when the file may have to be written anew."""
        if path in self.ours:
            info = os.stat(self.overlay.root / path)
            return f"ours {info.st_size} {info.st_mtime_ns} {info.st_mode & 0o111}"
        if path in self.patched:
            digest = hashlib.sha256(b"".join(part.text for part in self.patched[path]))
            return f"patched {digest.hexdigest()}"
        return "pristine"

    def generator_key(self, generator: Generator) -> str:
        digest = hashlib.sha256()
        for path in generator.triggers + generator.needs:
            digest.update(f"{path} {self.key(path) if not (self.overlay.pristine / path).is_dir() else 'folder'}\n".encode())
            if path in self.ours:
                digest.update((self.overlay.root / path).read_bytes())
        return f"made {digest.hexdigest()}"

    def original(self, path: str) -> bytes:
        """Contents before any patch."""
        return ((self.overlay.root if path in self.ours else self.overlay.pristine) / path).read_bytes()

    def of(self, path: str, upto: int | None = None) -> bytes:
        """Contents with the patches of the series applied, all or only the first so many."""
        data = self.original(path)
        for patch in self.patches[:upto]:
            for part in patch.files:
                if part.path == path:
                    data = part.apply(data)
        return data

    def mode(self, path: str) -> int:
        base = self.overlay.root if path in self.ours else self.overlay.pristine
        return 0o755 if os.stat(base / path).st_mode & stat.S_IXUSR else 0o644

    def made(self, generator: Generator) -> dict[str, bytes]:
        """Run upstream's generator on a scratch tree that holds only what it reads."""
        if generator.target in self._made:
            return self._made[generator.target]
        python = os.environ.get("PYTHON_FOR_REGEN") or sys.executable
        with tempfile.TemporaryDirectory(prefix=".regen-", dir=self.overlay.build) as name:
            scratch = Path(name)
            for path in generator.triggers + generator.needs + generator.outputs:
                target = scratch / path
                target.parent.mkdir(parents=True, exist_ok=True)
                if (self.overlay.pristine / path).is_dir():
                    shutil.copytree(self.overlay.pristine / path, target)
                else:
                    target.write_bytes(self.of(path))
            # Lines that configure would replace as a whole are the only ones make cannot read.
            rules = (scratch / "Makefile.pre.in").read_text(encoding="utf-8").splitlines(True)
            (scratch / "regen.mk").write_text("".join("\n" if line.startswith("@") else line for line in rules), encoding="utf-8")
            command = ["make", "-s", "-j2", "-f", "regen.mk", generator.target, "srcdir=.", f"PYTHON_FOR_REGEN={python} -B"]
            environ = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL")}
            done = subprocess.run(command, cwd=scratch, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode:
                raise TreeError(f"upstream's {generator.target} failed on the patched sources:\n{done.stdout.rstrip()}")
            result = {path: (scratch / path).read_bytes() for path in generator.outputs}
        self._made[generator.target] = result
        return result


# -- laying --------------------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    written: list[str]
    removed: list[str]
    saved: list[str]        # files edited by hand in the laid tree, whose edits were put aside


class Layer:
    """Brings build/src up to date with the repository."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay
        self.state_path = overlay.src / STATE

    def load_state(self) -> dict[str, list]:
        try:
            state = json.loads(self.state_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state["files"] if state.get("format") == STATE_FORMAT else {}

    def first_copy(self) -> None:
        """Copy the pristine tree under a temporary name: build/src appears whole or not at all."""
        scratch = self.overlay.build / ".src-new"
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(self.overlay.pristine, scratch, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        os.rename(scratch, self.overlay.src)

    def run(self, verify: bool = False) -> Report:
        overlay = self.overlay
        if not overlay.src.is_dir():
            self.first_copy()
        known = {} if verify else self.load_state()
        contents = Contents(overlay)
        pristine = known.get("", [None, None])[1] or sorted(walk_files(overlay.pristine))
        wanted = (set(pristine) | contents.ours) - set(overlay.removed)
        missing = [p for p in contents.patched if p not in wanted]
        if missing:
            raise TreeError(f"a patch touches {missing[0]}, which upstream does not have")
        makers = {path: g for g in contents.due() for path in g.outputs}
        report = Report([], [], [])
        state: dict[str, list] = {"": ["names", pristine]}
        for path in sorted(wanted):
            self._bring(path, contents, makers.get(path), known, state, report)
        for path in set(known) - wanted - {""} | {p for p in overlay.removed if (overlay.src / p).exists()}:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(overlay.src / path)
                report.removed.append(path)
        if state != known:
            write_atomic(self.state_path, json.dumps({"format": STATE_FORMAT, "files": state}, separators=(",", ":")).encode())
        return report

    def _bring(self, path: str, contents: Contents, maker: Generator | None, known: dict, state: dict, report: Report) -> None:
        laid = self.overlay.src / path
        key = contents.generator_key(maker) if maker else contents.key(path)
        before = known.get(path)
        try:
            info = os.stat(laid)
        except FileNotFoundError:
            info = None
        if info and before and before == [key, info.st_size, info.st_mtime_ns]:
            state[path] = before
            return
        data = contents.made(maker)[path] if maker else contents.of(path)
        mode = contents.mode(path)
        if info is None or info.st_size != len(data) or laid.read_bytes() != data:
            if info and before and before[1:] != [info.st_size, info.st_mtime_ns]:
                report.saved.append(self._put_aside(path))
            write_atomic(laid, data, mode)
            report.written.append(path)
        elif (info.st_mode & 0o111) != (mode & 0o111):
            os.chmod(laid, mode)
        info = os.stat(laid)
        state[path] = [key, info.st_size, info.st_mtime_ns]

    def _put_aside(self, path: str) -> str:
        """Keep an edit that someone made in build/src: it is not the place for edits, but nothing is thrown away."""
        kept = self.overlay.build / "lost" / (path + time.strftime(".%Y%m%d-%H%M%S"))
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(self.overlay.src / path, kept)
        return str(kept)


def lay(overlay: Overlay, source: Path | None = None, verify: bool = False) -> Report:
    with locked(overlay.build / ".lay.lock"):
        overlay.ensure_pristine(source)
        return Layer(overlay).run(verify)


def names(paths: Iterable[str], most: int = 8) -> str:
    paths = list(paths)
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more


def main() -> int:
    parser = argparse.ArgumentParser(description="Lay the source tree that is built.")
    parser.add_argument("command", choices=("lay", "digest", "unpack"))
    parser.add_argument("--build", type=Path, help="build folder (default: $BUILD_DIR, or build/ of the repository)")
    parser.add_argument("--upstream", type=Path, help="tarball or directory of the pristine release")
    parser.add_argument("--verify", action="store_true", help="compare every file, not only those that seem changed")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    overlay = Overlay(Path(__file__).resolve().parent.parent, args.build and args.build.absolute())
    try:
        if args.command == "digest":
            overlay.ensure_pristine(args.upstream)
            print(tree_digest(overlay.pristine))
            return 0
        if args.command == "unpack":
            with locked(overlay.build / ".lay.lock"):
                overlay.ensure_pristine(args.upstream)
            return 0
        report = lay(overlay, args.upstream, args.verify)
    except (TreeError, patchfile.PatchError, OSError) as error:
        print(f"lay: {error}", file=sys.stderr)
        return 1
    for kept in report.saved:
        print(f"lay: an edited file of {overlay.src} was replaced; the edit is kept as {kept}", file=sys.stderr)
    if not args.quiet:
        if report.written or report.removed:
            print(f"laid {len(report.written)} files ({names(report.written)}), removed {len(report.removed)}")
        else:
            print("nothing to lay")
    return 0


if __name__ == "__main__":
    sys.exit(main())
