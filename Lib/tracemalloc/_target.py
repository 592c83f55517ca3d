"""A process to attach to: who it is, which signal it has reserved, and the
folder that it looks for requests in.

All of it is what /proc tells.  A process may be hostile to root, who attaches
to it: what is done in its folder is done with the rights of its own user.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator

import _tracemalloc
from . import _folders, _requests
from ._show import Failure

_HINT = ("it has not reserved a signal, and is left alone; start it with "
         "-X tracemalloc_signal=USR2 or PYTHONTRACEMALLOC_SIGNAL=USR2")
_NUMBERS = frozenset(map(str, range(1, signal.NSIG)))   # of signals


class Unreserved(Failure):
    """The process has not reserved a signal."""

    def __init__(self, who: object):
        super().__init__(f"{who}: {_HINT}")


class Target:
    """A process, held by a descriptor so that its pid cannot be reused."""

    def __init__(self, pid: int):
        self.pid = pid
        self.descriptor = _open(pid)
        try:
            self._poll = select.poll()
            self._poll.register(self.descriptor, select.POLLIN)
            self._know()
            self.need_alive()
        except BaseException:
            os.close(self.descriptor)
            raise

    def _know(self):
        try:
            self.start = _requests.start_time(self.pid)
        except OSError:
            raise self._gone() from None
        status = self._status()
        if status["Tgid"] != str(self.pid):
            raise Failure(f"{self.pid}: is a thread of process "
                          f"{status['Tgid']}: attach to that")
        self._uid = int(status["Uid"].split()[1])
        self._gid = int(status["Gid"].split()[1])
        # The pid that it knows itself by is the innermost one.
        self.own_pid = status.get("NSpid", str(self.pid)).split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.descriptor)

    # -- what it is --------------------------------------------------------

    def ended(self, milliseconds: int = 0) -> bool:
        """Wait that long for its end; whether it has come."""
        return bool(self._poll.poll(milliseconds))

    def _gone(self):
        return Failure(f"{self.pid}: has ended")

    def need_alive(self) -> None:
        """Fail if it has ended: what /proc tells may be of another one."""
        if self.ended():
            raise self._gone()

    def _read(self, name):
        try:
            with open(f"/proc/{self.pid}/{name}", errors="replace") as file:
                return file.read()
        except PermissionError:
            raise Failure(f"{self.pid}: permission denied: "
                          + self._why_closed()) from None
        except (FileNotFoundError, ProcessLookupError):
            raise self._gone() from None

    def _why_closed(self):
        mine = os.geteuid()
        if self._uid != mine:
            return (f"it belongs to {_user(self._uid)}, you are "
                    f"{_user(mine)}; attach as its user or as root")
        if mine:
            return ("the system lets only root look into it, because it has "
                    "changed its user or runs a program that nobody may read")
        return "root may not look into it from here (without CAP_SYS_PTRACE)"

    def _status(self):
        lines = self._read("status").splitlines()
        return {key: value.strip() for key, _, value
                in (line.partition(":") for line in lines)}

    def signum(self) -> int:
        """The signal that it has reserved, as it shows itself."""
        marker = f"/memfd:{_tracemalloc._SIGNAL_MARKER}"
        maps = self._read("maps")
        caught = int(self._status()["SigCgt"], 16)
        for line in maps.splitlines():
            _, found, rest = line.partition(marker)
            number = rest.split(maxsplit=1)[:1]
            # It can name a mapping as it likes.
            if found and number and number[0] in _NUMBERS:
                signum = int(number[0])
                if caught >> (signum - 1) & 1:
                    return signum
        self.need_alive()
        raise Unreserved(self.pid)

    def why_silent(self, signum: int) -> str:
        """Why its main thread has not answered."""
        status = self._status()
        if status["State"][:1] in ("T", "t"):
            return "it is stopped"
        if int(status["SigBlk"], 16) >> (signum - 1) & 1:
            return "its main thread blocks the signal"
        return "its main thread has not reached a safe point"

    def _shares(self, namespace):
        """Whether it has the same view of users, mounts or time as we have."""
        try:
            return os.path.samestat(
                os.stat(f"/proc/{self.pid}/ns/{namespace}"),
                os.stat(f"/proc/self/ns/{namespace}"))
        except FileNotFoundError:
            return True         # the system has no such namespaces
        except PermissionError:
            raise Failure(f"{self.pid}: permission denied: "
                          + self._why_closed()) from None

    # -- its folder --------------------------------------------------------

    @property
    def owners(self) -> tuple[int]:
        """Whose files in the folder can be believed."""
        return (self._uid,)

    @contextlib.contextmanager
    def as_its_user(self) -> Iterator[None]:
        """Have its rights and no more."""
        mine = os.geteuid(), os.getegid()
        if self._uid == mine[0]:
            yield
            return
        groups = os.getgroups()
        try:
            if mine[0] == 0:
                self._set_groups([self._gid])
            os.setegid(self._gid)
            os.seteuid(self._uid)
            yield
        finally:
            os.seteuid(mine[0])
            os.setegid(mine[1])
            if mine[0] == 0:
                self._set_groups(groups)

    @staticmethod
    def _set_groups(groups):
        """A user namespace may have forbidden it, and given none by that."""
        with contextlib.suppress(PermissionError):
            os.setgroups(groups)

    def _known_uid(self):
        """The number that its user has where it runs."""
        if self._shares("user"):
            return self._uid
        for line in self._read("uid_map").splitlines():
            inside, outside, count = map(int, line.split())
            if outside <= self._uid < outside + count:
                return inside + self._uid - outside
        raise Failure(f"{self.pid}: runs in another user namespace, in which "
                      f"{_user(self._uid)} has no number; attach from within "
                      "its container")

    def _temporary_path(self):
        """How its /tmp is called from here."""
        path, root = os.path.dirname(_requests.folder_path(0)), ""
        with contextlib.suppress(OSError):
            root = f"/proc/{self.pid}/root"
            if self._shares("mnt") and os.path.samestat(os.stat(root + "/"),
                                                        os.stat("/")):
                return path
        return root + path

    def _temporary(self, path):
        """Open its /tmp."""
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        if path == os.path.dirname(_requests.folder_path(0)):
            return _folders.open_in(None, path, flags)
        # A link would lead into our root.
        root = os.open(os.path.dirname(path), flags)
        try:
            return _folders.open_in(root, path, flags | os.O_NOFOLLOW)
        finally:
            os.close(root)

    def folder(self) -> int:
        """Open the folder of requests, which is made if need be."""
        if not self._shares("time"):
            # It gives another time for its start, which names its files.
            raise Failure(f"{self.pid}: runs in another time namespace; "
                          "attach from within its container")
        name = os.path.basename(_requests.folder_path(self._known_uid()))
        path = self._temporary_path()
        try:
            parent = self._temporary(path)
            path = os.path.join(path, name)
            try:
                with self.as_its_user():
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=parent)
                    found = _folders.open_folder(path, self.owners,
                                                 private=True, parent=parent)
            finally:
                os.close(parent)
        except OSError as error:
            self.need_alive()
            raise Failure(f"{self.pid}: {path}: {error.strerror}") from None
        if self.ended():
            os.close(found)
            raise self._gone()
        return found


def _open(pid):
    """Get hold of a process by its pid."""
    try:
        if pid > 0:
            return os.pidfd_open(pid)
    except (ProcessLookupError, OverflowError):
        pass
    except OSError as error:
        # Threads are not found, in one way or another.
        with contextlib.suppress(OSError, IndexError):
            with open(f"/proc/{pid}/status") as file:
                group = file.read().partition("\nTgid:")[2].split()[0]
            if group != str(pid):
                raise Failure(f"{pid}: is a thread of process {group}: "
                              "attach to that") from None
        raise Failure(f"{pid}: {error.strerror}") from None
    except AttributeError:
        raise Failure("attach needs Linux 5.3 or later") from None
    raise Failure(f"{pid}: there is no such process")


def _user(uid):
    import pwd
    with contextlib.suppress(KeyError):
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    return f"user {uid}"
