"""A toy fork to try the tools on: a small upstream tarball, and a repository with an overlay, lists and patches."""
from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOOLS))

import patchfile  # noqa: E402
import tree  # noqa: E402

LOOP = """#include "toy.h"

int
first(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += i;
    }
    return sum;
}

static int counter_of_calls;

int
second(int n)
{
    counter_of_calls += 1;
    int product = 1;
    for (int i = 1; i <= n; i++) {
        product *= i;
    }
    return product;
}
"""

UPSTREAM = {
    "Python/loop.c": LOOP,
    "Python/other.c": "int other = 1;\nint more = 2;\n",
    "Include/toy.h": "int first(int);\nint second(int);\n",
    "Modules/old.c": "int old;\n",
    "Lib/module.py": "def f():\n    return 1\n\n\ndef g():\n    return 2\n",
    "Lib/test/test_module.py": "import module\n",
    "Makefile.pre.in": "all:\n\ttrue\n@MODULE_BLOCK@\nregen-cases:\n\tsed s/insts/cases/ Python/bytecodes.c >Python/generated_cases.c.h\n",
    "Python/bytecodes.c": "insts\n    inst(ONE, (--)) {\n    }\n",
    "Python/optimizer_bytecodes.c": "none\n",
    "Tools/cases_generator/tool.py": "pass\n",
    "Tools/build/update_file.py": "pass\n",
}
HEADER = "Purpose: try\nWhy-not-overlay: a toy\nRemoval-condition: never\nProving-test: this one\n\n"


class ToyCase(unittest.TestCase):
    """Makes the toy fork afresh for each test; self.overlay is the description that the tools work on."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="toy-"))
        self.addCleanup(shutil.rmtree, self.folder)
        upstream = self.folder / "Toy-1.0"
        outputs = {path: "old\n" for generator in tree.GENERATORS for path in generator.outputs}
        for name, text in {**outputs, **UPSTREAM}.items():
            self.write(upstream / name, text)
        self.tarball = self.folder / "toy.orig.tar.xz"
        with tarfile.open(self.tarball, "w:xz") as tar:
            tar.add(upstream, "Toy-1.0")
        self.root = self.folder / "repo"
        self.write(self.root / "overlay/upstream.ini",
                   f"[upstream]\nname = Toy\nversion = 1.0\ndirectory = Toy-1.0\ntarball = {self.tarball.name}\n"
                   f"size = {self.tarball.stat().st_size}\nsha256 = {hashlib.sha256(self.tarball.read_bytes()).hexdigest()}\n"
                   f"digest = {tree.tree_digest(upstream)}\n")
        self.write(self.root / "overlay/removed.list", "# gone\nModules/old.c\n")
        self.write(self.root / "overlay/shadowed.list", f"{tree.sha256_file(upstream / 'Python/other.c')}  Python/other.c\n")
        self.write(self.root / "patches/series", "")
        self.write(self.root / "Python/other.c", "int ours;\n")
        self.write(self.root / "Modules/new.c", "int fresh;\n")
        self.write(self.root / ".gitignore", "/build/\n")
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        self.overlay = tree.Overlay(self.root, self.root / "build")

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def lay(self, **options) -> tree.Report:
        return tree.lay(self.overlay, self.tarball, **options)

    def laid(self, name: str) -> str:
        return (self.overlay.src / name).read_text(encoding="utf-8")

    def add_patch(self, name: str, path: str, old: str, new: str, header: str = HEADER) -> None:
        """A patch at the end of the series that replaces some text of a file."""
        self.overlay.ensure_pristine(self.tarball)
        before = tree.Contents(self.overlay).of(path)
        self.assertIn(old.encode(), before)
        part = patchfile.make(f"{name}.patch", path, before, before.replace(old.encode(), new.encode(), 1))
        assert part is not None
        (self.root / "patches" / f"{name}.patch").write_bytes(header.encode() + part.text)
        with open(self.root / "patches/series", "a", encoding="utf-8") as f:
            f.write(f"{name}.patch\n")
