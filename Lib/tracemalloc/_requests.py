"""Requests that another process puts to this one, and the answers.

Both are files in a folder that belongs to the user of this process and that
nobody else may look into; a queued signal says that there is something to
read.  _attach.py is the other side, and shares the names below.

    PID-START-NONCE.request     lines "key=value"; read and removed here
    PID-START-NONCE.answer      lines "key=value", an empty line, a text
    PID-START-NONCE.file        what was to be saved; its reader removes it

PID is this process as it knows itself, START when it began: a request to a
process that is gone is never read by another.
"""

import contextlib
import functools
import io
import os
import stat
import _tracemalloc
from . import _difference, _folders
from ._display import DisplayTop, format_size, format_time
from ._files import store
from ._snapshot import Snapshot

REQUEST, ANSWER, FILE = ".request", ".answer", ".file"
_LONGEST = 4096
_ALL = 1 << 62


class Refused(Exception):
    """A request that cannot be granted; the text says why."""


def folder_path(uid: int) -> str:
    """Where requests to processes of a user are."""
    return f"/tmp/tracemalloc-{uid}"


def start_time(pid: int | str = "self") -> str:
    """When a process began, in ticks of the system's own clock."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19].decode()


@functools.cache
def _start_of(pid):
    return start_time(pid)


# A program may leave /proc behind, by chroot.
with contextlib.suppress(OSError):
    _start_of(os.getpid())


def fields_of(text: str) -> dict[str, str]:
    """Read lines "key=value" up to an empty line."""
    fields = {}
    for line in text.split("\n"):
        if not line:
            break
        key, _, value = line.partition("=")
        fields[key] = value
    return fields


def put_fields(fields: dict, text: str, file) -> None:
    """Write what fields_of() reads, and a text after it."""
    lines = [f"{key}={value}" for key, value in fields.items()
             if value is not None]
    whole = "\n".join([*lines, "", text])
    file.write(whole.encode("utf-8", "backslashreplace"))


def open_private(folder: int, name: str, owners: tuple, most: int):
    """Open a file of the folder, if it is a plain one of these owners, and
    not longer than *most*; ValueError then."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                         | os.O_CLOEXEC, dir_fd=folder)
    file = open(descriptor, "rb")
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode) or seen.st_uid not in owners:
            raise PermissionError(f"{name} is not what it should be")
        if seen.st_size > most:
            raise ValueError(f"{name} is longer than {format_size(most)}")
    except BaseException:
        file.close()
        raise
    return file


def read_private(folder: int, name: str, owners: tuple, most: int) -> bytes:
    """Read such a file."""
    with open_private(folder, name, owners, most) as file:
        return file.read(most)


def answer_all(reservation, asked: bool) -> None:
    """Answer what was asked of this process.

    *asked*: a signal has told so; otherwise there is probably nothing, and
    nobody is waiting for an error.
    """
    try:
        folder = _folders.open_folder(folder_path(os.geteuid()), private=True)
    except OSError as error:
        if asked and not isinstance(error, FileNotFoundError):
            raise
        return
    try:
        mine = f"{os.getpid()}-{_start_of(os.getpid())}-"
        names = [name for name in os.listdir(folder)
                 if name.startswith(mine) and name.endswith(REQUEST)]
        for name in sorted(names):
            _answer(reservation, folder, name)
    finally:
        os.close(folder)


def _answer(reservation, folder, name):
    """Read one request, do what it says, write the answer."""
    stem = name.removesuffix(REQUEST)
    try:
        data = read_private(folder, name, (os.geteuid(),), _LONGEST)
    finally:
        os.unlink(name, dir_fd=folder)
    with _folders.Files(folder) as files:
        fields = {"status": "ok"}
        try:
            request = _Request(reservation, files, stem,
                               fields_of(data.decode()))
            text = request.do()
            fields["file"] = request.saved
        except Exception as error:
            fields["status"] = "failed"
            text = str(error) if isinstance(error, Refused) \
                else f"{type(error).__name__}: {error}"
        files.add(stem + ANSWER, put_fields, fields, text)
        files.publish()


