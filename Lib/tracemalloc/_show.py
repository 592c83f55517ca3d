"""Show which places of a program hold most memory, from snapshot files.

The command "show" of the command line.  Snapshots are shown in the order of
their time, each compared to the one before it.
"""

import argparse
import os
import sys
import time
from ._display import (DisplayTop, format_size, format_time,
                       format_traceback, wants_color)
from ._filters import Filter
from ._files import load
from ._snapshot import Snapshot

_SLOW = 0.5     # seconds after which reading a file shows how far it is


class Failure(Exception):
    """Something that ends the command with one line on stderr."""

    def __init__(self, message: str, status: int = 1):
        super().__init__(message)
        self.status = status

    def show(self) -> None:
        """Write the line, if there is a stderr."""
        if sys.stderr is not None:
            print(f"tracemalloc: {self}", file=sys.stderr)


def _place(include: bool, traceback: bool):
    """Make an argument type: FILE or FILE:LINE, as a filter."""
    def convert(text):
        name, colon, line = text.rpartition(":")
        if not colon or not (line.isascii() and line.isdigit()):
            return Filter(include, text, None, traceback)
        return Filter(include, name, int(line), traceback)
    convert.__name__ = "FILE[:LINE]"
    return convert


def _address(text: str) -> int:
    return int(text, 0)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("it must not be below 0")
    return number


def _parts(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return number


# As argparse speaks of a value that they do not take.
_address.__name__, _count.__name__, _parts.__name__ = "address", "number", "number"


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE",
        help="a snapshot, written by Snapshot.write() or dump()")
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-a", "--address", action="store_true",
        help="show single blocks, not lines")
    group.add_argument(
        "-f", "--file", action="store_true",
        help="show files, not lines")
    add("-b", "--block", metavar="ADDRESS", type=_address,
        help="show the block at this address, and its traceback")
    add("-t", "--traceback", action="store_true",
        help="show the biggest blocks, with their tracebacks")
    add("-n", "--number", metavar="N", type=_count, default=10,
        help="how many to show (default: 10; 0: all)")
    add("--first", action="store_true",
        help="compare to the first file, not to the previous one")
    add("-c", "--cumulative", action="store_true",
        help="count a block for all calls of its traceback")
    for short, long, include, traceback, text in (
            ("-i", "--include", True, False, "show only this place"),
            ("-I", "--include-traceback", True, True,
             "show only blocks with this place in their traceback"),
            ("-x", "--exclude", False, False, "leave out this place"),
            ("-X", "--exclude-traceback", False, True,
             "leave out blocks with this place in their traceback")):
        add(short, long, metavar="F[:L]", dest="filters", action="append",
            type=_place(include, traceback), help=text
            + " (file pattern and perhaps line; can be repeated)")
    add("-S", "--hide-size", action="store_true", help="leave out sizes")
    add("-C", "--hide-count", action="store_true",
        help="leave out numbers of blocks")
    add("-A", "--hide-average", action="store_true",
        help="leave out average sizes")
    add("-M", "--hide-metrics", action="store_true", help="leave out metrics")
    add("-P", "--filename-parts", metavar="N", type=_parts, default=3,
        help="how many parts of file names to show (default: 3)")
    add("--color", action="store_true", default=None, dest="color",
        help="use colors")
    add("--no-color", action="store_false", dest="color",
        help="do not use colors")


class _Progress:
    """Shows on a terminal how much of a slow file has been read."""

    def __init__(self, name: str):
        self._name = name
        self._start = time.monotonic()
        self._shown = False
        self._wanted = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, done: int, size: int) -> None:
        if not self._wanted or time.monotonic() - self._start < _SLOW:
            return
        share = f"{100 * done // size} %" if size else format_size(done)
        self._write(f"reading {self._name}: {share}")
        self._shown = True

    def _write(self, text):
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    def close(self) -> None:
        if self._shown:
            self._write("")


def _load(name: str, options) -> Snapshot:
    """Read one file and apply the filters."""
    single = options.block is not None or options.traceback
    filters = options.filters or []
    traces = (single or options.address or options.cumulative
              or any(filter.traceback for filter in filters))
    progress = _Progress(name)
    try:
        snapshot = load(Snapshot, name, traces, progress)
    except OSError as error:
        raise Failure(f"{name}: {error.strerror or error}") from None
    except (ValueError, MemoryError) as error:
        raise Failure(str(error) or f"{name}: out of memory") from None
    finally:
        progress.close()
    if snapshot.traces is None and (single or options.address):
        raise Failure(f"{name}: has no traces, only sums by "
                      + ("traceback" if snapshot.peak else "line"))
    if filters:
        snapshot.apply_filters(filters)
    return snapshot


