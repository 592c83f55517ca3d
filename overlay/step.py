#!/usr/bin/env python3
"""Run one long step quietly: its whole output goes to a log file, and a line tells what runs and how far it is.

On a terminal the line is rewritten in place, elsewhere a new one is printed every ten seconds.  A failure prints the last lines of the
log and its name.  The exit status is the command's own.
"""
from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

SHOWN_ON_FAILURE = 30


class Progress:
    """The line that tells how far a step is; written by the thread that reads the output and by the clock."""

    def __init__(self, title: str, total: int, stream: IO[str]) -> None:
        self.title = title
        self.total = total
        self.stream = stream
        self.done = 0
        self.started = time.monotonic()
        self.terminal = stream.isatty()
        self._last = ""

    def text(self) -> str:
        seconds = int(time.monotonic() - self.started)
        count = f"{min(self.done, self.total)}/{self.total}" if self.total else f"{self.done}" if self.done else ""
        return f"{self.title}: {count + ', ' if count else ''}{seconds} s"

    def show(self) -> None:
        text = self.text()
        if text == self._last:
            return
        self._last = text
        print(f"\r\033[K{text}" if self.terminal else text, end="" if self.terminal else "\n", file=self.stream, flush=True)

    def finish(self, outcome: str) -> None:
        seconds = int(time.monotonic() - self.started)
        print(f"{chr(13) + chr(27) + '[K' if self.terminal else ''}{self.title}: {outcome}, {seconds} s", file=self.stream, flush=True)


def run(command: list[str], log: Path, title: str, pattern: str, total: int, stream: IO[str]) -> int:
    log.parent.mkdir(parents=True, exist_ok=True)
    progress = Progress(title, total, stream)
    counted = re.compile(pattern.encode()) if pattern else None
    finished = threading.Event()

    def clock() -> None:
        while not finished.wait(0.5 if progress.terminal else 10):
            progress.show()

    with open(log, "wb") as out:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        # what stops us stops the command
        before = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        ticker = threading.Thread(target=clock, daemon=True)
        ticker.start()
        try:
            assert child.stdout is not None
            for line in child.stdout:
                out.write(line)
                out.flush()
                if counted and counted.search(line):
                    progress.done += 1
            status = child.wait()
        except KeyboardInterrupt:
            child.wait()
            status = 130
        finally:
            signal.signal(signal.SIGTERM, before)
            finished.set()
            ticker.join()
    if status == 0:
        progress.finish("done")
        return 0
    progress.finish(f"failed with status {status}")
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN_ON_FAILURE:]:
        print(f"    {line}", file=sys.stderr)
    print(f"the whole output is in {log}", file=sys.stderr)
    return status if status > 0 else 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Run one long step quietly.")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--title", required=True)
    parser.add_argument("--count", default="", help="regular expression of the output lines that count as progress")
    parser.add_argument("--of", type=int, default=0, help="how many such lines to expect (0: unknown)")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    return run(args.command, args.log, args.title, args.count, args.of, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
