"""Traces that the engine's columns cannot hold, grouped in plain Python.

Only for snapshots that somebody put together by hand from values no tracer
would give: sizes that are not whole numbers or do not fit, line numbers
below zero, and the like.  PlainColumns has the reading half of what
_tracemalloc.Columns has, and owns the list of tuples it is given.
"""

UNKNOWN = "<unknown>"


def draft_frame(frame: tuple) -> tuple:
    """A frame in the terms of PEP 454: what is unknown is None."""
    name, line = frame
    return (None if name == UNKNOWN else name), (line or None)


class PlainColumns:
    """The rows (domain, size, frames, total_nframe) of odd traces."""

    has_traces = True
    lost = 0

    def __init__(self, rows, addresses, traceback_limit, error=None):
        self._rows = [row if len(row) > 3 else (*row, None) for row in rows]
        self._addresses = addresses
        self.traceback_limit = traceback_limit
        self.error = error

    def __len__(self):
        return len(self._rows)

    @property
    def has_addresses(self):
        return self._addresses is not None

    @property
    def total_size(self):
        return sum(row[1] for row in self._rows)

    def trace(self, index):
        return self._rows[index]

    def address(self, index):
        return self._addresses[index]

    def get_by_address(self, address):
        try:
            return self._addresses.index(address)
        except (ValueError, AttributeError):
            return -1

    def _keys(self, frames, key, cumulative):
        if key == "traceback":
            return (frames,)
        chosen = frames if cumulative else frames[:1]
        if key == "filename":
            return [((frame[0], 0),) for frame in chosen]
        return [(frame,) for frame in chosen]

    def group(self, key, cumulative=False, draft=False):
        if key == "address":
            if self._addresses is None:
                raise ValueError("need addresses")
            sizes = [row[1] for row in self._rows]
            return list(zip(self._addresses, sizes, [1] * len(sizes)))
        sums = {}
        for _, size, frames, *_ in self._rows:
            for found in self._keys(frames, key, cumulative):
                entry = sums.setdefault(found, [0, 0])
                entry[0] += size
                entry[1] += 1
        if draft:
            return [(_draft_key(key, found), *sum_)
                    for found, sum_ in sums.items()]
        return [(found, *sum_) for found, sum_ in sums.items()]

    def stats(self):
        lines = {}
        for (name, line), size, count in self.group("lineno", draft=True):
            lines.setdefault(name, {})[line] = (size, count)
        return lines

    def pack(self):
        raise self.error or ValueError("these traces cannot be packed")


def _draft_key(key, frames):
    if key == "traceback":
        return tuple(map(draft_frame, frames))
    name, line = draft_frame(frames[0])
    return name if key == "filename" else (name, line)
