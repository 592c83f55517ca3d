"""Sums of sizes and counts, and the differences between two sets of them.

Statistic and StatisticDiff are the entries of the lists that 3.13's methods
return; GroupedStats and StatsDiff are what PEP 454 has for the same purpose.
All are plain values that belong to whoever asked for them.
"""

from _tracemalloc import Estimate
from ._frames import _format_size, public
from ._plain import change, difference, joint_stderr, stderr_of

TYPE_CHECKING = False           # of typing, whose import takes long
if TYPE_CHECKING:
    import datetime


def _error(stderr: float | None) -> str:
    """How far a size may be off, as text; nothing for exact sizes."""
    return "" if stderr is None else " \N{PLUS-MINUS SIGN}" + _format_size(
        stderr, False)


def _average(record) -> str:
    """The tail of a line of text: the mean size, when there is one."""
    if not record.count:
        return ""
    return f", average={_format_size(record.size / record.count, False)}"


@public
class _Record:
    """Compares and hashes by all that __slots__ names."""

    __slots__ = ()

    def _values(self):
        return tuple(getattr(self, name) for name in self._names)

    def __eq__(self, other):
        if not isinstance(other, self._kin):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self):
        return hash(self._values())


@public
class Statistic(_Record):
    """What one place in the program holds: bytes and number of blocks.

    *traceback* tells the place, *size* the bytes, *count* the blocks.  When
    they are estimated from samples, *stderr* is the standard error of the
    size, else it is None.
    """

    __slots__ = ("traceback", "size", "count", "_stderr")
    _names = ("traceback", "size", "count", "stderr")

    def __init__(self, traceback, size: int, count: int,
                 stderr: float | None = None):
        self.traceback, self.size, self.count = traceback, size, count
        if stderr is not None:
            self._stderr = stderr

    @property
    def stderr(self) -> float | None:
        """Standard error of the size; None if the size is exact."""
        return getattr(self, "_stderr", None)

    def __str__(self):
        size = _format_size(self.size, False)
        if self.stderr is not None:
            size += _error(self.stderr) + " (estimated)"
        return (f"{self.traceback}: size={size}, count={self.count:d}"
                + _average(self))

    def __repr__(self):
        return (f"<Statistic traceback={self.traceback!r}"
                f" size={self.size:d} count={self.count:d}>")

    def _sort_key(self):
        return self.size, self.count, self.traceback


@public
class StatisticDiff(_Record):
    """What one place holds in a newer snapshot, compared to an older one.

    *size* and *count* are those of the newer snapshot; *size_diff* and
    *count_diff* tell how much more than before that is.  *stderr* is the
    standard error of the size, *diff_stderr* that of its difference; None if
    they are exact.
    """

    __slots__ = ("traceback", "size", "size_diff", "count", "count_diff",
                 "_errors")
    _names = ("traceback", "size", "size_diff", "count", "count_diff",
              "stderr", "diff_stderr")

    def __init__(self, traceback, size: int, size_diff: int,
                 count: int, count_diff: int, stderr: float | None = None,
                 diff_stderr: float | None = None):
        self.traceback = traceback
        self.size, self.size_diff = size, size_diff
        self.count, self.count_diff = count, count_diff
        if stderr is not None or diff_stderr is not None:
            self._errors = stderr, diff_stderr

    @property
    def stderr(self) -> float | None:
        """Standard error of the size; None if the size is exact."""
        return getattr(self, "_errors", (None, None))[0]

    @property
    def diff_stderr(self) -> float | None:
        """Standard error of size_diff, None if both sizes are exact.

        Never too small; too large when blocks live in both snapshots.
        """
        return getattr(self, "_errors", (None, None))[1]

    def __str__(self):
        size = _format_size(self.size, False) + _error(self.stderr)
        more = _format_size(self.size_diff, True)
        if self.diff_stderr is not None:
            more += _error(self.diff_stderr) + ", estimated"
        return (f"{self.traceback}: size={size} ({more}),"
                f" count={self.count:d} ({self.count_diff:+d})"
                + _average(self))

    def __repr__(self):
        return (f"<StatisticDiff traceback={self.traceback!r}"
                f" size={self.size:d} ({self.size_diff:+d})"
                f" count={self.count:d} ({self.count_diff:+d})>")

    def _sort_key(self):
        return (abs(self.size_diff), self.size, abs(self.count_diff),
                self.count, self.traceback)


