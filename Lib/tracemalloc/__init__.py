"""Find out which lines of a program hold its memory.

The interpreter can remember, for every memory block that it hands out, the
chain of calls that asked for it.  This module turns that on and off, asks
about single blocks, and takes snapshots of all of them.

There are two vocabularies for the same engine, and they mix freely:

* that of Python 3.13: start(), stop(), take_snapshot(), Snapshot.statistics()
* that of the third draft of PEP 454: enable(), disable(), Snapshot.create(),
  Snapshot.top_by(), live filters, tasks, metrics, DisplayTop, and the command
  line "python -m tracemalloc FILE"

A first look at a program:

    import tracemalloc
    tracemalloc.start(10)
    ...
    for line in tracemalloc.take_snapshot().statistics("lineno")[:10]:
        print(line)

Tracing costs little, so that it can stay on.  If the tracer itself gets no
memory it drops traces and counts them, see Snapshot.lost; the program never
fails because of it.
"""

# Only the names live here.  What 3.13 has is imported at once: it costs little
# (nothing from outside the package is loaded for it), and using it then does
# not add to the memory that is being watched; also the warnings machinery
# asks while the interpreter shuts down.  Everything else is loaded from its
# submodule when it is first asked for.

import sys
import _tracemalloc
from _tracemalloc import (
    start, stop, is_tracing, clear_traces, reset_peak,
    get_traced_memory, get_traceback_limit,
    _get_traces, _get_object_traceback,
    enable, disable, is_enabled, set_traceback_limit,
    set_sample_interval, get_sample_interval,
    set_fork_policy, get_fork_policy,
    Estimate, get_stats, get_traces, get_trace, get_object_trace, get_object_address,
    cancel_tasks, get_arena_size, get_unicode_interned,
)
from ._filters import (
    BaseFilter, Filter, DomainFilter, _normalize_filename,
    add_filter, add_include_filter, add_exclude_filter, clear_filters,
    get_filters,
)
from ._frames import Frame, Traceback, Trace, _format_size, public as _public
from ._snapshot import Snapshot, snapshot_of as _snapshot_of
from ._stats import Statistic, StatisticDiff, GroupedStats, StatsDiff
from ._views import _Traces

__version__ = _tracemalloc.__version__

# Names that a submodule provides: loaded, and kept here, at first use.
_HOMES = {
    "Metric": "_metrics", "get_allocated_blocks": "_metrics",
    "get_process_memory": "_metrics",
    "Task": "_tasks", "TakeSnapshotTask": "_tasks",
    "DisplayTopTask": "_tasks", "get_tasks": "_tasks",
    "DisplayTop": "_display",
    "register": "_services", "unregister": "_services",
}

__all__ = [
    "start", "stop", "is_tracing", "clear_traces", "reset_peak",
    "take_snapshot", "get_object_traceback", "get_traced_memory",
    "get_traceback_limit", "get_tracemalloc_memory",
    "enable", "disable", "is_enabled", "set_traceback_limit",
    "set_sample_interval", "get_sample_interval",
    "set_fork_policy", "get_fork_policy",
    "get_stats", "get_traces", "get_trace", "get_object_trace",
    "get_object_address", "cancel_tasks", "get_arena_size",
    "get_unicode_interned", "Frame", "Traceback", "Trace", "Snapshot",
    "Statistic", "StatisticDiff", "Estimate", "GroupedStats", "StatsDiff",
    "BaseFilter", "Filter", "DomainFilter", "add_filter",
    "add_include_filter", "add_exclude_filter", "clear_filters",
    "get_filters", *_HOMES,
]

try:
    from _tracemalloc import get_pymalloc_stats
except ImportError:             # built without pymalloc
    pass
else:
    __all__.append("get_pymalloc_stats")


def __getattr__(name: str):
    if name == "linecache":     # a name that 3.13 has here, too
        import linecache as value
    elif name in _HOMES:
        home = __import__(f"{__name__}.{_HOMES[name]}", fromlist=(name,))
        value = getattr(home, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}",
                             name=name, obj=sys.modules.get(__name__))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@_public
class _Memory(int):
    """Bytes used by the tracer: an int that unpacks as (size, free)."""

    _free = 0

    def __new__(cls, size: int, free: int = 0):
        self = super().__new__(cls, size)
        self._free = free
        return self

    @property
    def size(self) -> int:
        """Bytes that the tracer has asked for, its free ones included."""
        return int(self)

    @property
    def free(self) -> int:
        """Bytes among them which hold nothing at the moment."""
        return self._free

    def __iter__(self):
        return iter((int(self), self._free))

    def __getitem__(self, index):
        return (int(self), self._free)[index]

    def __getnewargs__(self):
        return int(self), self._free


def get_tracemalloc_memory() -> int:
    """Return how many bytes the tracer itself uses.

    The result is an int, the total.  It also unpacks as (size, free) and has
    attributes of these names: *free* bytes of *size* hold no data just now.
    """
    return _Memory(*_tracemalloc._memory())


def get_object_traceback(obj) -> Traceback | None:
    """Return the Traceback of the call that allocated *obj*.

    None if that allocation was not traced, or nothing is traced any more.
    Only the main block of the object is looked at.
    """
    frames = _get_object_traceback(obj)
    return None if frames is None else Traceback(frames)


def take_snapshot(peak: bool = False) -> Snapshot:
    """Return a Snapshot of all traced blocks, as they are now.

    What building the snapshot allocates is not in it.  Its traces are a
    sequence of Trace objects; Snapshot.create() makes one in the terms of
    PEP 454.  With *peak*, it is of the moment when most memory was in use,
    and has sums in place of traces.  RuntimeError if memory is not being
    traced.
    """
    # Looked up through this module, so that a test can put others in place.
    if not is_tracing():
        raise RuntimeError("the tracemalloc module must be tracing memory "
                           "allocations to take a snapshot")
    if peak:
        return _snapshot_of(_tracemalloc._freeze_peak(), mapping=False)
    if _get_traces is not _tracemalloc._get_traces:
        return Snapshot(_get_traces(), get_traceback_limit())
    return _snapshot_of(_tracemalloc._freeze(), mapping=False)
