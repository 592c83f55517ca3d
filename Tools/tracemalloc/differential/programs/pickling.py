"""pickle and marshal: C pickler, Python pickler, persistent ids, code."""
import io
import marshal
import pickle


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


class Reduced:
    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        return make, (self.n,), {"more": [self.n]}

    def __setstate__(self, state):
        self.__dict__.update(state)


def make(n):
    return Reduced(n)


def setup():
    import __main__
    for item in (Point, Reduced, make):
        setattr(__main__, item.__name__, item)
        item.__module__ = "__main__"
    pickle.loads(pickle.dumps([Point(1, 2), Reduced(3)]))


def main(h):
    data = [[Point(i, str(i)) for i in range(50)], [Reduced(i) for i in range(30)],
            {i: (i, [i], {i}) for i in range(50)}, b"x" * 5000, "y" * 5000]
    raw = [pickle.dumps(data, protocol) for protocol in (2, 5)]
    h.check("dumped")
    h.reset_peak()
    back = [pickle.loads(r) for r in raw]
    h.check("loaded")
    h.traceback("point", back[1][0][7])
    del back
    stream = io.BytesIO()
    pickle._Pickler(stream, 2).dump(data[2])
    stream.seek(0)
    h.reset_peak()
    slow = pickle._Unpickler(stream).load()
    h.check("the Python pickler")
    h.reset_peak()
    code = compile("def f():\n    return [1, 'two', 3.0]\nx = f()\n", "m.py", "exec")
    packed = marshal.dumps([code, data[2], data[3]])
    loaded = marshal.loads(packed)
    space = {}
    exec(loaded[0], space)
    h.traceback("made by loaded code", space["x"])
    h.check("marshal")
    h.note("n", [len(slow), [len(r) for r in raw]])
