"""What live filters and scheduled tasks add to tracing, in instructions.

The promise: 20 filters, or 100 tasks that do not fire, make no workload more
than 2 % slower.  That is less than times can tell on any machine, so callgrind
counts.  All modes of a workload run in one process, one after another:
callgrind counts inside functools.reduce() only, and writes a file at each
beginning of it.

Filters cost something when a context is new, and next to nothing after that.
Each mode runs twice a part of the work; what is compared is the first run and
as many of the second as make up the whole amount of the bench.

The tasks have thresholds.  Timers look at the clock some times a second, which
in a process that is 50 times slower says nothing; time them with run.py
--no-stock --limits 25,25+timers.

The column "chance" compares tracing alone with itself, a second time in the
same process: by so much does what allocators and hash tables do differ.
"""
import re
import subprocess
import tempfile
from pathlib import Path

from speed import JOB, clean_env, geometric_mean, progress
from table import lay_out

BAR = 1.02
SCALE = 0.1
LIMIT = 25
MODES = tuple(f"{LIMIT}+{extra}" for extra in ("control", "filters", "tasks", "control"))
DOOR = "functools_reduce"       # the C function of functools.reduce()
# callgrind counts a thread by itself: what others do would be missing.
THREADED = ("threads",)


def count(python: str, name: str, scale: float, modes=MODES) -> list[tuple[int, int]]:
    """Instructions of the first and the second run in each mode."""
    with tempfile.TemporaryDirectory(prefix="tmbench_") as folder:
        command = ["valgrind", "--tool=callgrind",
                   f"--callgrind-out-file={folder}/out",
                   f"--toggle-collect={DOOR}", f"--dump-before={DOOR}",
                   python, str(JOB), "turns", name, str(scale), ",".join(modes)]
        done = subprocess.run(command, env=clean_env(), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            raise RuntimeError(f"valgrind failed:\n{done.stderr[-1500:]}")
        # out.1 is what came before the first run; the last one is in "out".
        files = [Path(folder, f"out.{n + 2}") for n in range(2 * len(modes) - 1)]
        found = [re.search(r"^totals: (\d+)", path.read_text(errors="replace"),
                           re.M) for path in [*files, Path(folder, "out")]]
    counts = [int(match.group(1)) if match else 0 for match in found]
    return list(zip(counts[::2], counts[1::2]))


def measure(python: str, names: list[str], scale: float = SCALE) -> dict:
    """{"scale", "counts": {workload: [(first, second) in each of MODES]}}."""
    out = {}
    names = [name for name in names if name not in THREADED]
    for number, name in enumerate(names, 1):
        progress(f"{number}/{len(names)} {name}")
        out[name] = count(python, name, scale)
    progress("")
    return {"scale": scale, "counts": out}


def text(data: dict) -> str:
    rows = [["workload", "traced (millions)", "20 filters", "first run alone",
             "100 tasks", "chance"]]
    columns: list[list[float]] = [[], [], [], []]
    for name, runs in data["counts"].items():
        plain, filters, tasks, control = (
            first + (1 / data["scale"] - 1) * second for first, second in runs)
        found = [filters / plain, runs[1][0] / runs[0][0], tasks / plain,
                 control / plain]
        for column, ratio in zip(columns, found):
            column.append(ratio)
        rows.append([name, f"{plain / 1e6:.1f}", *(f"{r:.4f}" for r in found)])
    rows.append(["mean", "", *(f"{geometric_mean(r):.4f}" for r in columns)])
    rows.append(["worst", "", *(f"{max(r):.4f}" for r in columns)])
    met = max(columns[0] + columns[2]) <= BAR
    return (f"Instructions executed, against tracing alone (limit {LIMIT};"
            f" at most {BAR}: {'met' if met else 'NOT MET'}):\n\n" + lay_out(rows))
