"""Do threads record in parallel?  Work done by two threads against one.

Meant for the free-threaded build.  The same file is the job: run with --job
it prints how many blocks a second so many threads make, traced or not.

usage: scaling.py --job THREADS LIMIT SECONDS
"""
import json
import sys
import threading
import time


def worker(go: threading.Barrier, stop: list[bool], done: list[int], k: int) -> None:
    ring: list = [None] * 256
    rounds = 0
    go.wait()
    while not stop[0]:
        for i in range(2_000):
            ring[i & 255] = {"i": i}
        rounds += 1
    done[k] = rounds


def job(threads: int, limit: int, seconds: float) -> float:
    """Rounds of work a second, all threads together."""
    import _tracemalloc
    stop, done = [False], [0] * threads
    go = threading.Barrier(threads + 1)
    ts = [threading.Thread(target=worker, args=(go, stop, done, k))
          for k in range(threads)]
    if limit:
        _tracemalloc.start(limit)
    for t in ts:
        t.start()
    go.wait()
    start = time.perf_counter()
    time.sleep(seconds)         # the time over which is counted
    stop[0] = True
    for t in ts:
        t.join()
    return sum(done) / (time.perf_counter() - start)


def measure(python: str, threads: int = 2, rounds: int = 3,
            seconds: float = 1.0) -> dict:
    """{"untraced" | "limit 25": [rate of one thread, rate of several]}."""
    from pathlib import Path

    from speed import progress, run_job
    rates: dict[tuple[int, int], float] = {}
    for number in range(rounds):
        for limit in (0, 25):
            for count in (1, threads):
                progress(f"round {number + 1}: {count} threads, limit {limit}")
                rate = run_job(python, "--job", str(count), str(limit),
                               str(seconds), script=Path(__file__))
                rates[limit, count] = max(rate, rates.get((limit, count), 0))
    progress("")
    return {"threads": threads,
            "untraced": [rates[0, 1], rates[0, threads]],
            "limit 25": [rates[25, 1], rates[25, threads]]}


def text(data: dict) -> str:
    lines = [f"{data['threads']} threads against one (best of several):"]
    for name in ("untraced", "limit 25"):
        one, several = data[name]
        lines.append(f"  {name}: {several / one:.2f} times the work")
    one, several = data["limit 25"][0] / data["untraced"][0], \
        data["limit 25"][1] / data["untraced"][1]
    lines.append(f"  traced / untraced speed: one thread {one:.2f},"
                 f" {data['threads']} threads {several:.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] != ["--job"]:
        sys.exit(__doc__)
    json.dump(job(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])),
              sys.stdout)
