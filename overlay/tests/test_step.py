"""step.py: a quiet run with a log, a line of progress, and the end of the log on failure."""
import io
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from pathlib import Path

import toy  # noqa: F401  (puts the tools on the path)

import step


class StepTests(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = Path(folder.name) / "logs/step.log"

    def run_step(self, code: str, pattern: str = "", total: int = 0) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stderr(err):
            status = step.run([sys.executable, "-c", code], self.log, "doing it", pattern, total, out)
        return status, out.getvalue(), err.getvalue()

    def test_success_is_one_line_and_the_output_is_in_the_log(self):
        status, out, err = self.run_step("print('much'); print('output')")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"\Adoing it: done, \d+ s\n\Z")
        self.assertEqual(err, "")
        self.assertEqual(self.log.read_text(), "much\noutput\n")

    def test_failure_shows_the_last_lines_and_the_name_of_the_log(self):
        status, out, err = self.run_step("import sys\nfor i in range(100): print(i)\nsys.exit(3)")
        self.assertEqual(status, 3)
        self.assertIn("failed with status 3", out)
        self.assertEqual(err.splitlines(), [f"    {i}" for i in range(70, 100)] + [f"the whole output is in {self.log}"])

    def test_death_by_signal_is_a_failure(self):
        status, _, _ = self.run_step("import os; os.kill(os.getpid(), 9)")
        self.assertEqual(status, 1)

    def test_progress_counts_lines_and_never_exceeds_what_was_expected(self):
        progress = step.Progress("building", 3, io.StringIO())
        progress.done = 2
        self.assertRegex(progress.text(), r"^building: 2/3, \d+ s$")
        progress.done = 5
        self.assertRegex(progress.text(), r"^building: 3/3, ")
        progress.total = 0
        self.assertRegex(progress.text(), r"^building: 5, ")

    def test_a_terminal_gets_one_line_rewritten(self):
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        out = Terminal()
        progress = step.Progress("building", 3, out)
        progress.show()
        progress.finish("done")
        self.assertEqual(out.getvalue().count("\n"), 1)
        self.assertEqual(out.getvalue().count("\r"), 2)


if __name__ == "__main__":
    unittest.main()
