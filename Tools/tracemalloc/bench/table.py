"""Text from the results of the bench: the table, and what has changed."""
from collections.abc import Sequence
from typing import Any

from speed import flatness, geometric_mean, summary

WIDTH = 13


def lay_out(rows: Sequence[Sequence[str]], right_from: int = 1) -> str:
    """Columns as wide as needed; those from right_from on to the right."""
    widths = [max(len(row[i]) for row in rows if i < len(row))
              for i in range(max(map(len, rows)))]
    lines = []
    for row in rows:
        cells = [cell.rjust(w) if i >= right_from else cell.ljust(w)
                 for i, (cell, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def cell_text(cell: dict[str, float] | None) -> str:
    if cell is None:
        return "-"
    percent = 100 * cell["spread"] / cell["ratio"]
    ratio = f"{cell['ratio']:.2f}" if cell["ratio"] < 10 else f"{cell['ratio']:.1f}"
    return f"{ratio} \u00b1{percent:.0f}%" if cell["spread"] else ratio


def speed_table(data: dict[str, Any], missing: Sequence[str] = ()) -> str:
    """The whole answer of the main measurement as text."""
    columns = data["columns"]
    parts = ["CPU time traced / untraced, the same interpreter, one process"
             " (median \u00b1 half the distance of the quartiles):", ""]
    rows = [["workload", *columns]]
    means = summary(data)
    for group in means:
        for name, row in data["rows"].items():
            if row["group"] == group:
                rows.append([name, *(cell_text(row["cells"].get(c))
                                     for c in columns)])
        rows.append([f"{group}: mean", *(
            f"{means[group][c]['mean']:.3f}" if c in means[group] else "-"
            for c in columns)])
        rows.append([f"{group}: worst", *(
            f"{means[group][c]['worst'][1]:.2f}" if c in means[group] else "-"
            for c in columns)])
        rows.append([""])
    parts.append(lay_out(rows))
    parts.append("mean: geometric mean" + (
        "; untraced: time of ours / time of stock (two processes: a few per cent"
        " are chance)." if "untraced" in columns else "."))
    flat = flatness(data)
    if flat is not None:
        parts.append(f"Limit 100 against limit 1: at most {flat[1]:.3f}"
                     f" ({flat[0]}).")
    for label, python in data["pythons"].items():
        parts.append(f"{label}: {python['path']}, {python['version']}")
    parts += [f"note: {text}" for text in missing]
    return "\n".join(parts)


def compare_table(old: dict[str, Any], new: dict[str, Any]) -> str:
    """What has changed since an older result: means, then single workloads."""
    columns = [c for c in new["columns"] if c in old["columns"]]
    rows = [["new / old", *columns]]
    groups = list(dict.fromkeys(r["group"] for r in new["rows"].values()))
    for group in groups:
        cells = []
        for column in columns:
            quotients = [
                row["cells"][column]["ratio"]
                / old["rows"][name]["cells"][column]["ratio"]
                for name, row in new["rows"].items()
                if row["group"] == group and column in row["cells"]
                and column in old["rows"].get(name, {}).get("cells", {})]
            cells.append(f"{geometric_mean(quotients):.3f}" if quotients else "-")
        rows.append([group, *cells])
    lines = [f"Compared with the result of {old['when']}:", "",
             lay_out(rows), ""]
    if old["effort"] != new["effort"]:
        lines.append("That was measured with another effort: "
                     + ", ".join(f"{k} {v}" for k, v in old["effort"].items()) + ".")
    if not any(r["cells"].keys() & columns for name, r in new["rows"].items()
               if name in old["rows"]):
        return "\n".join([*lines, "The two have nothing in common."])
    changes = list(moved(old, new, columns))
    lines += changes or ["No workload has moved beyond 3 % and the sum of both spreads."]
    return "\n".join(lines)


def moved(old: dict[str, Any], new: dict[str, Any], columns: Sequence[str]):
    """A line for each ratio that moved by more than chance explains."""
    for name, row in new["rows"].items():
        for column in columns:
            a = old["rows"].get(name, {}).get("cells", {}).get(column)
            b = row["cells"].get(column)
            if a is None or b is None or not a["spread"] or not b["spread"]:
                continue        # a single measurement says nothing
            change = b["ratio"] / a["ratio"] - 1
            noise = max(0.03, (a["spread"] + b["spread"]) / b["ratio"])
            if abs(change) > noise:
                yield (f"{name}, {column}: {a['ratio']:.2f} -> {b['ratio']:.2f}"
                       f" ({change:+.0%})")
