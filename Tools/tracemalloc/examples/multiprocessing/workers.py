#!/usr/bin/env python3
"""Worker processes that take jobs from a queue, one of which remembers too much.

    workers.py [fork|forkserver|spawn]

Runs for a minute.
"""
import multiprocessing
import signal
import sys
import time

history = []


def work(job):
    """Square a few numbers."""
    history.append([str(job + n) * 20 for n in range(50)])
    return sum(n * n for n in range(job))


def worker(jobs, results):
    for job in iter(jobs.get, None):
        results.put(work(job))


def main():
    # SIGTERM ends the workers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    context = multiprocessing.get_context(*sys.argv[1:2])
    jobs, results = context.Queue(), context.Queue()
    workers = [context.Process(target=worker, args=(jobs, results), daemon=True)
               for _ in range(2)]
    for process in workers:
        process.start()
    end = time.monotonic() + 60
    job = 0
    while time.monotonic() < end:
        for _ in range(4):
            jobs.put(job % 1000)
            job += 1
        for _ in range(4):
            results.get()
        time.sleep(0.005)
    for _ in workers:
        jobs.put(None)
    for process in workers:
        process.join()


if __name__ == "__main__":
    main()
