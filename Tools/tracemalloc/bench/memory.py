"""Memory of tracing, and the time that looking at it takes."""
from pathlib import Path
from typing import Any

from speed import HERE, progress, run_job
from table import lay_out

JOB = HERE / "memory_job.py"
BLOCKS = 3_000_000
# What our figures for so many blocks should not exceed.
BARS = {"get_stats": 0.03, "create traces=False": 0.03, "top_by line": 0.1, "top_by filename": 0.1,
        "top_by line, cumulative": 0.1, "top_by filename, cumulative": 0.1, "write": 1.0, "load": 1.0, "file bytes": 40e6}
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
            "contexts": ask(python, "contexts", CONTEXTS, DEPTH),
            "ignored": ask(python, "ignored", blocks, LIMIT)}
    progress("")
    return out


def bar(name: str, first: dict[str, Any]) -> str:
    """What to say beside a figure that has a bar."""
    limit = BARS.get(name)
    if limit is None or first["blocks"] != BLOCKS:
        return ""
    met = first["looks"].get(name, limit + 1) <= limit
    return (f" (at most {limit / 1e6:.0f} MB" if name == "file bytes" else f" (at most {limit:g} s") + (")" if met else ": NOT MET)")


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
        rows.append([name + bar(name, first), *cells])
    rows.append([f"{first['contexts']['contexts']:,} contexts of depth"
                 f" {first['contexts']['depth']}: tracer's memory",
                 *(f"{data[k]['contexts']['own'] / 1e6:.0f} MB" for k in labels)])
    rows.append(["the same, resident",
                 *(f"{data[k]['contexts']['resident'] / 1e6:.0f} MB"
                   for k in labels)])
    rows.append(["bytes for a block that a filter ignores (nearly 0)", *(
        f"{data[k]['ignored']['grown'] / data[k]['ignored']['blocks']:.3f}"
        if data[k]["ignored"] else "-" for k in labels)])
    return lay_out(rows)