Statistic._kin, StatisticDiff._kin = Statistic, StatisticDiff


def _comparable(key):
    """A key without None, which compares to neither str nor int.

    An unknown file name becomes the empty string, an unknown line 0.
    """
    if key is None:
        return ""
    if isinstance(key, tuple):
        if key and isinstance(key[0], tuple):
            return tuple(map(_comparable, key))
        if len(key) == 2 and None in key:
            name, line = key
            return ("" if name is None else name, 0 if line is None else line)
    return key


def _merged(stats: dict) -> dict:
    """The same sums under comparable keys, which may have become one."""
    merged = {}
    for key, sums in stats.items():
        key = _comparable(key)
        if key in merged:
            sums = add_up((sums, merged[key]))
        merged[key] = sums
    return merged


def add_up(parts) -> tuple:
    """The sum of some (size, count), an Estimate if one of them is."""
    parts = list(parts)
    sums = sum(part[0] for part in parts), sum(part[1] for part in parts)
    errors = [stderr_of(part) for part in parts]
    if all(error is None for error in errors):
        return sums
    return Estimate((*sums, joint_stderr(errors)))


@public
class GroupedStats:
    """The blocks of a snapshot, summed up by file, line or address.

    *stats* is {key: (size, count)}; what the keys are depends on *group_by*,
    see Snapshot.top_by().  *timestamp* and *metrics* are the snapshot's;
    *cumulative* tells whether all calls of a traceback were counted or only
    the most recent one.  *lost* is the number of traces that are missing
    because the tracer had no memory for them.

    If *sample_interval* is above 1, the sums are estimates: tuples
    (size, count) that also have an attribute *stderr*, the standard error of
    the size.  By address there are only the blocks that were drawn, with
    their own sizes.  *peak* tells whether it is about a peak.
    """

    def __init__(self, timestamp: "datetime.datetime", stats: dict,
                 group_by: str, cumulative: bool = False,
                 metrics: dict | None = None):
        self.timestamp, self.stats = timestamp, stats
        self.group_by, self.cumulative = group_by, cumulative
        self.metrics = {} if metrics is None else metrics
        self.lost = 0
        self.sample_interval = 1
        self.peak = False

    def __repr__(self):
        sampled = ("" if self.sample_interval == 1 else
                   f" (estimated) sample_interval={self.sample_interval}")
        return (f"<GroupedStats timestamp={self.timestamp!s}"
                f" group_by={self.group_by!r} len={len(self.stats)}{sampled}>")

    def compare_to(self, old_stats: "GroupedStats | None" = None
                   ) -> "StatsDiff":
        """Return the differences to older statistics, as a StatsDiff.

        Without older statistics there is nothing to differ from: all
        differences are 0.  The list is not sorted, see StatsDiff.sort().
        Keys can be compared to each other: unknown file names are empty
        strings there, and unknown lines 0.
        """
        new = _merged(self.stats)
        if old_stats is None:
            entries = [change(sums, sums[:2], key)
                       for key, sums in new.items()]
        else:
            entries = difference(new, _merged(old_stats.stats))
        return StatsDiff(entries, old_stats, self)


@public
class StatsDiff:
    """The differences between two GroupedStats.

    *differences* is a list of (size_diff, size, count_diff, count, key);
    *old_stats* may be None.
    """

    def __init__(self, differences: list, old_stats: GroupedStats | None,
                 new_stats: GroupedStats):
        self.differences = differences
        self.old_stats, self.new_stats = old_stats, new_stats

    def __repr__(self):
        return f"<StatsDiff len={len(self.differences)}>"

    def sort(self) -> None:
        """Sort the differences, the biggest first.

        What counts is, in this order: how much the size changed, the size,
        how much the count changed, the count, and the key.
        """
        self.differences.sort(key=_magnitude, reverse=True)


def _magnitude(entry):
    size_diff, size, count_diff, count, key = entry
    return abs(size_diff), size, abs(count_diff), count, _comparable(key)
