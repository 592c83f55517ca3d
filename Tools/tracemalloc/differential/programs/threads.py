"""Threads that take turns: allocation in one, release in another."""
import _thread
import functools
import threading

STATES = 3


def deep(n, size):
    return bytearray(size) if n == 0 else deep(n - 1, size)


def worker(index, kept):
    for i in range(50):
        kept.append(deep(i, 200 + i))
        kept.append({index: [i] * i})


def one_after_another(count, kept):
    for index in range(count):
        run = functools.partial(worker, index, kept)
        _thread.start_joinable_thread(run).join()


def setup():
    t = threading.Thread(target=int)
    t.start()
    t.join()


def main(h):
    kept = []
    one_after_another(6, kept)
    h.check("made in threads")
    h.traceback("from a thread", kept[10])

    def release():
        del kept[::2]

    t = threading.Thread(target=release)
    t.start()
    t.join()
    h.check("released in a thread")
    turn = [threading.Semaphore(0) for _ in range(3)]
    local = threading.local()

    def relay(i):
        for n in range(20):
            turn[i].acquire()
            local.kept = getattr(local, "kept", ()) + (bytearray(n),)
            kept.append(local.kept)
            turn[(i + 1) % 3].release()

    ts = [threading.Thread(target=relay, args=(i,)) for i in range(3)]
    for t in ts:
        t.start()
    turn[0].release()
    for t in ts:
        t.join()
    del t, ts
    h.check("relay")
