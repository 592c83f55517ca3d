"""What the C interface for profilers costs, against stock.

Two promises.  A reference tracer that does nothing makes an object() loop that
is traced exactly slower by a factor of at most 1.15 times the one by which it
slows down the loop on stock, untraced.  Eight threads that write 100 000 entries
each to a perf map take at most 1.2 times the time of stock, and every line of
ours is whole.

Both interpreters load the same extensions, those of test_profiling_capi: what
they use is in stock, too.  Instructions are counted when there is valgrind; a
perf map is timed, interleaved, and the median counts.

usage: capi.py --tracer FOLDER MODE,... ROUNDS  |  capi.py --map FOLDER THREADS ENTRIES
"""
import functools
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TRACER_BAR, MAP_BAR = 1.15, 1.2
THREADS, ENTRIES = 8, 100_000
COUNTED, TIMED = 30_000, 1_500_000  # objects
EXTENSIONS = ("reftracer_ext", "perfmap_ext")


# ---- in the interpreter that is measured -----------------------------------

def objects(n: int) -> None:
    for _ in range(n):
        object()


def switch(ext, mode: str, on: bool) -> None:
    """Modes: "plain", "tracer", "exact", "exact+tracer"."""
    import _tracemalloc
    if "exact" in mode:
        _tracemalloc.start(25) if on else _tracemalloc.stop()
    if "tracer" in mode:
        ext.nothing_on() if on else ext.remove_tracer()


