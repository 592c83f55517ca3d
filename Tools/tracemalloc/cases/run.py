#!/usr/bin/env python3
"""Run the cases beside this file under one interpreter.

usage: run.py [--python PATH] [-j N] [--timeout S] [NAME ...]

A case is a file NN_name.py; NAME picks those whose name contains it.  Each
is a process of its own in a session of its own, so that one that hangs is
killed with all it started.  What a failed case printed is shown.  The last
line is "N passed, N failed, N skipped"; the exit status is 1 if any failed.
"""
import argparse
import concurrent.futures
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SKIPPED = 77
# Not beside others: a folder that all share, or a ratio of two times.
ALONE = ("perf_map", "perf_trampoline", "huge_line_table", "snapshot_scaling")


class Outcome(NamedTuple):
    name: str
    status: int | None      # None: killed when its time was up
    output: str
    seconds: float

    @property
    def word(self) -> str:
        return {0: "ok", SKIPPED: "skipped", None: "TIMEOUT"}.get(
            self.status, "FAILED")


def run_case(python: str, path: Path, limit: float, scale: float) -> Outcome:
    """Run one case to its end or for limit seconds."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env["TRACEMALLOC_CASE_SCALE"] = str(scale)
    # Only the case itself: its helper must not write into the source tree.
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    start = time.monotonic()
    proc = subprocess.Popen([python, str(path)], env=env, text=True,
                            errors="replace", stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            start_new_session=True)
    try:
        out, _ = proc.communicate(timeout=limit)
        status: int | None = proc.returncode
    except subprocess.TimeoutExpired:
        os.killpg(proc.pid, signal.SIGKILL)
        out, status = proc.communicate()[0], None
    except BaseException:
        os.killpg(proc.pid, signal.SIGKILL)
        raise
    return Outcome(path.stem, status, out, time.monotonic() - start)


def report(outcome: Outcome) -> None:
    """One line a case, and the whole output of one that went wrong."""
    line = f"{outcome.word:8} {outcome.name}  {outcome.seconds:.1f} s"
    if outcome.status == SKIPPED:
        line += "  (" + (outcome.output.strip().splitlines() or [""])[-1] + ")"
    elif outcome.status is not None and outcome.status < 0:
        line += f"  (signal {-outcome.status})"
    print(line, flush=True)
    if outcome.word in ("FAILED", "TIMEOUT"):
        for text in outcome.output.rstrip().splitlines():
            print("    " + text, flush=True)


def pick(names: list[str]) -> list[Path]:
    """The cases whose name contains one of names; all when there are none."""
    cases = sorted(HERE.glob("[0-9][0-9]_*.py"))
    return [p for p in cases
            if not names or any(n in p.name for n in names)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="only cases whose name contains NAME")
    parser.add_argument("--python", default=str(ROOT / "build/release/python"),
                        help="the interpreter to try (%(default)s)")
    parser.add_argument("-j", "--jobs", type=int, default=2,
                        help="cases at a time (%(default)s)")
    parser.add_argument("--timeout", type=float, default=400, metavar="S",
                        help="seconds a case may take (%(default)s)")
    parser.add_argument("--scale", type=float, default=1, metavar="X",
                        help="stretch every time limit, for slow builds")
    parser.add_argument("--list", action="store_true", help="only names")
    args = parser.parse_args()
    cases = pick(args.names)
    if args.list:
        print("\n".join(p.stem for p in cases))
        return 0
    if not cases:
        parser.error("no case is called so")
    if not os.access(args.python, os.X_OK):
        parser.error(f"no interpreter at {args.python}")
    alone = [p for p in cases if any(word in p.name for word in ALONE)]
    limit = args.timeout * args.scale
    outcomes = []

    def run(path: Path) -> Outcome:
        return run_case(args.python, path, limit, args.scale)

    # Threads only wait here; each case is a process.
    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        jobs = [pool.submit(run, p) for p in cases if p not in alone]
        for job in concurrent.futures.as_completed(jobs):
            outcomes.append(job.result())
            report(outcomes[-1])
    for path in alone:
        outcomes.append(run(path))
        report(outcomes[-1])
    words = [o.word for o in outcomes]
    failed = words.count("FAILED") + words.count("TIMEOUT")
    print(f"{words.count('ok')} passed, {failed} failed,"
          f" {words.count('skipped')} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
