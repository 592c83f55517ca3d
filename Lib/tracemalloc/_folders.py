"""Files in folders that others may write to.

What services write: a folder is opened without following a symbolic link and
its owner is looked at; a file is made anew, readable by its owner only, and
gets its name when it is complete.
"""

import errno
import os
import stat

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = (os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC)
# What link() says on a file system that has none.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS,
             errno.EMLINK}


def _error(number, path, reason=None):
    return OSError(number, reason or os.strerror(number), path)


def open_in(parent: int | None, path: str, flags: int) -> int:
    """Open the last part of a path in the folder *parent*, if that is given."""
    name = path if parent is None else os.path.basename(path)
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        reason = _reason(error.errno, parent, name)
        raise _error(error.errno, path, reason) from None


def _reason(number, parent, name):
    """Why a folder could not be opened, if that is not the error's text."""
    try:
        seen = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return None
    if number in (errno.ENOTDIR, errno.ELOOP) and stat.S_ISLNK(seen.st_mode):
        return "Is a symbolic link"
    if number == errno.EACCES and seen.st_uid != os.geteuid():
        return "Belongs to another user"
    return None


def open_folder(path: str, owners: tuple = (), private: bool = False,
                parent: int | None = None) -> int:
    """Open a folder as a descriptor, or say in an OSError why not.

    Its owner must be root, this user or one of *owners*; *private*: not root,
    unless among them, and nobody else may even look into it.  *parent*: see
    open_in().
    """
    flags = _FOLDER | (os.O_RDONLY if private else
                       getattr(os, "O_PATH", os.O_RDONLY))
    folder = open_in(parent, path, flags)
    try:
        _look_at(folder, path, owners, private)
        if not os.access(path if parent is None else ".", os.W_OK | os.X_OK,
                         dir_fd=None if parent is None else folder,
                         effective_ids=os.access in os.supports_effective_ids):
            # access() tells in errno, which Python does not pass on.
            readonly = os.fstatvfs(folder).f_flag & os.ST_RDONLY
            raise _error(errno.EROFS if readonly else errno.EACCES, path)
    except BaseException:
        os.close(folder)
        raise
    return folder


def _look_at(folder, path, owners, private):
    seen = os.fstat(folder)
    if private:
        allowed = set(owners) or {os.geteuid()}
    else:
        allowed = {0, os.geteuid(), *owners}
    if seen.st_uid not in allowed:
        raise _error(errno.EPERM, path, "Belongs to another user")
    mode = stat.S_IMODE(seen.st_mode)
    if private and mode & 0o077:
        raise _error(errno.EPERM, path, "Is open to other users")
    if mode & 0o002 and not mode & stat.S_ISVTX:
        raise _error(errno.EPERM, path,
                     "Everybody may write to it, and it has no sticky bit")


class Files:
    """New files in a folder, which appear together once all are complete.

    For a with statement: what has not been published at its end is removed.
    """

    def __init__(self, folder: int):
        self._folder = folder
        self._made = []         # (name of the part, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for part, _ in self._made:
            try:
                os.unlink(part, dir_fd=self._folder)
            except FileNotFoundError:
                pass
        self._made.clear()

    def add(self, name: str, write, *arguments) -> None:
        """Make a file, which is written by write(*arguments, file)."""
        part = f".{name}.part"
        descriptor = os.open(part, _NEW, 0o600, dir_fd=self._folder)
        self._made.append((part, name))
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            write(*arguments, file)

    def publish(self) -> None:
        """Give the files their names; FileExistsError if one is taken."""
        while self._made:
            part, name = self._made[0]
            self._publish(part, name)
            del self._made[0]

    def _publish(self, part, name):
        both = {"src_dir_fd": self._folder, "dst_dir_fd": self._folder}
        try:
            os.link(part, name, **both, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.close(os.open(name, _NEW, 0o600, dir_fd=self._folder))
            os.rename(part, name, **both)
        else:
            os.unlink(part, dir_fd=self._folder)
