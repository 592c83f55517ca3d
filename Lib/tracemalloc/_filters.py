"""Filters: which traces to keep, in a snapshot or while tracing.

A filter is made of a verdict (include or exclude), a pattern for file names
and perhaps a line and a domain.  Whole snapshots are filtered in C; for that
a filter is turned into a *rule*, the tuple

    (include, pattern, lineno or 0, all frames?, domain or -1)

with None for a pattern where only the domain counts.

Filters whose class was extended with matching of its own have no rule: they
are asked, once for each different traceback (Ask).

The list of live filters belongs to this module.  The engine gets a copy of
the rules at each change, under _lock.
"""

import os
from _thread import allocate_lock
from _tracemalloc import _fnmatch, _set_filters
from ._frames import Traceback, public


class _Unset:
    """The default of an argument that has two names."""

    def __repr__(self):
        return "..."        # as help() shows it


_UNSET = _Unset()
_live: list["Filter"] = []
_lock = allocate_lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lock._at_fork_reinit)


def _normalize_filename(name: str) -> str:
    """The name of a source file, as 3.13 normalises it (.pyc only)."""
    name = os.path.normcase(name)
    return name[:-1] if name.endswith(".pyc") else name


def _source_name(name: str) -> str:
    """The name of a source file, for a name that may be of compiled code."""
    name = os.path.normcase(name)
    return name[:-1] if name.endswith((".pyc", ".pyo")) else name


def _glob_of(pattern: str) -> str:
    """What to match for *pattern*: for our own __file__, the whole package."""
    own = _source_name(os.path.join(os.path.dirname(__file__), "__init__.py"))
    if pattern != own:
        return pattern
    folder = "".join(f"[{c}]" if c in "[*?" else c
                     for c in os.path.dirname(own))
    return os.path.join(folder, "*")


def _frames_of(traceback) -> tuple:
    """The (filename, lineno) tuples of a traceback, most recent first."""
    if isinstance(traceback, Traceback):
        return traceback._frames[::-1]
    return traceback


@public
class BaseFilter:
    """What all filters have in common; a base for filters of your own.

    A class of your own defines match_traceback(traceback), where *traceback*
    is a tuple of (filename, lineno) tuples, the most recent call first, and
    returns whether blocks with that traceback are kept.
    """

    def __init__(self, inclusive: bool):
        self.inclusive = inclusive

    @property
    def include(self) -> bool:
        """The same as *inclusive*, by the name that PEP 454 gives it."""
        return self.inclusive

    def match_traceback(self, traceback) -> bool:
        """Return whether a block with this traceback is kept."""
        raise NotImplementedError

    def _match(self, trace: tuple) -> bool:
        return self.match_traceback(trace[2])


@public
class DomainFilter(BaseFilter):
    """Keep the blocks of one domain, or all others.

    *domain* is the number of an address space.  What Python allocates is in
    domain 0; extension modules report to others.
    """

    def __init__(self, inclusive: bool, domain: int):
        super().__init__(inclusive)
        self._domain = domain

    @property
    def domain(self) -> int:
        """Number of the address space."""
        return self._domain

    def __repr__(self):
        return (f"<DomainFilter inclusive={self.inclusive!r}"
                f" domain={self.domain!r}>")

    def _match(self, trace):
        return (trace[0] == self.domain) == bool(self.inclusive)


