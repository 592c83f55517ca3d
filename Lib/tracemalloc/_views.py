"""The traces of a snapshot, as the user sees them.

The data is in columns which belong to C (_tracemalloc.Columns, immutable);
_Traces and TraceMap show them as a sequence and as a mapping, and build the
tuples when somebody looks.  columns_of() goes the other way: it makes columns
of whatever a user has put into a snapshot.
"""

from _collections_abc import Mapping, Sequence
from _tracemalloc import Columns
from ._frames import Trace, public
from ._plain import UNKNOWN, PlainColumns, draft_frame


@public
class _Traces(Sequence):
    """The traces of a snapshot: a sequence of Trace objects.

    Made from columns, or from a list or tuple of traces in their tuple form,
    which is kept and may still be changed by whoever made it.
    """

    def __init__(self, traces):
        if isinstance(traces, (Columns, PlainColumns)):
            self._columns, self._raw = traces, None
        else:
            self._columns, self._raw = None, traces
        self._built_from = None

    @property
    def _traces(self):
        # Whoever asks for this list may change it: from now on it is what
        # counts, and the columns only as long as they agree with it.
        if self._raw is None:
            self._raw = self._columns.tolist()
            self._built_from = self._raw.copy()
        return self._raw

    def _rows(self):
        return self._columns if self._raw is None else self._raw

    def _as_columns(self, limit, interval):
        raw = self._raw
        if raw is None:
            return self._columns
        if (self._columns is None or self._built_from != raw
                or self._columns.sample_interval != interval):
            self._columns = build(raw, None, limit, interval)
            self._built_from = raw.copy() if isinstance(raw, list) else raw
        return self._columns

    def __len__(self):
        return len(self._rows())

    def __getitem__(self, index):
        rows = self._rows()
        if isinstance(index, slice):
            if self._raw is not None:
                return tuple(map(Trace, rows[index]))
            chosen = range(len(rows))[index]
            return tuple(Trace(rows[i]) for i in chosen)
        return Trace(rows[index])

    def __iter__(self):
        return map(Trace, self._rows())

    def __contains__(self, trace):
        return trace._trace in self._rows()

    def __eq__(self, other):
        if not isinstance(other, _Traces):
            return NotImplemented
        return len(self) == len(other) and all(
            a == b for a, b in zip(self._rows(), other._rows()))

    def __repr__(self):
        return f"<Traces len={len(self)}>"

    def __copy__(self):
        return _Traces(self._rows())

    def __deepcopy__(self, memo):
        return _Traces(self._columns if self._raw is None
                       else type(self._raw)(self._raw))

    # The state is the one that stock pickles have.

    def __getstate__(self):
        return {"_traces": self._columns.tolist() if self._raw is None
                else self._raw}

    def __setstate__(self, state):
        self.__init__(state["_traces"])


class TraceMap(Mapping):
    """The traces of a snapshot by address: {address: (size, traceback)}.

    A traceback is a tuple of (filename, lineno), the most recent call first;
    what is unknown is None.  The mapping cannot be changed; dict() makes a
    copy that can.
    """

    def __init__(self, columns):
        self._columns = columns

    def __len__(self):
        return len(self._columns)

    def __iter__(self):
        return map(self._columns.address, range(len(self._columns)))

    def _find(self, address):
        return (self._columns.get_by_address(address)
                if isinstance(address, int) and address >= 0 else -1)

    def __contains__(self, address):
        return self._find(address) >= 0

    def __getitem__(self, address):
        index = self._find(address)
        if index < 0:
            raise KeyError(address)
        return self._columns.trace(index, True)

    def __repr__(self):
        return f"<Traces by address len={len(self)}>"

    def __reduce__(self):
        return dict, (dict(self),)

    def __copy__(self):
        return TraceMap(self._columns)

    def __deepcopy__(self, memo):
        return TraceMap(self._columns)


def draft_frames(frames: tuple) -> tuple:
    """A traceback in the terms of PEP 454: what is unknown is None."""
    if all(line and name != UNKNOWN for name, line in frames):
        return frames
    return tuple(map(draft_frame, frames))


def build(rows, addresses, limit: int, interval: int = 1):
    """Make columns of traces in their tuple form, odd ones included.

    What was sampled cannot be odd.
    """
    try:
        return Columns.from_traces(rows, addresses, limit, interval)
    except (TypeError, ValueError, OverflowError) as error:
        if interval > 1:
            raise
        if addresses is not None:
            addresses = list(addresses)
        return PlainColumns(rows, addresses, limit, error)


def _row(entry):
    return entry._trace if isinstance(entry, Trace) else entry


def interval_of(traces) -> int | None:
    """The sample interval of traces that know it, or None."""
    if isinstance(traces, (_Traces, TraceMap)) and traces._columns is not None:
        return traces._columns.sample_interval
    return None


def columns_of(traces, limit: int, interval: int = 1):
    """Columns of the traces that somebody put into a snapshot, or None.

    *traces* is one of the views, None, a mapping as PEP 454 describes it, or
    any iterable of Trace objects or of their tuple forms.  *interval* is that
    of their samples, for those that do not know it themselves.
    """
    if traces is None:
        return None
    if isinstance(traces, _Traces):
        return traces._as_columns(limit, interval)
    if isinstance(traces, TraceMap):
        return traces._columns
    if isinstance(traces, Mapping):
        rows = [(0, size, tuple(map(tuple, traceback)), len(traceback))
                for size, traceback in traces.values()]
        return build(rows, list(traces), limit, interval)
    return build(list(map(_row, traces)), None, limit, interval)
