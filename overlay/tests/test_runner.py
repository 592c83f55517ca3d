"""The test runner's judgement: counts are true, and only what fails here and not on stock is a failure."""
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "Tools/tracemalloc/regrtest"))

import counts  # noqa: E402
import upstream  # noqa: E402
from counts import Counts  # noqa: E402

REGRTEST = """\
0:00:00 load avg: 5.80 [1/2/1] test_crash worker non-zero exit code (Exit code -6 (SIGABRT))
FAIL: test_fail (test.test_zz.A.test_fail)
FAIL: test_sub (test.test_zz.A.test_sub) (i=0)
FAIL: test_sub (test.test_zz.A.test_sub) (i=2)
ERROR: setUpClass (test.test_zz.B)

2 tests failed:
    test_crash test_zz

1 test skipped:
    test_tcl

Total tests: run=6 failures=3 skipped=1
Total test files: run=2/2 failed=2
Result: FAILURE
"""
JUNIT = """<testsuites><testsuite>
<testcase name="test.test_zz.A.test_fail"><failure>no</failure></testcase><testcase name="test.test_zz.A.test_ok"/><testcase/>
<testcase name="test.test_zz.A.test_skip"><skipped>x</skipped></testcase><testcase name="test.test_ok.A.test_1"/>
</testsuite></testsuites>"""


class CountsTests(unittest.TestCase):
    def test_last_line(self):
        self.assertEqual(counts.last_line_counts("1 passed, 0 failed, 0 skipped\nmore\n3 passed, 1 failed, 2 skipped\n"), Counts(3, 1, 2))
        self.assertEqual(counts.last_line_counts("8 passed, 0 failed\n"), Counts(8, 0, 0))
        self.assertIsNone(counts.last_line_counts("all is well\n"))

    def test_unittest(self):
        self.assertEqual(counts.unittest_counts("x\nRan 5 tests in 0.1s\n\nOK (skipped=2)\n"), Counts(3, 0, 2))
        text = "ERROR: test_a (m.A.test_a)\nx\nRan 5 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=1)\n"
        self.assertEqual(counts.unittest_counts(text), Counts(2, 2, 1, ["test_a (m.A.test_a)"]))
        self.assertIsNone(counts.unittest_counts("Segmentation fault\n"))

    def test_a_suite_that_dies_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            self.assertEqual(counts.reporting([sys.executable, "-c", "print('half')"], log, "").failed, 1)
            self.assertEqual(counts.reporting([sys.executable, "-c", "print('2 passed, 0 failed'); raise SystemExit(1)"], log, "").failed, 1)
            self.assertEqual(counts.reporting([sys.executable, "-c", "print('2 passed, 0 failed, 1 skipped')"], log, ""), Counts(2, 0, 1))


class RegrtestTests(unittest.TestCase):
    def parse(self, text: str = REGRTEST, junit: str = JUNIT) -> upstream.Outcome:
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as f:
            f.write(junit)
            f.flush()
            return upstream.parse(text, Path(f.name))

    def test_parse(self):
        outcome = self.parse()
        self.assertTrue(outcome.complete)
        self.assertEqual((outcome.passed, outcome.skipped), (2, 1))
        self.assertEqual(outcome.failed_files, ["test_crash", "test_zz"])
        self.assertEqual(outcome.failed_tests["test_crash"], set())
        self.assertEqual(outcome.failed_tests["test_zz"],
                         {"test.test_zz.A.test_fail", "test.test_zz.A.test_sub", "test.test_zz.B.setUpClass"})

    def test_a_run_that_was_cut_off_is_not_complete(self):
        self.assertFalse(self.parse("Segmentation fault\n", "").complete)

    def test_files_of_packages(self):
        files = ["test_asyncio", "test.test_asyncio.test_events", "test_a", "test_ab"]
        self.assertEqual(upstream.file_of("test.test_asyncio.test_events.T.test_x", files), "test.test_asyncio.test_events")
        self.assertEqual(upstream.file_of("test.test_ab.T.test_x", files), "test_ab")
        self.assertEqual(upstream.file_of("test.other.T.test_x", files), "")

    def judge(self, **failing: dict[str, set[str]]) -> Counts:
        """Judge a run of 10 passed tests, given what fails in each run: release, stock, again."""
        def outcome(name: str) -> upstream.Outcome:
            tests = failing.get(name, {})
            return upstream.Outcome(10, 1, sorted(tests), tests)

        def fake(variant: str, name: str, tests: list[str], jobs: int = 2, options: tuple[str, ...] = ()):
            return outcome(variant if variant == "stock" or not name.endswith("again") else "again"), Path("log")

        with unittest.mock.patch.object(upstream, "regrtest", fake):
            return upstream.judged("release", "suite", [], lambda: None)[0]

    def test_nothing_fails(self):
        self.assertEqual(self.judge(), Counts(10, 0, 1))

    def test_a_failure_of_ours(self):
        result = self.judge(release={"test_a": {"test.test_a.x", "test.test_a.y"}}, stock={"test_a": {"test.test_a.y"}},
                            again={"test_a": {"test.test_a.x", "test.test_a.y"}})
        self.assertEqual((result.passed, result.failed, result.skipped), (10, 1, 2))
        self.assertEqual(result.failures, ["test.test_a.x"])
        self.assertEqual(result.remarks, ["fails on stock too: test.test_a.y"])

    def test_a_failure_that_stock_has_too(self):
        result = self.judge(release={"test_a": {"test.test_a.x"}}, stock={"test_a": {"test.test_a.x"}})
        self.assertEqual((result.passed, result.failed, result.skipped), (10, 0, 2))

    def test_a_crash(self):
        result = self.judge(release={"test_a": set()}, again={"test_a": set()})
        self.assertEqual(result.failures, ["test_a"])
        result = self.judge(release={"test_a": set()}, stock={"test_a": set()})
        self.assertEqual((result.failed, result.skipped), (0, 2))

    def test_a_failure_that_does_not_come_again(self):
        result = self.judge(release={"test_a": {"test.test_a.x"}})
        self.assertEqual((result.passed, result.failed, result.skipped), (11, 0, 1))
        self.assertRegex(result.remarks[0], "unstable.*test_a.x")


if __name__ == "__main__":
    unittest.main()
