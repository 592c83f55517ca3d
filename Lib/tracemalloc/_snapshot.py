"""Snapshot: what was allocated at one moment, and the questions about it.

A snapshot holds its traces in one of the two views of _views.py, in whatever
container the user has put there instead, or not at all.  All grouping and
filtering is done by the columns behind them, in C; this file only words the
answers in the terms of 3.13 or of PEP 454.

The package imports this file at once, so that a first snapshot does not add
its own machinery to what the program holds.  What only PEP 454 needs (times,
metrics, files) is imported where it is used.
"""

import os
import sys
import time
from _collections_abc import Mapping
from _tracemalloc import (Columns, Estimate, _freeze, _freeze_peak,
                          is_enabled)
from ._filters import Ask, rule_of
from ._frames import Traceback, public
from ._plain import (UNKNOWN, biggest_changes_first, biggest_first,
                     difference, stderr_of)
from ._stats import GroupedStats, Statistic, StatisticDiff, add_up
from ._views import (TraceMap, _Traces, columns_of, draft_frames,
                     interval_of)

TYPE_CHECKING = False           # of typing, whose import takes long
if TYPE_CHECKING:
    import datetime
    from ._metrics import Metric

# Attributes that are not written to files under their own names.
PRIVATE = ("_held", "_rows", "_interval", "_stats", "_derived", "_when")
# What a file for stock Python has besides what that knows: the traces as
# Columns.pack() gave them.
PACKED = "_packed"

# What PEP 454 and 3.13 call the same grouping.
_GROUPINGS = {"filename": "filename", "line": "lineno", "lineno": "lineno",
              "address": "address", "traceback": "traceback"}


