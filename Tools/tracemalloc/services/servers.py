"""Servers from a package index, started in a venv and stopped again."""
from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

from load import ask, wait_until

HERE = Path(__file__).resolve().parent
LEAK = f"{HERE / 'leaky.py'}:20: size="


def environment(**values: str) -> dict[str, str]:
    """The environment without what would change the interpreter."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return env | values


class Server:
    """A server that listens on a socket which this process has opened.

    Its output goes to a file in `folder`, where it also writes what it is
    signalled for.  A with statement stops it.
    """

    def __init__(self, python: Path, folder: Path, arguments: list[str], env: dict[str, str]) -> None:
        self.folder = folder
        self.log = folder / "server.log"
        with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
            self.port = listener.getsockname()[1]
            os.set_inheritable(listener.fileno(), True)
            arguments = [word.replace("FD", str(listener.fileno())) for word in arguments]
            with self.log.open("wb") as log:
                self.process = subprocess.Popen([str(python), *arguments], cwd=folder, env=env, close_fds=False,
                                                stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self) -> Server:
        try:
            ask(self.port, timeout=60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def workers(self) -> list[int]:
        """The children of the process."""
        pid = self.process.pid
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        return sorted(map(int, text.split()))

    def files(self, pid: int, pattern: str) -> list[Path]:
        return sorted(self.folder.glob(f"tracemalloc-{pid}-*{pattern}"))

    def signal(self, pid: int, pattern: str) -> Path:
        """Signal a worker and wait for one more file."""
        before = len(self.files(pid, pattern))
        os.kill(pid, signal.SIGUSR2)
        wait_until(lambda: len(self.files(pid, pattern)) > before, f"a file *{pattern} of {pid}")
        return self.files(pid, pattern)[-1]


def gunicorn(python: Path, folder: Path, kind: str = "sync", preload: bool = False, workers: int = 2, reserve: bool = True,
             application: str = "leaky", **values: str) -> Server:
    env = environment(PYTHONPATH=str(HERE), **values)
    if reserve:
        env["PYTHONTRACEMALLOC_SIGNAL"] = "USR2"
    arguments = ["-m", "gunicorn", "--worker-class", kind, "--workers", str(workers), "--bind", "fd://FD", "--log-level", "warning",
                 "--timeout", "120"]
    if kind == "gthread":
        arguments += ["--threads", "3"]
    if preload:
        arguments.append("--preload")
    return Server(python, folder, [*arguments, application], env)


def uvicorn(python: Path, folder: Path, reserve: bool = True, **values: str) -> Server:
    env = environment(PYTHONPATH=str(HERE), **values)
    if reserve:
        env["PYTHONTRACEMALLOC_SIGNAL"] = "USR2"
    return Server(python, folder, ["-m", "uvicorn", "--fd", "FD", "--log-level", "warning", "leaky:asgi"], env)
