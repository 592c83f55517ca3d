"""Reads the data format of pickle without being a pickle machine.

A snapshot file may come from anywhere, and the general machine executes what
a file tells it to.  This one cannot: it builds plain containers, numbers,
strings and bytes, and objects of the few classes in NAMES, by setting their
fields.  No opcode leads to a call of anything a file names.

It also never believes a length: what the file cannot hold is refused before
room is made for it.  Everything wrong with a file is a Damaged error.

Dumped snapshots consist of millions of tuples of two shapes; _TRACES finds
whole rows of the one and _FRAME the other, all other opcodes go through the
table.
"""

import datetime
import re
import struct
from ._frames import Frame, Trace, Traceback
from ._views import _Traces


class Damaged(ValueError):
    """The data is not what this module, or Python's own, would write."""


class Record:
    """A Snapshot that is still being read: *state* is what it consists of."""

    state = None


# What a file may name; everything else is refused.
NAMES = {
    ("tracemalloc", "Snapshot"): Record,
    ("tracemalloc", "_Traces"): _Traces,
    ("tracemalloc", "Trace"): Trace,
    ("tracemalloc", "Traceback"): Traceback,
    ("tracemalloc", "Frame"): Frame,
    ("datetime", "datetime"): datetime.datetime,
    ("datetime", "timedelta"): datetime.timedelta,
    ("datetime", "timezone"): datetime.timezone,
}
_BUILT = (Record, _Traces, Trace, Traceback, Frame)

_SMALL = rb"(?:K.|M..|J...[\x00-\x7f])"
_GET = rb"(?:h.|j....)"
# ( domain size frames total t, with frames that were seen before
_TRACE = re.compile(rb"\((%b)(%b)(%b)(%b)t\x94" % (_SMALL, _SMALL, _GET,
                                                   _SMALL), re.DOTALL)
_TRACES = re.compile(rb"(?:%b)++" % _TRACE.pattern, re.DOTALL)
# name line, with a name that was seen before
_FRAME = re.compile(rb"(%b)(%b)\x86\x94" % (_GET, _SMALL), re.DOTALL)


def _number(field: bytes) -> int:
    return int.from_bytes(field[1:], "little")


def _check_key(key, depth: int = 3) -> None:
    """Refuse keys whose hash would be more than a moment's work."""
    if type(key) is tuple and depth:
        for item in key:
            _check_key(item, depth - 1)
    elif key is not None and type(key) not in (str, int, float, bytes, bool):
        raise Damaged("odd key in a dictionary or set")


class _Numbers(dict):
    """The numbers that fields stand for, as far as they were asked for."""

    def __missing__(self, field):
        number = self[field] = _number(field)
        return number


