"""Run a program traced from its start to its exit, and show where its memory is.

The command "run" of the command line.  The program ends as it would without:
with its own exit status, after its threads and its exit functions.
"""

import argparse
import atexit
import builtins
import errno
import io
import os
import re
import signal
import sys
import _tracemalloc
from ._display import DisplayTop
from ._filters import Filter
from ._show import Failure, _count
from ._snapshot import Snapshot

# The output streams are the program's.
QUIET = True


def _frames(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError("it must be from 1 to 65535")
    return number


def _bytes(text: str) -> int:
    """A number of bytes, perhaps with a unit, as -X tracemalloc_sample takes it."""
    match = re.fullmatch(r"([0-9]+)(?:([kmg])(?:ib)?)?", text, re.I | re.A)
    number = 0
    if match is not None:
        number = int(match[1]) << " kmg".index((match[2] or " ").lower()) * 10
    if not 1 <= number < 1 << 63:
        raise argparse.ArgumentTypeError(
            f"{text}: it must be a number of bytes from 1 on, such as 512k or 1m")
    return number


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.usage = ("%(prog)s [-o FILE] [--nframe N] [--sample N] [--top N] "
                    "(SCRIPT | -m MODULE) [ARGS ...]")
    add = parser.add_argument
    add("-o", "--output", metavar="FILE",
        help="write a snapshot to this file at the end")
    add("--nframe", metavar="N", type=_frames, default=25,
        help="frames of a traceback to keep (default: 25)")
    add("--sample", metavar="N", type=_bytes,
        help="trace a sample: one block in about N bytes")
    add("-n", "--top", metavar="N", type=_count, default=10,
        help="how many lines to show (default: 10)")
    add("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE",
        help="run a module, as python -m does")
    add("program", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGS ...]",
        help="the program, and its arguments")


class _Report:
    """Shows the top, once: at exit, or when SIGTERM ends the program."""

    def __init__(self, options):
        self._options = options
        self._pid = os.getpid()
        self._output = options.output and os.path.abspath(options.output)

    def __call__(self):
        pid, self._pid = self._pid, None
        if pid != os.getpid() or not _tracemalloc.is_tracing():
            return      # a forked child, or the program has stopped tracing
        try:
            self._report()
        except Exception as error:
            _tracemalloc.stop()
            self._say("tracemalloc: the top cannot be shown: "
                      f"{type(error).__name__}\n")

    def _report(self):
        snapshot = Snapshot.create(traces=self._output is not None)
        _tracemalloc.stop()
        if self._output is not None:
            try:
                snapshot.write(self._output)
            except OSError as error:
                self._say(f"tracemalloc: {self._output or repr('')}: "
                          f"{error.strerror or error}\n")
        snapshot.apply_filters([Filter(False, name) for name in _OWN])
        text = io.StringIO()
        top = DisplayTop()
        top.color = False
        if self._options.top:
            top.display_top_stats(snapshot.top_by("line"), self._options.top,
                                  text)
            self._say(text.getvalue())

    def _say(self, text):
        try:
            sys.stdout.flush()
        except (AttributeError, OSError, ValueError, RuntimeError):
            pass        # also in the middle of a write, when SIGTERM comes
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError, RuntimeError):
            pass        # there is no place left to show it

    def terminated(self, signum, frame):
        """Report, then die of the signal as the program would have."""
        try:
            self()
        finally:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)


def _find(options):
    """Find the program: (its arguments, sys.path[0], file, code, spec)."""
    import runpy
    if options.program[:1] == ["--"]:
        del options.program[0]
    if options.module:
        try:
            _, spec, code = runpy._get_module_details(options.module[0])
        except ImportError as error:
            raise Failure(str(error)) from None
        return ([spec.origin, *options.module[1:]], os.getcwd(), spec.origin,
                code, spec)
    if options.module is not None or not options.program:
        raise Failure("run: a program is needed: SCRIPT or -m MODULE", 2)
    path = options.program[0]
    if not os.path.isdir(path) and not _is_archive(path):
        return (options.program, os.path.dirname(os.path.realpath(path)),
                os.path.abspath(path), _read(path), None)
    sys.path.insert(0, path)
    try:
        _, spec, code = runpy._get_main_module_details()
    except ImportError as error:
        raise Failure(f"{path}: {error}") from None
    finally:
        sys.path.remove(path)
    return options.program, path, spec.origin or path, code, spec


def _read(path):
    """Source or code of a script."""
    import importlib.util
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from None
    if source[:4] != importlib.util.MAGIC_NUMBER:
        return source
    import marshal
    try:
        code = marshal.loads(source[16:])
    except (EOFError, ValueError, TypeError):
        code = None
    if not isinstance(code, type(_read.__code__)):
        raise Failure(f"{path}: bad code in a .pyc file")
    return code


def _is_archive(path):
    import zipimport
    try:
        zipimport.zipimporter(path)
    except zipimport.ZipImportError:
        return False
    return True


def _main_module(name, spec):
    """Make a new __main__, as the interpreter does."""
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    values = vars(module)
    values["__builtins__"] = builtins
    values["__file__"] = name
    if spec is None:
        from importlib.machinery import SourceFileLoader
        values["__loader__"] = SourceFileLoader("__main__", name)
    else:
        values |= {"__spec__": spec, "__loader__": spec.loader,
                   "__package__": spec.parent, "__cached__": spec.cached}
    return values


def _hide_own_frames(error):
    """Let the traceback of an exception begin in the program."""
    shown = getattr(sys, "excepthook", None)
    if not callable(shown):
        return

    def hook(kind, value, traceback):
        sys.excepthook = shown
        while traceback is not None and (
                traceback.tb_frame.f_code.co_filename in _OWN
                or traceback.tb_frame.f_globals.get("__name__") == "runpy"):
            traceback = traceback.tb_next
        return sys.excepthook(kind, value.with_traceback(traceback),
                              traceback)
    sys.excepthook = hook


def _show_an_exception():
    """Show one to nobody: what that imports is not seen as the program's."""
    import traceback
    try:
        [][0]
    except IndexError as error:
        traceback.print_exception(error, file=io.StringIO())


_OWN = {__file__, os.path.join(os.path.dirname(__file__), "__main__.py"),
        "<frozen runpy>"}


def _can_write(path):
    """Before the program runs: at its end it would be too late."""
    if os.path.isdir(path):
        raise Failure(f"{path}: {os.strerror(errno.EISDIR)}")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise Failure(f"{path}: {os.strerror(errno.ENOENT)}")
    if not os.access(folder, os.W_OK):
        raise Failure(f"{path}: {os.strerror(errno.EACCES)}")


def run(options):
    """Get all ready; return what runs the program, for the end of main()."""
    if options.output is not None:
        _can_write(options.output)
    _show_an_exception()
    arguments, entry, name, code, spec = _find(options)
    report = _Report(options)
    # First in, last out: after the threads and the program's own functions.
    atexit.register(report)
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, report.terminated)
    sys.argv[:] = arguments
    if not sys.flags.safe_path:
        sys.path[0] = entry
    elif spec is not None and not options.module:
        sys.path.insert(0, entry)
    values = _main_module(name, spec)

    def program():
        try:
            _tracemalloc.start(options.nframe, sample_interval=options.sample)
            exec(code if spec is not None or not isinstance(code, bytes)
                 else compile(code, name, "exec", dont_inherit=True), values)
        except BaseException as error:
            _hide_own_frames(error)
            raise
    return program
