"""Where a block came from: Frame, Traceback and Trace.

These three only dress up plain tuples which the engine (or the user) made;
they own nothing and are built when somebody looks.  A frame is
(filename, lineno); a trace is (domain, size, frames, total_nframe), its
frames the most recent first.  Snapshots dumped before Python 3.9 have traces
without the last item.

The package imports this file at once, and the warnings machinery uses it
while the interpreter shuts down: so it imports next to nothing.
"""

from _collections_abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def _format_size(size: float, sign: bool) -> str:
    """Write a size as 3.13 does: up to five digits, or one decimal."""
    plus = "+" if sign else ""
    for unit in _UNITS:
        magnitude = abs(size)
        if magnitude < 100 and unit != "B":
            return f"{size:{plus}.1f} {unit}"
        if magnitude < 10240 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:{plus}.0f} {unit}"


def public(cls: type) -> type:
    """Make a class at home in the package, not in its submodule.

    So pickles name it as those of stock Python do, and help() reads well.
    """
    cls.__module__ = "tracemalloc"
    for member in vars(cls).values():
        member = getattr(member, "__func__", member)
        if isinstance(member, type(public)):
            member.__module__ = "tracemalloc"
    return cls


@public
class _Ordered:
    """Compares instances of one class, and of its subclasses, by _key()."""

    __slots__ = ()

    def __init_subclass__(cls, **rest):
        super().__init_subclass__(**rest)
        if _Ordered in cls.__bases__:
            cls._kin = cls

    def _keys(self, other):
        """Both keys, or None for an object that is not of our kind."""
        if isinstance(other, self._kin):
            return self._key(), other._key()
        return None

    def __eq__(self, other):
        pair = self._keys(other)
        return pair[0] == pair[1] if pair else NotImplemented

    def __lt__(self, other):
        pair = self._keys(other)
        return pair[0] < pair[1] if pair else NotImplemented

    def __le__(self, other):
        pair = self._keys(other)
        return pair[0] <= pair[1] if pair else NotImplemented

    def __gt__(self, other):
        pair = self._keys(other)
        return pair[0] > pair[1] if pair else NotImplemented

    def __ge__(self, other):
        pair = self._keys(other)
        return pair[0] >= pair[1] if pair else NotImplemented

    def __hash__(self):
        return hash(self._key())


@public
class Frame(_Ordered):
    """One step of a traceback: a file name and a line number.

    Frames compare and hash by these two, in that order.
    """

    __slots__ = ("_frame",)

    def __init__(self, frame: tuple[str, int]):
        self._frame = frame

    @property
    def filename(self) -> str:
        """Name of the file, "<unknown>" if there was no Python frame."""
        return self._frame[0]

    @property
    def lineno(self) -> int:
        """Line number, 0 if it is not known."""
        return self._frame[1]

    def _key(self):
        return self._frame

    def __str__(self):
        return f"{self.filename}:{self.lineno}"

    def __repr__(self):
        name, line = self.filename, self.lineno
        return f"<Frame filename={name!r} lineno={line!r}>"


@public
class Traceback(_Ordered, Sequence):
    """A chain of calls: Frame objects, the oldest call first.

    Tracebacks compare and hash by their frames alone.
    """

    __slots__ = ("_frames", "_total_nframe")

    def __init__(self, frames, total_nframe: int | None = None):
        # The engine tells the most recent call first.
        self._frames = tuple(frames)[::-1]
        self._total_nframe = total_nframe

    @property
    def total_nframe(self) -> int | None:
        """How deep the stack really was, before it was cut at the limit.

        None if that was not recorded.
        """
        return self._total_nframe

    def _key(self):
        return self._frames

    def __len__(self):
        return len(self._frames)

    def __getitem__(self, index):
        found = self._frames[index]
        if isinstance(index, slice):
            return tuple(map(Frame, found))
        return Frame(found)

    def __contains__(self, frame):
        return self._frames.__contains__(frame._frame)

    def __str__(self):
        return str(self[0])

    def __repr__(self):
        depth = self._total_nframe
        tail = "" if depth is None else f" total_nframe={depth}"
        return f"<Traceback {self[:]}{tail}>"

    def format(self, limit: int | None = None,
               most_recent_first: bool = False) -> list[str]:
        """Return the traceback as lines of text, with source where found.

        A positive *limit* takes that many of the most recent calls, a
        negative one leaves out that many of them (as a slice would) and takes
        the older ones.  The lines go from the oldest call to the most recent
        unless *most_recent_first* is true.
        """
        import linecache
        if limit is None:
            chosen = self._frames
        elif limit > 0:
            chosen = self._frames[-limit:]
        else:
            chosen = self._frames[:limit]
        text = []
        for name, line in chosen[::-1] if most_recent_first else chosen:
            text.append(f'  File "{name}", line {line}')
            source = linecache.getline(name, line).strip()
            if source:
                text.append("    " + source)
        return text


@public
class Trace:
    """One traced block: its size, its domain and its traceback."""

    __slots__ = ("_trace",)

    def __init__(self, trace: tuple):
        self._trace = trace

    @property
    def domain(self) -> int:
        """Address space of the block: 0 for what Python itself allocates."""
        return self._trace[0]

    @property
    def size(self) -> int:
        """Size of the block in bytes."""
        return self._trace[1]

    @property
    def traceback(self) -> Traceback:
        """The Traceback of the call that allocated the block."""
        _, _, *rest = self._trace
        return Traceback(*rest)

    def __eq__(self, other):
        if isinstance(other, Trace):
            return self._trace == other._trace
        return NotImplemented

    def __hash__(self):
        return hash(self._trace)

    def __str__(self):
        return f"{self.traceback}: {_format_size(self.size, False)}"

    def __repr__(self):
        size = _format_size(self.size, False)
        return (f"<Trace domain={self.domain} size={size},"
                f" traceback={self.traceback!r}>")
