"""Snapshot files: writing them whole or not at all, reading them warily.

Two kinds, both in the data format of pickle.  write() stores one dictionary
of plain containers, numbers, strings and bytes (see _payload()), the traces
as packed columns.  dump() stores the objects that stock Python 3.13 stores,
so that its Snapshot.load() can read them.

After either comes a trailer, MAGIC and the CRC-32 of all bytes before it,
which readers of pickles do not see.  Files of stock Python have none.
"""

import contextlib
import datetime
import errno
import os
import pickle
import stat
from binascii import crc32
from _tracemalloc import Columns, Estimate
from ._metrics import Metric
from ._reader import Damaged, Reader, Record
from ._plain import stderr_of
from ._snapshot import PACKED, PRIVATE, Snapshot
from ._views import TraceMap, _Traces

MAGIC = b"tmsum"
KIND = "snapshot"
EXACT_VERSION, VERSION = 1, 2
_CHUNK = 1 << 22
# Both kinds of file begin with an object that is named so within this room.
_HEAD = 64


# -- writing ----------------------------------------------------------------

class _Summed:
    """Passes writes on to a file and sums up what was written."""

    def __init__(self, file):
        self._file = file
        self._sum = 0

    def write(self, data):
        self._sum = crc32(data, self._sum)
        return self._file.write(data)

    def finish(self):
        self._file.write(MAGIC + self._sum.to_bytes(4, "little"))


@contextlib.contextmanager
def _replacing(filename):
    """Open a file for writing that gets its name when all went well.

    Devices, pipes and open descriptors are written to directly.
    """
    path = filename if isinstance(filename, int) else os.fspath(filename)
    old = None
    with contextlib.suppress(FileNotFoundError):
        old = os.stat(path)
    if isinstance(path, int) or (old and not stat.S_ISREG(old.st_mode)):
        with open(path, "wb") as file:
            yield file
        return
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    target = os.path.realpath(path)
    if old and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    name = f".tracemalloc-{os.urandom(8).hex()}.tmp"
    if isinstance(target, bytes):
        name = name.encode()
    temporary = os.path.join(os.path.dirname(target), name)
    try:
        file = open(temporary, "xb")
    except FileNotFoundError as error:
        error.filename = path
        raise
    try:
        with file:
            if old:
                _like(file.fileno(), old)
            yield file
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _like(descriptor, old):
    """Give a new file the permissions and, if we may, the owner of an old."""
    with contextlib.suppress(OSError, AttributeError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    with contextlib.suppress(OSError, AttributeError):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _plain(value):
    """Reduce a value to what can be read back without naming a class."""
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str, bytes):
        if isinstance(value, kind):
            return value if type(value) is kind else kind(value)
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return kind(map(_plain, value))
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    raise TypeError(f"cannot write a {type(value).__name__}")


def _payload(snapshot) -> dict:
    """What write() stores.

    The first key tells what the file is.  *timestamp* is in ISO format,
    *metrics* a list of (name, value, format), *stats* is as in the snapshot,
    *form* tells in which form the traces are shown again, *traces* is what
    Columns.pack() returned, or None.  A snapshot that was sampled, or is of a
    peak, has version 2, with *sample_interval* and *peak_size*; estimates in
    *stats* have the standard error as a third item.
    """
    columns = snapshot._columns()
    if columns is None or snapshot._held is None:
        form = None
    else:
        form = "mapping" if isinstance(snapshot._held, TraceMap | dict) \
            else "sequence"
    time = snapshot.timestamp
    own = PRIVATE + ("traceback_limit", "timestamp", "pid", "metrics", "lost",
                     "peak_size")
    estimated = snapshot.sample_interval > 1 or snapshot.peak
    more = {"sample_interval": snapshot.sample_interval,
            "peak_size": snapshot.peak_size} if estimated else {}
    return {
        "tracemalloc": KIND,
        "version": VERSION if estimated else EXACT_VERSION,
        "timestamp": None if time is None else time.isoformat(),
        "pid": _plain(snapshot.pid),
        "traceback_limit": _plain(snapshot.traceback_limit),
        "lost": _plain(snapshot.lost),
        "metrics": [(name, _plain(metric.value), metric.format)
                    for name, metric in snapshot.metrics.items()],
        "attributes": {name: _plain(value)
                       for name, value in vars(snapshot).items()
                       if name not in own},
        "stats_given": snapshot._stats is not None,
        "stats": _plain(_map_stats(_with_error, snapshot.stats)
                        if estimated else snapshot.stats),
        "form": form,
        "traces": None if columns is None else columns.pack(),
        **more,
    }


