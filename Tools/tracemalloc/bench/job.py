"""One workload in one process: timed untraced and traced, in turns.

usage: job.py time WORKLOAD SCALE ROUNDS MODE,...    times as JSON
       job.py count WORKLOAD SCALE TIMES MODE        run, for instruction counts
       job.py turns WORKLOAD SCALE MODE,...    each mode twice, inside functools.reduce()
       job.py modes                                  the modes there are, as JSON

The interpreter under test runs this.  All modes are measured in one process,
one after another in each round, because two processes of the same program
differ by some per cent in speed from the layout of their memory alone.

Modes: "base" untraced; a number: traced with that limit; "null": hooks that
only pass on; "sampled": traced by samples.  The last two are not everywhere.
"25+filters", "25+tasks", "25+timers": traced with 20 live filters, or with 100
tasks that have thresholds, or delays; "25+control": they are there, but
are neither added nor scheduled any more.
"""
import functools
import gc
import json
import sys
import time

import _tracemalloc
from workloads import WORKLOADS

SAMPLE_INTERVAL = 512 * 1024


def _sampling():
    """The tracemalloc module when its start() can sample, else None."""
    import tracemalloc
    try:
        tracemalloc.start(1, sample_interval=SAMPLE_INTERVAL)
    except TypeError:
        return None
    _stop_sampling(tracemalloc)
    return tracemalloc


def _stop_sampling(module) -> None:
    """The next start() is exact again."""
    module.stop()
    module.set_sample_interval(1)


def _filters(module) -> list:
    """Filters that have to be looked at, and let everything pass."""
    return [*(module.Filter(False, f"*/no/such/file{n}*.py", None, n % 2 == 0) for n in range(19)), module.Filter(True, "*")]


def _tasks(module, timers: bool) -> list:
    """Tasks that are never due."""
    tasks = [module.Task(len, "") for _ in range(100)]
    for task in tasks:
        if timers:
            task.set_delay(1_000_000)
        else:
            task.set_memory_threshold(1 << 40)
    return tasks


def with_extra(limit: int, extra: str):
    """(turn on, turn off) for tracing with filters or tasks.

    The objects are there whatever is wanted: they change what allocators do.
    """
    import tracemalloc as module
    kept: list = []

    def on():
        filters, tasks = _filters(module), _tasks(module, extra == "timers")
        kept.extend((filters, tasks))
        for filter in filters:
            module.add_filter(filter)
        if extra != "filters":
            module.clear_filters()
        module.start(limit)
        for task in tasks:
            task.schedule()
        if extra not in ("tasks", "timers"):
            module.cancel_tasks()

    def off():
        module.disable()
        module.clear_filters()
        kept.clear()
    return on, off


def switches(mode: str):
    """(turn on, turn off) for a mode, or None when it is missing here."""
    if mode == "base":
        return (lambda: None), (lambda: None)
    if mode == "null":
        null_hook = getattr(_tracemalloc, "_null_hook", None)
        if null_hook is None:
            return None
        return (lambda: null_hook(True)), (lambda: null_hook(False))
    if mode == "sampled":
        module = _sampling()
        if module is None:
            return None
        return (lambda: module.start(1, sample_interval=SAMPLE_INTERVAL)), \
            (lambda: _stop_sampling(module))
    if "+" in mode:
        limit, _, extra = mode.partition("+")
        return with_extra(int(limit), extra)
    return (lambda: _tracemalloc.start(int(mode))), _tracemalloc.stop


def measure(function, amount: int, on, off) -> float:
    """CPU seconds of one run; switching is not part of it."""
    gc.collect()
    on()
    start = time.process_time_ns()
    function(amount)
    end = time.process_time_ns()
    off()
    return (end - start) * 1e-9


def time_modes(name: str, scale: float, rounds: int, modes: list[str]) -> dict:
    work = WORKLOADS[name]
    amount = work.at(scale)
    turns = {mode: switches(mode) for mode in modes}
    missing = [mode for mode in modes if turns[mode] is None]
    times: dict[str, list[float]] = {m: [] for m in modes if m not in missing}
    work.run(amount)            # caches, specialised code, arenas
    work.run(amount)
    for number in range(rounds):
        order = list(times)
        # Not always the same neighbour before.
        shift = number % len(order)
        for mode in order[shift:] + order[:shift]:
            times[mode].append(measure(work.run, amount, *turns[mode]))
    return {"times": times, "missing": missing}


def count(name: str, scale: float, times: int, mode: str) -> None:
    work = WORKLOADS[name]
    amount = work.at(scale)
    turns = switches(mode)
    if turns is None:
        sys.exit(77)
    # The hash seed and the collector must not decide what is executed.
    gc.disable()
    turns[0]()
    for _ in range(times):
        work.run(amount)
    turns[1]()


def take_turns(name: str, scale: float, modes: list[str]) -> None:
    work = WORKLOADS[name]
    amount = work.at(scale)
    gc.disable()
    work.run(amount)
    for mode in modes:
        on, off = switches(mode)
        on()
        for _ in range(2):      # the same line, so that contexts are the same
            functools.reduce(lambda _, n: work.run(n), [None, amount])
        off()


def main() -> None:
    match sys.argv[1:]:
        case ["time", name, scale, rounds, modes]:
            result = time_modes(name, float(scale), int(rounds), modes.split(","))
            json.dump(result, sys.stdout)
        case ["count", name, scale, times, mode]:
            count(name, float(scale), int(times), mode)
        case ["turns", name, scale, modes]:
            take_turns(name, float(scale), modes.split(","))
        case ["modes"]:
            modes = [m for m in ("null", "sampled") if switches(m) is not None]
            json.dump(modes, sys.stdout)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
