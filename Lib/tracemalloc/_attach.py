"""Drive the tracing of a running process that has reserved a signal.

The command "attach" of the command line: start, stop, snapshot, diff, top or
status, done by the process itself at its next safe point.  A process that has
not reserved a signal is never signalled.
"""

import argparse
import contextlib
import math
import os
import sys
import time
import _tracemalloc
from . import _folders, _requests
from ._display import printable
from ._files import _replacing
from ._run import _bytes, _frames
from ._show import Failure, _count
from ._target import Target, Unreserved

# Milliseconds between two looks, seconds between two signals.
_LOOK = 20
_AGAIN = 1.0
# Bytes of an answer, and of what is saved.
_LONGEST = 1 << 26
_BIGGEST = 1 << 34


def _pid(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError
    return int(text)


def _seconds(text: str) -> float:
    number = float(text)
    if math.isnan(number) or number <= 0:
        raise argparse.ArgumentTypeError("it must be more than 0")
    return number


# As argparse speaks of a value that they do not take.
_pid.__name__, _seconds.__name__ = "pid", "number of seconds"


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add = parser.add_argument
    add("pid", type=_pid, help="the process")
    add("action", choices=_requests.COMMANDS,
        help="start or stop tracing; write a snapshot; show the difference "
        "to the last snapshot; show the top; show the status")
    add("--timeout", metavar="SECONDS", type=_seconds, default=10.0,
        help="how long to wait for the answer (default: 10)")
    add("-o", "--output", metavar="FILE",
        help="write the snapshot, the difference (FILE.json: as data) or the "
        "top to this file")
    add("--children", action="store_true",
        help="the process and all its descendants; a pid is added to FILE")
    add("--nframe", metavar="N", type=_frames,
        help="start: frames of a traceback to keep")
    add("--sample", metavar="N", type=_bytes,
        help="start: trace a sample, one block in about N bytes")
    add("-n", "--top", "--number", metavar="N", type=_count, dest="number",
        help="how many lines to show (default: 10 for top, 25 for diff; "
        "0: all)")


def ask(target: Target, fields: dict, timeout: float,
        output: str | None) -> str:
    """Put a request; return the text of the answer."""
    target.signum()
    folder = target.folder()
    stem = f"{target.own_pid}-{target.start}-{os.urandom(8).hex()}"
    try:
        _put(target, folder, stem, fields)
        _wait(target, folder, stem, timeout)
        return _take(target, folder, stem, output)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Failure(f"{target.pid}: {reason}") from None
    finally:
        for end in (_requests.REQUEST, _requests.ANSWER, _requests.FILE):
            with contextlib.suppress(OSError), target.as_its_user():
                os.unlink(stem + end, dir_fd=folder)
        os.close(folder)


def _put(target, folder, stem, fields):
    if target.own_pid == str(target.pid):
        _clean(target, folder)      # else its pids are not ours
    with target.as_its_user(), _folders.Files(folder) as files:
        files.add(stem + _requests.REQUEST, _requests.put_fields, fields, "")
        files.publish()


def _wait(target, folder, stem, timeout):
    """Signal until the answer is there."""
    end = time.monotonic() + timeout
    again = 0.0
    while True:
        # A process that has ended has answered before, or never.
        failure = None
        try:
            target.need_alive()
            if time.monotonic() >= again:
                again = time.monotonic() + _AGAIN
                _signal(target)
            if time.monotonic() >= end:
                raise Failure(_why_not(target, timeout))
        except Failure as problem:
            failure = problem
        if _exists(target, folder, stem + _requests.ANSWER):
            return
        if failure is not None:
            raise failure
        target.ended(_LOOK)


def _signal(target):
    try:
        _tracemalloc._signal_ask(target.descriptor, target.signum())
    except ProcessLookupError:
        target.need_alive()
        raise


def _why_not(target, timeout):
    return (f"{target.pid}: no answer within {timeout:g} s: "
            + target.why_silent(target.signum()))


def _take(target, folder, stem, output):
    """Read the answer, and copy what was saved."""
    with target.as_its_user():
        whole = _requests.read_private(
            folder, stem + _requests.ANSWER, target.owners, _LONGEST)
    fields = _requests.fields_of(whole.decode("utf-8", "replace"))
    text = _printable(whole.decode("utf-8", "replace").partition("\n\n")[2])
    if fields.get("status") != "ok":
        raise Failure(f"{target.pid}: {text.strip() or 'no answer in it'}")
    if output is not None and "file" in fields:
        with target.as_its_user():
            source = _requests.open_private(
                folder, stem + _requests.FILE, target.owners, _BIGGEST)
        with source:
            _copy(source, output)
    return text


def _copy(source, output):
    try:
        with _replacing(output) as file:
            left = _BIGGEST         # it could grow for ever
            while left > 0 and (piece := source.read(min(left, 1 << 20))):
                file.write(piece)
                left -= len(piece)
    except OSError as error:
        raise Failure(f"{output!r}: {error.strerror}" if not output.strip()
                      else f"{output}: {error.strerror}") from None


def _printable(text):
    """A process that is not what it seems may answer anything."""
    return "\n".join(map(printable, text.split("\n")))


def _exists(target, folder, name):
    try:
        with target.as_its_user():
            os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _clean(target, folder):
    """Remove what processes have left that are gone."""
    for name in os.listdir(folder):
        pid, _, rest = name.lstrip(".").partition("-")
        start = rest.partition("-")[0]
        if not (pid.isdecimal() and start.isdecimal()):
            continue
        try:
            if _requests.start_time(pid) == start:
                continue
        except PermissionError:
            continue
        except (FileNotFoundError, ProcessLookupError):
            pass
        with contextlib.suppress(OSError), target.as_its_user():
            os.unlink(name, dir_fd=folder)


def _family(pid: int) -> list[int]:
    """The process and its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    family = [pid]
    for member in family:
        family += sorted(children.get(member, ()))
    return family


def _one(pid, options, output) -> None:
    save = None
    if output is not None:
        save = "json" if output.endswith(".json") else "plain"
    fields = {"command": options.action, "nframe": options.nframe,
              "sample_interval": options.sample, "number": options.number,
              "save": save}
    with Target(pid) as target:
        print(ask(target, fields, options.timeout, output), end="")
    sys.stdout.flush()


def _all(options) -> int:
    """Ask a process and its descendants; return the exit status."""
    reached = failed = 0
    for pid in _family(options.pid):
        output = options.output
        if output is not None:
            stem, end = os.path.splitext(output)
            output = f"{stem}-{pid}{end}"
        print(f"[{pid}]", flush=True)
        try:
            _one(pid, options, output)
            reached += 1
        except Unreserved:
            print("has not reserved a signal, left alone")
        except Failure as failure:
            failed += 1
            failure.show()
    if not reached and not failed:
        raise Unreserved(f"{options.pid}, children")
    return 1 if failed else 0


def run(options) -> int:
    """Attach; return the exit status."""
    if not os.path.exists("/proc/self/maps"):
        raise Failure("attach needs Linux's /proc")
    if options.output is not None and options.action in ("start", "stop",
                                                         "status"):
        raise Failure(f"attach: {options.action} has nothing for -o", 2)
    if options.children:
        return _all(options)
    _one(options.pid, options, options.output)
    return 0
