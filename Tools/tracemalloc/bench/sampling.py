"""Are the estimates of sampled tracing right?  One program under many seeds.

A profile of 100 lines that differ in the sizes of their blocks and in what they
hold is traced exactly once, and then by samples with one seed after another.
The same file is the job: run with --job it prints what was found.

usage: sampling.py --job BYTES INTERVAL SEEDS
"""
import json
import math
import random
import sys
from typing import Any

LINES = 100
FILE = "profile.py"
FULL = 1 << 30, 512 << 10
QUICK = 1 << 26, 32 << 10           # as many samples of less memory
SEEDS = 200
HEADER = sys.getsizeof(b"")
NEAR = 1000                         # one part in so many of a line is no error
SHOWN = 10


def profile(total: int):
    """(function that holds the blocks, how many blocks each line has)."""
    source = random.Random(42)
    lengths = [int(1.125 ** i) for i in range(LINES)]       # up to 116 kB
    source.shuffle(lengths)
    weights = [source.paretovariate(1.2) for _ in lengths]
    share = total / sum(weights)
    numbers = [max(1, round(share * weight / (HEADER + length)))
               for weight, length in zip(weights, lengths)]
    code = "".join(f"  if k == {k}: return [bytes({length}) for _ in range(n)]\n"
                   for k, length in enumerate(lengths))
    space: dict[str, Any] = {}
    exec(compile("def hold(k, n):\n" + code, FILE, "exec"), space)
    return space["hold"], numbers


def trace(interval: int, hold, numbers) -> tuple[dict, int]:
    """{line: sums} of the profile, and the exact traced size."""
    import _tracemalloc
    _tracemalloc.start(1, sample_interval=interval)
    kept = [hold(k, n) for k, n in enumerate(numbers)]
    size = _tracemalloc.get_traced_memory()[0]
    stats = _tracemalloc.get_stats()[FILE]
    _tracemalloc.stop()
    del kept
    return stats, size


def job(total: int, interval: int, seeds: int) -> dict[str, Any]:
    import _tracemalloc
    hold, numbers = profile(total)
    trace(1, hold, numbers)
    lines, traced = trace(1, hold, numbers)
    exact = sum(size for size, _ in lines.values())
    totals, totals_traced = [], []
    found: dict[int, list[list[float]]] = {line: [] for line in lines}
    for seed in range(seeds):
        _tracemalloc._sample_seed(seed)
        stats, size = trace(interval, hold, numbers)
        totals.append(sum(size for size, _ in stats.values()))
        totals_traced.append(size)
        for line, estimates in found.items():
            sums = stats.get(line)
            estimates.append([sums.size, sums.stderr] if sums else [0, 0])
    return {"exact": exact, "traced": traced, "traced sampled": totals_traced,
            "totals": totals, "interval": interval, "seeds": seeds,
            "lines": {str(line): {"size": size, "count": count,
                                  "found": found[line]}
                      for line, (size, count) in lines.items()}}


def judge(line: dict[str, Any]) -> dict[str, float]:
    """How the estimates of one line lie around the truth."""
    size, found = line["size"], line["found"]
    mean = sum(x for x, _ in found) / len(found)
    spread = math.sqrt(sum((x - mean) ** 2 for x, _ in found) / len(found))
    told = math.sqrt(sum(e * e for _, e in found) / len(found))
    error = max(told, spread, 1) / math.sqrt(len(found))
    return {"size": size, "count": line["count"], "mean": mean,
            "spread": spread, "told": told, "bias": (mean - size) / error,
            "within": sum(abs(x - size) <= 3 * e + size / NEAR
                          for x, e in found)}


def summary(data: dict[str, Any]) -> dict[str, Any]:
    exact, seeds = data["exact"], data["seeds"]
    lines = {name: judge(line) for name, line in data["lines"].items()
             if line["size"] > exact / 100}
    within = sum(line["within"] for line in lines.values())
    return {
        "lines": lines, "exact": exact, "interval": data["interval"],
        "seeds": seeds, "share": sum(k["size"] for k in lines.values()) / exact,
        "mean": sum(data["totals"]) / seeds / exact - 1,
        "worst": max(abs(x / exact - 1) for x in data["totals"]),
        "within": within / len(lines) / seeds,
        "bias": max((line["bias"] for line in lines.values()), key=abs),
        "traced": max(abs(x - data["traced"]) for x in data["traced sampled"]),
    }


def measure(python: str, quick: bool = False) -> dict[str, Any]:
    from pathlib import Path

    from speed import progress, run_job
    total, interval = QUICK if quick else FULL
    progress(f"{SEEDS} seeds of {total >> 20} MiB")
    data = run_job(python, "--job", str(total), str(interval), str(SEEDS),
                   script=Path(__file__))
    progress("")
    return summary(data)


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def text(data: dict[str, Any]) -> str:
    from table import lay_out
    rows = [["line", "bytes", "blocks", "mean estimate", "standard error",
             "as told", "within 3"]]
    lines = sorted(data["lines"].items(), key=lambda item: -item[1]["size"])
    for name, line in lines[:SHOWN]:
        rows.append([
            name, f"{line['size']:,}", f"{line['count']:,}",
            f"{100 * (line['mean'] / line['size'] - 1):+.2f} %",
            f"{100 * line['spread'] / line['size']:.1f} %",
            f"{100 * line['told'] / line['size']:.1f} %",
            f"{line['within']}/{data['seeds']}"])
    return "\n".join([
        f"{data['exact']:,} bytes at {LINES} lines, one sample in"
        f" {data['interval']:,}, {data['seeds']} seeds:", "", lay_out(rows), "",
        f"{len(lines)} lines above 1 % hold {100 * data['share']:.0f} %;"
        f" estimates within 3 standard errors: {100 * data['within']:.2f} %"
        f" ({_verdict(data['within'] >= 0.99)}: 99 %)",
        "largest bias of a line, in standard errors of the mean:"
        f" {data['bias']:+.1f} ({_verdict(abs(data['bias']) < 4)}: 4)",
        f"total, mean of all seeds: {100 * data['mean']:+.2f} %"
        f" ({_verdict(abs(data['mean']) < 0.01)}: 1 %);"
        f" worst seed {100 * data['worst']:.1f} %",
        f"get_traced_memory(), largest difference: {data['traced']:,} bytes",
    ])


if __name__ == "__main__":
    if sys.argv[1:2] != ["--job"]:
        sys.exit(__doc__)
    json.dump(job(*map(int, sys.argv[2:5])), sys.stdout)
