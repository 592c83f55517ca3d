"""Allocation in a thread that has no Python frame: the unknown traceback."""
import _thread
import functools

STATES = 1


def run(function, *args):
    """Let a new thread call a C function, and wait for its end."""
    _thread.start_joinable_thread(functools.partial(function, *args)).join()


def setup():
    import sys

    run([].append, 1)
    # What such a thread cannot do is not news.
    sys.unraisablehook = lambda unraisable: None


def main(h):
    kept = []
    into = {}
    text = "1,2,3," * 30
    run(kept.extend, range(1000, 1100))
    run(kept.extend, map(bytearray, range(1, 400, 7)))
    run(into.update, zip(range(500), map(str, range(500))))
    h.check("made without a frame")
    h.traceback("without a frame", kept[-1])
    run(into.fromkeys, text.split(","))
    run(kept.pop)
    run(kept.clear)
    h.check("dropped without a frame")
