"""Patch files and refresh.py: canonical form, exact applying, editing through the workshop."""
import unittest
import unittest.mock

import toy
from toy import HEADER, ToyCase, patchfile, tree

import refresh


class PatchFileTests(unittest.TestCase):
    def make(self, old: str, new: str, path: str = "Python/loop.c") -> patchfile.FilePatch:
        part = patchfile.make("p.patch", path, old.encode(), new.encode())
        assert part is not None
        return part

    def test_form(self):
        part = self.make(toy.LOOP, toy.LOOP.replace("sum += i;", "sum += 2 * i;"))
        self.assertEqual(part.text.decode(), "--- a/Python/loop.c\n+++ b/Python/loop.c\n@@ -7,3 +7,3 @@ first(int n)\n"
                         "     for (int i = 0; i < n; i++) {\n-        sum += i;\n+        sum += 2 * i;\n     }\n")

    def test_equal_files_make_no_patch(self):
        self.assertIsNone(patchfile.make("p.patch", "x.c", b"a\n", b"a\n"))

    def test_parse_gives_back_what_was_written(self):
        text = HEADER.encode() + self.make("a\nb\n", "a\nc\n", "A.c").text + self.make("a\n", "a\nb\n", "B.c").text
        patch = patchfile.parse("p.patch", text)
        self.assertEqual(patch.render(), text)
        self.assertEqual([part.path for part in patch.files], ["A.c", "B.c"])
        self.assertEqual(patch.missing_fields(), [])

    def test_apply_makes_the_new_file(self):
        for old, new in ((toy.LOOP, toy.LOOP.replace("int", "long")), ("", "a\n"), ("a\n", ""), ("a\nb\nc\n", "b\n"), ("x\n" * 50, "x\n" * 51)):
            with self.subTest(old=old[:10], new=new[:10]):
                part = self.make(old, new)
                again, _ = patchfile._parse_file("p.patch", part.text.splitlines(True), 0)
                self.assertEqual(again.apply(old.encode()), new.encode())

    def test_an_offset_is_refused_and_followed_only_by_refresh(self):
        part = self.make(toy.LOOP, toy.LOOP.replace("sum += i;", "sum += 2 * i;"))
        moved = b"/* one line more */\n" + toy.LOOP.encode()
        with self.assertRaisesRegex(patchfile.PatchError, "does not apply exactly"):
            part.apply(moved)
        self.assertEqual(part.apply_moved(moved), moved.replace(b"sum += i;", b"sum += 2 * i;"))

    def test_changed_context_is_refused(self):
        part = self.make(toy.LOOP, toy.LOOP.replace("sum += i;", "sum += 2 * i;"))
        other = toy.LOOP.replace("i < n", "i <= n").encode()
        with self.assertRaises(patchfile.PatchError):
            part.apply(other)
        with self.assertRaisesRegex(patchfile.PatchError, "fits nowhere"):
            part.apply_moved(other)

    def test_a_hunk_that_names_another_function_is_found(self):
        part = self.make(toy.LOOP, toy.LOOP.replace("product *= i;", "product *= 2;"))
        part.hunks[0].section = b"first(int n)"
        [text] = part.misplaced(toy.LOOP.encode())
        self.assertRegex(text, r"names 'first\(int n\)', but changes 'second\(int n\)'")

    def test_headings(self):
        for path, line, want in (
            ("a.c", "static int", True), ("a.c", "exit_unwind:", False), ("a.c", "    x = 1;", False), ("a.c", "first(int n)", True),
            ("a.c", "#define X", False), ("a.c", "typedef struct {", True), ("Python/bytecodes.c", "        inst(NOP, (--)) {", True),
            ("Python/bytecodes.c", "        replicate(8) pure inst(LOAD_FAST, (-- value)) {", True), ("a.py", "    def f(self):", True), ("a.py", "x = 1", False),
            ("Makefile.pre.in", "regen-cases: \\", True), ("Makefile.pre.in", "\techo", False), ("Makefile.pre.in", "SRC= a b", False),
        ):
            with self.subTest(path=path, line=line):
                self.assertEqual(patchfile.is_heading(path, line.encode()), want)

    def test_what_cannot_be_read(self):
        good = self.make("a\n", "b\n", "x.c").text
        for text, message in ((good.replace(b"+++ b/x.c", b"+++ b/y.c"), "one name"), (good.replace(b"@@ -1 +1 @@", b"@@ -1,9 +1 @@"), "ends early"),
                              (good + good, "order of their names"), (good[:good.index(b"@@")], "no hunk")):
            with self.subTest(message=message), self.assertRaisesRegex(patchfile.PatchError, message):
                patchfile.parse("p.patch", text)

    def test_header_fields(self):
        patch = patchfile.parse("p.patch", b"Purpose: a\nWhy-not-overlay:\nRemoval-condition: ...\n\n" + self.make("a\n", "b\n").text)
        self.assertEqual(patch.missing_fields(), ["Why-not-overlay", "Removal-condition", "Proving-test"])
        patch = patchfile.parse("p.patch", b"Purpose:\n  on the next line\nWhy-not-overlay: a\nRemoval-condition: b\nProving-test: c\n\n" + self.make("a\n", "b\n").text)
        self.assertEqual(patch.missing_fields(), [])


