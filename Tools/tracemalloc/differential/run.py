#!/usr/bin/env python3
"""Run the same programs under two interpreters; what they traced must agree.

usage: run.py [--stock PATH] [--ours PATH] [--limits 1,25,60] [NAME ...]

For each program and traceback limit, at every checkpoint: the multiset of
(domain, size, traceback, total number of frames) of all live traces, the
traced size, its peak, and the tracebacks of single objects.  harness.py runs
a program and writes these down; here the two records are compared.

Which names the cache of attribute look-ups keeps alive is decided by their
addresses, so the peak may differ by such a string or two from run to run.  A
program that differs is therefore run again, a few times, until one run of
each side agrees in everything.  A real difference is there every time.

A thread state and an interpreter state hold a few bytes more in ours.  These
two sizes are measured; where such a block is alive the difference is allowed,
in programs that say how many they have.

The last line is "N passed, N failed"; the exit status is 1 if any failed.
--self-check runs the first interpreter against itself: whatever differs then
is not deterministic and would say nothing about the other one.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
HARNESS = HERE / "harness.py"
PROGRAMS = HERE / "programs"

LIST_WEIGHT = 200       # bytes: a list object may be traced, or not

# The largest block of each is the structure itself.
SIZES = """
import _interpreters, _thread, _tracemalloc
def largest(make):
    _tracemalloc.start(1)
    made = make()
    size = max(t[1] for t in _tracemalloc._get_traces())
    _tracemalloc.stop()
    return size, made
lock = _thread.allocate_lock()
lock.acquire()
print(largest(lambda: _thread.start_joinable_thread(lock.acquire))[0])
lock.release()
print(largest(lambda: _interpreters.create("legacy"))[0])
"""

FIND = ("import glob, os, sys\n"
        "print(os.path.dirname(os.__file__))\n"
        "print([p for p in sys.path if glob.glob(p + '/*.so')][-1])\n")


class Side(NamedTuple):
    """One interpreter: its folder looks like an installation of it."""
    label: str
    folder: Path
    states: tuple[int, int]     # bytes of a thread state, of an interpreter's

    @property
    def home(self) -> str:
        return f"{self.folder / 'p'}:{self.folder / 'e'}"

    @property
    def library(self) -> Path:
        return self.folder / "p/lib/python3.13"

    @property
    def dynload(self) -> Path:
        return self.folder / "e/lib/python3.13/lib-dynload"


class Allowance(NamedTuple):
    """Differences that are known: sizes of states on both sides."""
    pairs: list[tuple[int, int]]
    number: int = 0             # of states that may be alive at a time

    def covers(self, difference: int) -> bool:
        """Whether so many states explain a difference of two totals."""
        steps = [b - a for a, b in self.pairs]
        sums = {0}
        for _ in range(self.number):
            sums |= {s + step for s in sums for step in steps}
        return difference in sums

    def cancel(self, left: Counter, right: Counter) -> None:
        """Take out of both sides what is a state on each."""
        for domain, size, frames, total in list(left):
            for a, b in self.pairs if self.number else ():
                key, other = ((domain, n, frames, total) for n in (a, b))
                if size == a and other in right:
                    both = min(left[key], right[other])
                    left[key] -= both
                    right[other] -= both


class Run(NamedTuple):
    side: Side
    program: Path
    limit: int


def environment(side: Side) -> dict[str, str]:
    """The whole environment of a run: nothing of the caller's gets in."""
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8",
            "PYTHONHASHSEED": "0", "TZ": "UTC", "PYTHONHOME": side.home}


def locate(python: str) -> tuple[Path, Path]:
    """Folder of the standard library and of its extension modules."""
    out = subprocess.run([python, "-I", "-c", FIND], text=True, check=True,
                         capture_output=True).stdout.splitlines()
    return Path(out[0]), Path(out[1])


