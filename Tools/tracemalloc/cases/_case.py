"""What the cases share: fresh interpreters, failing, skipping, a C compiler.

A case is a program.  It ends with ``OK`` and status 0 when the interpreter
that runs it behaves; with ``FAIL: why`` and status 1 when not; with status 77
when it cannot run here (no compiler, no _testcapi, another platform).
Nothing here is kept between cases; build_ext() removes its folder at exit.

TRACEMALLOC_CASE_SCALE multiplies every time limit (slow builds: debug, asan).
"""
import atexit
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
from collections.abc import Mapping, Sequence

SKIPPED = 77
GIL_DISABLED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
# It keeps freed memory for a while and has mapped terabytes: sizes of the
# process mean nothing.
ADDRESS_SANITIZER = "-fsanitize=address" in (
    sysconfig.get_config_var("BASECFLAGS") or "")
Result = tuple[int | str, str, str]     # status or "timeout", stdout, stderr


def scaled(seconds: float) -> float:
    """A time limit in seconds, stretched for slow builds."""
    return seconds * float(os.environ.get("TRACEMALLOC_CASE_SCALE") or 1)


def clean_env(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process' environment without PYTHON*, and with env added."""
    base = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    base.update(env or {})
    if GIL_DISABLED and "PYTHONMALLOC" in base:
        # The one allocator that the free-threaded build has stands in.
        base["PYTHONMALLOC"] = re.sub("^(py)?malloc", "mimalloc",
                                      base["PYTHONMALLOC"])
    return base


def child(code: str, *opts: str, env: Mapping[str, str] | None = None,
          timeout: float = 60, argv: Sequence[str] = ()) -> Result:
    """Run code in a fresh interpreter of this build."""
    cmd = [sys.executable, *opts, "-c", textwrap.dedent(code), *argv]
    # A session of its own: what hangs is killed with everything it started.
    p = subprocess.Popen(cmd, env=clean_env(env), text=True, errors="replace",
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = p.communicate(timeout=scaled(timeout))
        return p.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, 9)
        out, err = p.communicate()
        return "timeout", out, err


def fail(*why: object) -> None:
    """Say why the case failed and end it."""
    print("FAIL:", *why)
    sys.exit(1)


def skip(why: str) -> None:
    """Say why the case cannot run here and end it."""
    print("CANNOT RUN HERE:", why)
    sys.exit(SKIPPED)


def need(cond: object, *why: object) -> None:
    """Fail unless cond is true."""
    if not cond:
        fail(*why)


def clean(res: Result, what: str, want_out: str | None = None,
          can_skip: str | None = None) -> str:
    """Fail unless a child ended with status 0 (and printed want_out).

    can_skip: the reason to give when the child ended with status 77.
    """
    rc, out, err = res
    if can_skip is not None and rc == SKIPPED:
        skip(can_skip)
    if rc != 0:
        fail(what, "-> exit", rc, "| out:", out[-300:], "| err:", err[-700:])
    if want_out is not None and out.strip() != want_out:
        fail(what, "-> printed", repr(out[-500:]), "| err:", err[-500:])
    return out


def build_ext(source: str, name: str = "casemod") -> str:
    """Compile a C extension for this interpreter; return its folder."""
    folder = tempfile.mkdtemp(prefix="tmcase_")
    atexit.register(shutil.rmtree, folder, True)
    include = [sysconfig.get_path("include"),
               os.path.dirname(sysconfig.get_config_h_filename())]
    srcdir = sysconfig.get_config_var("srcdir")
    if srcdir:
        include.append(os.path.join(srcdir, "Include"))
    c_file = os.path.join(folder, name + ".c")
    with open(c_file, "w") as f:
        f.write(source)
    cmd = (sysconfig.get_config_var("CC") or "cc").split()
    cmd += ["-O1", "-g", "-fPIC", "-shared", "-pthread"]
    cmd += ["-I" + i for i in include]
    cmd += [c_file, "-o", os.path.join(folder, name + ".so")]
    try:
        p = subprocess.run(cmd, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    except OSError as exc:
        skip(f"no compiler: {exc}")
    if p.returncode:
        skip(f"no compiler or headers: {p.stdout[-800:]}")
    return folder


def perf_maps() -> set[str]:
    """The perf map files that are there now."""
    return {n for n in os.listdir("/tmp")
            if n.startswith("perf-") and n.endswith(".map")}


def drop_perf_maps(before: set[str]) -> None:
    """Remove the perf map files that have appeared since (after a crash).

    The folder is everybody's: only one such case may run at a time.
    """
    for name in perf_maps() - before:
        try:
            os.remove(os.path.join("/tmp", name))
        except OSError:
            pass
