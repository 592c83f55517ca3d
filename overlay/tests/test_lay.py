"""Laying the source tree: what ends up in it, what is left alone, what an interruption leaves."""
import os
import unittest

from toy import ToyCase, tree


class LayTests(ToyCase):
    def times(self) -> dict[str, int]:
        return {name: os.stat(self.overlay.src / name).st_mtime_ns for name in tree.walk_files(self.overlay.src) if name != tree.STATE}

    def changed_by_lay(self) -> set[str]:
        before = self.times()
        self.lay()
        after = self.times()
        return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}

    def test_upstream_overlay_patches_and_removals_come_together(self):
        self.add_patch("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        self.add_patch("two", "Python/loop.c", "sum += 2 * i;", "sum += 3 * i;")
        self.lay()
        self.assertIn("sum += 3 * i;", self.laid("Python/loop.c"))
        self.assertEqual(self.laid("Python/other.c"), "int ours;\n")
        self.assertEqual(self.laid("Modules/new.c"), "int fresh;\n")
        self.assertEqual(self.laid("Include/toy.h"), "int first(int);\nint second(int);\n")
        self.assertFalse((self.overlay.src / "Modules/old.c").exists())
        self.assertEqual((self.overlay.pristine / "Python/other.c").read_text(), "int other = 1;\nint more = 2;\n")

    def test_nothing_is_touched_when_nothing_changed(self):
        self.add_patch("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        self.lay()
        self.assertEqual(self.changed_by_lay(), set())

    def test_only_the_changed_overlay_file_is_touched(self):
        self.lay()
        self.write(self.root / "Modules/new.c", "int fresher;\n")
        self.assertEqual(self.changed_by_lay(), {"Modules/new.c"})
        self.assertEqual(self.laid("Modules/new.c"), "int fresher;\n")

    def test_an_overlay_file_with_a_new_time_and_the_same_contents_is_left_alone(self):
        self.lay()
        os.utime(self.root / "Modules/new.c", (1, 1))
        self.assertEqual(self.changed_by_lay(), set())

    def test_a_patch_that_goes_restores_upstreams_file_with_a_new_time(self):
        self.add_patch("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        self.lay()
        self.write(self.root / "patches/series", "")
        self.assertEqual(self.changed_by_lay(), {"Python/loop.c"})
        self.assertIn("sum += i;", self.laid("Python/loop.c"))
        self.assertGreater(os.stat(self.overlay.src / "Python/loop.c").st_mtime, os.stat(self.overlay.pristine / "Python/loop.c").st_mtime)

    def test_an_overlay_file_that_goes(self):
        self.lay()
        (self.root / "Modules/new.c").unlink()
        (self.root / "Python/other.c").unlink()
        self.lay()
        self.assertFalse((self.overlay.src / "Modules/new.c").exists())
        self.assertEqual(self.laid("Python/other.c"), "int other = 1;\nint more = 2;\n")

    def test_a_removal_that_goes(self):
        self.lay()
        self.write(self.root / "overlay/removed.list", "")
        self.overlay = tree.Overlay(self.root, self.root / "build")
        self.lay()
        self.assertEqual(self.laid("Modules/old.c"), "int old;\n")

    def test_ignored_files_are_not_laid(self):
        self.write(self.root / ".gitignore", "/build/\n*.tmp\n")
        self.write(self.root / "Modules/scratch.tmp", "x\n")
        self.lay()
        self.assertFalse((self.overlay.src / "Modules/scratch.tmp").exists())

    def test_an_edit_in_the_laid_tree_is_undone_and_kept(self):
        self.lay()
        self.write(self.overlay.src / "Python/loop.c", "int edited_by_hand;\n")
        report = self.lay()
        self.assertIn("sum += i;", self.laid("Python/loop.c"))
        [kept] = report.saved
        with open(kept, encoding="utf-8") as f:
            self.assertEqual(f.read(), "int edited_by_hand;\n")

    def test_a_lost_record_costs_a_comparison_and_touches_nothing(self):
        self.add_patch("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        self.lay()
        (self.overlay.src / tree.STATE).unlink()
        self.assertEqual(self.changed_by_lay(), set())

    def test_a_run_that_was_cut_off_is_completed(self):
        self.add_patch("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        self.lay()
        # as after a kill: a file half done under its temporary name, another missing, no record
        (self.overlay.src / tree.STATE).unlink()
        (self.overlay.src / "Modules/new.c").unlink()
        self.write(self.overlay.src / "Python/loop.c", "half")
        (self.overlay.build / ".src-new").mkdir()
        (self.overlay.build / "upstream/.unpacking").mkdir()
        self.lay()
        self.assertEqual(self.laid("Modules/new.c"), "int fresh;\n")
        self.assertIn("sum += 2 * i;", self.laid("Python/loop.c"))

    def test_a_mode_follows_the_overlay_file(self):
        self.lay()
        os.chmod(self.root / "Modules/new.c", 0o755)
        self.lay()
        self.assertTrue(os.access(self.overlay.src / "Modules/new.c", os.X_OK))

    def test_patching_a_file_of_ours_is_refused(self):
        self.add_patch("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        self.write(self.root / "Python/loop.c", "int ours;\n")
        with self.assertRaisesRegex(tree.TreeError, "both an overlay file and the target of a patch"):
            self.lay()

    def test_a_patch_that_does_not_fit_stops_before_anything_is_written(self):
        self.lay()
        self.add_patch("one", "Python/loop.c", "sum += i;", "sum += 2 * i;")
        path = self.root / "patches/one.patch"
        path.write_text(path.read_text().replace("-        sum", "-        som"))
        before = self.times()
        with self.assertRaisesRegex(tree.patchfile.PatchError, "does not apply exactly"):
            self.lay()
        self.assertEqual(self.times(), before)


class GeneratorTests(ToyCase):
    def test_cases_are_generated_only_when_their_input_is_patched(self):
        self.lay()
        self.assertEqual(self.laid("Python/generated_cases.c.h"), "old\n")
        self.add_patch("one", "Python/bytecodes.c", "    }\n", "        new\n    }\n")
        report = self.lay()
        self.assertEqual(self.laid("Python/generated_cases.c.h"), "cases\n    inst(ONE, (--)) {\n        new\n    }\n")
        self.assertCountEqual(report.written, ["Python/bytecodes.c", "Python/generated_cases.c.h"])
        self.assertEqual(self.lay().written, [])
        self.assertEqual((self.overlay.pristine / "Python/generated_cases.c.h").read_text(), "old\n")

    def test_generated_files_go_back_with_the_patch(self):
        self.add_patch("one", "Python/bytecodes.c", "    }\n", "        new\n    }\n")
        self.lay()
        self.write(self.root / "patches/series", "")
        self.lay()
        self.assertEqual(self.laid("Python/generated_cases.c.h"), "old\n")

    def test_a_generator_that_fails_says_so(self):
        self.add_patch("one", "Python/bytecodes.c", "    }\n", "        new\n    }\n")
        self.add_patch("two", "Makefile.pre.in", "\tsed", "\tfalse; sed")
        self.add_patch("three", "Makefile.pre.in", "false; sed", "false && sed")
        with self.assertRaisesRegex(tree.TreeError, "regen-cases failed"):
            self.lay()


class UpstreamTests(ToyCase):
    def test_a_damaged_tarball_is_refused_and_leaves_nothing(self):
        data = bytearray(self.tarball.read_bytes())
        data[50] ^= 1
        self.tarball.write_bytes(data)
        with self.assertRaisesRegex(tree.TreeError, "wrong sha256"):
            self.lay()
        self.assertFalse(self.overlay.pristine.exists())
        self.assertFalse(self.overlay.src.exists())

    def test_a_short_tarball_is_refused(self):
        self.tarball.write_bytes(self.tarball.read_bytes()[:-10])
        with self.assertRaisesRegex(tree.TreeError, "cut short"):
            self.lay()

    def test_a_directory_is_taken_when_it_is_pristine(self):
        self.write(self.folder / "Toy-1.0/Lib/__pycache__/module.pyc", "made by running it")
        tree.lay(self.overlay, self.folder / "Toy-1.0")
        self.assertEqual(self.laid("Modules/new.c"), "int fresh;\n")
        self.assertFalse((self.overlay.src / "Lib/__pycache__").exists())

    def test_a_directory_with_changes_is_refused(self):
        self.write(self.folder / "Toy-1.0/Python/loop.c", "changed\n")
        with self.assertRaisesRegex(tree.TreeError, "not the pristine tree"):
            tree.lay(self.overlay, self.folder / "Toy-1.0")
        self.assertFalse(self.overlay.pristine.exists())

    def test_a_missing_source_is_named(self):
        with self.assertRaisesRegex(tree.TreeError, "nowhere.*does not exist"):
            tree.lay(self.overlay, self.folder / "nowhere")


if __name__ == "__main__":
    unittest.main()
