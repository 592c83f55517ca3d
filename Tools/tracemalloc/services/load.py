"""Clients that visit a server on the loopback interface until they are stopped."""
from __future__ import annotations

import http.client
import threading
import time


class Load:
    """Threads that ask for pages; a with statement stops them.

    Counts answers by worker, which the pages name: "PID ...".  `pause`: seconds
    between two requests of a client.
    """

    def __init__(self, port: int, clients: int = 3, pause: float = 0.002) -> None:
        self.port = port
        self.pause = pause
        self.answers: dict[int, int] = {}
        self.failures: list[str] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        count = 0
        while not self._over.wait(self.pause):
            count += 1
            try:
                pid = int(ask(self.port, f"/{number}/{count}").split()[0])
            except (OSError, http.client.HTTPException, ValueError) as error:
                with self._lock:
                    self.failures.append(f"{type(error).__name__}: {error}")
                continue
            with self._lock:
                self.answers[pid] = self.answers.get(pid, 0) + 1

    def count(self, pid: int) -> int:
        with self._lock:
            return self.answers.get(pid, 0)


def ask(port: int, path: str = "/", timeout: float = 30) -> bytes:
    """One request over a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        return body
    finally:
        connection.close()


def wait_until(condition, what: str, timeout: float = 60):
    """Wait for a condition to be true, and return what it gives."""
    end = time.monotonic() + timeout
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.005)
