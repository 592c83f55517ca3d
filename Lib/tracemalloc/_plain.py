"""Sums over traces in plain Python.

For traces that the engine's columns cannot hold: snapshots that somebody put
together by hand from values no tracer would give, such as sizes that are not
whole numbers or line numbers below zero.  PlainColumns answers as
_tracemalloc.Columns does, and owns the list of tuples it is given.

The functions beside it work on sums from anywhere, by the orders of 3.13.
"""

UNKNOWN = "<unknown>"


def draft_frame(frame: tuple) -> tuple:
    """A frame in the terms of PEP 454: what is unknown is None."""
    name, line = frame
    return (None if name == UNKNOWN else name), (line or None)


def difference(new: dict, old: dict) -> list[tuple]:
    """Compare two {key: (size, count)}, in no particular order.

    The entries are (size_diff, size, count_diff, count, key).
    """
    entries = []
    for key, (size, count) in new.items():
        size_before, count_before = old.get(key, (0, 0))
        entries.append((size - size_before, size,
                        count - count_before, count, key))
    entries += ((-size, 0, -count, 0, key)
                for key, (size, count) in old.items() if key not in new)
    return entries


def biggest_first(groups) -> list[tuple]:
    """Sort (frames, size, count): by size, count, and the oldest call."""
    return sorted(groups, reverse=True,
                  key=lambda group: (*group[1:], group[0][::-1]))


def biggest_changes_first(entries) -> list[tuple]:
    """Sort what difference() returned, which had frames as keys.

    The result has (frames, size, size_diff, count, count_diff).
    """
    def magnitude(entry):
        size_diff, size, count_diff, count, frames = entry
        return abs(size_diff), size, abs(count_diff), count, frames[::-1]
    return [(frames, size, size_diff, count, count_diff) for
            size_diff, size, count_diff, count, frames
            in sorted(entries, key=magnitude, reverse=True)]


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

    def __getitem__(self, index):
        return self._rows[index]

    def trace(self, index, draft=False):
        row = self._rows[index]
        return (row[1], tuple(map(draft_frame, row[2]))) if draft else row

    def tolist(self):
        return list(self._rows)

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
        chosen = frames if cumulative else frames[:1] or ((UNKNOWN, 0),)
        if key == "filename":
            return [((frame[0], 0),) for frame in chosen]
        return [(frame,) for frame in chosen]

    def group(self, key, cumulative=False, draft=False):
        if key == "address":
            if self._addresses is None:
                raise ValueError("need addresses")
            return sorted((address, row[1], 1) for address, row
                          in zip(self._addresses, self._rows))
        sums = {}
        for _, size, frames, *_ in self._rows:
            for found in self._keys(frames, key, cumulative):
                entry = sums.setdefault(found, [0, 0])
                entry[0] += size
                entry[1] += 1
        if draft:
            return [(_draft_key(key, found), *sum_)
                    for found, sum_ in sums.items()]
        return biggest_first((found, *sum_) for found, sum_ in sums.items())

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
