"""What the tests of the engine share: tracing that begins and ends cleanly,
fresh interpreters, expected tracebacks, a C compiler.

The tests talk to the C door (_tracemalloc) only, so that nothing which the
Python package does can hide what the engine does.
"""

import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import types
import unittest
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import _tracemalloc as engine
from test import support

Frames = tuple[tuple[str, int], ...]
GIL_DISABLED = support.Py_GIL_DISABLED

# A size that no other block is likely to have; served by a pool.
ODD = 457


class Traced(NamedTuple):
    """One trace: domain, bytes, kept frames (most recent first), all frames."""

    domain: int
    size: int
    frames: Frames
    total: int


def stop_everything() -> None:
    """Bring the engine back to what it is when an interpreter starts."""
    engine._fail_after(0)
    if hasattr(engine, "_set_filters"):
        engine._set_filters(())
    engine.set_fork_policy(None)
    engine.cancel_tasks()
    engine.stop()
    engine.set_traceback_limit(1)
    engine.set_sample_interval(1)


class Untraced(unittest.TestCase):
    """A test that begins and ends without tracing; the engine's invariants
    are checked before tracing is stopped."""

    def setUp(self) -> None:
        if engine.is_tracing():
            self.skipTest("memory is being traced already")
        self.addCleanup(stop_everything)
        self.addCleanup(self.check_engine)

    def check_engine(self) -> None:
        """Assert that the engine is sound."""
        self.assertIsNone(engine._check())


class Tracing(Untraced):
    """A test that begins with tracing on."""

    limit = 100

    def setUp(self) -> None:
        super().setUp()
        engine.start(self.limit)


def objects_are_announced() -> bool:
    """Does the interpreter tell the engine of every new object?"""
    was_on = engine.is_tracing()
    if not was_on:
        engine.start()
    numbers = [i * 1.5 for i in range(1000)]
    del numbers
    number = 3 * len("abc") / 2
    line = sys._getframe().f_lineno - 1
    frames = engine._get_object_traceback(number)
    if not was_on:
        engine.stop()
    return frames is not None and frames[0] == (__file__, line)


# --- tracebacks ---

def walk(frame: types.FrameType | None) -> Frames:
    """The frames from this one outwards as the engine should see them."""
    found = []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(found)


class Probe:
    """A block made at some place, and what its traceback should be.

    Call it as Probe(bytearray(1), sys._getframe()): on one line, the block
    first, so that no frame object exists yet when the block is made.
    """

    def __init__(self, block: bytearray, frame: types.FrameType) -> None:
        self.block = block
        self.expected = walk(frame)

    def trace(self) -> Traced:
        """What the engine knows of the block."""
        frozen = engine._freeze()
        index = frozen.get_by_address(engine.get_object_address(self.block))
        if index < 0:
            raise AssertionError("the block is not traced")
        return Traced(*frozen.trace(index))

    def check(self, test: unittest.TestCase, limit: int | None = None) -> None:
        """Assert that the traceback is the expected one."""
        if limit is None:
            limit = engine.get_traceback_limit()
        frames = engine._get_object_traceback(self.block)
        test.assertEqual(frames, self.expected[:limit])


def here(ahead: int = 0) -> tuple[str, int]:
    """The caller's place, or that many lines on."""
    frame = sys._getframe(1)
    return frame.f_code.co_filename, frame.f_lineno + ahead


def traces_of(filename: str) -> list[Traced]:
    """The traces whose most recent frame is in a file."""
    return [trace for trace in map(Traced._make, engine._get_traces())
            if trace.frames[0][0] == filename]


def traces_at(filename: str, lineno: int) -> list[Traced]:
    """The traces whose most recent frame is that line."""
    return [trace for trace in traces_of(filename)
            if trace.frames[0][1] == lineno]


def made_in(filename: str, source: str, **names: Any) -> dict[str, Any]:
    """Run source under a file name of its own; its namespace."""
    exec(compile(textwrap.dedent(source), filename, "exec"), names)
    return names


def below(depth: int, call: Callable[[], Any]) -> Any:
    """Call with that many more frames on the stack."""
    return call() if depth == 0 else below(depth - 1, call)


