"""What the tests of this package share."""

import datetime
import os
import sys
import time
import tracemalloc
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT = 60            # seconds; only ever reached when something is broken


def line(ahead: int = 0) -> tuple[str, int]:
    """The place of the caller as (filename, lineno), or that many lines on."""
    frame = sys._getframe(1)
    return frame.f_code.co_filename, frame.f_lineno + ahead


def allocate(size: int = 5000) -> bytes:
    """Allocate one block, here in this file."""
    return b"x" * size


PLACE = (allocate.__code__.co_filename, allocate.__code__.co_firstlineno + 2)


def deep(depth: int, size: int = 5000) -> bytes:
    """Allocate one block below that many calls of this function."""
    return allocate(size) if depth <= 1 else deep(depth - 1, size)


def wait_for(condition, allocating: bool = True) -> bool:
    """Wait until a condition holds; tasks are called when we allocate."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > end:
            return False
        if allocating:
            bytearray(600)
        time.sleep(0.001)
    return True


def stop_everything() -> None:
    tracemalloc.cancel_tasks()
    tracemalloc.clear_filters()
    tracemalloc.set_fork_policy(None)
    tracemalloc.disable()
    tracemalloc.set_traceback_limit(1)
    tracemalloc.set_sample_interval(1)


class Untraced(unittest.TestCase):
    """A test that begins and ends without tracing."""

    def setUp(self):
        if tracemalloc.is_tracing():
            self.skipTest("memory is traced already")
        self.addCleanup(stop_everything)


class Traced(Untraced):
    """A test that begins with tracing enabled."""

    limit = 1

    def setUp(self):
        super().setUp()
        tracemalloc.set_traceback_limit(self.limit)
        tracemalloc.enable()


BEFORE = datetime.datetime(2026, 1, 31, 9, 5, 7)
AFTER = datetime.datetime(2026, 1, 31, 10, 30, 0, 999999)


def two_snapshots():
    """Two small snapshots made by hand; the traces have up to two frames."""
    old = {
        0x1000: (100, (("lib/a.py", 7), ("main.py", 1))),
        0x2000: (100, (("lib/a.py", 7), ("main.py", 1))),
        0x3000: (40, (("lib/a.py", 9), ("main.py", 2))),
        0x4000: (5, (("lib/b.py", 1),)),
        0x5000: (3, ((None, None),)),
    }
    new = {
        0x1000: (100, (("lib/a.py", 7), ("main.py", 1))),
        0x2000: (100, (("lib/a.py", 7), ("main.py", 1))),
        0x6000: (6000, (("lib/a.py", 7), ("main.py", 3))),
        0x3000: (40, (("lib/a.py", 9), ("main.py", 2))),
        0x7000: (12, (("lib/c.py", 8), ("lib/c.py", 8))),
    }
    first = tracemalloc.Snapshot(BEFORE, 10, traces=old)
    second = tracemalloc.Snapshot(AFTER, 10, traces=new)
    first.add_metric("apples", 12, "int")
    first.add_metric("room", 4096, "size")
    second.add_metric("apples", 10, "int")
    second.add_metric("room", 8192, "size")
    second.add_metric("share", 0.25, "percent")
    return first, second