@public
class Snapshot:
    """All traced memory blocks, as they were at one moment.

    take_snapshot() and Snapshot.create() make one from the running program,
    load() reads one from a file.  By hand, Snapshot(timestamp, pid,
    traces=None, stats=None, metrics=None) makes one in the terms of PEP 454,
    and Snapshot(traces, traceback_limit) one in those of Python 3.13; which
    is meant is seen from the first argument, a datetime or not.

    These attributes can be read and changed freely:

    traces          a sequence of Trace objects, or a mapping {address: (size,
                    traceback)}, or None; all methods work with any of them
    stats           {filename: {lineno: (size, count)}}; those of the traces,
                    unless set otherwise
    traceback_limit how many frames a traceback can have
    timestamp       when it was made, a datetime, or None if not known
    pid             the process that made it, or None if not known
    metrics         {name: Metric}
    lost            how many traces are missing because the tracer could get
                    no memory for them

    Two more can only be read:

    sample_interval 1 if every block was traced.  Else one block in so many
                    bytes was: the traces are these blocks with their own
                    sizes, and all sums are estimates
    peak            whether it shows not the moment when it was made, but when
                    most memory was in use: peak_size bytes
    """

    def __init__(self, *args, **kwargs):
        if "timestamp" in kwargs or (args and _is_time(args[0])):
            self._init_draft(*args, **kwargs)
        else:
            self._init_stock(*args, **kwargs)

    def _start(self, traces, limit, timestamp, pid):
        self._held, self._stats, self._derived = traces, None, None
        self._rows, self._interval = None, interval_of(traces) or 1
        self.peak_size = None
        self.traceback_limit = limit
        self._when, self.pid = timestamp, pid
        self.metrics = {}
        self.lost = 0

    def _init_stock(self, traces, traceback_limit):
        if not isinstance(traces, _Traces):
            traces = _Traces(traces)
        self._start(traces, traceback_limit, time.time(), os.getpid())

    def _init_draft(self, timestamp, pid, traces=None, stats=None,
                    metrics=None):
        self._start(traces, 1, timestamp, pid)
        if traces is not None:
            self.traceback_limit = _longest(traces)
        self._stats = stats
        if metrics is not None:
            self.metrics = metrics

    def __repr__(self):
        held = "no" if self._held is None else len(self._held)
        if self._interval > 1:
            held = f"{held} sample_interval={self._interval}"
        if self.peak:
            held = f"{held} peak_size={self.peak_size}"
        return f"<Snapshot timestamp={self.timestamp!s} traces={held}>"

    @property
    def sample_interval(self) -> int:
        """Mean number of bytes from one trace to the next; 1: all are there."""
        return self._interval

    @property
    def peak(self) -> bool:
        """Whether this is what was traced at the last peak."""
        return self.peak_size is not None

    @property
    def timestamp(self) -> "datetime.datetime | None":
        """When the snapshot was made; None if that is not known."""
        if type(self._when) is float:
            from datetime import datetime
            self._when = datetime.fromtimestamp(self._when)
        return self._when

    @timestamp.setter
    def timestamp(self, timestamp):
        self._when = timestamp

    # -- traces and statistics, each of which may be missing ---------------

    @property
    def traces(self):
        """The traces: a sequence, a mapping, or None.

        There are none of a peak, of which only sums are known.
        """
        return self._held

    @traces.setter
    def traces(self, traces):
        if traces is None and self._held is not None:
            self._stats = self.stats
        if traces is not None:
            self._rows = self.peak_size = None
            self._interval = interval_of(traces) or self._interval
        self._held, self._derived = traces, None

    @property
    def stats(self) -> dict | None:
        """Sums by file and line: {filename: {lineno: (size, count)}}."""
        if self._stats is not None:
            return self._stats
        if self._derived is not None:
            return self._derived
        columns = self._columns()
        if columns is None:
            return {}
        found = columns.stats()
        if self._held is None or isinstance(self._held, TraceMap):
            self._derived = found   # nobody can change those traces
        return found

    @stats.setter
    def stats(self, stats):
        self._stats, self._derived = stats, None

    def _columns(self):
        if self._rows is not None:
            return self._rows
        return columns_of(self._held, self.traceback_limit, self._interval)

    def _show(self, columns, mapping: bool):
        """Hold other columns, in a view of either kind if they are traces."""
        self._interval, self.peak_size = (columns.sample_interval,
                                          columns.peak_size)
        if columns.peak_size is not None:
            self._rows, self._held = columns, None
        else:
            self._rows = None
            self._held = TraceMap(columns) if mapping else _Traces(columns)

    def _need_columns(self):
        columns = self._columns()
        if columns is None:
            raise ValueError("need traces")
        return columns

    # -- in the terms of 3.13 ----------------------------------------------

    def _groups(self, key_type, cumulative) -> list[tuple]:
        """The sums for a key type of 3.13, the biggest first.

        The entries are (frames, size, count); the standard error of the size
        follows if they are estimates.
        """
        _check_key_type(key_type, cumulative)
        columns = self._columns()
        if columns is not None:
            return columns.group(key_type, bool(cumulative))
        if cumulative or key_type == "traceback":
            raise ValueError("need traces")
        return biggest_first(
            (((UNKNOWN if name is None else name, line or 0),), *_spread(sums))
            for name, line, sums in self._lines(key_type))

    def _lines(self, key_type):
        """Walk over the statistics by line, or summed up by file."""
        for name, lines in self.stats.items():
            if key_type == "lineno":
                for line, sums in lines.items():
                    yield name, line, sums
            else:
                yield name, 0, add_up(lines.values())

    def _group_by(self, key_type, cumulative):
        grouped = {}
        for frames, *sums in self._groups(key_type, cumulative):
            place = Traceback(frames)
            grouped[place] = Statistic(place, *sums)
        return grouped

    def statistics(self, key_type: str, cumulative: bool = False
                   ) -> list[Statistic]:
        """Return sums by *key_type*, the biggest first.

        The key type is "filename", "lineno" (file and line) or "traceback".
        With *cumulative*, a block counts for every call in its traceback and
        not only for the most recent; not possible for "traceback".
        """
        return [Statistic(Traceback(frames), *sums) for
                frames, *sums in self._groups(key_type, cumulative)]

    def compare_to(self, old_snapshot: "Snapshot", key_type: str,
                   cumulative: bool = False) -> list[StatisticDiff]:
        """Return how the sums differ from those of an older snapshot.

        The list has StatisticDiff objects, the biggest change of size first;
        *key_type* and *cumulative* are those of statistics().
        """
        return [StatisticDiff(Traceback(frames), *rest) for frames, *rest
                in self._changes(old_snapshot, key_type, cumulative)]

    def _changes(self, old, key_type, cumulative):
        """Entries (frames, size, size_diff, count, count_diff), sorted.

        For estimates, the standard errors of size and size_diff follow.
        """
        if isinstance(old, Snapshot):
            _check_key_type(key_type, cumulative)
            pair = self._columns(), old._columns()
            if all(isinstance(columns, Columns) for columns in pair):
                return pair[0].compare(pair[1], key_type, bool(cumulative))
            before = old._groups(key_type, cumulative)
        else:
            before = [(place._frames[::-1], sums.size, sums.count,
                       stderr_of(sums)) for
                      place, sums in old._group_by(key_type, cumulative).items()]
        return biggest_changes_first(difference(
            _by_key(self._groups(key_type, cumulative)), _by_key(before)))

    def filter_traces(self, filters) -> "Snapshot":
        """Return a new snapshot of the traces that pass the filters.

        *filters* is an iterable of Filter and DomainFilter objects, or of
        filters of your own (see BaseFilter).  A trace passes when no
        exclusive filter is against it and, if there are inclusive filters,
        at least one of them is for it.  Without filters, a copy.
        """
        try:
            filters = list(filters)
        except TypeError:
            raise TypeError("filters must be a list of filters, not "
                            + type(filters).__name__) from None
        columns = _filtered(self._need_columns(), filters, draft=False)
        new = Snapshot((), self.traceback_limit)
        new._show(columns, isinstance(self._held, Mapping))
        new._when, new.pid = self._when, self.pid
        new.metrics, new.lost = dict(self.metrics), self.lost
        return new

    # -- in the terms of PEP 454 -------------------------------------------

    @classmethod
    def create(cls, traces: bool = False, metrics: bool = True,
               peak: bool = False) -> "Snapshot":
        """Take a snapshot; *traces* says whether of all blocks, or of sums.

        Without traces there are only the sums by line, which is cheap and
        takes little room.  With *metrics*, all add_*_metrics() methods are
        called.  With *peak*, the snapshot shows what was traced when that was
        most: sums by traceback, but no single blocks, whatever *traces* says.
        RuntimeError if memory is not being traced.
        """
        if not is_enabled():
            raise RuntimeError("the tracemalloc module must be enabled to "
                               "take a snapshot")
        return snapshot_of(_freeze_peak() if peak else _freeze(bool(traces)),
                           mapping=True, metrics=metrics, cls=cls)

    def top_by(self, group_by: str, cumulative: bool = False) -> GroupedStats:
        """Return sums as a GroupedStats object.

        group_by      key
        "filename"    the file name
        "line"        (filename, lineno); also called "lineno"
        "address"     the address of the block
        "traceback"   a tuple of (filename, lineno), most recent call first

        With *cumulative*, a block counts for every call in its traceback;
        that changes nothing for addresses, or when tracebacks have only one
        frame.  ValueError if it takes traces and there are none.
        """
        kind = _GROUPINGS.get(group_by)
        if kind is None:
            raise ValueError(f"unknown group_by value: {group_by!r}")
        if cumulative and kind == "traceback":
            raise ValueError("cumulative statistics cannot be grouped by "
                             "traceback")
        columns = self._columns()
        if columns is None and (cumulative or kind in ("address", "traceback")):
            raise ValueError("need traces")
        if kind == "address" and self._rows is not None:
            raise ValueError("need traces: the blocks of a peak are not known")
        if kind == "address" or self.traceback_limit < 2:
            cumulative = False
        by_place = kind in ("filename", "lineno") and not cumulative
        if columns is None or (by_place and self._stats is not None):
            sums = {name if kind == "filename" else (name, line): found
                    for name, line, found in self._lines(kind)}
        else:
            sums = _by_key(columns.group(kind, bool(cumulative), True))
        grouped = GroupedStats(self.timestamp, sums, group_by,
                               bool(cumulative), self.metrics)
        grouped.lost, grouped.peak = self.lost, self.peak
        grouped.sample_interval = self.sample_interval
        return grouped

    def apply_filters(self, filters) -> None:
        """Keep only what passes the filters, in the traces and the stats.

        As filter_traces(), but the snapshot itself changes.  Statistics that
        were not made from the traces know only the most recent call, so that
        is all that filters can look at there.
        """
        filters = list(filters)
        if not filters:
            return
        stats = self._stats
        if stats is not None:
            ask = Ask(filters)
            kept = {name: {line: sums for line, sums in lines.items()
                           if ask.keeps_line(name, line)}
                    for name, lines in stats.items()}
            stats = {name: lines for name, lines in kept.items() if lines}
        columns = self._columns()
        if columns is not None:
            self._show(_filtered(columns, filters, draft=True),
                       isinstance(self._held, Mapping))
        self._stats, self._derived = stats, None

    def add_metric(self, name: str, value: float, format: str) -> "Metric":
        """Add a Metric of this name, value and format, and return it.

        ValueError if the snapshot has one of that name.
        """
        from ._metrics import Metric
        if name in self.metrics:
            raise ValueError(f"there is already a metric named {name!r}")
        metric = self.metrics[name] = Metric(name, value, format)
        return metric

    def _add_metrics(self, kind, *arguments):
        from . import _metrics
        readings = getattr(_metrics, f"read_{kind}")(*arguments)
        for name, (value, format) in readings.items():
            self.add_metric(name, value, format)

    def get_metric(self, name: str, default=None):
        """Return the value of a metric, or *default* if there is none."""
        metric = self.metrics.get(name)
        return default if metric is None else metric.value

    def add_gc_metrics(self) -> None:
        """Add gc.objects, the number of objects the collector knows."""
        self._add_metrics("gc")

    def add_process_memory_metrics(self) -> None:
        """Add process_memory.rss and .vms, if the platform tells them."""
        self._add_metrics("process_memory")

    def add_pymalloc_metrics(self) -> None:
        """Add pymalloc.blocks, and what pymalloc counts if it is used:

        pymalloc.size, .max_size, .allocated, .free, .fragmentation.
        """
        self._add_metrics("pymalloc")

    def add_tracemalloc_metrics(self) -> None:
        """Add what the tracer holds, and what it takes itself.

        tracemalloc.traced.size, .traced.max_size, .arena_size, .module.size,
        .module.free, .module.fragmentation; and tracemalloc.traces, the
        number of traces, if the snapshot has them.
        """
        count = None if self._held is None else len(self._held)
        self._add_metrics("tracer", count)

    def add_unicode_metrics(self) -> None:
        """Add unicode_interned.size and .len: the table of interned strings."""
        self._add_metrics("unicode")

    # -- files and copies --------------------------------------------------

    def write(self, filename) -> None:
        """Write the snapshot to a file, in the compact form of this module.

        The file gets its name only when it is complete.  Only Snapshot.load()
        of this module can read it.
        """
        from ._files import write
        write(self, filename)

    def dump(self, filename) -> None:
        """Write the snapshot to a file that stock Python 3.13 can load.

        The file gets its name only when it is complete.  Stock Python sees a
        sampled block as one that is as large as all that it stands for, and
        the blocks of a peak that have the same traceback as one: the sizes
        are right there, the counts are not.  Snapshot.load() of this module
        gets back what was known.
        """
        from ._files import dump
        dump(self, filename)

    @classmethod
    def load(cls, filename, traces: bool = True) -> "Snapshot":
        """Read a snapshot that write() or dump() wrote, here or elsewhere.

        With *traces* false, only the statistics are kept.  Nothing in the
        file is ever executed; ValueError if it is not a whole snapshot.
        """
        from ._files import load
        return load(cls, filename, traces)

    def __getstate__(self):
        state = {name: value for name, value in vars(self).items()
                 if name not in PRIVATE}
        state["traces"], state["stats"] = self._held, self._stats
        if self._interval > 1:
            state["sample_interval"] = self._interval
        if self.peak_size is None:
            state.pop("peak_size", None)
        if self._rows is not None:
            state[PACKED] = self._rows.pack()
        state["timestamp"] = self.timestamp
        state["metrics"] = {
            name: (metric.value, metric.format)
            if hasattr(metric, "format") else metric
            for name, metric in self.metrics.items()}
        return state

    def __setstate__(self, state):
        state = dict(state)
        self._start(state.pop("traces"), 1, state.pop("timestamp", None),
                    None)
        self._stats = state.pop("stats", None)
        self._interval = state.pop("sample_interval", 1)
        packed = state.pop(PACKED, None)
        if packed is not None:
            self._show(Columns.unpack(packed), False)
        for name, value in state.pop("metrics", {}).items():
            if isinstance(value, tuple):
                self.add_metric(name, *value)
            else:
                self.metrics[name] = value
        vars(self).update(state)


