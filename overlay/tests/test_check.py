"""check.py: each check finds what it is there for, and is content with the toy fork as it stands."""
import os
import unittest

from toy import HEADER, UPSTREAM, ToyCase, tree

import check


class CheckTests(ToyCase):
    def setUp(self) -> None:
        super().setUp()
        self.overlay.ensure_pristine(self.tarball)

    def problems(self, name: str) -> list[str]:
        overlay = tree.Overlay(self.root, self.root / "build")
        return list(getattr(check.Checks(overlay), f"check_{name}")())

    def assert_found(self, name: str, pattern: str) -> None:
        self.assertRegex("\n".join(self.problems(name)), pattern)

    def test_the_toy_fork_is_in_order(self):
        self.add_patch("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        for attribute in vars(check.Checks):
            if attribute.startswith("check_") and attribute not in ("check_shellcheck", "check_ruff"):
                with self.subTest(attribute):
                    self.assertEqual(self.problems(attribute.removeprefix("check_")), [])

    def test_series(self):
        self.add_patch("one", "Python/loop.c", "sum += i;", "sum += 2 * i;", header=HEADER.replace("try", "..."))
        self.assert_found("series", "one.patch: no Purpose")
        self.write(self.root / "patches/stray.patch", "")
        self.assert_found("series", "stray.patch is not in")
        self.write(self.root / "patches/series", "one.patch\none.patch\n")
        self.assert_found("series", "twice")

    def test_patches(self):
        self.add_patch("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        path = self.root / "patches/one.patch"
        good = path.read_text()
        path.write_text(good.replace("@@ first", "@@ second"))
        self.assert_found("patches_apply", "names 'second")
        self.assert_found("patches_canonical", "not canonical")
        path.write_text(good.replace("-7,3", "-6,3"))
        self.assert_found("patches_apply", "does not apply exactly")
        path.write_text(good.replace("loop.c", "none.c"))
        self.assert_found("patches_apply", "upstream has no")

    def test_shadowed(self):
        self.write(self.root / "Include/toy.h", "int ours_alone;\n")
        self.assert_found("shadowed", "Include/toy.h replaces an upstream file")
        self.write(self.root / "overlay/shadowed.list", f"{'0' * 64}  Python/other.c\n{'0' * 64}  Python/none.c\n{'0' * 64}  Modules/new.c\n")
        self.assert_found("shadowed", "Python/other.c is not the one")
        self.assert_found("shadowed", "Python/none.c, which is no file of ours")
        self.assert_found("shadowed", "Modules/new.c, which upstream does not have")

    def test_removed(self):
        self.write(self.root / "overlay/removed.list", "Modules/none.c\nPython/other.c\n")
        self.assert_found("removed", "Modules/none.c, which upstream does not have")
        self.assert_found("removed", "Python/other.c is in removed.list and a file of ours")

    def test_upstream_tests(self):
        self.write(self.root / "Lib/test/test_module.py", "import other_module\n")
        self.assert_found("upstream_tests", "test_module.py is a test of upstream's")

    def test_contents(self):
        long = "".join(f"int value_{i} = {i};\n" for i in range(40))
        self.write(self.overlay.pristine / "Python/long.c", long)
        self.write(self.root / "Modules/copied.c", long)
        self.write(self.root / "Modules/thing.o", "x")
        self.write(self.root / "notes.md", f"see {self.root}/build\n")
        self.assert_found("contents", "copied.c is upstream's Python/long.c")
        self.assert_found("contents", "thing.o looks like a build product")
        self.assert_found("contents", "notes.md holds the path")

    def test_originality(self):
        lines = UPSTREAM["Python/loop.c"].split("\n")
        self.write(self.root / "Modules/copied.c", "int mine;\n" + "\n".join("  " + line for line in lines[3:9]) + "\n")
        self.assertEqual(self.problems("originality"), [])
        self.write(self.root / "Modules/copied.c", "int mine;\n" + "\n".join("  " + line for line in lines[3:23]) + "\n")
        self.assert_found("originality", r"Modules/copied.c:\d+-\d+ stands in upstream's Python/loop.c")

    def test_includes(self):
        engine = self.root / check.ENGINE
        self.write(engine / "site.h", "")
        self.write(engine / "types.h", "")
        self.write(engine / "stack.h", '#include "types.h"\n')
        self.write(engine / "snapshot_group.c", '#include "snapshot.h"\n#include "types.h"\n')
        self.write(engine / "record.c", '#include "stack.h"\n#include "Python.h"\n')
        self.assertEqual(self.problems("includes"), [])
        self.write(engine / "stack.c", '#include "site.h"\n')
        self.write(engine / "parlour.c", "")
        self.write(self.root / "Python/tracemalloc.c", '#include "../Modules/_tracemalloc/site.h"\n')
        self.assert_found("includes", "stack.c includes site.h: stack may not know site")
        self.assert_found("includes", "parlour.c: no such room")
        self.assert_found("includes", "Python/tracemalloc.c includes .*site.h")

    def test_sizes_and_whitespace(self):
        self.write(self.root / "Modules/new.c", "int x; \n\tint y;\n" + "int z;\n" * 800 + "int end;")
        self.assert_found("sizes", "803|802")
        self.assert_found("whitespace", r"new.c:1: blanks")
        self.assert_found("whitespace", r"new.c:2: a tab")
        self.assert_found("whitespace", r"new.c: no newline")

    def test_a_tool_that_is_not_installed_skips(self):
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        overlay = self.overlay
        os.environ["PATH"] = str(self.folder)
        checks = object.__new__(check.Checks)
        checks.root = overlay.root
        with self.assertRaisesRegex(check.Skip, "ruff is not installed"):
            list(checks.check_ruff())


if __name__ == "__main__":
    unittest.main()
