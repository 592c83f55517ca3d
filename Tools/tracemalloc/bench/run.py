#!/usr/bin/env python3
"""Measure what tracing costs: `make bench`.

Without options: traced against untraced CPU time of all workloads, ours and
stock side by side, one table, its data as JSON beside it.  Other questions
have an option each, and are asked only on request.  README.md explains what
is measured and how to read it.
"""
import argparse
import fnmatch
import json
import math
import os
import signal
import sys
from pathlib import Path
from typing import Any

import capi
import extras
import instructions
import memory
import peers
import sampling
import scaling
import speed
import suite
import table
from workloads import WORKLOADS

ROOT = speed.HERE.parents[2]
DEFAULT_OUT = ROOT / "build" / "bench"


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number


def limits(text: str) -> str:
    """Traceback limits, each perhaps with what job.py can add to it."""
    for limit in text.split(","):
        number = limit.partition("+")[0]
        if not number.isdecimal() or not 1 <= int(number) <= 65535:
            raise argparse.ArgumentTypeError(f"{limit or 'nothing'} is not a limit"
                                             " from 1 to 65535")
    return text


def writable(path: Path) -> bool:
    """Can write() make this file, and the folders above it?"""
    above = next(p for p in path.absolute().parents if p.exists())
    return not path.is_dir() and above.is_dir() and os.access(above, os.W_OK)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=str(ROOT / "build/release/python"),
                        help="the interpreter to measure (%(default)s: make)")
    parser.add_argument("--stock", default=str(ROOT / "build/stock/python"),
                        help="the one to compare with (%(default)s: make stock)")
    parser.add_argument("--no-stock", action="store_true",
                        help="ours alone: much faster")
    parser.add_argument("--quick", action="store_true",
                        help="less work and fewer rounds: at most 3 minutes")
    parser.add_argument("--only", metavar="PATTERN",
                        help="workloads whose name or group matches (shell pattern)")
    parser.add_argument("--limits", type=limits, default="1,25,100",
                        help="traceback limits of ours (%(default)s); 25+filters,"
                        " 25+tasks, 25+timers: with those")
    parser.add_argument("--stock-limits", type=limits, default="1,25",
                        help="traceback limits of stock (%(default)s)")
    full, quick = speed.FULL, speed.QUICK
    parser.add_argument("--visits", type=positive, metavar="N",
                        help="processes for each workload"
                        f" ({full.visits}; --quick: {quick.visits}, stock"
                        f" {quick.stock_visits})")
    parser.add_argument("--rounds", type=positive, metavar="N",
                        help="rounds in each process"
                        f" ({full.rounds}, stock {full.stock_rounds}; --quick:"
                        f" {quick.rounds}, stock {quick.stock_rounds})")
    parser.add_argument("--scale", type=amount, metavar="X",
                        help=f"amount of work ({full.scale}; --quick: {quick.scale})")
    parser.add_argument("--compare", metavar="OLD.json",
                        help="say what has changed since that result")
    parser.add_argument("--json", type=Path, metavar="FILE",
                        help=f"where the data goes ({DEFAULT_OUT}/KIND.json)")
    parser.add_argument("--list", action="store_true", help="name the workloads")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--instructions", action="store_true",
                      help="instruction counts instead of times (valgrind)")
    kind.add_argument("--extras", action="store_true",
                      help="what filters and tasks add, in instructions (valgrind)")
    kind.add_argument("--capi", action="store_true",
                      help="reference tracers and perf maps against stock")
    kind.add_argument("--memory", action="store_true",
                      help="memory of tracing, times of snapshots")
    kind.add_argument("--scaling", metavar="PYTHON",
                      help="two threads against one, of a free-threaded build")
    kind.add_argument("--sampling", action="store_true",
                      help="are estimates of samples right, over 200 seeds")
    kind.add_argument("--pyperformance", action="store_true",
                      help="the standard suite (needs the package index)")
    kind.add_argument("--peers", action="store_true",
                      help="other memory profilers (needs the package index)")
    parser.add_argument("--benchmarks", metavar="NAME,...",
                        help="with --pyperformance: only these")
    parser.add_argument("--work-folder", type=Path, default=DEFAULT_OUT,
                        help="for environments and results (%(default)s)")
    args = parser.parse_args()
    another = (args.instructions or args.extras or args.capi or args.memory
               or args.scaling or args.sampling or args.pyperformance or args.peers)
    if args.compare and another:
        parser.error("--compare is for results of the main measurement")
    if args.benchmarks and not args.pyperformance:
        parser.error("--benchmarks is for --pyperformance")
    if args.json and not writable(args.json):
        parser.error(f"{args.json} cannot be written")
    return args


def chosen(pattern: str | None) -> list:
    works = list(WORKLOADS.values())
    if pattern:
        works = [w for w in works if fnmatch.fnmatch(w.name, pattern)
                 or fnmatch.fnmatch(w.group, pattern)]
    return works


def effort_of(args: argparse.Namespace) -> speed.Effort:
    effort = speed.QUICK if args.quick else speed.FULL
    changes: dict[str, Any] = {}
    if args.visits:
        changes |= {"visits": args.visits, "stock_visits": args.visits}
    if args.rounds:
        changes |= {"rounds": args.rounds, "stock_rounds": args.rounds}
    if args.scale:
        changes |= {"scale": args.scale}
    return effort._replace(**changes)


