"""Signals that trace a running service: register(), and what each one does.

The first signal starts tracing and writes a snapshot, the second writes
another one and the difference, and stops.  The signal itself is caught by
the interpreter; _arrived() is called at a safe point of the main thread, and
nothing that goes wrong in here may reach the program.

All that is needed then has to be imported with this module: the signal may
come in the middle of an import.
"""

import _operator as operator
import os
import sys
import time
import _tracemalloc
from . import _difference, _folders, _requests
from ._files import store
from ._snapshot import Snapshot

ENVIRONMENT = "PYTHONTRACEMALLOC_SIGNAL"
LIMIT = 25
_MOST_FRAMES = 65535
_PLAIN, _ASKED = 1, 2
# Files of one second that a reused pid may have left behind.
_TRIES = 50


class Reservation:
    """A reserved signal: its options, and how far its pair has got."""

    def __init__(self, signum: int):
        self.signum = signum
        self.name = name_of(signum)
        self.pinned = False
        self.forget()

    def forget(self) -> None:
        """Begin anew: the next signal is a first one."""
        self.first = None       # the first snapshot of a pair
        self.run = None         # of which run of tracing, see running()
        self.started = False    # whether this signal has started that run

    def configure(self, nframe, directory, sample_interval) -> None:
        self.nframe = nframe
        self.directory = directory
        self.sample_interval = sample_interval

    def signalled(self) -> None:
        """Do what this signal stands for."""
        if self.first is None or self.run != running():
            self._open()
        else:
            self._close()

    def _open(self):
        if running() is None:
            start(self.nframe, self.sample_interval)
            self.started, self.run = True, running()
        elif self.run != running():
            self.started, self.run = False, running()
        self.first = take()
        self.save(lambda files, stem: files.add(
            stem + ".snapshot", store, self.first))

    def _close(self):
        first = self.first
        try:
            second = take()
        finally:
            self.end()
        difference = _difference.Difference(first, second)

        def add(files, stem):
            files.add(stem + ".snapshot", store, second)
            files.add(stem + ".diff.json", put, difference.json())
            files.add(stem + ".diff.txt", put, difference.text())
        self.save(add)

    def end(self) -> None:
        """End what the first signal has begun."""
        if self.started and self.run == running():
            stop()
        self.forget()

    def save(self, add) -> str:
        """Write files whose names begin alike; return how they begin.

        add(files, stem) makes them.
        """
        folder = _folders.open_folder(self.directory)
        try:
            for again in range(_TRIES):
                stem = _process.stem()
                try:
                    with _folders.Files(folder) as files:
                        add(files, stem)
                        _tracemalloc._signal_answered(self.signum)
                        files.publish()
                    return stem
                except FileExistsError:
                    if again == _TRIES - 1:
                        raise
        finally:
            os.close(folder)


class _Process:
    """What is to be forgotten in a forked child."""

    def __init__(self):
        self.pid = os.getpid()
        self.counter = 0
        self.last = None        # the last snapshot, for a later difference
        self.last_run = None    # and of which run of tracing
        self.before = None      # the run that start() has begun; the limit
                                # and the sample interval before that

    def stem(self) -> str:
        """How the names of the next files begin."""
        self.counter += 1
        return (f"tracemalloc-{self.pid}-{time.strftime('%Y%m%dT%H%M%S')}"
                f"-{self.counter:04d}")


_process = _Process()
_reservations: dict[int, Reservation] = {}


def process() -> _Process:
    """The record of this process; in a forked child a new one."""
    global _process
    if _process.pid != os.getpid():
        before = _process.before
        _process = _Process()
        _process.before = before
        for reservation in _reservations.values():
            reservation.first = None
    return _process


def reservations() -> list[Reservation]:
    """All reserved signals."""
    return [_reservations[signum] for signum in sorted(_reservations)]


def running() -> int | None:
    """The number of this run of tracing, since the program may stop and start
    it at any time; None if it is off."""
    return _tracemalloc._starts() if _tracemalloc.is_tracing() else None


def last() -> Snapshot | None:
    """The last snapshot of this run of tracing."""
    found = process()
    return found.last if found.last_run == running() else None


def forget() -> None:
    """Tracing was stopped: all pairs begin anew."""
    process().last = None
    for reservation in _reservations.values():
        reservation.forget()


# -- steps ------------------------------------------------------------------

def start(nframe: int, sample_interval: int | None) -> None:
    """Start tracing; by default a forked child does not go on with it."""
    before = (_tracemalloc.get_traceback_limit(),
              _tracemalloc.get_sample_interval())
    try:
        _tracemalloc.set_traceback_limit(nframe)
        if sample_interval is not None:
            _tracemalloc.set_sample_interval(sample_interval)
        _tracemalloc.enable()
    except BaseException:
        _restore(*before)
        raise
    process().before = (running(), *before)


def _restore(limit, sample_interval):
    _tracemalloc.set_traceback_limit(limit)
    _tracemalloc.set_sample_interval(sample_interval)


def stop() -> None:
    """Stop tracing; the program finds its settings as they were."""
    run = running()
    _tracemalloc.stop()
    before, process().before = process().before, None
    if before is not None and before[0] == run:
        _restore(*before[1:])


def take() -> Snapshot:
    """Take a snapshot, which later differences can be made with."""
    snapshot = Snapshot.create(traces=True)
    process().last, process().last_run = snapshot, running()
    return snapshot


def put(text: str, file) -> None:
    """Write a text to a binary file."""
    file.write(text.encode("utf-8", "backslashreplace"))