def _columns(name, snapshot):
    columns = snapshot._columns()
    if not columns.has_addresses:
        raise Failure(f"{name}: has no addresses, it was written by "
                      "dump()")
    return columns


def _show_block(name, snapshot, options) -> bool:
    """Show one block; return whether it is there."""
    columns = _columns(name, snapshot)
    index = columns.get_by_address(options.block)
    line = (f"{format_time(snapshot.timestamp)}: memory block "
            f"0x{options.block:x}: ")
    if index < 0:
        print(line + "(not found)")
        return False
    _, size, frames, *_ = columns.trace(index)
    print(line + format_size(size))
    print("\n".join(format_traceback(frames, options.filename_parts)))
    print()
    return True


def _show_biggest(snapshot, options) -> None:
    """Show the biggest blocks, with where they were allocated."""
    import heapq
    columns = snapshot._columns()
    number = options.number or len(columns)
    known = columns.has_addresses
    if known:
        sizes = ((size, -address) for address, size, _
                 in columns.group("address", False, True))
    else:
        sizes = ((columns.trace(i)[1], -i) for i in range(len(columns)))
    biggest = heapq.nlargest(number, sizes)
    print(f"{format_time(snapshot.timestamp)}: Top {len(biggest)} biggest "
          "memory blocks"
          + (" among sampled ones" if snapshot.sample_interval > 1 else ""))
    for number, (size, place) in enumerate(biggest, 1):
        index = columns.get_by_address(-place) if known else -place
        block = f"memory block 0x{-place:x}" if known else "memory block"
        print(f"#{number}: {block}: size={format_size(size)}")
        frames = columns.trace(index)[2]
        for line in format_traceback(frames, options.filename_parts):
            print("    " + line)
    others = len(columns) - len(biggest)
    if others:
        size = (columns.total_size if snapshot.sample_interval == 1 else
                sum(columns.trace(i)[1] for i in range(len(columns))))
        size -= sum(size for size, _ in biggest)
        print(f"{others} more: size={format_size(size)}")
    print()


def _show_tops(named, options) -> None:
    """Show the tops of all snapshots, each compared to one before."""
    top = DisplayTop()
    top.size, top.count = not options.hide_size, not options.hide_count
    top.average = not options.hide_average
    top.metrics = not options.hide_metrics
    top.filename_parts = options.filename_parts
    top.compare_to_previous = not options.first
    top.color = (wants_color(sys.stdout) if options.color is None
                 else options.color)
    group_by = ("address" if options.address else
                "filename" if options.file else "line")
    for name, snapshot in named:
        if options.address:
            _columns(name, snapshot)
        try:
            stats = snapshot.top_by(group_by, options.cumulative)
        except ValueError:
            raise Failure(f"{name}: has no traces, only sums by line"
                          ) from None
        top.display_top_stats(stats, options.number or len(stats.stats)
                              + len(_previous(top)), sys.stdout)


def _previous(top):
    previous = top.previous_top_stats
    return () if previous is None else previous.stats


def run(options) -> int:
    """Show all files; return the exit status."""
    named = [(name, _load(name, options)) for name in options.files]
    if all(snapshot.timestamp is not None for _, snapshot in named):
        with_zone = {s.timestamp.tzinfo is None for _, s in named}
        if len(with_zone) == 1:
            named.sort(key=lambda pair: pair[1].timestamp)
    pids = sorted({s.pid for _, s in named if s.pid is not None})
    if len(pids) > 1:
        print("Note: the snapshots are of different processes: "
              + ", ".join(map(str, pids)), file=sys.stderr)
    if options.block is not None:
        found = [_show_block(name, snapshot, options)
                 for name, snapshot in named]
        if not any(found):
            raise Failure(f"no block at 0x{options.block:x}")
    elif options.traceback:
        for _, snapshot in named:
            _show_biggest(snapshot, options)
    else:
        _show_tops(named, options)
    return os.EX_OK
