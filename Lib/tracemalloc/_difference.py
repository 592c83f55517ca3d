"""How memory has changed between two snapshots, as text and as JSON.

For services, hence without anything that would import while the program is
interrupted.  The first line of the text is the line of the program whose
memory has grown most.
"""

import os
from _json import encode_basestring_ascii as quote
from ._display import (format_error, format_filename, format_size,
                       format_time)
from ._plain import UNKNOWN

KIND = "difference"
VERSION = 1
# How much the text and the data show.
LINES = 25
FRAMES = 10
STORED_TRACEBACKS = 100

_OWN = os.path.dirname(__file__) + os.sep
# Whole names, so that they can be opened.
_ALL = 1 << 20


class Difference:
    """What has changed from one snapshot to a later one.

    *lines* and *tracebacks* are lists of (frames, size, size_diff, count,
    count_diff), the biggest growth first and the biggest loss last.  Frames
    are (filename, lineno) pairs, the most recent first.  Without what this
    package itself has allocated.  For estimates, the standard errors of size
    and size_diff follow.
    """

    def __init__(self, old, new):
        self.old, self.new = old, new
        self.lines = _changes(old, new, "lineno")
        self.tracebacks = _changes(old, new, "traceback")
        self.size = sum(row[1] for row in self.lines)
        self.size_diff = sum(row[2] for row in self.lines)
        self.interval = max(old.sample_interval, new.sample_interval)

    def text(self, number: int = LINES) -> str:
        """Write it for people, the *number* biggest changes of lines."""
        lines = [_statistic(*row) for row in self.lines[:number]]
        if not lines:
            lines.append("nothing has changed")
        rest = self.lines[number:]
        if rest:
            more = sum(row[2] for row in rest)
            lines.append(f"{len(rest)} more line{'s'[:len(rest) > 1]}: "
                         + format_size(more, True))
        if self.interval > 1:
            lines.append("Sizes and counts are estimated, sample interval "
                         + format_size(self.interval))
        lines.append(f"Total: {format_size(self.size_diff, True)} from "
                     f"{format_time(self.old.timestamp)} to "
                     f"{format_time(self.new.timestamp)}, pid {self.new.pid}")
        if self.tracebacks and self.tracebacks[0][2] > 0:
            lines += ["", *_traceback(self.tracebacks[0])]
        return "\n".join(lines) + "\n"

    def json(self) -> str:
        """Write it for programs."""
        top = [("tracemalloc", quote(KIND)), ("version", str(VERSION)),
               ("pid", str(self.new.pid)),
               ("old", quote(str(self.old.timestamp))),
               ("new", quote(str(self.new.timestamp))),
               ("size", str(self.size)), ("size_diff", str(self.size_diff)),
               *([("sample_interval", str(self.interval))]
                 if self.interval > 1 else ()),
               ("lines", _array(map(_line_item, self.lines))),
               ("tracebacks", _array(map(
                   _traceback_item, self.tracebacks[:STORED_TRACEBACKS])))]
        return _object(top) + "\n"


def _changes(old, new, key):
    """The changes by a key type of 3.13."""
    rows = [row for row in new._need_columns().compare(old._need_columns(),
                                                       key)
            if (row[2] or row[4]) and not _is_own(row[0])]
    rows.sort(key=lambda row: (row[2], row[4], row[1]), reverse=True)
    return rows


def _is_own(frames):
    return bool(frames) and frames[0][0].startswith(_OWN)


def _place(name, line):
    return f"{format_filename(name, _ALL)}:{line or '?'}"


def _change(size_diff, errors):
    return format_size(size_diff, True) + format_error(errors[-1] if errors
                                                       else None)


def _statistic(frames, size, size_diff, count, count_diff, *errors):
    place = _place(*(frames[0] if frames else (UNKNOWN, 0)))
    error = format_error(errors[0] if errors else None)
    return (f"{place}: size={format_size(size)}{error} "
            f"({_change(size_diff, errors)}), "
            f"count={count} ({count_diff:+d})")


def _traceback(row):
    """The calls that the biggest growth came from, the nearest ones."""
    frames, _, size_diff, _, count_diff, *errors = row
    lines = [f"{_change(size_diff, errors)} ({count_diff:+d} blocks) of it "
             "came from, most recent call first:"]
    lines += [f"  {_place(*frame)}" for frame in frames[:FRAMES]]
    if len(frames) > FRAMES:
        lines.append(f"  {len(frames) - FRAMES} more")
    return lines


def _object(items):
    return "{" + ", ".join(f"{quote(k)}: {v}" for k, v in items) + "}"


def _array(items):
    return "[\n" + ",\n".join(items) + "\n]"


def _numbers(size, size_diff, count, count_diff, *errors):
    numbers = [("size", str(size)), ("size_diff", str(size_diff)),
               ("count", str(count)), ("count_diff", str(count_diff))]
    for name, error in zip(("stderr", "diff_stderr"), errors):
        numbers.append((name, str(round(error or 0))))
    return numbers


def _line_item(row):
    name, line = row[0][0] if row[0] else (UNKNOWN, 0)
    return _object([("filename", quote(name)), ("lineno", str(line)),
                    *_numbers(*row[1:])])


def _traceback_item(row):
    frames = ", ".join(f"[{quote(name)}, {line}]" for name, line in row[0])
    return _object([("frames", f"[{frames}]"), *_numbers(*row[1:])])
