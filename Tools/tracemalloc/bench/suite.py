"""The standard pyperformance suite, untraced and traced.

The suite starts each benchmark in a process of its own; tracing reaches it
through the environment, which the suite is told to hand on.  Both runs are of
the same interpreter.  Needs the package index once; asked for explicitly.
"""
import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

import venvs
from speed import geometric_mean
from table import lay_out

MODES = {"untraced": {}, "limit 25": {"PYTHONTRACEMALLOC": "25"},
         "sampled": {"PYTHONTRACEMALLOC_SAMPLE": "512k"}}


def run(python: Path, out: Path, env: dict[str, str], names: str | None,
        fast: bool) -> None:
    """One run of the suite; its own output goes to the terminal."""
    command = [str(python), "-m", "pyperformance", "run", "-o", str(out),
               "--python", str(python)]
    command += ["--fast"] if fast else []
    command += ["-b", names] if names else []
    inherited = list(env)
    inherited += [k for k in ("PIP_INDEX_URL", "PIP_CONFIG_FILE") if k in os.environ]
    if inherited:
        command += ["--inherit-environ", ",".join(inherited)]
    print("$", " ".join([*(f"{k}={v}" for k, v in env.items()), *command]), flush=True)
    out.unlink(missing_ok=True)
    # What fails in one benchmark must not hide the others: the file counts.
    # It makes environments of its own in the working folder.
    subprocess.run(command, env={**os.environ, **env}, cwd=out.parent,
                   stdin=subprocess.DEVNULL)
    if not out.exists():
        raise RuntimeError("pyperformance wrote no result")


def times(path: Path) -> dict[str, float]:
    """{benchmark: median seconds} of a result file."""
    data = json.loads(path.read_text())
    out = {}
    for bench in data["benchmarks"]:
        values = [v for r in bench["runs"] for v in r.get("values", ())]
        name = bench.get("metadata", data.get("metadata", {})).get("name", "?")
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
    got = {}
    for mode in modes:
        path = folder / f"{mode.replace(' ', '-')}.json"
        run(inner, path, MODES[mode], names, fast)
        got[mode] = times(path)
    return {"modes": modes, "times": got}


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
