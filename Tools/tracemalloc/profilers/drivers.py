"""Run the program under one profiler, with memory being traced or not, and print what the profiler found as JSON.

usage: drivers.py PROFILER off|on|during      during: tracing starts and stops again and again while the profiler runs

What is printed must not depend on time: how often something was called or executed, and for the sampling profiler which
function it saw most.
"""
import importlib.util
import json
import os
import sys
import threading
import tracemalloc

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(HERE, "program.py")


def load():
    """A fresh copy of the program."""
    spec = importlib.util.spec_from_file_location("program", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["program"] = module
    spec.loader.exec_module(module)
    return module


def in_threads(function, count=3):
    threads = [threading.Thread(target=function) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def with_yappi():
    import yappi
    program = load()
    yappi.set_clock_type("wall")
    yappi.start(builtins=True)
    program.main(10)
    in_threads(lambda: program.main(3))
    yappi.stop()
    # Of the functions written in C those that nobody but the program calls; threading calls many.
    builtins = ("<built-in method builtins.sorted>", "<built-in method builtins.sum>", "<method 'send' of 'coroutine' objects>")
    return sorted([stat.name, stat.ncall] for stat in yappi.get_func_stats()
                  if os.path.basename(stat.module) == "program.py" or stat.name in builtins)


def with_coverage():
    import coverage
    # The tracer that is written in C, with which function of the program ran which branches.
    os.environ["COVERAGE_CORE"] = "ctrace"
    measured = coverage.Coverage(data_file=None, branch=True, include=[PATH], concurrency="thread")
    measured.start()
    program = load()
    program.main(5)
    in_threads(lambda: program.main(2))
    measured.stop()
    data = measured.get_data()
    assert dict(measured.sys_info())["core"] == "CTracer"
    return sorted(data.arcs(PATH))


def with_line_profiler():
    import line_profiler
    program = load()
    profile = line_profiler.LineProfiler()
    for name in ("leaf", "branchy", "recursive", "failing", "hot", "main"):
        setattr(program, name, profile(getattr(program, name)))
    program.main(5)
    return sorted([name, [[line, hits] for line, hits, _ in lines]] for (_, _, name), lines in profile.get_stats().timings.items())


def with_pyinstrument():
    import pyinstrument
    program = load()
    profiler = pyinstrument.Profiler(interval=0.0005, async_mode="disabled")
    profiler.start()
    program.main(200)
    session = profiler.stop()
    # Statistical: which function of the program has the most time of its own?
    own: dict[str, float] = {}
    frame = session.root_frame()
    todo = [frame]
    while todo:
        frame = todo.pop()
        todo += frame.children
        if (frame.file_path or "").endswith("program.py"):
            own[frame.function] = own.get(frame.function, 0) + frame.total_self_time
    return max(own, key=own.get)


def keep_toggling(stop: threading.Event) -> None:
    while not stop.wait(0.002):
        tracemalloc.start(10)
        tracemalloc.stop()


def main() -> None:
    name, how = sys.argv[1:]
    stop = threading.Event()
    toggler = None
    if how == "on":
        tracemalloc.start(10)
    elif how == "during":
        toggler = threading.Thread(target=keep_toggling, args=(stop,))
        toggler.start()
    try:
        result = globals()[f"with_{name}"]()
    finally:
        stop.set()
        if toggler:
            toggler.join()
    if how == "on":
        assert tracemalloc.is_tracing() and tracemalloc.get_traced_memory()[0] > 0
        assert tracemalloc.take_snapshot().statistics("lineno")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
