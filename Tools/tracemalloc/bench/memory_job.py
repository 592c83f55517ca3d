"""What tracing costs in memory, and how long looking takes; one process each.

usage: memory_job.py blocks N LIMIT        resident bytes of N blocks (0: untraced)
       memory_job.py looks N LIMIT         times of snapshots of N blocks
       memory_job.py contexts N DEPTH      memory of N contexts

Prints JSON.  What the interpreter does not have is left out of the answer.
"""
import gc
import json
import os
import sys
import tempfile
import time

import _tracemalloc

LINES = 60
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Resident bytes of this process."""
    with open("/proc/self/statm", "rb") as f:
        return int(f.read().split()[1]) * PAGE


def maker(lines: int):
    """A function that fills a list, from as many lines, sizes 40 to 99 bytes."""
    body = "".join(f"    kept[i + {k}] = b'%0{8 + k}d' % (i + {k})\n"
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
    """Seconds of a call, the better of two; None when it is missing.

    prepare() makes the arguments of each call anew, untimed: an answer that
    an object remembers does not count.
    """
    best, value = None, None
    for _ in range(2):
        try:
            args = prepare()
            gc.collect()
            start = time.perf_counter()
            value = function(*args)
        except (AttributeError, TypeError):
            return None
        seconds = time.perf_counter() - start
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
    with tempfile.TemporaryDirectory(prefix="tmbench_") as folder:
        path = os.path.join(folder, "snapshot")
        timed(out, "dump", lambda s: s.dump(path), one)
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


def main() -> None:
    jobs = {"blocks": blocks, "looks": looks, "contexts": contexts}
    try:
        name, a, b = sys.argv[1:]
        job = jobs[name]
    except (ValueError, KeyError):
        sys.exit(__doc__)
    json.dump(job(int(a), int(b)), sys.stdout)


if __name__ == "__main__":
    main()
