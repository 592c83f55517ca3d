"""The standard pyperformance suite, untraced and traced.

The suite starts each benchmark in a process of its own; tracing reaches it
through the environment, which the suite is told to hand on.  All runs are of
the same interpreter.  A few benchmarks at a time run in each mode before the
next ones do, so that a machine that gets slower meanwhile does not fall on one
mode alone; what is measured stays in the folder, and a run that was broken off
goes on from there.  Needs the package index once; asked for explicitly.
"""
import json
import os
import re
import statistics
import subprocess
from pathlib import Path
from typing import Any

import venvs
from speed import geometric_mean
from table import lay_out

MODES = {"untraced": {}, "limit 25": {"PYTHONTRACEMALLOC": "25"},
         "sampled": {"PYTHONTRACEMALLOC_SAMPLE": "512k"}}
# Benchmarks that run in one mode before the others have their turn.
AT_A_TIME = 6


def suite_command(python: Path, action: str, *options: str) -> list[str]:
    return [str(python), "-m", "pyperformance", action, *options]


def choose(python: Path, names: str | None) -> list[str]:
    """The names of the benchmarks that a pattern of the suite stands for."""
    done = subprocess.run(
        suite_command(python, "list", *(["-b", names] if names else [])),
        capture_output=True, text=True)
    found = re.findall(r"^- (\S+)$", done.stdout, re.MULTILINE)
    if not found:
        last = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise RuntimeError(f"pyperformance lists no benchmark: {last[-1]}")
    return found


def run(python: Path, out: Path, env: dict[str, str], names: list[str],
        fast: bool) -> None:
    """Some benchmarks in one mode; the suite's own output goes to a log."""
    options = ["-o", str(out), "--python", str(python), "-b", ",".join(names)]
    options += ["--fast"] if fast else []
    inherited = list(env)
    inherited += [k for k in ("PIP_INDEX_URL", "PIP_CONFIG_FILE") if k in os.environ]
    if inherited:
        options += ["--inherit-environ", ",".join(inherited)]
    out.unlink(missing_ok=True)
    # What fails in one benchmark must not hide the others: the file counts.
    # It makes environments of its own in the working folder.
    with open(out.parent / "suite.log", "a", encoding="utf-8") as log:
        subprocess.run(suite_command(python, "run", *options),
                       env={**os.environ, **env}, cwd=out.parent,
                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def times(path: Path) -> dict[str, float]:
    """{benchmark: median seconds} of a result file; none when it is missing."""
    if not path.exists():
        return {}
    data = json.loads(path.read_text())
    out = {}
    for bench in data["benchmarks"]:
        values = [v for r in bench["runs"] for v in r.get("values", ())]
        name = bench.get("metadata", data.get("metadata", {})).get("name")
        name = name or data["metadata"]["name"]
        if values:
            out[name] = statistics.median(values)
    return out


def measure(python: str, folder: Path, names: str | None, fast: bool,
            modes: list[str]) -> dict[str, Any]:
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    inner, failed = venvs.make(python, folder / "venv", ["pyperformance"])
    if failed:
        raise RuntimeError(f"pyperformance does not install: {failed}")
    kept = folder / ("results-fast" if fast else "results-full")
    kept.mkdir(exist_ok=True)
    version = Path(python).resolve().stat().st_mtime_ns
    chosen = choose(inner, names)
    got: dict[str, dict[str, float]] = {mode: {} for mode in modes}
    for start in range(0, len(chosen), AT_A_TIME):
        some = chosen[start:start + AT_A_TIME]
        print(f"pyperformance: {start} of {len(chosen)} done, now {', '.join(some)}",
              flush=True)
        for mode in modes:
            path = kept / f"{some[0]}-{len(some)}-{mode.replace(' ', '-')}-{version}.json"
            if not path.exists():
                run(inner, path, MODES[mode], some, fast)
            got[mode] |= times(path)
    if not got[modes[0]]:
        raise RuntimeError("pyperformance gave no result, see "
                           f"{kept / 'suite.log'}")
    return {"modes": modes, "times": got, "benchmarks": chosen}


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
    return lay_out(rows)
