#!/usr/bin/env python3
"""Keep patches/*.patch in canonical form, and edit them without ever writing a diff by hand.

    refresh.py                       rewrite every patch canonically (nothing changes when they are)
    refresh.py new NAME FILE...      start a patch: copies of these upstream files, with the series applied, to edit
    refresh.py edit NAME [FILE...]   open an existing patch for editing, with further files if wanted
    refresh.py add NAME FILE...      take further files into an open patch
    refresh.py save NAME             write patches/NAME.patch from the edited files; a new one goes to the end of the series
    refresh.py drop NAME             take a patch out of the series
    refresh.py shadow FILE...        record the hash of the originals that our files of these names replace
    refresh.py status                open patches and what they change

The files to edit stand in build/patch-work/NAME/, and the header of the patch in the file HEADER beside them.  `save` may be repeated.
Patches saved by others in the meantime, and patches later in the series that touch the same files, are merged three-way; a real
conflict is reported and nothing is written.
"""
from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import patchfile
import tree

TEMPLATE = "".join(f"{name}: ...\n" for name in patchfile.HEADER_FIELDS) + "\n"


def merge(path: str, ours: bytes, base: bytes, theirs: bytes) -> bytes:
    """Three-way merge; raises PatchError on a conflict."""
    if ours == base:
        return theirs
    if theirs in (base, ours):
        return ours
    with tempfile.TemporaryDirectory(prefix="merge-") as name:
        for label, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            (Path(name) / label).write_bytes(data)
        done = subprocess.run(["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=name, capture_output=True, check=False)
    if done.returncode:
        raise patchfile.PatchError(f"{path}: the patches conflict:\n{_conflicts(done.stdout)}")
    return done.stdout


def _conflicts(text: bytes) -> str:
    shown: list[str] = []
    inside = False
    for number, line in enumerate(text.decode(errors="replace").splitlines(), 1):
        inside = inside or line.startswith("<<<<<<<")
        if inside:
            shown.append(f"{number}: {line}")
        inside = inside and not line.startswith(">>>>>>>")
    return "\n".join(shown[:40])


class Workshop:
    """Open patches: build/patch-work/NAME/ holds what is edited, build/patch-work/.base/NAME/ the state below the patch."""

    def __init__(self, overlay: tree.Overlay) -> None:
        self.overlay = overlay
        self.folder = overlay.build / "patch-work"
        self.patches = overlay.root / "patches"

    def work(self, name: str) -> Path:
        return self.folder / name

    def base(self, name: str) -> Path:
        return self.folder / ".base" / name

    def index(self, name: str) -> int | None:
        series = self.overlay.series()
        return series.index(f"{name}.patch") if f"{name}.patch" in series else None

    def open(self, name: str, files: list[str], fresh: bool) -> None:
        contents = tree.Contents(self.overlay)
        at = self.index(name)
        if fresh and (at is not None or self.work(name).exists()):
            raise tree.TreeError(f"{name} exists already: use 'edit' or 'add'")
        if not fresh and at is None and not self.work(name).exists():
            raise tree.TreeError(f"there is no patch {name}")
        header = TEMPLATE.encode()
        if at is not None:
            patch = contents.patches[at]
            header = patch.header
            files = files + [part.path for part in patch.files if part.path not in files]
        for path in files:
            if not (self.overlay.pristine / path).is_file():
                raise tree.TreeError(f"{path} is not an upstream file: put a new file into the overlay instead")
            if path in contents.ours:
                raise tree.TreeError(f"{path} is replaced by a file of ours: edit that one")
        for path in files:
            if not (self.work(name) / path).exists():
                mode = contents.mode(path)
                tree.write_atomic(self.base(name) / path, contents.of(path, at), mode)
                tree.write_atomic(self.work(name) / path, contents.of(path, None if at is None else at + 1), mode)
        if not (self.work(name) / "HEADER").exists():
            tree.write_atomic(self.work(name) / "HEADER", header)
        print(f"edit {self.work(name)}/{{HEADER,{','.join(sorted(files))}}}, then: overlay/refresh.py save {name}")

    def save(self, name: str) -> None:
        work = self.work(name)
        if not work.is_dir():
            raise tree.TreeError(f"{name} is not open: use 'new' or 'edit' first")
        contents = tree.Contents(self.overlay)
        at = self.index(name)
        upto = len(contents.patches) if at is None else at
        after: dict[str, bytes] = {}
        for path in tree.walk_files(self.base(name)):
            base, edited = (self.base(name) / path).read_bytes(), (work / path).read_bytes()
            after[path] = merge(path, contents.of(path, upto), base, edited)
        header = (work / "HEADER").read_bytes().rstrip() + b"\n\n"
        written = self.rebuild(contents, name, upto, header, after)
        if at is None and after and f"{name}.patch" in written:
            series = self.patches / "series"
            old = series.read_bytes() if series.exists() else b""
            tree.write_atomic(series, old + f"{name}.patch\n".encode())
        for path, data in after.items():
            tree.write_atomic(self.base(name) / path, contents.of(path, upto), contents.mode(path))
            if (work / path).read_bytes() != data:
                tree.write_atomic(work / path, data, contents.mode(path))
        missing = patchfile.parse(name, header).missing_fields()
        if missing:
            print(f"still to fill in {work}/HEADER: {', '.join(missing)}", file=sys.stderr)

    def rebuild(self, contents: tree.Contents, name: str, upto: int, header: bytes, after: dict[str, bytes]) -> list[str]:
        """Write one patch with new contents, and re-make the later ones that touch its files. Nothing is written on a conflict."""
        state = dict(after)
        changed: dict[str, bytes] = {}
        parts = [patchfile.make(f"{name}.patch", path, contents.of(path, upto), state[path]) for path in sorted(state)]
        if not any(parts) and self.index(name) is None:
            raise tree.TreeError(f"{name} changes nothing yet")
        changed[f"{name}.patch"] = header + b"".join(part.text for part in parts if part)
        for j in range(upto, len(contents.patches)):
            patch = contents.patches[j]
            if patch.name == f"{name}.patch" or not any(part.path in state for part in patch.files):
                continue
            text = patch.header
            for part in patch.files:
                if part.path in state:
                    below, above = contents.of(part.path, j), contents.of(part.path, j + 1)
                    merged = merge(part.path, state[part.path], below, above)
                    remade = patchfile.make(patch.name, part.path, state[part.path], merged)
                    state[part.path] = merged
                    text += remade.text if remade else b""
                else:
                    text += part.text
            changed[patch.name] = text
        for file, data in changed.items():
            path = self.patches / file
            if not path.exists() or path.read_bytes() != data:
                tree.write_atomic(path, data)
                print(f"wrote patches/{file}")
        return list(changed)

    def drop(self, name: str) -> None:
        at = self.index(name)
        if at is None:
            raise tree.TreeError(f"there is no patch {name}")
        contents = tree.Contents(self.overlay)
        patch = contents.patches[at]
        self.rebuild(contents, name, at, patch.header, {part.path: contents.of(part.path, at) for part in patch.files})
        series = self.patches / "series"
        lines = series.read_text(encoding="utf-8").splitlines(True)
        tree.write_atomic(series, "".join(line for line in lines if line.split("#")[0].strip() != f"{name}.patch").encode())
        (self.patches / f"{name}.patch").unlink()
        for folder in (self.work(name), self.base(name)):
            shutil.rmtree(folder, ignore_errors=True)

    def status(self) -> None:
        for folder in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            if folder.name == ".base":
                continue
            where = "in the series" if self.index(folder.name) is not None else "new"
            print(f"{folder.name} ({where}): {', '.join(tree.walk_files(self.base(folder.name)))}")


def canonical(overlay: tree.Overlay) -> dict[str, bytes]:
    """Every patch of the series as it should stand; hunks that have moved are followed."""
    state: dict[str, bytes] = {}
    result: dict[str, bytes] = {}
    for patch in overlay.patches():
        text = patch.header.rstrip() + b"\n\n"
        for part in patch.files:
            if part.path not in state:
                try:
                    state[part.path] = (overlay.pristine / part.path).read_bytes()
                except FileNotFoundError:
                    raise tree.TreeError(f"patches/{patch.name}: upstream has no {part.path}") from None
            after = part.apply_moved(state[part.path])
            remade = patchfile.make(patch.name, part.path, state[part.path], after)
            text += remade.text if remade else b""
            state[part.path] = after
        result[patch.name] = text
    return result


def refresh_all(overlay: tree.Overlay) -> list[str]:
    """Rewrite the patches that are not canonical; returns their names."""
    written = []
    for name, text in canonical(overlay).items():
        path = overlay.root / "patches" / name
        if path.read_bytes() != text:
            tree.write_atomic(path, text)
            written.append(name)
    return written


def shadow(overlay: tree.Overlay, files: list[str]) -> None:
    """Record originals in shadowed.list, which stays in the order of the names."""
    path = overlay.root / "overlay/shadowed.list"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    comments = [line for line in lines if line.startswith("#")]
    rows = {row[1]: row[0] for row in (line.split() for line in lines if line and not line.startswith("#"))}
    for file in files:
        original = overlay.pristine / file
        if not original.is_file():
            raise tree.TreeError(f"upstream has no {file}")
        rows[file] = tree.sha256_file(original)
    text = [*comments, *(f"{rows[name]}  {name}" for name in sorted(rows))]
    tree.write_atomic(path, "\n".join([*text, ""]).encode())


def main() -> int:
    parser = argparse.ArgumentParser(description="Keep patches in canonical form.", epilog=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", default="all", choices=("all", "new", "edit", "add", "save", "drop", "shadow", "status"))
    parser.add_argument("name", nargs="?")
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    overlay = tree.Overlay(Path(__file__).resolve().parent.parent)
    shop = Workshop(overlay)
    try:
        with tree.locked(overlay.build / ".lay.lock"):
            overlay.ensure_pristine(None)
        with tree.locked(overlay.build / ".patch.lock"), contextlib.suppress(BrokenPipeError):
            if args.command not in ("all", "status") and not args.name:
                parser.error(f"{args.command} needs a name")
            name = (args.name or "").removesuffix(".patch")
            match args.command:
                case "all":
                    for written in refresh_all(overlay):
                        print(f"wrote patches/{written}")
                case "new" | "edit" | "add":
                    shop.open(name, args.files, args.command == "new")
                case "save":
                    shop.save(name)
                case "drop":
                    shop.drop(name)
                case "shadow":
                    shadow(overlay, [args.name, *args.files])
                case "status":
                    shop.status()
    except (tree.TreeError, patchfile.PatchError, OSError) as error:
        print(f"refresh: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
