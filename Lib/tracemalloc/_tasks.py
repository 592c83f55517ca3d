"""Tasks: functions that run when the traced memory grows, or time passes.

The engine keeps the scheduled tasks, compares the traced size to their
thresholds, and calls _fire() at a point where Python code may run.  How often
a task still has to be called is known here only.
"""

import math
import os
import re
import sys
import _tracemalloc
from ._display import DisplayTop
from ._frames import public
from ._snapshot import Snapshot


@public
class Task:
    """Calls func(*args, **kw) when memory has changed or time has passed.

    Set a delay or a memory threshold, or both, and schedule() it.  The call
    happens in whatever thread next reaches a point where it may, and never
    while memory is being allocated.  What it raises goes to
    sys.unraisablehook, and the task is cancelled.
    """

    def __init__(self, func, /, *args, **kw):
        self.func = func
        self.func_args = args
        self.func_kwargs = kw or None
        self._delay = None
        self._threshold = None
        self._left = None       # calls still to be made; None: no end

    @property
    def func(self):
        """The function that the task calls."""
        return self._func

    @func.setter
    def func(self, func):
        if not callable(func):
            raise TypeError("func must be callable, not "
                            + type(func).__name__)
        self._func = func

    @property
    def func_args(self) -> tuple:
        """The positional arguments for the function, a tuple."""
        return self._args

    @func_args.setter
    def func_args(self, args):
        if not isinstance(args, tuple):
            raise TypeError("func_args must be a tuple, not "
                            + type(args).__name__)
        self._args = args

    @property
    def func_kwargs(self) -> dict | None:
        """The keyword arguments for the function, a dict or None."""
        return self._kwargs

    @func_kwargs.setter
    def func_kwargs(self, kwargs):
        if kwargs is not None and not isinstance(kwargs, dict):
            raise TypeError("func_kwargs must be a dict or None, not "
                            + type(kwargs).__name__)
        self._kwargs = kwargs

    def call(self):
        """Call the function now, and return what it returns."""
        return self.func(*self.func_args, **(self.func_kwargs or {}))

    def _fire(self) -> bool:
        """Called by the engine; tells whether the task goes on."""
        if self._left is not None:
            self._left -= 1
        self.call()
        return self._left is None or self._left > 0

    def schedule(self, repeat: int | None = None) -> None:
        """Schedule the task for *repeat* calls, or until it is cancelled.

        If it is scheduled already, it starts anew with this *repeat*.
        ValueError without a delay and a threshold, RuntimeError when memory
        is not traced.
        """
        if repeat is not None:
            repeat = _index("repeat", repeat)
            if repeat < 1:
                raise ValueError("repeat must be at least 1")
        _check_trigger(self._delay, self._threshold)
        if not _tracemalloc.is_enabled():
            raise RuntimeError("the tracemalloc module must be enabled to "
                               "schedule a task")
        self._left = repeat
        _tracemalloc._task_schedule(self, self._delay or 0,
                                    self._threshold or 0)

    def cancel(self) -> None:
        """Cancel the task; nothing happens if it is not scheduled."""
        _tracemalloc._task_cancel(self)

    def is_scheduled(self) -> bool:
        """Return whether the task is scheduled."""
        # No generator: 3.13.5 crashes when there is no memory for one.
        for task in _tracemalloc._task_list():
            if task is self:
                return True
        return False

    def _retrigger(self, delay, threshold):
        """Change what the task waits for, and start anew if it waits."""
        # A task that is in its last call has nothing to start anew.
        scheduled = self._left != 0 and self.is_scheduled()
        if scheduled:
            _check_trigger(delay, threshold)
        self._delay, self._threshold = delay, threshold
        if scheduled:
            self.schedule(self._left)

    def get_delay(self) -> int | None:
        """Return the delay in seconds, None if there is none."""
        return self._delay

    def set_delay(self, seconds: float | None) -> None:
        """Set after how many seconds the task is called; None for never.

        Fractions of a second are cut off, and at least one second must be
        left.  The clock is only looked at when memory is allocated, so that
        an idle program calls nothing.  A scheduled task starts anew.
        """
        if seconds is not None:
            kind = type(seconds)
            if not (hasattr(kind, "__int__") or hasattr(kind, "__index__")):
                raise TypeError("the delay must be a number or None, not "
                                + kind.__name__)
            if isinstance(seconds, float) and not math.isfinite(seconds):
                raise ValueError("the delay must be finite")
            seconds = int(seconds)
            if seconds < 1:
                raise ValueError("the delay must be at least 1 second")
        self._retrigger(seconds, self._threshold)

    def get_memory_threshold(self) -> int | None:
        """Return the memory threshold in bytes, None if there is none."""
        return self._threshold

    def set_memory_threshold(self, size: int | None) -> None:
        """Set the change of traced memory that calls the task; None for none.

        The task is called when the traced size is more than *size* bytes
        above or below what it was when the task was scheduled or last called.
        A scheduled task starts anew.
        """
        if size is not None:
            size = _index("the memory threshold", size)
            if size < 1:
                raise ValueError("the memory threshold must be at least 1 "
                                 "byte")
        self._retrigger(self._delay, size)


