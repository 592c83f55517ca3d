"""The memory profilers that people use instead, on the same workloads.

Each is installed from the package index into one environment of the given
interpreter, and run in the mode nearest to ours: all allocations recorded,
with Python stacks.  Command lines are printed.  A profiler that does not
install or run here is named with the reason.  Asked for explicitly.

The same file is the job that runs under a profiler: it times the workload
itself, so that start-up and the writing of reports do not count.

usage: peers.py --job WORKLOAD SCALE ROUNDS OUT
"""
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

# name: (package, command with {py} {out} for a file, and the job after it)
PEERS = {
    "memray": ("memray", ["{py}", "-m", "memray", "run", "-q", "-o", "{out}"]),
    "memray +pymalloc": ("memray", [
        "{py}", "-m", "memray", "run", "-q", "--trace-python-allocators",
        "-o", "{out}"]),
    "scalene": ("scalene", [
        "{py}", "-m", "scalene", "--cli", "--memory", "--outfile", "{out}"]),
    "fil": ("filprofiler", [
        "{py}", "-m", "filprofiler", "--no-browser", "-o", "{out}", "run"]),
}


def job(name: str, scale: float, rounds: int, out: str) -> None:
    """Write the best CPU time of one run of the workload to a file."""
    sys.path.insert(0, str(HERE))
    from workloads import WORKLOADS
    work = WORKLOADS[name]
    amount = work.at(scale)
    work.run(amount)
    best = None
    for _ in range(rounds):
        start = time.process_time()
        work.run(amount)
        seconds = time.process_time() - start
        best = seconds if best is None else min(best, seconds)
    with open(out, "w") as f:
        json.dump(best, f)


def timed(command: list[str], name: str, scale: float, rounds: int,
          limit: float) -> float | str:
    """Seconds of the workload under a command, or why there are none."""
    from speed import clean_env
    with tempfile.TemporaryDirectory(prefix="tmbench_") as folder:
        out = Path(folder) / "seconds"
        py = command[0]
        full = [c.format(py=py, out=str(Path(folder) / "profile"))
                for c in command[1:]]
        full = [py, *full[1:]] if full[:1] == [py] else [py, *full]
        full += [str(HERE / "peers.py"), "--job", name, str(scale),
                 str(rounds), str(out)]
        try:
            done = subprocess.run(full, env=clean_env(), cwd=folder, text=True,
                                  stdin=subprocess.DEVNULL, timeout=limit,
                                  capture_output=True, errors="replace")
        except subprocess.TimeoutExpired:
            return f"> {limit:.0f} s"
        if not out.exists():
            lines = (done.stderr or done.stdout).strip().splitlines() or ["?"]
            return f"failed: {lines[-1][:60]}"
        return json.loads(out.read_text())


def measure(python: str, folder: Path, names: list[str], scale: float,
            rounds: int = 3, limit: float = 120) -> dict[str, Any]:
    import venvs

    from speed import progress
    folder.mkdir(parents=True, exist_ok=True)
    packages = list(dict.fromkeys(p for p, _ in PEERS.values()))
    inner, failed = venvs.make(python, folder / "venv", packages)
    usable = {}
    for peer, (package, command) in PEERS.items():
        if package not in failed:
            usable[peer] = command
            print("$", " ".join(c.format(py=inner, out="OUT") for c in command),
                  "peers.py --job WORKLOAD", flush=True)
    rows: dict[str, dict[str, Any]] = {}
    for name in names:
        progress(f"{name}, alone")
        base = timed([str(inner)], name, scale, rounds, limit)
        rows[name] = {"base": base}
        for peer, command in usable.items():
            progress(f"{name}, {peer}")
            seconds = timed([str(inner), *command], name, scale, rounds, limit)
            rows[name][peer] = (seconds / base if isinstance(seconds, float)
                                and isinstance(base, float) else seconds)
    progress("")
    return {"peers": list(usable), "rows": rows, "failed": failed}


def text(data: dict[str, Any]) -> str:
    from speed import geometric_mean
    from table import lay_out
    peers = data["peers"]
    rows = [["CPU time profiled / alone", *peers]]
    for name, row in data["rows"].items():
        rows.append([name, *(f"{row[p]:.2f}" if isinstance(row[p], float)
                             else row[p] for p in peers)])
    rows.append(["geometric mean", *(
        f"{geometric_mean(r[p] for r in data['rows'].values() if isinstance(r[p], float)):.2f}"
        for p in peers)])
    notes = [f"note: {package} does not install here: {why}"
             for package, why in data["failed"].items()]
    return "\n".join([lay_out(rows), *notes])


if __name__ == "__main__":
    if sys.argv[1:2] != ["--job"]:
        sys.exit(__doc__)
    job(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
