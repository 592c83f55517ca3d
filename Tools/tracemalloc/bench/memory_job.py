"""What tracing costs in memory, and how long looking takes; one process each.

usage: memory_job.py blocks N LIMIT        resident bytes of N blocks (0: untraced)
       memory_job.py looks N LIMIT         times of snapshots of N blocks
       memory_job.py contexts N DEPTH      memory of N contexts
       memory_job.py ignored N LIMIT       growth of the tracer's memory over N blocks that a live filter leaves out

Prints JSON.  What the interpreter does not have is left out of the answer.
"""
import gc
import json
import os
import sys
import tempfile
import time

import _tracemalloc

LINES = 1000
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Resident bytes of this process."""
    with open("/proc/self/statm", "rb") as f:
        return int(f.read().split()[1]) * PAGE


def maker(lines: int):
    """A function that fills a list, from as many lines, sizes 40 to 99 bytes."""
    body = "".join(f"    kept[i + {k}] = b'%0{8 + k % 60}d' % (i + {k})\n"
                   for k in range(lines))
    source = (f"def fill(kept, first, last):\n"
              f"  for i in range(first, last, {lines}):\n{body}")
    space: dict = {}
    exec(compile(source, "made_blocks.py", "exec"), space)
    return space["fill"]


def below(depth: int, function, *args):
    """Call a function with some frames under it."""
    return below(depth - 1, function, *args) if depth else function(*args)


def blocks(n: int, limit: int) -> dict:
    gc.disable()
    n -= n % LINES
    fill = maker(LINES)
    kept = [None] * n
    fill(kept, 0, LINES)
    before = resident()
    if limit:
        _tracemalloc.start(limit)
    below(30, fill, kept, 0, n)
    out = {"blocks": n, "resident": resident() - before}
    if limit:
        out["own"] = int(_tracemalloc.get_tracemalloc_memory())
    return out


def timed(out: dict, name: str, function, prepare=tuple):
    """CPU seconds of a call, the better of two; None when it is missing.

    prepare() makes the arguments of each call anew, untimed: an answer that
    an object remembers does not count.
    """
    best, value = None, None
    for _ in range(2):
        try:
            args = prepare()
            gc.collect()
            start = time.process_time()
            value = function(*args)
        except (AttributeError, TypeError):
            return None
        seconds = time.process_time() - start
        best = seconds if best is None else min(best, seconds)
    out[name] = best
    return value


def looks(n: int, limit: int) -> dict:
    import tracemalloc as tm
    gc.disable()
    n -= n % LINES
    fill = maker(LINES)
    kept = [None] * n
    tm.start(limit)
    below(30, fill, kept, 0, n)
    out: dict = {}
    gc.freeze()                 # the blocks are not what is to be timed

    def one():
        return (tm.take_snapshot(),)

    def two():
        return tm.take_snapshot(), tm.take_snapshot()

    def draft():
        return (tm.Snapshot.create(traces=True),)

    timed(out, "take_snapshot", tm.take_snapshot)
    timed(out, "statistics lineno", lambda s: s.statistics("lineno"), one)
    timed(out, "compare_to lineno", lambda a, b: b.compare_to(a, "lineno"), two)
    timed(out, "filter one file", lambda s: s.filter_traces(
        [tm.Filter(True, "made_*.py")]).statistics("lineno"), one)
    timed(out, "get_stats", lambda: tm.get_stats())
    timed(out, "create traces=False", lambda: tm.Snapshot.create(traces=False))
    timed(out, "create traces=True", lambda: tm.Snapshot.create(traces=True))
    timed(out, "top_by line", lambda s: s.top_by("line"), draft)
    timed(out, "top_by filename", lambda s: s.top_by("filename"), draft)
    timed(out, "top_by line, cumulative", lambda s: s.top_by("line", True), draft)
    timed(out, "top_by filename, cumulative", lambda s: s.top_by("filename", True),
          draft)
    timed(out, "top_by address", lambda s: s.top_by("address"), draft)
    with tempfile.TemporaryDirectory(prefix="tmbench_") as folder:
        path = os.path.join(folder, "snapshot")
        if timed(out, "dump", lambda s: s.dump(path) or True, one):
            timed(out, "load of a dump", lambda: tm.Snapshot.load(path))
        if timed(out, "write", lambda s: s.write(path) or True, draft):
            out["file bytes"] = os.path.getsize(path)
            timed(out, "load", lambda: tm.Snapshot.load(path))
    return out


def contexts(n: int, depth: int) -> dict:
    """A chain, then a binary tree: n leaves, each with a block of its own."""
    levels = max(1, (n - 1).bit_length())
    space: dict = {}
    exec(compile("def tree(left, kept):\n"
                 "    if left == 0:\n"
                 "        kept.append(bytes(1))\n"
                 "    else:\n"
                 "        tree(left - 1, kept)\n"
                 "        tree(left - 1, kept)\n", "tree.py", "exec"), space)
    kept: list = []
    before = resident()
    _tracemalloc.start(100)
    # Frames below the leaf: this module's, the chain, the tree.
    below(max(0, depth - levels - 4), space["tree"], levels, kept)
    own = _tracemalloc.get_tracemalloc_memory()
    return {"contexts": len(kept), "depth": depth, "own": int(own),
            "resident": resident() - before}


def ignored(n: int, limit: int) -> dict:
    """The tracer's memory after a tenth of the blocks, and its growth until all are there."""
    import tracemalloc as tm
    if not hasattr(tm, "add_exclude_filter"):
        return {}
    gc.disable()
    n -= n % LINES
    fill = maker(LINES)
    kept = [None] * n
    tm.add_exclude_filter("made_blocks.py")
    tm.start(limit)
    few = n // LINES // 10 * LINES
    own = []
    for part in ((0, few), (few, n)):       # one line calls, or contexts differ
        below(30, fill, kept, *part)
        own.append(int(tm.get_tracemalloc_memory()))
    return {"blocks": n, "own": own[0], "grown": own[1] - own[0]}


def main() -> None:
    jobs = {"blocks": blocks, "looks": looks, "contexts": contexts,
            "ignored": ignored}
    try:
        name, a, b = sys.argv[1:]
        job = jobs[name]
    except (ValueError, KeyError):
        sys.exit(__doc__)
    json.dump(job(int(a), int(b)), sys.stdout)


if __name__ == "__main__":
    main()
