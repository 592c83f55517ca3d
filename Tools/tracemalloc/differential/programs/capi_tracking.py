"""PyTraceMalloc_Track and Untrack: domains, retracking, unknown addresses."""
import _testcapi

track = _testcapi.tracemalloc_track
untrack = _testcapi.tracemalloc_untrack


def deep(n, *args):
    if n:
        return deep(n - 1, *args)
    return track(*args)


def main(h):
    for i in range(200):
        track(7, 0x1000 + i, 100 + i)
        track(8 + i % 3, 0x1000 + i, 10)        # one address, other domains
    h.check("tracked")
    for i in range(0, 200, 2):
        untrack(7, 0x1000 + i)
        untrack(7, 0x900000 + i)                # nobody knows it
    h.check("half untracked")
    for i in range(200):
        track(7, 0x1000 + i, 5)                 # anew: size and traceback change
    h.check("tracked again")
    for n in (0, 1, 24, 25, 59, 60, 61, 150):
        deep(n, 20, 0x5000 + n, 64)
    h.check("at depth")
    track(21, 0, 9)
    track(21, 2 ** 64 - 1, 9)
    track(21, 16, 2 ** 40)
    h.check("edges")
    untrack(21, 16)
    track(2 ** 32 - 1, 77, 1)
    data = bytearray(5000)
    h.traceback("a real block", data)
    h.note("released", track(22, 5, 50, True))
    h.check("without the GIL")
    h.clear()
    track(7, 0x1000, 3)
    h.check("cleared")
