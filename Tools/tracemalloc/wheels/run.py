#!/usr/bin/env python3
"""Install people's binary wheels into a venv of the built python and use them while traced.

Needs a package index.  The last line is `N passed, N failed`.

Each check runs in a process of its own with the venv's interpreter, so that a
crash counts as one failure.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
WHEELS = ("numpy", "greenlet", "Django", "gunicorn")


def run(*command, **options):
    """Run a command; its output is shown only when it fails."""
    done = subprocess.run([str(word) for word in command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **options)
    if done.returncode:
        print(done.stdout, end="")
    return done.returncode == 0


def make_venv(python, folder):
    """A venv of `python` with all wheels in it; the path of its interpreter."""
    if not run(python, "-m", "venv", folder):
        raise SystemExit(f"{python} -m venv failed")
    inside = folder / "bin" / "python"
    if not run(inside, "-m", "pip", "install", "-q", "--only-binary=:all:",
               "--disable-pip-version-check", *WHEELS):
        raise SystemExit("pip could not install " + " ".join(WHEELS))
    return inside


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default="build/release/python",
                        help="interpreter to test (default: %(default)s)")
    options = parser.parse_args()
    python = pathlib.Path(options.python).resolve()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        inside = make_venv(python, pathlib.Path(folder) / "venv")
        for check in sorted(HERE.glob("check_*.py")):
            good = run(inside, check, cwd=folder, timeout=120)
            print(f"{'ok' if good else 'FAILED':7}{check.stem[6:]}", flush=True)
            passed += good
            failed += not good
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
