"""Drive the tracing of a running process that has reserved a signal.

The command "attach" of the command line: start, stop, snapshot, diff, top or
status, done by the process itself at its next safe point.  A process that has
not reserved a signal is never signalled.
"""

import argparse
import contextlib
import os
import select
import sys
import time
import _tracemalloc
from . import _folders, _requests
from ._files import _replacing
from ._run import _bytes, _frames
from ._show import Failure, _count

# Milliseconds between two looks, seconds between two signals.
_LOOK = 20
_AGAIN = 1.0
_MOST = 1 << 30
_HINT = ("it has not reserved a signal, and is left alone; start it with "
         "-X tracemalloc_signal=USR2 or PYTHONTRACEMALLOC_SIGNAL=USR2")


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add = parser.add_argument
    add("pid", type=int, help="the process")
    add("action", choices=_requests.COMMANDS,
        help="start or stop tracing; write a snapshot; show the difference "
        "to the last snapshot; show the top; show the status")
    add("--timeout", metavar="SECONDS", type=float, default=10.0,
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
    add("-n", "--number", metavar="N", type=_count,
        help="diff, top: how many lines to show")


class _Unreserved(Failure):
    """The process has not reserved a signal."""


class Target:
    """A process, held by a descriptor so that its pid cannot be reused."""

    def __init__(self, pid: int):
        self.pid = pid
        try:
            self._descriptor = os.pidfd_open(pid)
            self._start = _requests.start_time(pid)
        except (ProcessLookupError, FileNotFoundError, OverflowError):
            raise Failure(f"{pid}: there is no such process") from None
        except OSError as error:
            raise Failure(f"{pid}: {error.strerror}") from None
        except AttributeError:
            raise Failure("attach needs Linux") from None
        status = self._status()
        self._uid = int(status["Uid"].split()[1])
        # The pid that it knows itself by is the innermost one.
        self._own_pid = status.get("NSpid", str(pid)).split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._descriptor)

    def _read(self, name):
        try:
            with open(f"/proc/{self.pid}/{name}", errors="replace") as file:
                return file.read()
        except PermissionError:
            raise Failure(f"{self.pid}: permission denied: it can be attached "
                          "to by its user, or by root") from None
        except (FileNotFoundError, ProcessLookupError):
            raise Failure(f"{self.pid}: has ended") from None

    def _status(self):
        lines = self._read("status").splitlines()
        return {key: value.strip() for key, _, value
                in (line.partition(":") for line in lines)}

    def signum(self) -> int:
        """The signal that it has reserved, as it shows itself."""
        marker = f"/memfd:{_tracemalloc._SIGNAL_MARKER}"
        caught = int(self._status()["SigCgt"], 16)
        for line in self._read("maps").splitlines():
            _, found, rest = line.partition(marker)
            if found:
                signum = int(rest.split()[0])
                if caught >> (signum - 1) & 1:
                    return signum
        raise _Unreserved(f"{self.pid}: {_HINT}")

    def _folder(self):
        path = _requests.folder_path(self._uid)
        root = f"/proc/{self.pid}/root"
        with contextlib.suppress(OSError):
            if not os.path.samestat(os.stat(root + "/"), os.stat("/")):
                path = root + path
        try:
            os.mkdir(path, 0o700)
            if self._uid != os.geteuid():
                os.chown(path, self._uid, -1, follow_symlinks=False)
        except FileExistsError:
            pass
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}") from None
        try:
            return _folders.open_folder(path, (self._uid,), private=True)
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}") from None

    def ask(self, fields: dict, timeout: float, output: str | None) -> str:
        """Put a request; return the text of the answer."""
        self.signum()
        folder = self._folder()
        stem = f"{self._own_pid}-{self._start}-{os.urandom(8).hex()}"
        try:
            if self._own_pid == str(self.pid):
                _clean(folder)      # else its pids are not ours
            owner = self._uid if self._uid != os.geteuid() else None
            with _folders.Files(folder, owner) as files:
                files.add(stem + _requests.REQUEST, _requests.put_fields,
                          fields, "")
                files.publish()
            self._wait(folder, stem, timeout)
            return self._take(folder, stem, output)
        except OSError as error:
            raise Failure(f"{self.pid}: {error.strerror or error}") from None
        finally:
            for end in (_requests.REQUEST, _requests.ANSWER, _requests.FILE):
                with contextlib.suppress(OSError):
                    os.unlink(stem + end, dir_fd=folder)
            os.close(folder)

    def _wait(self, folder, stem, timeout):
        """Signal until the answer is there."""
        end = time.monotonic() + timeout
        again = 0.0
        gone = select.poll()
        gone.register(self._descriptor, select.POLLIN)
        while not _exists(folder, stem + _requests.ANSWER):
            now = time.monotonic()
            if now >= end:
                raise Failure(self._why_not(timeout))
            if now >= again:
                again = now + _AGAIN
                try:
                    _tracemalloc._signal_ask(self._descriptor, self.signum())
                except ProcessLookupError:
                    raise Failure(f"{self.pid}: has ended") from None
            if gone.poll(_LOOK):
                raise Failure(f"{self.pid}: has ended")

    def _why_not(self, timeout):
        text = f"{self.pid}: no answer within {timeout:g} s"
        if int(self._status()["SigBlk"], 16) >> (self.signum() - 1) & 1:
            return text + ": its main thread blocks the signal"
        return text + ": its main thread has not reached a safe point"

    def _take(self, folder, stem, output):
        """Read the answer, and copy what was saved."""
        owners = (self._uid,)
        whole = _requests.read_private(folder, stem + _requests.ANSWER, owners,
                                       _MOST).decode("utf-8", "replace")
        fields = _requests.fields_of(whole)
        text = whole.partition("\n\n")[2]
        if fields.get("status") != "ok":
            raise Failure(f"{self.pid}: {text.strip()}")
        if output is not None and "file" in fields:
            data = _requests.read_private(folder, stem + _requests.FILE,
                                          owners, _MOST)
            with _replacing(output) as file:
                file.write(data)
        return text


def _exists(folder, name):
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _clean(folder):
    """Remove what processes have left that are gone."""
    for name in os.listdir(folder):
        pid, _, rest = name.lstrip(".").partition("-")
        start = rest.partition("-")[0]
        if not (pid.isdecimal() and start.isdecimal()):
            continue
        try:
            if _requests.start_time(pid) == start:
                continue
        except (FileNotFoundError, ProcessLookupError):
            pass
        with contextlib.suppress(OSError):
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
        print(target.ask(fields, options.timeout, output), end="")
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
        except _Unreserved:
            print("has not reserved a signal, left alone")
        except Failure as failure:
            failed += 1
            print(f"tracemalloc: {failure}", file=sys.stderr)
    if not reached and not failed:
        raise Failure(f"{options.pid}, children: {_HINT}")
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
