"""The standard pyperformance suite, untraced and traced.

Each benchmark of the suite is a script that starts processes of its own; the
tracing options reach them through the environment, which the script is told to
hand on.  All runs are of the same interpreter.  The modes of one benchmark take
turns, so that what else the machine does falls on all of them alike, and the best
time counts.  Results are kept: a run that was broken off goes on from there.
Needs the package index once; asked for explicitly.
"""
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import venvs
from speed import geometric_mean
from table import lay_out

MODES = {"untraced": {}, "limit 25": {"PYTHONTRACEMALLOC": "25"},
         "sampled": {"PYTHONTRACEMALLOC_SAMPLE": "512k"}}
# Of this release we know where it keeps its scripts.
PACKAGE = "pyperformance==1.14.0"
# How often each mode has its turn; options of the scripts (pyperf) for a turn.
FULL_TURNS, QUICK_TURNS = 5, 2
FULL = ["--processes", "1", "--values", "4", "--warmups", "1", "--min-time", "0.1"]
QUICK = ["--processes", "1", "--values", "2", "--warmups", "1", "--min-time", "0.05"]
LONGEST = 300                   # seconds for one benchmark in one mode

LIST = """
import json, sys
from pyperformance import _benchmark_selections as selections, _manifest
manifest = _manifest.load_manifest(None)
chosen = [selections.parse_selection(name) for name in sys.argv[1].split(",") if name]
print(json.dumps([[b.name, b.runscript, list(b.extra_opts or ())]
                  for b in selections.iter_selections(manifest, chosen)]))
"""


class Benchmark(NamedTuple):
    name: str
    script: str
    options: list[str]


def choose(python: Path, names: str) -> list[Benchmark]:
    """The benchmarks that a list of names stands for, all when it is empty."""
    done = subprocess.run([str(python), "-c", LIST, names], text=True,
                          capture_output=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise RuntimeError(f"pyperformance lists no benchmarks: {last[0]}")
    return sorted(Benchmark(*row) for row in json.loads(done.stdout))


def environment(inner: Path, folder: Path) -> Path:
    """The interpreter of an environment with what the benchmarks import."""
    python = folder / "bin" / "python"
    ready = folder / "complete"
    if not ready.exists() or not venvs.is_of(python, inner):
        shutil.rmtree(folder, ignore_errors=True)
        print("pyperformance: installing what its benchmarks need", flush=True)
        done = subprocess.run(
            [str(inner), "-m", "pyperformance", "venv", "create",
             "--venv", str(folder), "-b", "all"],
            cwd=folder.parent, text=True, capture_output=True)
        if done.returncode or not python.exists():
            last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["?"]
            raise RuntimeError(f"the benchmarks' packages do not install: {last[0]}")
        ready.touch()
    return python


def run(python: Path, bench: Benchmark, out: Path, env: dict[str, str],
        options: list[str]) -> None:
    """One benchmark in one mode, into the file `out`; what it says, into the
    log beside it.  What fails must not hide the others: it leaves a file
    without benchmarks."""
    part = out.with_suffix(".part")
    part.unlink(missing_ok=True)
    command = [str(python), bench.script, *bench.options, *options,
               "--output", str(part)]
    command += ["--inherit-environ", ",".join(env)] if env else []
    with open(out.parent / "log", "a", encoding="utf-8") as log:
        print("$", *(f"{k}={v}" for k, v in env.items()), *command, file=log,
              flush=True)
        # In a session of its own, so that all its processes can be ended.
        child = subprocess.Popen(command, env={**os.environ, **env}, cwd=out.parent,
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 start_new_session=True)
        try:
            failed = child.wait(LONGEST) != 0
        except subprocess.TimeoutExpired:
            print(f"stopped after {LONGEST} s", file=log)
            failed = True
        finally:
            end(child)
    if failed or not part.exists():
        part.write_text('{"benchmarks": []}')
    part.replace(out)


def end(child: subprocess.Popen) -> None:
    """Kill what is left of a session; nothing when all of it has ended."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def times(path: Path) -> dict[str, float]:
    """{benchmark: best seconds} of a result file; none when it failed."""
    data = json.loads(path.read_text())
    out = {}
    for bench in data["benchmarks"]:
        values = [v for r in bench["runs"] for v in r.get("values", ())]
        name = bench.get("metadata", {}).get("name") or data["metadata"]["name"]
        if values:
            out[name] = min(values)
    return out


def loops(path: Path) -> list[str]:
    """The option with which another run of a script need not find out again how
    often a value must repeat; none when the file holds several benchmarks."""
    data = json.loads(path.read_text())
    if len(data["benchmarks"]) != 1:
        return []
    bench = data["benchmarks"][0]
    found = {**data.get("metadata", {}), **bench.get("metadata", {})}.get("loops")
    return ["--loops", str(found)] if found else []


def measure(python: str, folder: Path, names: str | None, fast: bool,
            modes: list[str]) -> dict[str, Any]:
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    inner, failed = venvs.make(python, folder / "suite", [PACKAGE])
    if failed:
        raise RuntimeError(f"pyperformance does not install: {failed}")
    chosen = choose(inner, names or "")
    within = environment(inner, folder / "benchmarks")
    # Another build, or another kind of run, begins anew.
    built = Path(python).resolve().stat().st_mtime_ns
    kept = folder / f"{'quick' if fast else 'full'}-{built}"
    kept.mkdir(exist_ok=True)
    got: dict[str, dict[str, float]] = {mode: {} for mode in modes}
    broken: list[str] = []
    turns = QUICK_TURNS if fast else FULL_TURNS
    for i, bench in enumerate(chosen, 1):
        print(f"pyperformance: {i}/{len(chosen)} {bench.name}", file=sys.stderr,
              flush=True)
        again: list[str] = []
        for turn, mode in itertools.product(range(turns), modes):
            path = kept / f"{bench.name}.{mode.replace(' ', '-')}.{turn}.json"
            if not path.exists():
                run(within, bench, path, MODES[mode],
                    (QUICK if fast else FULL) + again)
            again = again or loops(path)
            found = times(path)
            for name, seconds in found.items():
                got[mode][name] = min(seconds, got[mode].get(name, seconds))
            if not found:
                broken.append(f"{bench.name}, {mode}")
    if not got[modes[0]]:
        raise RuntimeError(f"pyperformance gave no result, see {kept / 'log'}")
    return {"modes": modes, "times": got, "broken": broken, "log": str(kept / "log")}


def text(data: dict[str, Any]) -> str:
    base = data["times"]["untraced"]
    modes = [m for m in data["modes"] if m != "untraced"]
    rows = [["pyperformance, traced / untraced", *modes]]
    ratios: dict[str, list[float]] = {m: [] for m in modes}
    for name in sorted(base):
        cells = [name]
        for mode in modes:
            seconds = data["times"][mode].get(name)
            if seconds is None:
                cells.append("failed")
            else:
                ratios[mode].append(seconds / base[name])
                cells.append(f"{ratios[mode][-1]:.2f}")
        rows.append(cells)
    rows.append(["geometric mean", *(f"{geometric_mean(ratios[m]):.3f}" for m in modes)])
    rows.append(["worst", *(f"{max(ratios[m], default=0):.2f}" for m in modes)])
    table = lay_out(rows)
    if data["broken"]:
        table += (f"\nwithout a result: {'; '.join(data['broken'])}"
                  f"\nsee {data['log']}")
    return table
