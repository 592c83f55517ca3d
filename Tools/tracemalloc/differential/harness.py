"""Run one program under tracing and write down everything that was traced.

usage: harness.py PROGRAM LIMIT LIBRARY DYNLOAD OUT

The interpreter under test runs this file; run.py starts it twice, once with
each interpreter, and compares what is written to OUT.  Both runs must meet
the very same heap, so all that could differ is fixed here or by run.py: hash
seed, environment, working folder, module search path (one standard library
for both, never the module tracemalloc), order of thread switches, free lists.

The tracer of 3.13 keeps the names of traced files alive, ours has copies.  A
program that makes up file names therefore keeps them itself.

A program is a file with main(h) and, where it needs imports or data made
before tracing starts, setup().  main() calls the Harness it is given.  STATES
is the number of further threads and interpreters that it has at most at a time
(see run.py).

Nothing is formatted, and no free list is touched, while tracing: a checkpoint
keeps the raw list of _get_traces() and the numbers; they are written when
tracing has stopped.  Traces whose most recent frame is in this file are left
out; the numbers are kept as they are, less what the kept answers weigh.  The
peak is reset after each answer, so that all of a peak is above one such weight.
What a list weighs is compared, too: its items are not traced, as in 3.13.
"""
import gc
import json
import sys
import _tracemalloc

MAX_RECORDS = 400
# What was kept before is not traced from here on.
FORGOTTEN = ("forgotten", "", None, None, None)
clear_caches = sys._clear_internal_caches


def memory_now() -> tuple[int, int]:
    """Current and peak; made anew, for an int has more sizes than one."""
    current, peak = _tracemalloc.get_traced_memory()
    return current + 0, peak + 0


class Harness:
    """What a program sees of its run: checkpoints and questions."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.records: list = [None] * MAX_RECORDS
        self.lists: list = [None] * 100

    def _add(self, record: tuple) -> None:
        self.records[self.used] = record
        self.used += 1

    def check(self, label: str, collect: bool = True) -> None:
        """Keep all live traces and both numbers.

        collect empties the free lists first, so that a program may go on
        afterwards: the lists that are kept here then take nothing from them.
        The cache of attribute look-ups is indexed by the addresses of names,
        and keeps those names alive: emptied, or chance would decide.
        """
        clear_caches()
        if collect:
            gc.collect()
        else:
            # The list to be returned comes from no free list in any case:
            # 3.13 makes it before it looks, ours afterwards.
            for i in range(100):
                self.lists[i] = []
        memory = memory_now()
        _tracemalloc.reset_peak()
        traces = _tracemalloc._get_traces()
        self._add(("check", label, memory, traces,
                   memory_now()))
        _tracemalloc.reset_peak()

    def numbers(self, label: str) -> None:
        """Keep current and peak only; the peak is not reset."""
        clear_caches()
        self._add(("numbers", label, memory_now(), None,
                   None))

    def traceback(self, label: str, obj: object) -> None:
        """Keep the traceback of one object."""
        # In 3.13 the names are shared with the tracer, ours makes new ones.
        before = memory_now()
        frames = _tracemalloc._get_object_traceback(obj)
        self._add(("traceback", label, before, frames,
                   memory_now()))
        _tracemalloc.reset_peak()

    def note(self, label: str, value: object) -> None:
        """Keep a plain value (number, string, bool, None)."""
        self._add(("note", label, value, None, None))

    def reset_peak(self) -> None:
        clear_caches()
        _tracemalloc.reset_peak()

    def clear(self) -> None:
        _tracemalloc.clear_traces()
        self._add(FORGOTTEN)

    def restart(self, limit: int) -> None:
        """Stop tracing, drop all, trace again with another limit."""
        _tracemalloc.stop()
        self._add(FORGOTTEN)
        _tracemalloc.start(limit)


class Writer:
    """Turns records into JSON: frames by index, library prefix replaced."""

    def __init__(self, prefixes: list[str]) -> None:
        self.prefixes = prefixes
        self.tables: dict[tuple, int] = {}
        self.kept = 0               # traced bytes of the answers so far

    def name(self, filename: str) -> str:
        for prefix in self.prefixes:
            if filename.startswith(prefix):
                return "<lib>" + filename[len(prefix):]
        return filename

    def frames(self, frames: tuple) -> int:
        plain = tuple((self.name(name), line) for name, line in frames)
        return self.tables.setdefault(plain, len(self.tables))

    def record(self, record: tuple) -> dict:
        """A record as plain data, in the order of the run."""
        kind, label, value, answer, after = record
        out = {"kind": kind, "label": label}
        if kind == "forgotten":
            self.kept = 0
        elif kind == "note":
            out["value"] = value
        else:
            out["memory"] = [n - self.kept for n in value]
        if kind == "traceback":
            out["value"] = None if answer is None else self.frames(answer)
        elif kind == "check":
            out["traces"] = self.traces(answer)
        if after is not None:
            weight = after[0] - value[0]
            self.kept += weight
            if kind == "check":
                out["weight"] = weight, after[1] - value[0]
        return out

    def traces(self, traces: list) -> list:
        """[domain, size, traceback, total frames, how many], ours left out."""
        counts: dict[tuple, int] = {}
        for domain, size, frames, total in traces:
            if frames[0][0] != __file__:
                key = domain, size, self.frames(frames), total
                counts[key] = counts.get(key, 0) + 1
        return [[*key, n] for key, n in counts.items()]

    def write(self, path: str, records: list, states: int) -> None:
        done = [self.record(r) for r in records]
        with open(path, "w", encoding="utf-8", errors="surrogatepass") as f:
            json.dump({"records": done, "tracebacks": list(self.tables),
                       "states": states}, f)


def prepare(library: str, dynload: str) -> list[str]:
    """Make the search path the same for both; return prefixes to replace."""
    import encodings
    own = encodings.__file__.rpartition("/encodings/")[0]
    sys.path[:] = [library, dynload]
    sys.path_importer_cache.clear()
    try:
        import no_module_has_this_name  # noqa: F401  (fills path caches)
    except ImportError:
        pass
    sys.setswitchinterval(1000)         # threads switch where they wait
    return [library, own]


def main() -> None:
    program, limit, library, dynload, out = sys.argv[1:]
    prefixes = prepare(library, dynload)
    with open(program, encoding="utf-8") as f:
        code = compile(f.read(), program, "exec")
    space = {"__name__": "program", "__file__": program}
    exec(code, space)
    del code
    space.get("setup", int)()
    harness = Harness(int(limit))
    run = space["main"]
    gc.collect()
    _tracemalloc.start(int(limit))
    run(harness)
    harness.check("end", collect=False)
    _tracemalloc.stop()
    Writer(prefixes).write(out, harness.records[:harness.used],
                           space.get("STATES", 0))


if __name__ == "__main__":
    main()
