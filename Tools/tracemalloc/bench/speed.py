"""The main measurement: ratios of traced to untraced time, from one run.

A visit is one process of one interpreter that measures one workload in all
modes in turns (job.py).  Visits of both interpreters alternate, and the whole
list is gone through several times, so that a slow minute of the machine falls
on all alike.  A ratio is that of two times of the same round: a machine that
changes its speed changes both.  What is reported is the median over the rounds
of all visits, and as spread half the distance of the quartiles.
"""
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
JOB = HERE / "job.py"


# Results of another format are not compared: 1 had best/best within a process.
FORMAT = 2


class Effort(NamedTuple):
    """How much is measured; see QUICK and FULL."""
    scale: float
    visits: int
    rounds: int
    stock_visits: int
    stock_rounds: int


QUICK = Effort(scale=0.4, visits=2, rounds=4, stock_visits=1, stock_rounds=1)
FULL = Effort(scale=1.0, visits=3, rounds=7, stock_visits=3, stock_rounds=2)


class Side(NamedTuple):
    """An interpreter with the modes to measure it in ("base" is implied)."""
    label: str
    python: str
    modes: list[str]


def clean_env() -> dict[str, str]:
    """The environment of a measured process: no PYTHON*, a fixed hash seed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env["PYTHONHASHSEED"] = "0"
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    return env


def run_job(python: str, *args: str, script: Path = JOB) -> Any:
    """Run a job to its end; its output, decoded."""
    done = subprocess.run([python, str(script), *args], env=clean_env(),
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True)
    if done.returncode:
        raise RuntimeError(f"{python} {script.name} {' '.join(args)}: status"
                           f" {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def extra_modes(python: str) -> list[str]:
    """Of "null" and "sampled" those that this interpreter has."""
    return run_job(python, "modes")


def describe(python: str) -> dict[str, str]:
    """What to remember about an interpreter."""
    code = ("import json, sys, sysconfig; json.dump({'version': sys.version,"
            "'configure': sysconfig.get_config_var('CONFIG_ARGS') or '',"
            "'flags': sysconfig.get_config_var('PY_CORE_CFLAGS') or ''},"
            " sys.stdout)")
    out = subprocess.run([python, "-I", "-c", code], text=True, check=True,
                         capture_output=True).stdout
    return {"path": os.path.abspath(python), **json.loads(out)}


class Collector:
    """Times of all visits, and what follows from them."""

    def __init__(self) -> None:
        # (workload, label) -> one {mode: [seconds]} for each visit
        self.visits: dict[tuple[str, str], list[dict[str, list[float]]]] = {}

    def add(self, name: str, label: str, times: dict[str, list[float]]) -> None:
        self.visits.setdefault((name, label), []).append(times)

    def column(self, name: str, label: str, mode: str) -> dict | None:
        visits = self.visits.get((name, label), [])
        ratios = [traced / base for v in visits if mode in v
                  for traced, base in zip(v[mode], v["base"], strict=True)]
        if not ratios:
            return None
        return {"ratio": statistics.median(ratios), "spread": half_quartiles(ratios),
                "seconds": min(min(v[mode]) for v in visits if mode in v)}

    def untraced(self, name: str) -> dict | None:
        """Ours against stock, visit by visit; the median of each, since stock has
        fewer rounds and so fewer chances of a lucky one."""
        pairs = zip(self.visits.get((name, "ours"), ()),
                    self.visits.get((name, "stock"), ()))
        medians = [(statistics.median(ours["base"]), statistics.median(stock["base"]))
                   for ours, stock in pairs]
        if not medians:
            return None
        ratios = [ours / stock for ours, stock in medians]
        return {"ratio": statistics.median(ratios), "spread": half_quartiles(ratios),
                "seconds": min(ours for ours, _ in medians)}


def half_quartiles(values: list[float]) -> float:
    """Half the distance of the quartiles; 0 of a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def measure(sides: list[Side], workloads: list, effort: Effort) -> Collector:
    """Go through all workloads several times."""
    collector = Collector()
    began = time.monotonic()
    for visit in range(effort.visits):
        for number, work in enumerate(workloads, 1):
            for side in sides:
                stock = side.label == "stock"
                if visit >= (effort.stock_visits if stock else effort.visits):
                    continue
                rounds = effort.stock_rounds if stock else effort.rounds
                got = run_job(side.python, "time", work.name,
                              str(effort.scale), str(rounds),
                              ",".join(["base", *side.modes]))
                collector.add(work.name, side.label, got["times"])
            progress(f"round {visit + 1}/{effort.visits},"
                     f" {number}/{len(workloads)} {work.name},"
                     f" {time.monotonic() - began:.0f} s")
        if not sys.stderr.isatty():
            print(f"round {visit + 1}/{effort.visits} done,"
                  f" {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    progress("")
    return collector


def progress(text: str) -> None:
    """One line on a terminal, overwritten each time."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def result(sides: list[Side], workloads: list, effort: Effort,
           collector: Collector) -> dict[str, Any]:
    """All that is known, as plain data: the JSON file and the table's source."""
    columns = [f"{s.label} {m}" for s in sides for m in s.modes]
    rows = {}
    for work in workloads:
        cells = {}
        for side in sides:
            for mode in side.modes:
                cell = collector.column(work.name, side.label, mode)
                if cell is not None:
                    cells[f"{side.label} {mode}"] = cell
        untraced = collector.untraced(work.name)
        if untraced is not None:
            cells["untraced"] = untraced
        rows[work.name] = {"group": work.group, "cells": cells}
    if len(sides) > 1:
        columns.append("untraced")
    return {"format": FORMAT, "when": time.strftime("%Y-%m-%d %H:%M:%S"),
            "machine": {"system": platform.platform(), "cpus": os.cpu_count(),
                        "load": os.getloadavg()},
            "pythons": {s.label: describe(s.python) for s in sides},
            "effort": effort._asdict(), "columns": columns, "rows": rows}


def summary(data: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """{group: {column: {"mean": geometric mean, "worst": (name, ratio)}}}."""
    out: dict[str, dict[str, dict[str, Any]]] = {}
    groups = list(dict.fromkeys(r["group"] for r in data["rows"].values()))
    for group in groups:
        out[group] = {}
        for column in data["columns"]:
            cells = {name: row["cells"][column]["ratio"]
                     for name, row in data["rows"].items()
                     if row["group"] == group and column in row["cells"]}
            if cells:
                worst = max(cells, key=cells.__getitem__)
                out[group][column] = {"mean": geometric_mean(cells.values()),
                                      "worst": (worst, cells[worst])}
    return out


def flatness(data: dict[str, Any]) -> tuple[str, float] | None:
    """The workload on which limit 100 costs most more than limit 1."""
    ratios = {}
    for name, row in data["rows"].items():
        cells = row["cells"]
        if "ours 1" in cells and "ours 100" in cells:
            ratios[name] = cells["ours 100"]["ratio"] / cells["ours 1"]["ratio"]
    if not ratios:
        return None
    worst = max(ratios, key=ratios.__getitem__)
    return worst, ratios[worst]