def store(snapshot, file) -> None:
    """Write a snapshot in the form of this module to an open file."""
    _store(_payload(snapshot), file)


def _store(payload, file):
    summed = _Summed(file)
    pickle.dump(payload, summed, 5)
    summed.finish()


def _map_stats(function, stats) -> dict:
    """Apply a function to the sums of statistics by line."""
    return {name: {line: function(sums) for line, sums in lines.items()}
            for name, lines in stats.items()}


def _with_error(sums):
    error = stderr_of(sums)
    return sums if error is None else (*sums, error)


def _without_error(sums):
    return sums if stderr_of(sums) is None else (*sums,)


def write(snapshot, filename) -> None:
    """Store a snapshot in the form of this module."""
    payload = _payload(snapshot)
    with _replacing(filename) as file:
        _store(payload, file)


def dump(snapshot, filename) -> None:
    """Store a snapshot in the form that stock Python has.

    A sampled block gets the size of what it stands for, and the blocks of a
    peak that have one traceback are one; beside that, for load(), is stored
    what is really known.
    """
    held = snapshot.traces
    plain = Snapshot.__new__(Snapshot)
    vars(plain).update(vars(snapshot))
    if snapshot.sample_interval > 1 or snapshot.peak:
        columns = snapshot._need_columns()
        held = _Traces(columns.tolist(scaled=True))
        vars(plain).update({"_rows": None, PACKED: columns.pack()})
        if snapshot._stats is not None:
            plain._stats = _map_stats(_without_error, snapshot._stats)
    elif not isinstance(held, _Traces):
        held = _Traces(snapshot._need_columns())
    plain._held = held
    with _replacing(filename) as file:
        summed = _Summed(file)
        pickle.dump(plain, summed, pickle.HIGHEST_PROTOCOL)
        summed.finish()


# -- reading ----------------------------------------------------------------

