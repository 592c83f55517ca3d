#!/usr/bin/env python3
"""The extensions of test_profiling_capi, built against the headers of an installation, with each compiler there is.

usage: installed.py --make MAKE-WORDS...      for example: installed.py --make make install VARIANT=release

Runs the words with DESTDIR set to a temporary folder, then the package's tests with the interpreter installed there: it knows no
headers but those beside it.  Compilers: gcc and g++, clang and clang++.
Exit status 0: all pass; 1: not; the last line counts.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COMPILERS = (("gcc", "g++"), ("clang", "clang++"))
TESTS = "test_profiling_capi"


def installed_python(root: Path) -> Path:
    """The interpreter below the folder."""
    found = [path for path in sorted(root.rglob("bin/python3.*")) if re.fullmatch(r"python3\.\d+t?", path.name)]
    if not found:
        raise SystemExit(f"installed: no interpreter below {root}")
    return found[0]


def check_folders(python: Path, root: Path) -> None:
    """Nothing that a build of an extension looks at lies outside the installation."""
    code = ("import sysconfig; print(sysconfig.get_path('include'), sysconfig.get_path('platinclude'),"
            " sysconfig.get_config_h_filename(), sep='\\n')")
    printed = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, printed):
        if not Path(name).resolve().is_relative_to(root.resolve()):
            raise SystemExit(f"installed: {name} is not in the installation")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--make", nargs=argparse.REMAINDER, required=True)
    words = parser.parse_args().make
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="installed_") as folder:
        done = subprocess.run([*words, f"DESTDIR={folder}"], capture_output=True, text=True, errors="replace")
        if done.returncode:
            print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
            print("0 passed, 1 failed, 0 skipped")
            return 1
        root = Path(folder)
        python = installed_python(root)
        check_folders(python, root)
        for c, cxx in COMPILERS:
            if not (shutil.which(c) and shutil.which(cxx)):
                print(f"{c}: not installed")
                skipped += 1
                continue
            done = subprocess.run([python, "-m", "test", "-v", TESTS], cwd=folder, capture_output=True, text=True, errors="replace",
                                  env={**os.environ, "PROFILING_CAPI_CC": c, "PROFILING_CAPI_CXX": cxx})
            ran = re.search(r"Total tests: run=([\d,]+)", done.stdout)
            if done.returncode or ran is None:
                print(done.stdout[-5000:], done.stderr[-2000:], sep="\n")
                failed += 1
            else:
                passed += 1
            print(f"{c}, {cxx}: {ran[0] if ran else 'no tests ran'}, exit status {done.returncode}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