def _index(what, value) -> int:
    if not hasattr(type(value), "__index__"):
        raise TypeError(f"{what} must be an integer or None, not "
                        + type(value).__name__)
    return value.__index__()


def _check_trigger(delay, threshold) -> None:
    if delay is None and threshold is None:
        raise ValueError("the task needs a delay or a memory threshold")


def get_tasks() -> list[Task]:
    """Return the scheduled tasks."""
    return _tracemalloc._task_list()


# A variable of a file name template: letters, as many as there are.
_VARIABLE = re.compile(r"\$([A-Za-z]+)")
_VARIABLES = ("pid", "timestamp", "counter")


@public
class TakeSnapshotTask(Task):
    """A task that takes a snapshot and writes it to a file.

    *filename_template* may have the variables $pid, $timestamp and $counter;
    the counter has four digits and starts at 0001.  *traces* and *metrics*
    go to Snapshot.create().  *callback*, if not None, is called with each
    snapshot before it is written, for example to add metrics.
    """

    def __init__(self, filename_template: str = "tracemalloc-$counter.pickle",
                 traces: bool = False, metrics: bool = True, callback=None):
        super().__init__(self.take_snapshot)
        self.filename_template = filename_template
        self.traces, self.metrics = traces, metrics
        self.callback = callback
        self._counter = 1

    @property
    def filename_template(self) -> str:
        """The template for names of files."""
        return self._template

    @filename_template.setter
    def filename_template(self, template):
        template = os.fspath(template)
        if not isinstance(template, str):
            raise TypeError("filename_template must be a string, not "
                            + type(template).__name__)
        for name in _VARIABLE.findall(template):
            if name not in _VARIABLES:
                raise ValueError(f"unknown variable ${name} in the template; "
                                 "known are $pid, $timestamp and $counter")
        self._template = template

    def _filename(self, snapshot):
        values = {"pid": str(snapshot.pid),
                  "timestamp": f"{snapshot.timestamp:%Y-%m-%d-%H-%M-%S}",
                  "counter": f"{self._counter:04d}"}
        return _VARIABLE.sub(lambda found: values[found[1]], self._template)

    def take_snapshot(self) -> tuple[Snapshot, str]:
        """Take a snapshot, write it, and return (snapshot, filename)."""
        snapshot = Snapshot.create(traces=self.traces, metrics=self.metrics)
        if self.callback is not None:
            self.callback(snapshot)
        filename = self._filename(snapshot)
        snapshot.write(filename)
        self._counter += 1
        return snapshot, filename


@public
class DisplayTopTask(Task):
    """A task that takes a snapshot and displays its top.

    *count*, *group_by*, *cumulative*, *file* and *callback* are those of
    DisplayTop.display(); the attribute *display_top* is the DisplayTop that
    does it, and can be adjusted.  Without *file*, sys.stdout is written to.
    """

    def __init__(self, count: int = 10, group_by: str = "line",
                 cumulative: bool = False, file=None, callback=None):
        super().__init__(self.display)
        self.display_top = DisplayTop()
        self.count, self.group_by = count, group_by
        self.cumulative = cumulative
        self.file = sys.stdout if file is None else file
        self.callback = callback

    def display(self) -> Snapshot:
        """Take a snapshot, display its top, and return it."""
        return self.display_top.display(self.count, self.group_by,
                                        self.cumulative, self.file,
                                        self.callback)
