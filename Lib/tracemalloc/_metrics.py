"""Metrics: numbers about the process that go with a snapshot.

Each read_*() function returns {name: (value, format)}, without the names
that this build or platform cannot tell.
"""

import gc
import os
import sys
import _tracemalloc
from ._frames import public

_FORMATS = ("int", "percent", "size")


@public
class Metric:
    """A named number, as it was when a snapshot was made.

    *format* tells how to show *value*: "int", a number; "size", bytes;
    "percent", where 1.0 means 100 %.
    """

    def __init__(self, name: str, value: float, format: str):
        if format not in _FORMATS:
            raise ValueError(f"the format of a metric is 'int', 'percent' or "
                             f"'size', not {format!r}")
        self.name, self.value, self.format = name, value, format

    def __eq__(self, other):
        if not isinstance(other, Metric):
            return NotImplemented
        return ((self.name, self.value, self.format)
                == (other.name, other.value, other.format))

    def __hash__(self):
        return hash((self.name, self.value, self.format))

    def __repr__(self):
        return (f"<Metric name={self.name!r} value={self.value!r}"
                f" format={self.format!r}>")


def get_allocated_blocks() -> int:
    """Return the number of memory blocks that are allocated just now."""
    return sys.getallocatedblocks()


def get_process_memory() -> tuple[int, int] | None:
    """Return the memory of this process in bytes, as (rss, vms).

    *rss* is what stands in physical memory, *vms* the whole address space in
    use.  None where the system does not tell.
    """
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            vms, rss = map(int, file.read(200).split()[:2])
        page = os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None
    return rss * page, vms * page


def read_gc() -> dict:
    count = getattr(_tracemalloc, "_gc_objects", None)
    objects = len(gc.get_objects()) if count is None else count()
    return {"gc.objects": (objects, "int")}


def read_process_memory() -> dict:
    memory = get_process_memory()
    if memory is None:
        return {}
    return {"process_memory.rss": (memory[0], "size"),
            "process_memory.vms": (memory[1], "size")}


def read_pymalloc() -> dict:
    readings = {"pymalloc.blocks": (get_allocated_blocks(), "int")}
    read = getattr(_tracemalloc, "get_pymalloc_stats", None)
    if read is None:
        return readings
    stats = read()
    size = stats["arenas"] * stats["arena_size"]
    free = stats["available_bytes"] + stats["free_pools"] * stats["pool_size"]
    readings |= {
        "pymalloc.size": (size, "size"),
        "pymalloc.max_size": (stats["max_arenas"] * stats["arena_size"],
                              "size"),
        "pymalloc.allocated": (stats["allocated_bytes"], "size"),
        "pymalloc.free": (free, "size"),
    }
    if size:
        readings["pymalloc.fragmentation"] = (free / size, "percent")
    return readings


def read_tracer(traces: int | None) -> dict:
    """Read the tracer's figures; *traces* is the number of traces held."""
    traced, peak = _tracemalloc.get_traced_memory()
    size, free = _tracemalloc._memory()
    readings = {"tracemalloc.traced.size": (traced, "size"),
                "tracemalloc.traced.max_size": (peak, "size")}
    if traces is not None:
        readings["tracemalloc.traces"] = (traces, "int")
    readings |= {
        "tracemalloc.module.size": (size, "size"),
        "tracemalloc.module.free": (free, "size"),
        "tracemalloc.arena_size": (_tracemalloc.get_arena_size(), "size"),
    }
    if size:
        readings["tracemalloc.module.fragmentation"] = (free / size,
                                                        "percent")
    return readings


def read_unicode() -> dict:
    size, length = _tracemalloc.get_unicode_interned()
    return {"unicode_interned.size": (size, "size"),
            "unicode_interned.len": (length, "int")}
