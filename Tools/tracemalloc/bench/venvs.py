"""Virtual environments for the parts of the bench that need packages."""
import shutil
import subprocess
from pathlib import Path


def is_of(inner: Path, python: str | Path) -> bool:
    """Is this the interpreter of an environment that was made with `python`?"""
    return inner.exists() and inner.resolve() == Path(python).resolve()


def make(python: str, folder: Path, packages: list[str]) -> tuple[Path, dict[str, str]]:
    """An environment with those packages that install.

    An existing one of the same interpreter is used again.  Returns its
    interpreter, and for each package that did not install the last line that
    pip printed.
    """
    inner = folder / "bin" / "python"
    if not is_of(inner, python):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    failed = {}
    for package in packages:
        done = subprocess.run([str(inner), "-m", "pip", "install", "--quiet",
                               "--disable-pip-version-check", package],
                              text=True, capture_output=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["pip failed"]
            failed[package] = lines[-1]
    return inner, failed