class Reader:
    """One pass over *data*; afterwards *position* is behind the object."""

    def __init__(self, data: bytes):
        self._data = data
        self.position = 0
        self._stack = []
        self._marks = []        # the stacks that marks have put aside
        self._memo = []
        self._numbers = _Numbers()

    def read(self):
        """Return the object that the data describes."""
        handlers = _HANDLERS
        try:
            while True:
                opcode = self._data[self.position]
                self.position += 1
                if opcode == 0x2E:      # STOP
                    break
                handlers[opcode](self)
            (value,) = self._stack
        except Damaged:
            raise
        except KeyError as error:
            raise Damaged(f"unknown opcode {error}") from None
        except (IndexError, ValueError, TypeError, OverflowError,
                AttributeError, struct.error):
            raise Damaged(f"broken near byte {self.position}") from None
        return value

    # -- pieces of data ----------------------------------------------------

    def _take(self, length: int) -> bytes:
        start = self.position
        if not 0 <= length <= len(self._data) - start:
            raise Damaged("a length that the file cannot hold")
        self.position = start + length
        return self._data[start:self.position]

    def _unsigned(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _line(self) -> str:
        end = self._data.index(b"\n", self.position)
        text = self._take(end - self.position).decode()
        self.position += 1
        return text

    def _unmark(self) -> list:
        items = self._stack
        self._stack = self._marks.pop()
        return items

    # -- handlers of opcodes ------------------------------------------------

    def _mark(self):
        start = self.position - 1
        found = _TRACES.match(self._data, start)
        if found is None:
            self._marks.append(self._stack)
            self._stack = []
            return
        number = self._numbers.__getitem__
        domain, size, frames, total = zip(*_TRACE.findall(
            self._data, start, found.end()))
        frames = map(self._memo.__getitem__, map(number, frames))
        traces = list(zip(map(number, domain), map(number, size), frames,
                          map(number, total)))
        self._stack += traces
        self._memo += traces
        self.position = found.end()

    def _get(self, width):
        found = _FRAME.match(self._data, self.position - 1)
        if found is None:
            self._stack.append(self._memo[self._unsigned(width)])
            return
        name, line = found.groups()
        frame = (self._memo[_number(name)], _number(line))
        self._stack.append(frame)
        self._memo.append(frame)
        self.position = found.end()

    def _put(self, width):
        index = self._unsigned(width)
        if index != len(self._memo):
            raise Damaged("memo out of order")
        self._memo.append(self._stack[-1])

    def _memoize(self):
        self._memo.append(self._stack[-1])

    def _protocol(self):
        if not 2 <= self._unsigned(1) <= 5:
            raise Damaged("unknown protocol")

    def _frame(self):
        if self._unsigned(8) > len(self._data) - self.position:
            raise Damaged("a length that the file cannot hold")

    def _integer(self, width):
        self._stack.append(self._unsigned(width))

    def _signed(self, width):
        length = 4 if width is None else self._unsigned(width)
        self._stack.append(int.from_bytes(self._take(length), "little",
                                          signed=True))

    def _float(self):
        self._stack.append(*struct.unpack(">d", self._take(8)))

    def _bytes(self, width):
        self._stack.append(self._take(self._unsigned(width)))

    def _bytearray(self):
        self._stack.append(bytearray(self._take(self._unsigned(8))))

    def _string(self, width):
        text = self._take(self._unsigned(width))
        self._stack.append(text.decode("utf-8", "surrogatepass"))

    def _tuple(self, length):
        stack = self._stack
        if length is None:
            items = self._unmark()
        else:
            if len(stack) < length:
                raise Damaged("nothing left to put into a tuple")
            items = stack[len(stack) - length:]
            del stack[len(stack) - length:]
        self._stack.append(tuple(items))

    def _list_items(self, many):
        items = self._unmark() if many else [self._stack.pop()]
        target = self._stack[-1]
        if type(target) is not list:
            raise Damaged("items for something that is not a list")
        target += items

    def _dict_items(self, many):
        items = (self._unmark() if many
                 else [self._stack.pop(-2), self._stack.pop()])
        target = self._stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise Damaged("items for something that is not a dictionary")
        for key in items[::2]:
            _check_key(key)
        target.update(zip(items[::2], items[1::2]))

    def _set_items(self):
        items = self._unmark()
        for item in items:
            _check_key(item)
        target = self._stack[-1]
        if type(target) is not set:
            raise Damaged("items for something that is not a set")
        target.update(items)

    def _frozenset(self):
        items = self._unmark()
        for item in items:
            _check_key(item)
        self._stack.append(frozenset(items))

    def _name(self, module, name):
        if (module, name) not in NAMES:
            raise Damaged(f"it names {module[:50]!a}, {name[:50]!a}")
        self._stack.append(NAMES[module, name])

    def _global(self):
        self._name(self._line(), self._line())

    def _stack_global(self):
        name, module = self._stack.pop(), self._stack.pop()
        if type(name) is not str or type(module) is not str:
            raise Damaged("a name that is not a string")
        self._name(module, name)

    def _new(self):
        arguments, cls = self._stack.pop(), self._stack.pop()
        if arguments != () or not any(cls is known for known in _BUILT):
            raise Damaged("an object that cannot be made")
        self._stack.append(cls.__new__(cls))

    def _reduce(self):
        arguments, function = self._stack.pop(), self._stack.pop()
        kinds = tuple(map(type, arguments))
        if function is datetime.datetime:
            right = kinds in ((bytes,), (bytes, datetime.timezone))
            right = right and len(arguments[0]) == 10
        elif function is datetime.timedelta:
            right = kinds == (int, int, int)
        elif function is datetime.timezone:
            right = kinds in ((datetime.timedelta,), (datetime.timedelta, str))
        else:
            right = False
        if not right:
            raise Damaged("it wants something to be called")
        self._stack.append(function(*arguments))

    def _build(self):
        state, target = self._stack.pop(), self._stack[-1]
        kind = type(target)
        if kind is Record:
            if type(state) is not dict or target.state is not None:
                raise Damaged("a snapshot of nothing")
            target.state = state
        elif kind is _Traces:
            if (type(state) is not dict or [*state] != ["_traces"]
                    or type(state["_traces"]) not in (list, tuple)):
                raise Damaged("traces that are not a sequence")
            target.__setstate__(state)
        else:
            _set_slots(target, state)

    def _constant(self, value):
        self._stack.append(value)

    def _pop(self):
        if self._stack:
            self._stack.pop()
        else:
            self._unmark()


def _set_slots(target, state):
    """Set the fields of a Frame, Traceback or Trace."""
    kind = type(target)
    if kind not in (Frame, Traceback, Trace):
        raise Damaged("fields for something that has none")
    nothing, fields = state
    if nothing is not None or {*fields} != {*kind.__slots__}:
        raise Damaged(f"wrong fields of a {kind.__name__}")
    for name, value in fields.items():
        if name != "_total_nframe" and type(value) is not tuple:
            raise Damaged(f"wrong fields of a {kind.__name__}")
        setattr(target, name, value)


def _with(method, *arguments):
    return lambda reader: method(reader, *arguments)


def _fresh(kind):
    return lambda reader: reader._stack.append(kind())


_HANDLERS = {
    0x80: Reader._protocol, 0x95: Reader._frame, 0x94: Reader._memoize,
    ord("("): Reader._mark, ord("0"): Reader._pop,
    ord("1"): lambda reader: reader._unmark() and None,
    ord("h"): _with(Reader._get, 1), ord("j"): _with(Reader._get, 4),
    ord("q"): _with(Reader._put, 1), ord("r"): _with(Reader._put, 4),
    ord("K"): _with(Reader._integer, 1), ord("M"): _with(Reader._integer, 2),
    ord("J"): _with(Reader._signed, None),
    0x8A: _with(Reader._signed, 1), 0x8B: _with(Reader._signed, 4),
    ord("G"): Reader._float,
    0x8C: _with(Reader._string, 1), ord("X"): _with(Reader._string, 4),
    0x8D: _with(Reader._string, 8),
    ord("C"): _with(Reader._bytes, 1), ord("B"): _with(Reader._bytes, 4),
    0x8E: _with(Reader._bytes, 8), 0x96: Reader._bytearray,
    ord("N"): _with(Reader._constant, None),
    0x88: _with(Reader._constant, True), 0x89: _with(Reader._constant, False),
    ord("t"): _with(Reader._tuple, None), ord(")"): _with(Reader._tuple, 0),
    0x85: _with(Reader._tuple, 1), 0x86: _with(Reader._tuple, 2),
    0x87: _with(Reader._tuple, 3),
    ord("]"): _fresh(list), ord("}"): _fresh(dict), 0x8F: _fresh(set),
    ord("a"): _with(Reader._list_items, False),
    ord("e"): _with(Reader._list_items, True),
    ord("s"): _with(Reader._dict_items, False),
    ord("u"): _with(Reader._dict_items, True),
    0x90: Reader._set_items, 0x91: Reader._frozenset,
    ord("c"): Reader._global, 0x93: Reader._stack_global,
    0x81: Reader._new, ord("R"): Reader._reduce, ord("b"): Reader._build,
}