def make_side(label: str, python: str, library: Path, base: Path) -> Side:
    """All paths that a run sees have one length, whichever side it is.

    The standard library is the same for both: one folder, one listing.
    """
    folder = base / label
    dynload = locate(python)[1]
    (folder / "p/lib").mkdir(parents=True)
    (folder / "p/lib/python3.13").symlink_to(library)
    (folder / "e/lib/python3.13").mkdir(parents=True)
    (folder / "e/lib/python3.13/lib-dynload").symlink_to(dynload)
    # Not a link: what it would point to is a build folder, with its paths.
    shutil.copy2(python, folder / "python")
    out = subprocess.run([python, "-I", "-S", "-c", SIZES], text=True, check=True,
                         capture_output=True).stdout.split()
    return Side(label, folder, (int(out[0]), int(out[1])))


def execute(run: Run, timeout: float) -> dict[str, Any] | str:
    """Run a program; return its record, or what went wrong."""
    work = run.side.folder / f"{run.program.stem}-{run.limit:05}"
    work.mkdir()
    out = work / "out.json"
    command = [str(run.side.folder / "python"), "-s", "-S", "-P", "-B",
               "-X", "frozen_modules=on", "-X", "pycache_prefix=/nowhere",
               str(HARNESS), str(run.program), str(run.limit),
               str(run.side.library), str(run.side.dynload), str(out)]
    try:
        done = subprocess.run(command, cwd=work, env=environment(run.side), text=True,
                              errors="replace", stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"no end within {timeout:.0f} s"
    except OSError as exc:
        return f"does not run: {exc}"
    if done.returncode:
        tail = done.stderr.strip().splitlines()[-8:]
        return "\n".join([f"exit status {done.returncode}", *tail])
    with open(out, encoding="utf-8", errors="surrogatepass") as f:
        record = json.load(f)
    shutil.rmtree(work)
    return record


def show_frames(frames: list, most: int = 5) -> list[str]:
    lines = [f"        {name}:{line}" for name, line in frames[:most]]
    if len(frames) > most:
        lines.append(f"        ... {len(frames) - most} more")
    return lines


def traces_of(item: dict, tables: list) -> Counter:
    """The multiset of a checkpoint; tracebacks by content."""
    out: Counter = Counter()
    for domain, size, index, total, count in item["traces"]:
        frames = tuple(map(tuple, tables[index]))
        out[domain, size, frames, total] += count
    return out


def compare_traces(a: Counter, b: Counter, labels: tuple[str, str],
                   allowance: Allowance, most: int) -> list[str]:
    """Lines on what one multiset has and the other has not."""
    lines = []
    only = a - b, b - a
    allowance.cancel(*only)
    for label, left in zip(labels, map(Counter.__pos__, only)):
        if not left:
            continue
        number = sum(left.values())
        size = sum(key[1] * n for key, n in left.items())
        lines.append(f"    only {label}: {number} traces, {size} bytes")
        for (domain, size, frames, total), n in left.most_common(most):
            lines.append(f"      {n} x size {size}, domain {domain},"
                         f" total {total} frames")
            lines += show_frames(frames)
    return lines


def compare_item(x: dict, y: dict, tables: tuple[list, list],
                 labels: tuple[str, str], allowance: Allowance,
                 most: int) -> list[str]:
    """Lines on how two records of one moment differ."""
    lines = []
    if "memory" in x:
        for name, m, n in zip(("current", "peak"), x["memory"], y["memory"]):
            if not allowance.covers(n - m):
                lines.append(f"    {name}: {labels[0]} {m}, {labels[1]} {n}"
                             f" ({n - m:+})")
    if x["kind"] == "note" and x["value"] != y["value"]:
        lines.append(f"    {labels[0]} {x['value']!r}, {labels[1]} {y['value']!r}")
    if x["kind"] == "traceback":
        frames = [None if i["value"] is None else t[i["value"]]
                  for i, t in zip((x, y), tables)]
        if frames[0] != frames[1]:
            for label, f in zip(labels, frames):
                lines.append(f"    {label}:" + ("" if f else " no traceback"))
                lines += show_frames(f or [], 8)
    if x["kind"] == "check":
        for name, m, n in zip(("", "at most, while it ran, "),
                              x["weight"], y["weight"]):
            if abs(m - n) > LIST_WEIGHT:
                lines.append(f"    traced size of what _get_traces() returned,"
                             f" {name}{labels[0]} {m}, {labels[1]} {n}")
        a, b = (traces_of(i, t) for i, t in zip((x, y), tables))
        lines += compare_traces(a, b, labels, allowance, most)
    return lines


def compare(first: dict, second: dict, sides: tuple[Side, Side],
            most: int) -> list[str]:
    """Readable lines on the first moments that differ; empty when none do."""
    a, b = first["records"], second["records"]
    names = [[(i["kind"], i["label"]) for i in side] for side in (a, b)]
    if names[0] != names[1]:
        return ["  not the same course of events:", f"    {names[0]}",
                f"    {names[1]}"]
    labels = sides[0].label, sides[1].label
    allowance = Allowance(list(zip(sides[0].states, sides[1].states)),
                          first["states"])
    tables = first["tracebacks"], second["tracebacks"]
    lines: list[str] = []
    differing = 0
    for x, y in zip(a, b):
        found = compare_item(x, y, tables, labels, allowance, most)
        differing += bool(found)
        if found and differing <= 3:
            lines += [f"  {x['kind']} \"{x['label']}\"", *found]
    if differing > 3:
        lines.append(f"  and {differing - 3} later moments")
    return lines


def measure(seen: tuple[list, list]) -> str:
    """How much was compared, and how often it had to be run."""
    checks = [i for i in seen[0][0]["records"] if i["kind"] == "check"]
    traces = sum(t[4] for i in checks for t in i["traces"])
    tries = f", {len(seen[0])} tries" if len(seen[0]) > 1 else ""
    return f"({len(checks)} checkpoints, {traces} traces{tries})"


def examine(program: Path, limit: int, sides: tuple[Side, Side],
            args: argparse.Namespace) -> tuple[bool, str]:
    """Run one program at one limit on both sides; (agrees, report)."""
    head = f"{program.stem}, limit {limit}"
    seen: tuple[list, list] = ([], [])
    lines: list[str] = []
    for _ in range(args.tries):
        for side, records in zip(sides, seen):
            record = execute(Run(side, program, limit), args.timeout)
            if isinstance(record, str):
                lines = [f"  {side.label}: " + record.replace("\n", "\n    ")]
                return False, "\n".join([f"FAILED {head}", *lines])
            records.append(record)
        found = [compare(a, b, sides, args.most)
                 for a, b in itertools.product(*seen)]
        lines = min(found, key=len)
        if not lines:
            break
    word = "FAILED" if lines else "OK    "
    head += "  " + measure(seen)
    return not lines, "\n".join([f"{word} {head}", *lines])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="only programs whose name contains NAME")
    parser.add_argument("--stock", default=str(ROOT / "build/stock/python"))
    parser.add_argument("--ours", default=str(ROOT / "build/release/python"))
    parser.add_argument("--limits", default="1,25,60",
                        help="traceback limits (%(default)s)")
    parser.add_argument("--self-check", action="store_true",
                        help="run --stock against itself")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=120, metavar="S",
                        help="seconds for one run (%(default)s)")
    parser.add_argument("--tries", type=int, default=6, metavar="N",
                        help="runs of a program that differs (%(default)s)")
    parser.add_argument("--most", type=int, default=3, metavar="N",
                        help="traces to show for each side (%(default)s)")
    parser.add_argument("--list", action="store_true", help="only names")
    return parser.parse_args()


def main() -> int:
    args = parse()
    programs = [p for p in sorted(PROGRAMS.glob("*.py"))
                if not args.names or any(n in p.stem for n in args.names)]
    if args.list:
        print("\n".join(p.stem for p in programs))
        return 0
    ours = args.stock if args.self_check else args.ours
    for python in (args.stock, ours):
        if not os.access(python, os.X_OK):
            print(f"run.py: no interpreter at {python}", file=sys.stderr)
            return 2
    limits = [int(n) for n in args.limits.split(",")]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tmdiff_") as temp:
        base = Path(temp)
        library = locate(args.stock)[0]
        # Labels of one length: they are part of paths that the runs see.
        sides = (make_side("stock", args.stock, library, base),
                 make_side("again" if args.self_check else "fork_", ours,
                           library, base))
        with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
            jobs = [pool.submit(examine, p, n, sides, args)
                    for p in programs for n in limits]
            for job in jobs:
                agrees, text = job.result()
                failed += not agrees
                print(text, flush=True)
    print(f"{len(jobs) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