def read_old(name: str) -> dict[str, Any]:
    """An older result of the main measurement, made in the same way."""
    try:
        old = json.loads(Path(name).read_bytes())
        made = old["format"]
    except OSError as exc:
        raise RuntimeError(f"{name}: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise RuntimeError(f"{name} is not a result of this program") from exc
    if made != speed.FORMAT or "rows" not in old:
        raise RuntimeError(f"{name} was measured in another way: its ratios cannot"
                           " be compared with these")
    return old


def main_table(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    old = read_old(args.compare) if args.compare else None
    extra = speed.extra_modes(args.ours)
    modes = [m for m in ("null",) if m in extra] + args.limits.split(",")
    modes += [m for m in ("sampled",) if m in extra]
    missing = [f"this build of ours has no mode \"{m}\": column left out"
               for m in ("null", "sampled") if m not in extra]
    sides = [speed.Side("ours", args.ours, modes)]
    if not args.no_stock:
        sides.append(speed.Side("stock", args.stock, args.stock_limits.split(",")))
    works, effort = chosen(args.only), effort_of(args)
    collector = speed.measure(sides, works, effort)
    data = speed.result(sides, works, effort, collector)
    text = table.speed_table(data, missing)
    if old is not None:
        try:
            text += "\n\n" + table.compare_table(old, data)
        except (ArithmeticError, AttributeError, LookupError, TypeError):
            text += f"\n\n{args.compare} is damaged: nothing is compared."
    return data, text


def counts(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    if not instructions.available():
        raise RuntimeError("valgrind is not installed")
    names = [w.name for w in chosen(args.only)] if args.only else \
        list(instructions.NAMES)
    data = instructions.measure(None if args.no_stock else args.stock,
                                args.ours, names,
                                args.scale or instructions.SCALE)
    return data, instructions.text(data)


def extra_counts(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    if not instructions.available():
        raise RuntimeError("valgrind is not installed")
    data = extras.measure(args.ours, [w.name for w in chosen(args.only)],
                          args.scale or extras.SCALE)
    return data, extras.text(data)


def ask(args: argparse.Namespace) -> tuple[str, dict[str, Any], str]:
    """(kind, data, text) of what was asked for."""
    if args.instructions:
        return "instructions", *counts(args)
    if args.extras:
        return "extras", *extra_counts(args)
    if args.capi:
        data = capi.measure(args.ours, args.stock, 3 if args.quick else 7,
                            instructions.available())
        return "capi", data, capi.text(data)
    if args.memory:
        sides = {"ours": args.ours}
        if not args.no_stock:
            sides["stock"] = args.stock
        blocks = round(memory.BLOCKS * (args.scale or 1))
        data = memory.measure(sides, blocks)
        return "memory", data, memory.text(data)
    if args.scaling:
        data = scaling.measure(args.scaling, rounds=1 if args.quick else 3)
        return "scaling", data, scaling.text(data)
    if args.sampling:
        data = sampling.measure(args.ours, args.quick)
        return "sampling", data, sampling.text(data)
    if args.pyperformance:
        modes = ["untraced", "limit 25"]
        modes += ["sampled"] * ("sampled" in speed.extra_modes(args.ours))
        data = suite.measure(args.ours, args.work_folder / "pyperformance",
                             args.benchmarks, args.quick, modes)
        return "pyperformance", data, suite.text(data)
    if args.peers:
        names = [w.name for w in chosen(args.only)]
        data = peers.measure(args.ours, args.work_folder / "peers", names,
                             args.scale or 0.4)
        return "peers", data, peers.text(data)
    return "speed", *main_table(args)


def write(path: Path, data: dict[str, Any]) -> None:
    """To another name first: an old result survives a full disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        part.write_text(json.dumps(data, indent=1), encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def how(python: str) -> str:
    """The words behind `make` that build an interpreter of this tree."""
    variant = Path(python).parent.name
    if variant == "stock":
        return " stock"
    return f" VARIANT={variant}" if variant in ("debug", "nogil", "asan") else ""


def main() -> int:
    args = parse()
    if not chosen(args.only):
        print(f"bench: no workload matches {args.only}", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(f"{w.group:6} {w.name:18} {w.run.__doc__}"
                        for w in chosen(args.only)))
        return 0
    needed = [args.scaling or args.ours]
    if not (args.no_stock or args.scaling or args.pyperformance or args.peers
            or args.extras or args.sampling):
        needed.append(args.stock)
    for python in needed:
        if not os.access(python, os.X_OK):
            print(f"bench: no interpreter at {python}; built by: make{how(python)}",
                  file=sys.stderr)
            return 2
    # As Ctrl-C: what was started ends, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        kind, data, text = ask(args)
    except RuntimeError as exc:
        print(f"bench: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench: stopped", file=sys.stderr)
        return 130
    print(text)
    path = args.json or args.work_folder / f"{kind}.json"
    try:
        write(path, data)
    except OSError as exc:
        print(f"bench: {path}: {exc.strerror}", file=sys.stderr)
        return 1
    print(f"data: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
