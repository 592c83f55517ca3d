"""The memory profilers that people use instead, on the same workloads.

Tracing itself, exact and sampled, stands first in the table.  Each other is
installed from the package index into one environment of the given interpreter,
and run in the mode nearest to ours: all allocations recorded, with Python
stacks.  Command lines are printed.  A profiler that does not
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
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent

class Peer(NamedTuple):
    """A profiler: its package, what stands before the program and after it.

    {out} stands for a file that the profiler may write.  No package: the
    interpreter itself.
    """
    package: str
    before: list[str]
    after: list[str] = []

    def command(self, python: str, out: str, job: list[str]) -> list[str]:
        before = [word.format(out=out) for word in self.before]
        return [python, *before, job[0], *self.after, *job[1:]]


PEERS = {
    "limit 25": Peer("", ["-X", "tracemalloc=25"]),
    "sampled": Peer("", ["-X", "tracemalloc_sample=512k"]),
    "memray": Peer("memray", ["-m", "memray", "run", "-q", "-o", "{out}"]),
    "memray +pymalloc": Peer("memray", [
        "-m", "memray", "run", "-q", "--trace-python-allocators", "-o", "{out}"]),
    "scalene": Peer("scalene", ["-m", "scalene", "run", "-o", "{out}"], ["---"]),
    "fil": Peer("filprofiler", [
        "-m", "filprofiler", "--no-browser", "-o", "{out}", "run"]),
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


def timed(python: str, peer: Peer | None, name: str, scale: float, rounds: int,
          limit: float) -> float | str:
    """Seconds of the workload under a profiler, or why there are none."""
    from speed import clean_env
    with tempfile.TemporaryDirectory(prefix="tmbench_") as folder:
        out = Path(folder) / "seconds"
        job_words = [str(HERE / "peers.py"), "--job", name, str(scale),
                     str(rounds), str(out)]
        full = [python, *job_words] if peer is None else \
            peer.command(python, str(Path(folder) / "profile"), job_words)
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
    packages = list(dict.fromkeys(p.package for p in PEERS.values() if p.package))
    inner, failed = venvs.make(python, folder / "venv", packages)
    usable = {k: p for k, p in PEERS.items() if p.package not in failed}
    for peer in usable.values():
        print("$", " ".join(peer.command(str(inner), "OUT", ["PROGRAM", "..."])),
              flush=True)
    rows: dict[str, dict[str, Any]] = {}
    for name in names:
        progress(f"{name}, alone")
        base = timed(str(inner), None, name, scale, rounds, limit)
        rows[name] = {"base": base}
        for label, peer in usable.items():
            progress(f"{name}, {label}")
            seconds = timed(str(inner), peer, name, scale, rounds, limit)
            rows[name][label] = (seconds / base if isinstance(seconds, float)
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
    means = ["geometric mean"]
    for peer in peers:
        ratios = [row[peer] for row in data["rows"].values()
                  if isinstance(row[peer], float)]
        means.append(f"{geometric_mean(ratios):.2f}" if ratios else "-")
    rows.append(means)
    notes = [f"note: {package} does not install here: {why}"
             for package, why in data["failed"].items()]
    return "\n".join([lay_out(rows), *notes])


if __name__ == "__main__":
    if sys.argv[1:2] != ["--job"]:
        sys.exit(__doc__)
    job(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