# --- fresh interpreters ---

class Ended(NamedTuple):
    """How a child process ended."""

    status: int
    out: str
    err: str


def clean_env(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without PYTHON*, and with env."""
    base = {name: value for name, value in os.environ.items()
            if not name.startswith("PYTHON")}
    # A sanitizer must not judge what a test provokes on purpose.
    base.update(env or {})
    return base


def run_child(code: str, *options: str, env: Mapping[str, str] | None = None,
              argv: tuple[str, ...] = (), before: str = "",
              timeout: float = support.LONG_TIMEOUT) -> Ended:
    """Run code (after `before`) in a fresh interpreter of this build."""
    command = [sys.executable, "-X", "faulthandler", *options, "-c",
               before + textwrap.dedent(code), *argv]
    # A session of its own: what hangs is killed with all that it started.
    process = subprocess.Popen(
        command, env=clean_env(env), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        raise AssertionError(f"the child hangs; it wrote:\n{out}\n{err}")
    return Ended(process.returncode, out, err)


def child_says(test: unittest.TestCase, wanted: str, code: str, *options: str,
               **more: Any) -> None:
    """Assert that a child ends well and prints exactly that."""
    done = run_child(code, *options, **more)
    if done.status or done.out.strip() != wanted:
        test.fail(f"status {done.status}, wanted {wanted!r}\n"
                  f"--- stdout\n{done.out[-3000:]}\n--- stderr\n{done.err[-5000:]}")


# --- C extensions ---

def compiled(name: str, source: str) -> str:
    """Compile a C extension for this interpreter; the path of the library.

    The folder lives as long as this process.  Raises SkipTest when there is no
    compiler, or no headers.
    """
    if sys.platform == "win32" or support.is_emscripten or support.is_wasi:
        raise unittest.SkipTest("no C compiler that we know how to call")
    key = name, source
    if key not in _compiled:
        _compiled[key] = _compile(name, source)
    if isinstance(_compiled[key], unittest.SkipTest):
        raise _compiled[key]
    return _compiled[key]


_compiled: dict[tuple[str, str], Any] = {}
_folders: list[tempfile.TemporaryDirectory] = []


def _include_folders() -> Iterator[str]:
    yield sysconfig.get_path("include")
    yield os.path.dirname(sysconfig.get_config_h_filename())
    if sysconfig.is_python_build():
        yield os.path.join(sysconfig.get_config_var("srcdir"), "Include")


def _compile(name: str, source: str) -> str | unittest.SkipTest:
    folder = tempfile.TemporaryDirectory(prefix="tm_engine_")
    _folders.append(folder)
    c_file = os.path.join(folder.name, name + ".c")
    library = os.path.join(folder.name,
                           name + sysconfig.get_config_var("EXT_SUFFIX"))
    with open(c_file, "w", encoding="utf-8") as f:
        f.write(source)
    command = (sysconfig.get_config_var("CC") or "cc").split()
    # The flags of the build, for the sake of sanitizers.
    command += (sysconfig.get_config_var("BASECFLAGS") or "").split()
    command += ["-O1", "-g", "-std=c11", "-fPIC", "-shared", "-pthread"]
    if GIL_DISABLED:
        command.append("-DPy_GIL_DISABLED=1")
    command += [f"-I{path}" for path in _include_folders()]
    command += [c_file, "-o", library]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    except OSError as exc:
        return unittest.SkipTest(f"no compiler: {exc}")
    if done.returncode:
        if "Python.h" in done.stdout and "No such file" in done.stdout:
            return unittest.SkipTest("no headers")
        raise AssertionError(f"the extension does not compile:\n{done.stdout}")
    return library


def loaded(name: str, source: str) -> types.ModuleType:
    """Compile and import a C extension."""
    path = compiled(name, source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loading(name: str, source: str) -> str:
    """Statements with which a child imports a C extension as `name`."""
    return (f"import importlib.util as _u\n"
            f"_s = _u.spec_from_file_location({name!r}, {compiled(name, source)!r})\n"
            f"{name} = _u.module_from_spec(_s); _s.loader.exec_module({name})\n")
