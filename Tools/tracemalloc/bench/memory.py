"""Memory of tracing, and the time that looking at it takes."""
from pathlib import Path
from typing import Any

from speed import HERE, progress, run_job
from table import lay_out

JOB = HERE / "memory_job.py"
BLOCKS = 3_000_000
CONTEXTS = 1_000_000
DEPTH = 50
LIMIT = 25


def ask(python: str, *args: object) -> dict[str, Any]:
    return run_job(python, *map(str, args), script=Path(JOB))


def measure(sides: dict[str, str], blocks: int = BLOCKS) -> dict[str, Any]:
    """{label: {"per block": bytes, "looks": {...}, "contexts": {...}}}."""
    out = {}
    for label, python in sides.items():
        progress(f"{label}: blocks")
        plain = ask(python, "blocks", blocks, 0)
        traced = ask(python, "blocks", blocks, LIMIT)
        grown = traced["resident"] - plain["resident"]
        progress(f"{label}: snapshots")
        looks = ask(python, "looks", blocks, LIMIT)
        progress(f"{label}: contexts")
        out[label] = {
            "blocks": traced["blocks"], "per block": grown / traced["blocks"],
            "own per block": traced["own"] / traced["blocks"], "looks": looks,
            "contexts": ask(python, "contexts", CONTEXTS, DEPTH)}
    progress("")
    return out


def text(data: dict[str, Any]) -> str:
    labels = list(data)
    first = data[labels[0]]
    rows = [[f"{first['blocks']:,} live small blocks, limit {LIMIT}", *labels]]
    rows.append(["resident bytes a block for tracing",
                 *(f"{data[k]['per block']:.1f}" for k in labels)])
    rows.append(["get_tracemalloc_memory() a block",
                 *(f"{data[k]['own per block']:.1f}" for k in labels)])
    names = dict.fromkeys(n for k in labels for n in data[k]["looks"])
    for name in names:
        cells = []
        for k in labels:
            value = data[k]["looks"].get(name)
            cells.append("-" if value is None else f"{value / 1e6:.1f} MB"
                         if name == "file bytes" else f"{value:.3f} s")
        rows.append([name, *cells])
    rows.append([f"{first['contexts']['contexts']:,} contexts of depth"
                 f" {first['contexts']['depth']}: tracer's memory",
                 *(f"{data[k]['contexts']['own'] / 1e6:.0f} MB" for k in labels)])
    rows.append(["the same, resident",
                 *(f"{data[k]['contexts']['resident'] / 1e6:.0f} MB"
                   for k in labels)])
    return lay_out(rows)
