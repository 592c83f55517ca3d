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
before tracing starts, setup().  main() calls the Harness it is given.

Nothing is formatted, and no free list is touched, while tracing: a checkpoint
keeps the raw list of _get_traces() and the numbers; they are written when
tracing has stopped.  Traces whose most recent frame is in this file are left
out; the numbers are kept as they are, less what the kept lists weigh.  What
a list weighs is compared, too: its items are not traced, as in 3.13.
"""
import gc
import json
import sys
import _tracemalloc

MAX_RECORDS = 400
clear_caches = sys._clear_internal_caches


class Harness:
    """What a program sees of its run: checkpoints and questions."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.kept_bytes = 0
        self.records: list = [None] * MAX_RECORDS

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
        memory = _tracemalloc.get_traced_memory()
        traces = _tracemalloc._get_traces()
        weight = _tracemalloc.get_traced_memory()[0] - memory[0]
        self._add(("check", label, memory, traces, self.kept_bytes, weight))
        self.kept_bytes += weight

    def numbers(self, label: str) -> None:
        """Keep current and peak only."""
        clear_caches()
        self._add(("numbers", label, _tracemalloc.get_traced_memory(), None,
                   self.kept_bytes, None))

    def traceback(self, label: str, obj: object) -> None:
        """Keep the traceback of one object."""
        self._add(("traceback", label,
                   _tracemalloc._get_object_traceback(obj), None, 0, None))

    def note(self, label: str, value: object) -> None:
        """Keep a plain value (number, string, bool, None)."""
        self._add(("note", label, value, None, 0, None))

    def reset_peak(self) -> None:
        clear_caches()
        _tracemalloc.reset_peak()

    def clear(self) -> None:
        _tracemalloc.clear_traces()
        self.kept_bytes = 0         # what is kept so far is not traced now

    def restart(self, limit: int) -> None:
        """Stop tracing, drop all, trace again with another limit."""
        _tracemalloc.stop()
        self.kept_bytes = 0
        _tracemalloc.start(limit)


class Writer:
    """Turns records into JSON: frames by index, library prefix replaced."""

    def __init__(self, prefixes: list[str]) -> None:
        self.prefixes = prefixes
        self.tables: dict[tuple, int] = {}

    def name(self, filename: str) -> str:
        for prefix in self.prefixes:
            if filename.startswith(prefix):
                return "<lib>" + filename[len(prefix):]
        return filename

    def frames(self, frames: tuple) -> int:
        plain = tuple((self.name(name), line) for name, line in frames)
        return self.tables.setdefault(plain, len(self.tables))

    def record(self, record: tuple) -> dict:
        kind, label, value, traces, kept, weight = record
        out = {"kind": kind, "label": label}
        if kind in ("check", "numbers"):
            out["memory"] = [n - kept for n in value]
        if kind == "traceback":
            out["value"] = None if value is None else self.frames(value)
        if kind == "note":
            out["value"] = value
        if kind == "check":
            out["weight"] = weight
            counts: dict[tuple, int] = {}
            for domain, size, frames, total in traces:
                if frames[0][0] != __file__:
                    key = domain, size, self.frames(frames), total
                    counts[key] = counts.get(key, 0) + 1
            out["traces"] = [[*k, n] for k, n in counts.items()]
        return out

    def write(self, path: str, records: list) -> None:
        done = [self.record(r) for r in records]
        with open(path, "w", encoding="utf-8", errors="surrogatepass") as f:
            json.dump({"records": done, "tracebacks": list(self.tables)}, f)


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
    Writer(prefixes).write(out, harness.records[:harness.used])


if __name__ == "__main__":
    main()