def snapshot_of(columns, mapping: bool, metrics: bool = False,
                cls: type = Snapshot) -> Snapshot:
    """Make a snapshot of what the engine has frozen just now."""
    if mapping:
        from datetime import datetime
        snapshot = cls(datetime.now(), os.getpid())
        snapshot.traceback_limit = columns.traceback_limit
    else:
        snapshot = cls((), columns.traceback_limit)
    if columns.has_traces:
        snapshot._show(columns, mapping)
    else:
        snapshot.stats = columns.stats()
        snapshot._interval = columns.sample_interval
    snapshot.lost = columns.lost
    if metrics:
        # The tracer first, before reading the others adds to its figures.
        snapshot.add_tracemalloc_metrics()
        snapshot.add_gc_metrics()
        snapshot.add_process_memory_metrics()
        snapshot.add_pymalloc_metrics()
        snapshot.add_unicode_metrics()
    return snapshot


def _is_time(value) -> bool:
    module = sys.modules.get("datetime")
    return module is not None and isinstance(value, module.datetime)


def _longest(traces) -> int:
    """Length of the longest traceback, at least 1."""
    if isinstance(traces, TraceMap):
        return max(traces._columns.traceback_limit, 1)
    if isinstance(traces, _Traces):
        lengths = map(len, (row[2] for row in traces._rows()))
    else:
        lengths = (len(traceback) for _, traceback in traces.values())
    return max(lengths, default=1) or 1


def _by_key(groups) -> dict:
    """Make {key: (size, count)} of entries that may end with an error."""
    return {key: (size, count) if not error or error[0] is None
            else Estimate((size, count, *error))
            for key, size, count, *error in groups}


def _spread(sums) -> tuple:
    """Size and count, and the standard error if they are an estimate."""
    error = stderr_of(sums)
    return (*sums,) if error is None else (*sums, error)


def _check_key_type(key_type, cumulative) -> None:
    if key_type not in ("traceback", "filename", "lineno"):
        raise ValueError(f"unknown key_type: {key_type!r}")
    if cumulative and key_type == "traceback":
        raise ValueError("cumulative mode cannot by used with key type "
                         f"{key_type!r}")


def _filtered(columns, filters, draft):
    """New columns of what passes; *draft*: what is unknown matches nothing."""
    rules = list(map(rule_of, filters))
    if None not in rules and isinstance(columns, Columns):
        return columns.filter(rules, draft)
    keeps = Ask(filters, draft_frames if draft else tuple).keeps
    return columns.pick(bytes(bool(keeps(domain, size, frames))
                              for domain, size, frames, _ in columns))