def _read(filename, progress) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a file that at least begins like a snapshot."""
    with open(filename, "rb", buffering=0) as file:
        info = os.fstat(file.fileno())
        chunks = [file.read(_HEAD)]
        while chunks[-1] and sum(map(len, chunks)) < _HEAD:
            chunks.append(file.read(_HEAD))
        head = b"".join(chunks)
        if head[:1] != b"\x80" or b"tracemalloc" not in head:
            raise Damaged("not a snapshot" if head else "the file is empty")
        done = len(head)
        while chunk := file.read(_CHUNK):
            chunks.append(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, info.st_size)
    return b"".join(chunks), info


def _parse(data: bytes):
    """Return the object in a file; Damaged unless all of the file is right."""
    trailer = len(data) - len(MAGIC) - 4
    summed = data[trailer:-4] == MAGIC
    if summed:
        if crc32(memoryview(data)[:trailer]).to_bytes(4, "little") != data[-4:]:
            raise Damaged("the checksum is wrong")
    reader = Reader(data)
    found = reader.read()
    if reader.position != (trailer if summed else len(data)):
        raise Damaged("there is more in it than a snapshot")
    if type(found) is dict and not summed:
        raise Damaged("the end is missing")
    return found


def _need(condition, what):
    if not condition:
        raise Damaged(f"wrong {what}")


def _is_count(value) -> bool:
    return type(value) is int and value >= 0


def _metrics_in(entries) -> dict:
    _need(type(entries) is list, "metrics")
    metrics = {}
    for name, value, format in entries:
        _need(type(name) is str and type(value) in (int, float), "metrics")
        metrics[name] = Metric(name, value, format)
    return metrics


def _checked_sums(sums):
    size, count, *error = sums
    _need(type(size) is int and type(count) is int and len(error) < 2
          and all(type(e) is float and 0 <= e < float("inf") for e in error),
          "statistics")
    return Estimate(sums) if error else sums


def _checked_stats(stats) -> dict:
    """The same statistics, their estimates as such."""
    _need(type(stats) is dict, "statistics")
    for name, lines in stats.items():
        _need((name is None or type(name) is str)
              and all(line is None or type(line) is int for line in lines),
              "statistics")
    return _map_stats(_checked_sums, stats)


def _set_sampling(snapshot, interval, peak_size) -> None:
    _need(_is_count(interval) and interval > 0
          and (peak_size is None or _is_count(peak_size)), "sampling")
    snapshot._interval, snapshot.peak_size = interval, peak_size


def _set_columns(snapshot, columns, mapping: bool) -> None:
    """Give traces to a snapshot that says already of which kind they are."""
    said = snapshot.sample_interval, snapshot.peak_size
    _need(said == (columns.sample_interval, columns.peak_size), "sampling")
    snapshot._show(columns, mapping)


def _set_attributes(snapshot, attributes) -> None:
    for name, value in attributes.items():
        _need(type(name) is str and not hasattr(Snapshot, name)
              and name not in PRIVATE, "attributes")
        vars(snapshot)[name] = value


def _blank(cls, limit, timestamp, pid):
    _need(type(limit) is int and (pid is None or type(pid) is int), "fields")
    snapshot = cls.__new__(cls)
    snapshot._start(None, limit, timestamp, pid)
    return snapshot


def _from_written(cls, payload, traces: bool):
    """Make a snapshot of what write() stored."""
    _need(payload.get("tracemalloc") == KIND, "kind of file")
    version = payload["version"]
    if version not in (EXACT_VERSION, VERSION):
        raise Damaged("it was written by another version of this module")
    time = payload["timestamp"]
    if time is not None:
        time = datetime.datetime.fromisoformat(time)
    snapshot = _blank(cls, payload["traceback_limit"], time, payload["pid"])
    _need(_is_count(payload["lost"]), "number of lost traces")
    snapshot.lost = payload["lost"]
    snapshot.metrics = _metrics_in(payload["metrics"])
    if version == VERSION:
        _set_sampling(snapshot, payload["sample_interval"],
                      payload["peak_size"])
    stats = _checked_stats(payload["stats"])
    packed = payload["traces"]
    if packed is None or not traces:
        snapshot._stats = stats
    else:
        columns = Columns.unpack(packed)
        mapping = payload["form"] == "mapping"
        _need(columns.has_addresses or not mapping, "addresses")
        _set_columns(snapshot, columns, mapping)
        if payload["stats_given"]:
            snapshot._stats = stats
    _set_attributes(snapshot, payload["attributes"])
    return snapshot


def _from_dumped(cls, state, traces: bool, changed):
    """Make a snapshot of the state that dump(), or stock Python, stored."""
    state = dict(state)
    held, limit = state.pop("traces"), state.pop("traceback_limit")
    _need(type(held) is _Traces, "traces")
    time = state.pop("timestamp", changed)
    _need(time is None or type(time) is datetime.datetime, "time")
    snapshot = _blank(cls, limit, time, state.pop("pid", None))
    snapshot.lost = state.pop("lost", 0)
    _need(_is_count(snapshot.lost), "number of lost traces")
    snapshot.metrics = _metrics_in([
        (name, *metric) for name, metric in state.pop("metrics", {}).items()])
    _set_sampling(snapshot, state.pop("sample_interval", 1),
                  state.pop("peak_size", None))
    stats = state.pop("stats", None)
    if stats is not None:
        snapshot._stats = _checked_stats(stats)
    packed = state.pop(PACKED, None)
    _set_columns(snapshot, Columns.from_traces(
        held._traces, None, limit, snapshot.sample_interval)
        if packed is None else Columns.unpack(packed), False)
    if not traces:
        snapshot._stats = snapshot.stats
        snapshot._held = snapshot._rows = None
    _set_attributes(snapshot, state)
    return snapshot


def load(cls, filename, traces: bool = True, progress=None) -> Snapshot:
    """Read a snapshot of either kind.

    *progress* is called with the bytes read so far and in all.  ValueError,
    naming the file, for whatever is not a whole snapshot.
    """
    shown = filename if isinstance(filename, int) else os.fsdecode(filename)
    try:
        data, info = _read(filename, progress)
        found = _parse(data)
        del data
        if type(found) is dict:
            return _from_written(cls, found, traces)
        _need(type(found) is Record and found.state is not None, "content")
        changed = datetime.datetime.fromtimestamp(int(info.st_mtime))
        return _from_dumped(cls, found.state, traces, changed)
    except (ValueError, TypeError, KeyError, OverflowError, AttributeError,
            IndexError, RecursionError) as error:
        reason = error if isinstance(error, ValueError) else "damaged"
        raise ValueError(f"{shown}: cannot be loaded as a snapshot: {reason}"
                         ) from None
