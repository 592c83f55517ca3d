"""Instruction counts instead of times: exact where times are noise.

valgrind's callgrind counts what a process executes.  A workload is run once
and three times; half the difference is one run, start-up and end of the
process fall out.  Compared are ours, tracing never started, with stock
(the same flags), and ours traced with ours untraced.
"""
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from speed import JOB, clean_env, geometric_mean, progress
from table import lay_out

NAMES = ("objects", "dicts", "generators", "json_roundtrip", "deep_recursion")
SCALE = 0.1


def available() -> bool:
    return shutil.which("valgrind") is not None


def count(python: str, name: str, times: int, mode: str, scale: float) -> int | None:
    """Instructions of a whole process; None when it lacks the mode."""
    with tempfile.TemporaryDirectory(prefix="tmbench_") as folder:
        command = ["valgrind", "--tool=callgrind",
                   f"--callgrind-out-file={Path(folder) / 'out'}", python,
                   str(JOB), "count", name, str(scale), str(times), mode]
        done = subprocess.run(command, env=clean_env(), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode == 77:
        return None
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"valgrind failed:\n{done.stderr[-1500:]}")
    return int(found.group(1))


def one_run(python: str, name: str, mode: str, scale: float) -> float | None:
    once = count(python, name, 1, mode, scale)
    thrice = count(python, name, 3, mode, scale)
    return None if once is None or thrice is None else (thrice - once) / 2


def measure(stock: str | None, ours: str, names: list[str],
            scale: float = SCALE) -> dict:
    """{workload: {"stock" | "ours base" | "ours 1" | ...: instructions}}."""
    out: dict[str, dict[str, float | None]] = {}
    for name in names:
        row: dict[str, float | None] = {}
        if stock is not None:
            progress(f"{name}, stock")
            row["stock"] = one_run(stock, name, "base", scale)
        for mode in ("base", "null", "1", "25"):
            progress(f"{name}, ours {mode}")
            row[f"ours {mode}"] = one_run(ours, name, mode, scale)
        out[name] = row
    progress("")
    return out


def text(data: dict) -> str:
    """The counts, with the ratios that matter."""
    shown = [("never started / stock", "ours base", "stock"),
             ("null / untraced", "ours null", "ours base"),
             ("limit 1 / untraced", "ours 1", "ours base"),
             ("limit 25 / untraced", "ours 25", "ours base")]
    rows = [["workload", "untraced (millions)", *(s[0] for s in shown)]]
    ratios: dict[str, list[float]] = {s[0]: [] for s in shown}
    for name, row in data.items():
        cells = [name, f"{row['ours base'] / 1e6:.1f}"]
        for title, over, under in shown:
            if row.get(over) and row.get(under):
                ratio = row[over] / row[under]
                ratios[title].append(ratio)
                cells.append(f"{ratio:.4f}")
            else:
                cells.append("-")
        rows.append(cells)
    rows.append(["mean", "", *(f"{geometric_mean(r):.4f}" if r else "-"
                               for r in ratios.values())])
    return "Instructions executed (callgrind):\n\n" + lay_out(rows)
