"""DisplayTop: the biggest users of memory, as text.

Besides __main__ this is the only file that writes text for people.  A
DisplayTop remembers the statistics that the next ones are compared to.
"""

import os
import sys
from _tracemalloc import get_traceback_limit
from ._frames import public
from ._plain import EstimatedDifference, joint_stderr
from ._snapshot import Snapshot
from ._stats import GroupedStats, StatsDiff

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_HEADINGS = {"filename": "filename", "line": "filename and line number",
             "lineno": "filename and line number", "address": "address",
             "traceback": "traceback"}
_STRONG, _NORMAL = "\x1b[1;33m", "\x1b[0m"


def format_size(size: float, sign: bool = False) -> str:
    """Write a size as a whole number of a unit, below 5120 of it."""
    rest, unit = abs(int(size)), 0
    while rest >= 5120 and unit < len(_UNITS) - 1:
        rest, unit = rest // 1024, unit + 1
    if size < 0:
        rest = -rest
    return f"{rest:{'+' if sign else ''}d} {_UNITS[unit]}"


def format_error(stderr: float | None) -> str:
    """Write how far a size may be off; nothing if it is exact."""
    if stderr is None:
        return ""
    return f" \N{PLUS-MINUS SIGN}{format_size(round(stderr))}"


def format_sampling(stats) -> str:
    """Write, for a heading, of what statistics or a snapshot tell.

    Nothing if that is all that was traced when they were made.
    """
    notes = []
    if getattr(stats, "peak", False):
        notes.append("at the peak")
    if getattr(stats, "sample_interval", 1) > 1:
        what = ("sampled blocks"
                if getattr(stats, "group_by", "") == "address" else "estimated")
        notes.append(f"{what}, sample interval "
                     + format_size(stats.sample_interval))
    return f" ({'; '.join(notes)})" if notes else ""


def format_time(timestamp) -> str:
    """Write the time of a snapshot, to the second."""
    if timestamp is None:
        return "unknown time"
    return f"{timestamp:%Y-%m-%d %H:%M:%S}"


