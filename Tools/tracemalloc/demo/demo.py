#!/usr/bin/env python3
"""Find a leak in a running service: what `make demo` shows.

usage: demo.py [--python PATH] [--requests N]

Starts the shop beside this file with -X tracemalloc=25, visits it like a few
customers at once, asks it for a snapshot, visits it more, and prints what the
service itself says has grown.  The load is a fixed number of requests, from
this machine to this machine.

Exit status: 0 when the line that leaks is named first, 1 when another is, or
the service fails; 130 after Ctrl-C.  The service is stopped in any case.
"""
import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SHOP = HERE / "shop.py"
MARK = "# the leak"
CUSTOMERS = 4
WARM_UP = 60            # requests before the first snapshot, each customer
PATIENCE = 60           # seconds for one answer


class Failure(Exception):
    """Something that makes the demo end with status 1; its text says why."""


def leaking_line() -> int:
    """The line of the shop that is known to leak."""
    for number, line in enumerate(SHOP.read_text().splitlines(), 1):
        if line.rstrip().endswith(MARK):
            return number
    raise Failure(f"{SHOP.name} has no line marked {MARK!r}")


def start(python: str, folder: str) -> tuple[subprocess.Popen[str], int]:
    """Start the service; return it and its port."""
    command = [python, "-X", "tracemalloc=25", str(SHOP),
               "--database", os.path.join(folder, "shop.db")]
    print("$", " ".join(map(str, command)), flush=True)
    # A session of its own: Ctrl-C reaches this program alone, which then
    # stops the service in its own time.
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL, cwd=folder,
                               start_new_session=True)
    assert service.stdout is not None
    try:
        words = service.stdout.readline().split()
    except BaseException:
        stop(service)
        raise
    if words[:2] != ["listening", "on"]:
        stop(service)
        raise Failure(f"the service did not start (status {service.returncode})")
    return service, int(words[2])


def stop(service: subprocess.Popen[str]) -> None:
    """Ask the service to end; kill it when it does not listen."""
    if service.poll() is None:
        service.terminate()
        try:
            service.wait(5)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()


class Customer(threading.Thread):
    """A visitor with a token of its own for each visit; seeded, so repeatable."""

    def __init__(self, port: int, number: int, visits: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.random = random.Random(number * 1_000_003 + visits)
        self.visits = visits
        self.error: Exception | None = None

    def run(self) -> None:
        shop = http.client.HTTPConnection("127.0.0.1", self.port,
                                          timeout=PATIENCE)
        try:
            for _ in range(self.visits):
                self.visit(shop)
        except Exception as exc:
            self.error = exc
        finally:
            shop.close()

    def visit(self, shop: http.client.HTTPConnection) -> None:
        choice = self.random.random()
        item = self.random.randrange(400)
        if choice < 0.2:
            call(shop, "GET", f"/items?page={self.random.randrange(20)}")
        elif choice < 0.9:
            token = self.random.randbytes(8).hex()
            call(shop, "GET", f"/items/{item}?session={token}")
        else:
            call(shop, "POST", "/orders", {"item": item, "number": 1})


def call(shop: http.client.HTTPConnection, method: str, path: str,
         body: object = None) -> Any:
    """One request; the decoded answer."""
    text = None if body is None else json.dumps(body)
    shop.request(method, path, text)
    answer = shop.getresponse()
    value = json.loads(answer.read())
    if answer.status >= 400:
        raise Failure(f"{method} {path}: status {answer.status}")
    return value


def visit_all(port: int, visits: int) -> float:
    """Let all customers visit; seconds it took."""
    began = time.monotonic()
    customers = [Customer(port, n, visits) for n in range(CUSTOMERS)]
    for customer in customers:
        customer.start()
    for customer in customers:
        while customer.is_alive():      # in pieces, so that Ctrl-C is heard
            customer.join(0.2)
        if customer.error is not None:
            raise Failure(f"a request failed: {customer.error!r}")
    return time.monotonic() - began


def ask(port: int, method: str, path: str) -> Any:
    shop = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        return call(shop, method, path)
    finally:
        shop.close()


def show(report: dict[str, Any]) -> None:
    current, peak = report["traced"]
    print(f"\nTraced now: {current / 2**20:.1f} MiB, at most"
          f" {peak / 2**20:.1f} MiB; the tracer itself:"
          f" {report['tracer'] / 2**20:.1f} MiB"
          f" (traceback limit {report['limit']})")
    print("\nTop lines:")
    print("\n".join("  " + line for line in report["top"]))
    print("\nGrowth since the first snapshot:")
    print("\n".join("  " + line for line in report["growth"]))
    print("\nHow the first of these is reached (most recent call last):")
    print("\n".join(report["traceback"]))


def run(python: str, requests: int) -> None:
    line = leaking_line()
    with tempfile.TemporaryDirectory(prefix="tmdemo_") as folder:
        service, port = start(python, folder)
        try:
            visit_all(port, WARM_UP)
            ask(port, "POST", "/debug/snapshot")
            visits = max(1, requests // CUSTOMERS)
            seconds = visit_all(port, visits)
            print(f"{visits * CUSTOMERS} requests from {CUSTOMERS} customers"
                  f" in {seconds:.1f} s")
            report = ask(port, "GET", "/debug/growth")
        finally:
            stop(service)
    show(report)
    if report["first"] != [str(SHOP), line]:
        raise Failure(f"the leak in line {line} of {SHOP.name} was not first")
    print(f"\nThe leak: line {line} of {SHOP.name}, an unbounded cache.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=str(ROOT / "build/release/python"),
                        help="the interpreter of the service (%(default)s)")
    parser.add_argument("--requests", type=int, default=4000,
                        help="requests between the snapshots (%(default)s)")
    args = parser.parse_args()
    try:
        run(args.python, args.requests)
    except KeyboardInterrupt:
        print("\nstopped")
        return 130
    except (Failure, OSError) as exc:
        print(f"demo: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