@public
class Filter(BaseFilter):
    """Keep, or leave out, what was allocated in certain files and lines.

    Filter(include, pattern, lineno=None, traceback=False), as PEP 454 has it,
    or Filter(inclusive, filename_pattern, lineno=None, all_frames=False,
    domain=None) as Python 3.13 does; each attribute has both names, and is
    read-only.

    In *pattern*, * stands for any text, ? for one character, [...] for one of
    a set.  The endings .pyc and .pyo count as .py, in the pattern and in the
    names that it meets.  The module's own __file__ stands for all files of
    the package.
    """

    def __init__(self, include=_UNSET, pattern=_UNSET, lineno=None,
                 traceback=_UNSET, domain=None, *, inclusive=_UNSET,
                 filename_pattern=_UNSET, all_frames=_UNSET):
        verdict = _one_of("include", include, "inclusive", inclusive)
        name = _one_of("pattern", pattern, "filename_pattern",
                       filename_pattern)
        every = _one_of("traceback", traceback, "all_frames", all_frames,
                        False)
        name = os.fspath(name)
        if not isinstance(name, str):
            raise TypeError("the pattern must be a string, not "
                            + type(name).__name__)
        if lineno is not None and not isinstance(lineno, int):
            raise TypeError("lineno must be an integer or None, not "
                            + type(lineno).__name__)
        # These keys are the ones that stock pickles have.  The properties
        # below stand before them, so that they cannot be assigned.
        vars(self).update(
            inclusive=verdict, _filename_pattern=_source_name(name),
            lineno=lineno, all_frames=every, domain=domain)

    @property
    def include(self) -> bool:
        """Whether matching blocks are kept (True) or left out (False)."""
        return vars(self)["inclusive"]

    @property
    def pattern(self) -> str:
        """Pattern for the names of files."""
        return vars(self)["_filename_pattern"]

    @property
    def lineno(self) -> int | None:
        """Line number; None, or a number below 1, means any line."""
        return vars(self)["lineno"]

    @property
    def traceback(self) -> bool:
        """Whether all calls of a traceback are looked at, or the last one."""
        return vars(self)["all_frames"]

    @property
    def domain(self) -> int | None:
        """Domain that a block must be of to match; None means any."""
        return vars(self)["domain"]

    inclusive, filename_pattern, all_frames = include, pattern, traceback

    def __repr__(self):
        text = f"<Filter include={self.include!r} pattern={self.pattern!r}"
        if self.lineno is not None:
            text += f" lineno={self.lineno}"
        if self.traceback:
            text += " traceback=True"
        if self.domain is not None:
            text += f" domain={self.domain}"
        return text + ">"

    @property
    def _line(self) -> int:
        return max(self.lineno or 0, 0)

    def match(self, filename: str | None, lineno: int | None) -> bool:
        """Return whether a block allocated at this place is kept."""
        name = self.match_filename(filename)
        if not self._line:
            return name
        line = self.match_lineno(lineno)
        return name and line if self.include else name or line

    def match_filename(self, filename: str | None) -> bool:
        """Return whether the file name alone speaks for keeping a block."""
        hit = filename is not None and _fnmatch(_source_name(filename),
                                                _glob_of(self.pattern))
        return hit == bool(self.include)

    def match_lineno(self, lineno: int | None) -> bool:
        """Return whether the line alone speaks for keeping a block.

        Always true for a filter without a line.
        """
        line = self._line
        return not line or (lineno == line) == bool(self.include)

    def match_traceback(self, traceback) -> bool:
        """Return whether a block with this traceback is kept.

        *traceback* is a tuple of (filename, lineno) tuples, the most recent
        call first, or a Traceback object.
        """
        frames = _frames_of(traceback)
        if not self.traceback:
            frames = frames[:1]
        # An exclusive filter keeps what none of the frames speaks against.
        decide = any if self.include else all
        return decide(self.match(name, line) for name, line in frames)

    def _match(self, trace):
        kept = self.match_traceback(trace[2])
        if self.domain is None:
            return kept
        if self.include:
            return kept and trace[0] == self.domain
        return kept or trace[0] != self.domain

    # The two private methods that tests of 3.13 use, and which take line 0
    # and the ending .pyo literally.

    def _match_frame(self, filename, lineno):
        hit = _fnmatch(_normalize_filename(filename), _glob_of(self.pattern))
        hit = hit and self.lineno in (None, lineno)
        return hit == bool(self.include)

    def _match_traceback(self, traceback):
        return self.match_traceback(traceback)


def _one_of(first, one, second, other, default=_UNSET):
    """The value of an argument that may come under either of two names."""
    if one is _UNSET and other is _UNSET:
        if default is _UNSET:
            raise TypeError("Filter() missing 1 required argument: "
                            f"{second!r} (or {first!r})")
        return default
    if one is not _UNSET and other is not _UNSET:
        raise TypeError(f"Filter() got both {first!r} and {second!r}")
    return other if one is _UNSET else one


# Everything of Filter and DomainFilter that decides what matches.
_DECIDING = ("match", "match_filename", "match_lineno", "match_traceback",
             "_match", "_match_frame", "_match_traceback", "include",
             "inclusive", "pattern", "filename_pattern", "lineno",
             "traceback", "all_frames", "domain", "_line")