def tracer_job(folder: str, modes: list[str], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of the loop in each mode; only the loop is inside functools.reduce()."""
    sys.path.insert(0, folder)
    import reftracer_ext as ext
    amount = TIMED if rounds else COUNTED
    gc.disable()
    objects(amount // 10)
    times: dict[str, list[float]] = {mode: [] for mode in modes}
    for _ in range(rounds or 1):
        for mode in modes:
            switch(ext, mode, True)
            objects(amount // 10)
            begin = time.process_time()
            functools.reduce(lambda _, n: objects(n), [None, amount])
            times[mode].append(time.process_time() - begin)
            switch(ext, mode, False)
    return times


def map_job(folder: str, threads: int, entries: int) -> dict[str, Any]:
    """Seconds of writing, those of all CPUs too, and how many lines are wrong."""
    sys.path.insert(0, folder)
    import perfmap_ext as ext
    path = f"/tmp/perf-{os.getpid()}.map"
    ext.init()
    begin = time.process_time()
    seconds, failed = ext.flood(threads, entries)
    cpu = time.process_time() - begin
    ext.fini()
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    os.remove(path)
    whole = re.compile(rb"[0-9a-f]+ 10 flood_\d+_\d+:/x\.py").fullmatch
    seen = {line for line in lines if whole(line)}
    return {"seconds": seconds, "cpu": cpu, "failed": failed,
            "whole": len(seen), "broken": len(lines) - 1 - len(seen)}


# ---- outside -----------------------------------------------------------------

def build(python: str, folder: str) -> None:
    """The extensions, by the means of their tests."""
    code = ("import os, sys, sysconfig; from test.test_profiling_capi import _build;"
            "[_build.compile_source(os.path.join(_build.HERE, n + '.c'), os.path.join(sys.argv[1], n +"
            " sysconfig.get_config_var('EXT_SUFFIX')), 'c') for n in sys.argv[2:]]")
    done = subprocess.run([python, "-c", code, folder, *EXTENSIONS], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the extensions cannot be built:\n{done.stderr[-1500:]}")


def count(python: str, folder: str, modes: list[str]) -> dict[str, float]:
    """Instructions for an object in each mode."""
    from extras import DOOR
    from speed import clean_env
    with tempfile.TemporaryDirectory(prefix="tmbench_") as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}/out",
                   f"--toggle-collect={DOOR}", f"--dump-before={DOOR}", python,
                   __file__, "--tracer", folder, ",".join(modes), "0"]
        done = subprocess.run(command, env=clean_env(), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"valgrind failed:\n{done.stderr[-1500:]}")
        names = [f"out.{n + 2}" for n in range(len(modes) - 1)] + ["out"]
        return {mode: int(re.search(r"(?m)^totals: (\d+)", Path(out, name).read_text(
            errors="replace")).group(1)) / COUNTED for mode, name in zip(modes, names)}


def tracer_costs(ours: str, stock: str, folder: str, counted: bool, rounds: int) -> dict:
    """{"ours" | "stock": {mode: figure}}: instructions or nanoseconds for an object."""
    from speed import run_job
    wanted = {"stock": (stock, ["plain", "tracer"]), "ours": (
        ours, ["plain", "tracer", "exact", "exact+tracer"])}
    if counted:
        return {side: count(python, folder, modes) for side, (python, modes) in wanted.items()}
    best: dict[str, dict[str, list[float]]] = {"ours": {}, "stock": {}}
    for _ in range(rounds):
        for side, (python, modes) in wanted.items():
            got = run_job(python, "--tracer", folder, ",".join(modes), "5", script=Path(__file__))
            for mode, times in got.items():
                best[side].setdefault(mode, []).append(min(times) / TIMED * 1e9)
    return {side: {mode: statistics.median(v) for mode, v in modes.items()} for side, modes in best.items()}


def measure(ours: str, stock: str, rounds: int, counted: bool) -> dict[str, Any]:
    from speed import progress, run_job
    with tempfile.TemporaryDirectory(prefix="tmbench_") as folder:
        build(ours, folder)
        out: dict[str, Any] = {"map": {"ours": [], "stock": []}}
        if counted:
            progress("tracer: counting")
            out["instructions"] = tracer_costs(ours, stock, folder, True, 1)
        progress("tracer: timing")
        out["nanoseconds"] = tracer_costs(ours, stock, folder, False, rounds)
        for number in range(rounds):
            progress(f"perf map, round {number + 1} of {rounds}")
            for side, python in (("ours", ours), ("stock", stock)):
                out["map"][side].append(run_job(python, "--map", folder, str(THREADS), str(ENTRIES), script=Path(__file__)))
    progress("")
    return out


def tracer_text(unit: str, data: dict[str, dict[str, float]]) -> str:
    ours, stock = data["ours"], data["stock"]

    def line(label: str, side: dict[str, float], without: str, with_: str) -> str:
        return (f"  {label:14} without {side[without]:.1f}, with {side[with_]:.1f}: "
                f"{side[with_] / side[without]:.3f} times, {side[with_] - side[without]:.1f} more")
    ratio = (ours["exact+tracer"] / ours["exact"]) / (stock["tracer"] / stock["plain"])
    return "\n".join([
        f"no-op reference tracer, object() loop, {unit} a round (an object and a number):",
        line("stock", stock, "plain", "tracer"), line("ours", ours, "plain", "tracer"),
        line("ours, tracing", ours, "exact", "exact+tracer"),
        f"  ours, tracing, against stock: {ratio:.3f} times (at most {TRACER_BAR}: {'met' if ratio <= TRACER_BAR else 'NOT MET'})"])


def map_text(data: dict[str, list[dict[str, float]]]) -> str:
    lines = [f"perf map, {THREADS} threads, {ENTRIES:,} entries each (medians of {len(data['ours'])}):"]
    ratios = {}
    for key in ("seconds", "cpu"):
        mine, theirs = (statistics.median(r[key] for r in data[side]) for side in ("ours", "stock"))
        ratios[key] = mine / theirs
        lines.append(f"  {key}: ours {mine:.3f}, stock {theirs:.3f}, ratio {mine / theirs:.2f}")
    wanted = THREADS * ENTRIES
    intact = all(r["whole"] == wanted and not r["broken"] and not r["failed"] for r in data["ours"])
    met = intact and min(ratios.values()) <= MAP_BAR
    lines.append(f"  lines of ours: {'all whole, none lost' if intact else 'NOT all whole'}; at most {MAP_BAR}: {'met' if met else 'NOT MET'}")
    return "\n".join(lines)


def text(data: dict[str, Any]) -> str:
    parts = [tracer_text(unit, data[unit]) for unit in ("instructions", "nanoseconds") if unit in data]
    return "\n\n".join([*parts, map_text(data["map"])])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--tracer", where, names, number]:
            json.dump(tracer_job(where, names.split(","), int(number)), sys.stdout)
        case ["--map", where, threads, entries]:
            json.dump(map_job(where, int(threads), int(entries)), sys.stdout)
        case _:
            sys.exit(__doc__)