class _Request:
    """One request; a method for each command returns the text to show."""

    def __init__(self, reservation, files, stem, fields):
        self._reservation = reservation
        self._files, self._stem = files, stem
        self._fields = fields
        self.saved = None       # name of the file that was to be saved

    def do(self) -> str:
        command = self._fields.get("command")
        method = _COMMANDS.get(command)
        if method is None:
            raise Refused(f"no such command: {command}")
        return method(self)

    def _number(self, key, default=None):
        text = self._fields.get(key)
        return default if text is None else int(text)

    def _lines(self, default):
        return self._number("number", default) or _ALL

    def _save(self, write, *arguments):
        self.saved = self._stem + FILE
        self._files.add(self.saved, write, *arguments)

    def _need_tracing(self):
        if not _tracemalloc.is_tracing():
            raise Refused("it is not tracing: attach with \"start\" first")

    def start(self) -> str:
        services = _services()
        if _tracemalloc.is_tracing():
            return (f"tracing already, {_tracemalloc.get_traceback_limit()} "
                    "frames\n")
        nframe = self._number("nframe", self._reservation.nframe)
        services.start(nframe, self._number(
            "sample_interval", self._reservation.sample_interval))
        try:
            services.take()
        except BaseException:
            services.stop()
            raise
        return f"tracing, {nframe} frames\n"

    def stop(self) -> str:
        was_on = _tracemalloc.is_tracing()
        _services().stop()
        _services().forget()
        return "tracing stopped\n" if was_on else "tracing was off already\n"

    def snapshot(self) -> str:
        self._need_tracing()
        services = _services()
        snapshot = services.take()
        held = f"{len(snapshot.traces)} blocks, {_traced()}\n"
        if "save" in self._fields:
            self._save(store, snapshot)
            return held
        stem = self._reservation.save(
            lambda files, stem: files.add(stem + ".snapshot", store,
                                          snapshot))
        path = os.path.join(self._reservation.directory, stem + ".snapshot")
        return f"{path}: {held}"

    def diff(self) -> str:
        self._need_tracing()
        old = _services().last()
        if old is None:
            raise Refused("there is no earlier snapshot: attach with "
                          "\"snapshot\" first")
        difference = _difference.Difference(old, Snapshot.create(traces=True))
        text = difference.text(self._lines(_difference.LINES))
        form = self._fields.get("save")
        if form is not None:
            self._save(_services().put,
                       difference.json() if form == "json" else text)
        return text

    def top(self) -> str:
        self._need_tracing()
        snapshot = Snapshot.create()
        top = DisplayTop()
        top.color = False
        shown = io.StringIO()
        top.display_top_stats(snapshot.top_by("line"),
                              self._lines(10), shown)
        if "save" in self._fields:
            self._save(_services().put, shown.getvalue())
        return shown.getvalue()

    def status(self) -> str:
        last = _services().last()
        lines = ["tracing: off"]
        if _tracemalloc.is_tracing():
            limit = _tracemalloc.get_traceback_limit()
            lines = [f"tracing: on, {limit} frames", f"traced: {_traced()}",
                     f"tracer: {format_size(_tracemalloc._memory()[0])}"]
        for one in _services().reservations():
            open_pair = (one.first is not None
                         and one.run == _services().running())
            next_one = "second" if open_pair else "first"
            lines.append(f"{one.name}: the next is the {next_one} of a pair; "
                         f"files in {one.directory}")
        if last is not None:
            lines.append(f"last snapshot: {format_time(last.timestamp)}")
        return "\n".join(lines) + "\n"


def _traced():
    size, peak = _tracemalloc.get_traced_memory()
    return f"{format_size(size)}, peak {format_size(peak)}"


def _services():
    # It imports this module.
    from . import _services
    return _services


_COMMANDS = {"start": _Request.start, "stop": _Request.stop,
             "snapshot": _Request.snapshot, "diff": _Request.diff,
             "top": _Request.top, "status": _Request.status}
COMMANDS = tuple(_COMMANDS)