def printable(text: str) -> str:
    """Write what could upset a terminal as an escape sequence of Python."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else
                   c.encode("unicode_escape").decode() for c in text)


def format_filename(name: str | None, parts: int) -> str:
    """Write the last parts of a file name."""
    if not name or name == "<unknown>":
        return "???"
    pieces = printable(name).split(os.sep)
    if len(pieces) > parts:
        pieces = ["...", *pieces[len(pieces) - parts:]]
    return os.sep.join(pieces)


def format_place(name: str | None, line: int | None, parts: int) -> str:
    """Write a file name and a line number."""
    return f"{format_filename(name, parts)}:{line or '?'}"


def format_traceback(frames, parts: int) -> list[str]:
    """Write a traceback, the most recent call first, with its source."""
    import linecache
    lines = ["Traceback (most recent call first):"]
    for name, line in frames:
        lines.append(f'  File "{format_filename(name, parts)}",'
                     f" line {line or '?'}")
        source = linecache.getline(name, line).strip() if name and line else ""
        if source:
            lines.append("    " + printable(source))
    return lines


def format_metric(value: float, format: str, sign: bool = False) -> str:
    """Write the value of a metric."""
    plus = "+" if sign else ""
    if format == "size":
        return format_size(value, sign)
    if format == "percent":
        return f"{round(value * 100, 1) + 0.0:{plus}.1f}%"
    return f"{int(value):{plus}d}"


def wants_color(file) -> bool:
    """Whether colours suit a file, and the user has not said otherwise."""
    environ = {} if sys.flags.ignore_environment else os.environ
    if environ.get("PYTHON_COLORS") in ("0", "1"):
        return environ["PYTHON_COLORS"] == "1"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("TERM") == "dumb":
        return False
    try:
        return file.isatty()
    except (AttributeError, ValueError):
        return False


@public
class DisplayTop:
    """Displays which places hold most memory, and how that changes.

    Attributes, all of which can be changed:

    size, count, average   whether to show these; all True
    metrics                whether to show the metrics; True
    filename_parts         how many parts of a file name to show; 3
    color                  True, False, or None: if the file is a terminal
    compare_to_previous    compare to the previous top (True) or the first
    previous_top_stats     what the next top is compared to, a GroupedStats
    """

    def __init__(self):
        self.size = True
        self.count = True
        self.average = True
        self.metrics = True
        self.filename_parts = 3
        self.color = None
        self.compare_to_previous = True
        self.previous_top_stats = None

    def display(self, count: int = 10, group_by: str = "line",
                cumulative: bool = False, file=None, callback=None
                ) -> Snapshot:
        """Take a snapshot, display its top *count* places, and return it.

        *group_by* and *cumulative* are those of Snapshot.top_by(); *file* is
        sys.stdout unless given.  *callback*, if not None, is called with the
        snapshot before it is displayed, for example to add metrics.
        """
        cumulative = cumulative and get_traceback_limit() > 1
        traces = cumulative or group_by in ("address", "traceback")
        snapshot = Snapshot.create(traces=traces, metrics=self.metrics)
        if callback is not None:
            callback(snapshot)
        self.display_snapshot(snapshot, count, group_by, cumulative, file)
        return snapshot

    def display_snapshot(self, snapshot: Snapshot, count: int = 10,
                         group_by: str = "line", cumulative: bool = False,
                         file=None) -> None:
        """Display the top *count* places of a snapshot."""
        self.display_top_stats(snapshot.top_by(group_by, cumulative), count,
                               file)

    def display_top_stats(self, top_stats: GroupedStats, count: int = 10,
                          file=None) -> None:
        """Display the top of statistics, compared to previous_top_stats.

        Statistics that are grouped in another way are not compared.
        """
        previous = self.previous_top_stats
        if previous is not None and _kind(previous) != _kind(top_stats):
            previous = None     # nothing to compare, the keys are others
        self.display_top_diff(top_stats.compare_to(previous), count, file)

    def display_top_diff(self, top_diff: StatsDiff, count: int = 10,
                         file=None) -> None:
        """Display the top of differences, which are sorted by that."""
        if file is None:
            file = sys.stdout
        page = _Page(self, top_diff,
                     wants_color(file) if self.color is None else self.color)
        file.write("\n".join(page.lines(count)) + "\n")
        flush = getattr(file, "flush", None)
        if flush is not None:
            flush()
        if self.compare_to_previous or self.previous_top_stats is None:
            self.previous_top_stats = top_diff.new_stats


def _kind(stats):
    """What two statistics must agree in to be compared."""
    return _HEADINGS.get(stats.group_by, stats.group_by), stats.cumulative


class _Page:
    """The text of one top."""

    def __init__(self, options, diff, color):
        self._options, self._diff, self._color = options, diff, color
        self._new, self._old = diff.new_stats, diff.old_stats
        self._count = options.count and self._new.group_by != "address"

    def lines(self, count):
        """Yield the lines of text, with the *count* biggest entries."""
        self._diff.sort()
        entries = self._diff.differences
        shown, others = entries[:count], entries[count:]
        yield self._heading(len(shown))
        for number, entry in enumerate(shown, 1):
            place, *more = self._key(entry[4])
            yield f"#{number}: {place}: {self._sums(entry)}"
            yield from more
        if others:
            total = _total(others, self._new.cumulative)
            yield f"{len(others)} more: {self._sums(total)}"
        if not self._new.cumulative:
            total = self._sums(_total(entries, False))
            sampled = getattr(self._new, "sample_interval", 1) > 1
            blocks = sampled and self._new.group_by == "address"
            yield ("Sampled blocks: " if blocks else
                   "Traced Python memory: ") + total
        lost = getattr(self._new, "lost", 0)
        if lost:
            yield (f"Lost: {lost} trace{'s' if lost > 1 else ''}, because the "
                   "tracer could get no memory")
        if self._options.metrics:
            yield from self._metric_lines()
        yield ""

    def _heading(self, number):
        word = "Cumulative top" if self._new.cumulative else "Top"
        text = (f"{format_time(self._new.timestamp)}: {word} {number} "
                f"allocations per {_kind(self._new)[0]}"
                + format_sampling(self._new))
        if self._old is not None:
            text += f" (compared to {format_time(self._old.timestamp)})"
        return text

    def _key(self, key):
        parts = self._options.filename_parts
        if self._new.group_by == "address":
            return [f"memory block 0x{key:x}"]
        if self._new.group_by == "filename":
            return [format_filename(key, parts)]
        if self._new.group_by == "traceback":
            first, *rest = key or ((None, None),)
            return [format_place(*first, parts),
                    *(f"    {format_place(*frame, parts)}" for frame in rest)]
        return [format_place(*key, parts)]

    def _strong(self, text):
        return f"{_STRONG}{text}{_NORMAL}" if self._color else text

    def _size(self, entry):
        size_diff, size = entry[:2]
        text = (self._strong(format_size(size))
                + format_error(getattr(entry, "stderr", None)))
        if self._old is not None:
            error = format_error(getattr(entry, "diff_stderr", None))
            text += f" ({self._strong(format_size(size_diff, True))}{error})"
        return text

    def _sums(self, entry):
        size, count_diff, count = entry[1:4]
        parts = []
        if self._options.size and (self._count or self._options.average):
            parts.append("size=" + self._size(entry))
        if self._count:
            text = f"count={count}"
            if self._old is not None:
                text += f" ({self._strong(f'{count_diff:+d}')})"
            parts.append(text)
        if self._options.average and count > 1:
            parts.append(f"average={format_size(size // count)}")
        return ", ".join(parts) or self._size(entry)

    def _metric_lines(self):
        new = self._new.metrics or {}
        old = (self._old.metrics or {}) if self._old is not None else {}
        if new:
            yield ""
        for name in sorted(new):
            metric, before = new[name], old.get(name)
            text = format_metric(metric.value, metric.format)
            if metric.format == "size":
                text = self._strong(text)
            if before is not None:
                more = format_metric(metric.value - before.value,
                                     metric.format, True)
                text += f" ({self._strong(more)})"
            yield f"{printable(name)}: {text}"


def _total(entries, cumulative):
    """The sum of differences, without a key.

    The errors of cumulative ones are not independent and do not add up.
    """
    columns = zip(*(entry[:4] for entry in entries))
    total = (*map(sum, columns),) or (0, 0, 0, 0)
    errors = [(entry.stderr, entry.diff_stderr) for entry in entries
              if isinstance(entry, EstimatedDifference)]
    if errors and not cumulative:
        total = EstimatedDifference(total)
        total.stderr, total.diff_stderr = map(joint_stderr, zip(*errors))
    return total
