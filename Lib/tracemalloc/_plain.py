"""Sums over traces in plain Python.

For traces that the engine's columns cannot hold: snapshots that somebody put
together by hand from values no tracer would give, such as sizes that are not
whole numbers or line numbers below zero.  PlainColumns answers as
_tracemalloc.Columns does, and owns the list of tuples it is given.

The functions beside it work on sums from anywhere, by the orders of 3.13.
Sums that were estimated from samples have an attribute stderr.
"""

from _tracemalloc import Estimate

UNKNOWN = "<unknown>"


def draft_frame(frame: tuple) -> tuple:
    """A frame in the terms of PEP 454: what is unknown is None."""
    name, line = frame
    return (None if name == UNKNOWN else name), (line or None)


class EstimatedDifference(tuple):
    """A tuple (size_diff, size, count_diff, count, key) of estimates.

    *stderr* is the standard error of size, None if that is exact;
    *diff_stderr* is that of size_diff.
    """

    stderr: float | None = None
    diff_stderr: float = 0.0


def stderr_of(sums: tuple) -> float | None:
    """Standard error of sums (size, count); None if they are exact."""
    return getattr(sums, "stderr", None)


def joint_stderr(errors) -> float:
    """Standard error of a sum or difference; None stands for no error."""
    return sum(error * error for error in errors if error is not None) ** 0.5


def change(new: tuple, old: tuple, key) -> tuple:
    """Compare two (size, count): (size_diff, size, count_diff, count, key)."""
    entry = new[0] - old[0], new[0], new[1] - old[1], new[1], key
    errors = stderr_of(new), stderr_of(old)
    if errors != (None, None):
        entry = EstimatedDifference(entry)
        entry.stderr, entry.diff_stderr = errors[0], joint_stderr(errors)
    return entry


def difference(new: dict, old: dict) -> list[tuple]:
    """Compare two {key: (size, count)}, in no particular order."""
    nothing = _nothing_like(old)
    entries = [change(sums, old.get(key, nothing), key)
               for key, sums in new.items()]
    nothing = _nothing_like(new)
    entries += [change(nothing, sums, key)
                for key, sums in old.items() if key not in new]
    return entries


def _nothing_like(stats: dict) -> tuple:
    for sums in stats.values():
        return (0, 0) if stderr_of(sums) is None else Estimate((0, 0, 0.0))
    return 0, 0


def biggest_first(groups) -> list[tuple]:
    """Sort (frames, size, count): by size, count, and the oldest call."""
    return sorted(groups, reverse=True,
                  key=lambda group: (*group[1:3], group[0][::-1]))


def biggest_changes_first(entries) -> list[tuple]:
    """Sort what difference() returned, which had frames as keys.

    The result has (frames, size, size_diff, count, count_diff), and for
    estimates the standard errors of size and size_diff after that.
    """
    def magnitude(entry):
        size_diff, size, count_diff, count, frames = entry
        return abs(size_diff), size, abs(count_diff), count, frames[::-1]

    def turned(entry):
        size_diff, size, count_diff, count, frames = entry
        errors = ((entry.stderr, entry.diff_stderr)
                  if isinstance(entry, EstimatedDifference) else ())
        return frames, size, size_diff, count, count_diff, *errors
    return list(map(turned, sorted(entries, key=magnitude, reverse=True)))


class PlainColumns:
    """The rows (domain, size, frames, total_nframe) of odd traces."""

    has_traces = True
    lost = 0
    sample_interval = 1
    peak_size = None

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

    def tolist(self, scaled=False):
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

    def pick(self, keep):
        kept = [i for i, byte in enumerate(keep) if byte]
        addresses = self._addresses
        if addresses is not None:
            addresses = [addresses[i] for i in kept]
        return PlainColumns([self._rows[i] for i in kept], addresses,
                            self.traceback_limit, self.error)

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