def _is_plain(filter) -> bool:
    """Whether a filter decides exactly as Filter or DomainFilter does."""
    for base in (Filter, DomainFilter):
        if isinstance(filter, base):
            cls = type(filter)
            return cls is base or all(
                getattr(cls, name, None) is getattr(base, name, None)
                for name in _DECIDING)
    return False


def rule_of(filter) -> tuple | None:
    """The rule for the engine, or None if the filter has to be asked."""
    if not _is_plain(filter):
        return None
    if isinstance(filter, DomainFilter):
        return (bool(filter.inclusive), None, 0, False, filter.domain)
    domain = -1 if filter.domain is None else filter.domain
    return (bool(filter.include), _glob_of(filter.pattern), filter._line,
            bool(filter.traceback), domain)


class Ask:
    """Decides for filters of any class, remembering what was answered.

    Traces are kept when no exclusive filter is against them and, if there
    are inclusive ones, one of them is for them.  The filters get to see
    shown(frames) in place of the frames of a trace.
    """

    def __init__(self, filters, shown=tuple):
        self._shown = shown
        self._inclusive = [f for f in filters if f.inclusive]
        self._exclusive = [f for f in filters if not f.inclusive]
        # A class with a _match() of its own may look at the size, too.
        known = (BaseFilter._match, Filter._match, DomainFilter._match)
        self._sizes = any(getattr(type(f), "_match", None) not in known
                          for f in filters)
        self._answers = {}

    def keeps(self, domain: int, size: int, frames: tuple) -> bool:
        """Return whether a trace passes all filters.

        Equal tracebacks of columns are one object, which is quicker to look
        up than what is in it; keeping it makes sure that it stays the one.
        """
        key = (domain, size if self._sizes else None, id(frames))
        known = self._answers.get(key)
        if known is None:
            trace = (domain, size, self._shown(frames), len(frames))
            known = self._answers[key] = (self._ask(trace), frames)
        return known[0]

    def _ask(self, trace):
        if not all(f._match(trace) for f in self._exclusive):
            return False
        return (not self._inclusive
                or any(f._match(trace) for f in self._inclusive))

    def keeps_line(self, filename, lineno) -> bool:
        """The same for a line of statistics, where no traceback is known."""
        def kept(f):
            match = getattr(f, "match", None)
            if match is None or getattr(f, "domain", None) is not None:
                raise ValueError("need traces")
            return match(filename, lineno)
        return (all(map(kept, self._exclusive))
                and (not self._inclusive or any(map(kept, self._inclusive))))


def _replace_live(filters: list["Filter"]) -> None:
    """Hand new live filters to the engine; the caller holds _lock."""
    _set_filters([rule_of(f) for f in filters])
    _live[:] = filters


def add_filter(filter: Filter) -> None:
    """Add a live filter: from now on it decides what is traced at all.

    A block is traced if no exclusive filter drops it and, when there are
    inclusive ones, at least one of them keeps it.  Traces that exist already
    stay; clear_traces() drops them.  The engine does the matching, so that a
    Filter subclass with matching of its own cannot be used here.
    """
    if not isinstance(filter, Filter):
        raise TypeError("add_filter() takes a Filter, not "
                        + type(filter).__name__)
    if rule_of(filter) is None:
        raise TypeError(f"{type(filter).__name__} matches in Python code, "
                        "which cannot run while memory is allocated")
    with _lock:
        _replace_live([*_live, filter])


def add_include_filter(filename: str, lineno: int | None = None,
                       traceback: bool = False) -> None:
    """Trace only what a Filter(True, ...) made of these arguments keeps."""
    add_filter(Filter(True, filename, lineno, traceback))


def add_exclude_filter(filename: str, lineno: int | None = None,
                       traceback: bool = False) -> None:
    """Do not trace what a Filter(False, ...) of these arguments drops."""
    add_filter(Filter(False, filename, lineno, traceback))


def clear_filters() -> None:
    """Remove all live filters: everything is traced again."""
    with _lock:
        _replace_live([])


def get_filters() -> list[Filter]:
    """Return the live filters, in the order in which they were added."""
    with _lock:
        return list(_live)