class WorkshopTests(ToyCase):
    def setUp(self) -> None:
        super().setUp()
        self.overlay.ensure_pristine(self.tarball)
        self.shop = refresh.Workshop(self.overlay)
        self.enterContext(unittest.mock.patch("builtins.print"))

    def edit(self, patch: str, path: str, old: str, new: str) -> None:
        file = self.shop.work(patch) / path
        text = file.read_text()
        self.assertIn(old, text)
        file.write_text(text.replace(old, new, 1))

    def new(self, patch: str, path: str, old: str, new: str) -> None:
        self.shop.open(patch, [path], fresh=True)
        self.edit(patch, path, old, new)
        (self.shop.work(patch) / "HEADER").write_text(HEADER)
        self.shop.save(patch)

    def patch(self, name: str) -> str:
        return (self.root / f"patches/{name}.patch").read_text()

    def test_a_new_patch(self):
        self.new("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        self.assertEqual(self.overlay.series(), ["one.patch"])
        self.assertTrue(self.patch("one").startswith(HEADER + "--- a/Python/loop.c\n"))
        self.assertEqual(refresh.refresh_all(self.overlay), [])
        self.lay()
        self.assertIn("sum += 2 * i;", self.laid("Python/loop.c"))

    def test_save_twice(self):
        self.new("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        self.edit("one", "Python/loop.c", "sum += 2 * i;", "sum += 5 * i;")
        self.shop.save("one")
        self.assertEqual(self.overlay.series(), ["one.patch"])
        self.assertIn("+        sum += 5 * i;", self.patch("one"))

    def test_a_patch_without_changes_is_not_saved(self):
        self.shop.open("one", ["Python/loop.c"], fresh=True)
        with self.assertRaisesRegex(tree.TreeError, "changes nothing"):
            self.shop.save("one")
        self.assertEqual(self.overlay.series(), [])

    def test_two_patches_written_at_the_same_time_on_one_file(self):
        self.shop.open("one", ["Python/loop.c"], fresh=True)
        self.shop.open("two", ["Python/loop.c"], fresh=True)
        self.edit("two", "Python/loop.c", "product *= i;", "product *= 2;\n        product *= 3;")
        self.edit("one", "Python/loop.c", "int sum = 0;", "int sum = 0;\n    sum = 7;")
        self.shop.save("one")
        self.shop.save("two")
        self.assertEqual(self.overlay.series(), ["one.patch", "two.patch"])
        self.assertEqual(refresh.refresh_all(self.overlay), [])
        text = tree.Contents(self.overlay).of("Python/loop.c").decode()
        self.assertIn("sum = 7;", text)
        self.assertIn("product *= 3;", text)
        self.assertNotIn("sum = 7", self.patch("two"))

    def test_a_conflict_is_reported_and_nothing_is_written(self):
        self.shop.open("one", ["Python/loop.c"], fresh=True)
        self.shop.open("two", ["Python/loop.c"], fresh=True)
        self.edit("one", "Python/loop.c", "sum += i;", "sum += 2;")
        self.edit("two", "Python/loop.c", "sum += i;", "sum += 3;")
        self.shop.save("one")
        with self.assertRaisesRegex(patchfile.PatchError, "conflict"):
            self.shop.save("two")
        self.assertEqual(self.overlay.series(), ["one.patch"])
        self.assertFalse((self.root / "patches/two.patch").exists())

    def test_editing_a_lower_patch_moves_the_upper_ones(self):
        self.new("one", "Python/loop.c", "int sum = 0;", "int sum = 1;")
        self.new("two", "Python/loop.c", "product *= i;", "product *= 2;")
        self.shop.open("one", [], fresh=False)
        self.edit("one", "Python/loop.c", "int sum = 1;", "int sum = 1;\n    sum = 2;\n    sum = 3;")
        self.shop.save("one")
        self.assertEqual(refresh.refresh_all(self.overlay), [])
        text = tree.Contents(self.overlay).of("Python/loop.c").decode()
        self.assertIn("sum = 3;", text)
        self.assertIn("product *= 2;", text)

    def test_dropping_a_lower_patch(self):
        self.new("one", "Python/loop.c", "int sum = 0;", "int sum = 0;\n    sum = 1;")
        self.new("two", "Python/loop.c", "product *= i;", "product *= 2;")
        self.shop.drop("one")
        self.assertEqual(self.overlay.series(), ["two.patch"])
        self.assertEqual(refresh.refresh_all(self.overlay), [])
        self.assertEqual(tree.Contents(self.overlay).of("Python/loop.c").decode(), toy.LOOP.replace("product *= i;", "product *= 2;"))

    def test_files_of_ours_and_unknown_files_are_refused(self):
        with self.assertRaisesRegex(tree.TreeError, "replaced by a file of ours"):
            self.shop.open("one", ["Python/other.c"], fresh=True)
        with self.assertRaisesRegex(tree.TreeError, "not an upstream file"):
            self.shop.open("one", ["Python/none.c"], fresh=True)

    def test_refresh_brings_a_patch_into_form(self):
        self.new("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        good = self.patch("one")
        path = self.root / "patches/one.patch"
        path.write_text(good.replace("@@ first(int n)", "@@").replace("-7,3 +7,3", "-6,3 +6,3"))
        self.assertEqual(refresh.refresh_all(self.overlay), ["one.patch"])
        self.assertEqual(self.patch("one"), good)

    def test_shadow_records_originals_in_order(self):
        refresh.shadow(self.overlay, ["Include/toy.h"])
        rows = tree.read_list(self.root / "overlay/shadowed.list")
        self.assertEqual([name for _, name in rows], ["Include/toy.h", "Python/other.c"])
        self.assertEqual(rows[0][0], tree.sha256_file(self.overlay.pristine / "Include/toy.h"))


if __name__ == "__main__":
    unittest.main()
