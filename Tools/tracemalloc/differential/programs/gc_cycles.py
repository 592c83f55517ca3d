"""Cycles: collected on demand and by allocation; callbacks that allocate."""
import gc


class Node:
    def __init__(self, n):
        self.me = self
        self.data = bytearray(n)


class Final:
    left = []

    def __init__(self):
        self.me = self

    def __del__(self):
        Final.left.append(bytearray(88))


class Reviver:
    back = []

    def __init__(self):
        self.me = self

    def __del__(self):
        Reviver.back.append(self)


def closures(n):
    def f():
        return f, n
    return f


def main(h):
    def cycle(n):
        a, b = [n], {"n": n}
        a.append(b)
        b["a"] = a

    for i in range(300):
        Node(i), cycle(i), closures(i)
    h.check("collected")
    gc.collect()                    # counts from zero
    for i in range(3000):
        cycle(i)                    # the collector starts by itself
    h.numbers("automatic")
    for i in range(20):
        Final(), Reviver()
    h.check("finalized")
    h.traceback("made by a finalizer", Final.left[0])
    h.traceback("revived", Reviver.back[0])
    log = []
    note = lambda phase, info: log.append((phase, dict(info)))
    gc.callbacks.append(note)
    gc.collect(0)
    gc.collect(1)
    gc.callbacks.remove(note)
    h.check("callbacks")
    gc.freeze()
    kept = [Node(i) for i in range(20)]
    gc.unfreeze()
    del kept
    Reviver.back.clear()
    Final.left.clear()
    h.check("last")
    h.note("n", len(log))
