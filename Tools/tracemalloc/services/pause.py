"""A program with a million live blocks, which says how long it stood still.

Run by bench.py with a reserved signal: for each line that it reads it prints
the longest time, in seconds, between two steps of its main loop since the line before.
"""
import select
import sys
import time

number = int(sys.argv[1])
kept = []


def fill(depth):
    """Blocks from many places in the call tree."""
    if depth:
        fill(depth - 1)
        return
    kept.append([bytes(40) for _ in range(100)])


print("ready", flush=True)
sys.stdin.readline()
while len(kept) * 100 < number:
    fill(len(kept) % 40)
print("filled", flush=True)
longest, last = 0.0, time.monotonic()
while True:
    now = time.monotonic()
    longest, last = max(longest, now - last), now
    if select.select([sys.stdin], [], [], 0)[0]:
        if not sys.stdin.readline():
            break
        answer = max(longest, time.monotonic() - last)
        longest, last = 0.0, time.monotonic()
        print(answer, flush=True)
