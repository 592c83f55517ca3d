#!/usr/bin/env python3
"""Visit a server of the examples a few hundred times.

    visit.py [PORT [NUMBER]]

Waits for the server to listen, for ten seconds at most.
"""
import http.client
import sys
import time


def visit(port: int, number: int) -> bytes:
    """Ask for a page; the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", f"/?user={number}")
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(f"the server answered {answer.status}")
        return answer.read()
    finally:
        connection.close()


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    end = time.monotonic() + 10
    while True:
        try:
            visit(port, 0)
            break
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise SystemExit(f"nobody listens at port {port}") from None
            time.sleep(0.05)
    for i in range(1, number):
        visit(port, i)
    print(f"{number} visits")


if __name__ == "__main__":
    main()
