"""Virtual environments for the parts of the bench that need packages."""
import subprocess
from pathlib import Path


def make(python: str, folder: Path, packages: list[str]) -> tuple[Path, dict[str, str]]:
    """An environment with those packages that install.

    An existing one is used again.  Returns its interpreter, and for each
    package that did not install the last line that pip printed.
    """
    inner = folder / "bin" / "python"
    if not inner.exists():
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
