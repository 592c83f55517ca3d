#!/usr/bin/env python3
"""Profilers from PyPI find the same with and without memory tracing.

usage: run.py --python BUILT --folder DIR [NAME ...]

Makes a virtual environment of the built interpreter in DIR, installs the profilers of requirements.txt into it, which takes a network
the first time, and runs each on program.py: without tracing, with it, and while it is switched on and off.
Exit status 0: all the same; 1: not; 2: the profilers cannot be installed.
"""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("yappi", "coverage", "line_profiler", "pyinstrument")


def make_environment(python: str, folder: pathlib.Path) -> pathlib.Path:
    """The interpreter of an environment that has the profilers."""
    inner = folder / "bin" / "python"
    wanted = (HERE / "requirements.txt").read_text()
    stamp = folder / "requirements.txt"
    if not (stamp.exists() and stamp.read_text() == wanted and inner.exists()):
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([inner, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--only-binary", ":all:", "-r",
                        HERE / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    return inner


def found(python: pathlib.Path, name: str, how: str) -> object:
    done = subprocess.run([python, HERE / "drivers.py", name, how], capture_output=True, text=True, errors="replace")
    if done.returncode:
        return f"exit status {done.returncode}: {done.stderr.strip()[-2000:]}"
    return json.loads(done.stdout)


def difference(wanted: object, got: object) -> str:
    if isinstance(wanted, list) and isinstance(got, list):
        missing, extra = [x for x in wanted if x not in got], [x for x in got if x not in wanted]
        return f"missing {missing[:5]}, instead {extra[:5]}"
    return f"{str(wanted)[:300]} without tracing, {str(got)[:2000]} with it"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    options = parser.parse_args()
    try:
        python = make_environment(options.python, options.folder)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"profilers: cannot be installed: {error}", file=sys.stderr)
        return 2
    bad = 0
    for name in options.names or NAMES:
        wanted = found(python, name, "off")
        if isinstance(wanted, str) and wanted.startswith("exit status"):
            print(f"{name}: fails without tracing: {wanted}")
            bad += 1
            continue
        for how in ("on", "during"):
            got = found(python, name, how)
            same = got == wanted
            bad += not same
            print(f"{name}: tracing {how}: " + ("the same" if same else difference(wanted, got)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