def complain(name: str, problem) -> None:
    """Write one line about what could not be done."""
    if sys.stderr is None:      # descriptor 2 may be anything
        return
    if isinstance(problem, OSError) and problem.strerror:
        place = problem.filename
        problem = f"{place}: {problem.strerror}" if place else problem.strerror
    elif not isinstance(problem, str):
        problem = f"{type(problem).__name__}: {problem}"
    line = f"tracemalloc: {name}: {problem}".replace("\n", " ") + "\n"
    try:
        os.write(2, line.encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def _arrived(signum, kinds):
    """A signal has arrived; called by the interpreter."""
    reservation = _reservations.get(signum)
    if reservation is None:
        return
    try:
        process()
        if kinds & _PLAIN:
            reservation.signalled()
    except Exception as error:
        complain(reservation.name, error)
    try:
        _requests.answer_all(reservation, bool(kinds & _ASKED))
    except Exception as error:
        complain(reservation.name, error)


# -- reserving --------------------------------------------------------------

def name_of(signum: int) -> str:
    """Name a signal as signal.Signals does, without importing that."""
    import _signal
    for name, value in vars(_signal).items():
        if value == signum and name.startswith("SIG") and name[3] != "_":
            return name
    return f"signal {signum}"


def _checked(nframe, directory, sample_interval):
    """Check the options that register() and the command line share."""
    if not isinstance(nframe, int):
        raise TypeError("nframe must be an int, not "
                        f"{type(nframe).__name__}")
    if not 1 <= nframe <= _MOST_FRAMES:
        raise ValueError("the number of frames must be in range "
                         f"[1; {_MOST_FRAMES}]")
    if sample_interval is not None:
        if not isinstance(sample_interval, int):
            raise TypeError("sample_interval must be an int or None, not "
                            f"{type(sample_interval).__name__}")
        if not 1 <= sample_interval < 1 << 63:
            raise ValueError("sample_interval must be in range [1; 2**63 - 1]")
    return nframe, os.path.abspath(os.fsdecode(directory)), sample_interval


def register(signum: int, *, nframe: int = LIMIT, directory: str = ".",
             sample_interval: int | None = None) -> None:
    """Let a signal trace memory from its first arrival to its second.

    The first one starts tracing with *nframe* frames a block and writes a
    snapshot into *directory*; the second writes another snapshot and the
    difference as text and as JSON, and stops tracing.  Then it starts over.
    With *sample_interval*, only a sample of the blocks is traced.

    The signal stays reserved, in forked children too, whatever is set for it
    with signal.signal(); such a handler is called as well.
    """
    options = _checked(nframe, directory, sample_interval)
    os.close(_folders.open_folder(options[1]))
    signum = operator.index(signum)
    reservation = _reservations.get(signum) or Reservation(signum)
    old = vars(reservation).copy()
    reservation.configure(*options)
    _reservations[signum] = reservation
    try:
        _tracemalloc._signal_reserve(signum, _arrived)
    except BaseException:
        if "nframe" in old:
            vars(reservation).update(old)
        else:
            del _reservations[signum]
        raise


def unregister(signum: int) -> bool:
    """Give a signal back; return whether it was reserved by register().

    Tracing that its first arrival has started ends.  RuntimeError if an option
    of the interpreter has reserved it.
    """
    released = _tracemalloc._signal_release(signum)
    reservation = _reservations.pop(operator.index(signum), None)
    if reservation is not None:
        reservation.end()
    return released


# -- -X tracemalloc_signal and PYTHONTRACEMALLOC_SIGNAL ----------------------

def _parse(text):
    """Split NAME[,option=value...]; two commas in a value mean one."""
    name, comma, rest = text.partition(",")
    options = {}
    for item in rest.replace(",,", "\0").split(",") if comma else ():
        key, equals, value = item.replace("\0", ",").partition("=")
        if key == "inherited" and not equals:
            options[key] = True
        elif key in ("nframe", "sample_interval"):
            try:
                options[key] = int(value)
            except ValueError:
                raise ValueError(f"{key} must be a number, not "
                                 f"{value!r}") from None
        elif key == "directory" and value:
            options[key] = value
        else:
            raise ValueError(f"no such option: {item!r}")
    return name, options


def _export(name, reservation):
    """Leave the option to children, also when it came from -X."""
    items = [name, f"nframe={reservation.nframe}"]
    if reservation.sample_interval is not None:
        items.append(f"sample_interval={reservation.sample_interval}")
    items.append("directory=" + reservation.directory.replace(",", ",,"))
    items.append("inherited")
    os.environ[ENVIRONMENT] = ",".join(items)


def _begin(text):
    """The interpreter has reserved a signal: take it over."""
    name, options = _parse(text)
    inherited = options.pop("inherited", False)
    signum = _tracemalloc._signal_number(name)
    reservation = Reservation(signum)
    reservation.pinned = True
    directory = options.get("directory", ".")
    try:
        reservation.configure(*_checked(
            options.get("nframe", LIMIT), directory,
            options.get("sample_interval")))
    except OSError as error:
        raise ValueError(f"{directory}: {error.strerror}") from None
    if not inherited:
        # A child may run as somebody else, whom the folder does not suit; it
        # has to start all the same, and complains when it cannot write.
        try:
            os.close(_folders.open_folder(reservation.directory))
        except OSError as error:
            raise ValueError(f"{error.filename}: {error.strerror}") from None
    _export(name, reservation)
    _reservations[signum] = reservation
    _tracemalloc._signal_reserve(signum, _arrived)
