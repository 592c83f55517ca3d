"""__del__ that allocates, runs code, raises; objects that die in odd places."""
import sys


class Loud:
    kept = []

    def __init__(self, n):
        self.n = n

    def __del__(self):
        Loud.kept.append([self.n, bytearray(self.n)])


class Chain:
    def __init__(self, n):
        self.next = Chain(n - 1) if n else None

    def __del__(self):
        Loud.kept.append(bytearray(44))


class Angry:
    def __del__(self):
        raise ValueError(bytearray(55))


def scopes(n):
    a = Loud(n)
    if n:
        scopes(n - 1)
    b = Loud(n + 100)
    return None


def swallowed(n):
    try:
        x = Loud(n)
        raise KeyError(n)
    except KeyError:
        x = None


def main(h):
    hook, sys.unraisablehook = sys.unraisablehook, lambda u: None
    for i in range(20):
        Loud(i)
    h.check("dropped at once")
    scopes(30)
    h.check("at the end of scopes")
    Chain(60)
    h.check("chain")
    h.traceback("made by the innermost", Loud.kept[-60])
    for i in range(20):
        swallowed(i)
        Angry()
    h.check("raised")
    d = {i: Loud(i) for i in range(20)}
    d.clear()
    items = [Loud(i) for i in range(20)]
    items[5:15] = [None]
    del items
    gen = (Loud(i) for i in range(20))
    next(gen)
    del gen
    h.check("containers")
    sys.unraisablehook = hook
    Loud.kept.clear()
