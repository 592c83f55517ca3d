"""dict, set, list, tuple, deque, OrderedDict: tables that grow and are copied."""
import collections


class Key:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return self.n % 50

    def __eq__(self, other):
        return self.n == other.n


def main(h):
    d = {}
    for i in range(3000):
        d[i] = None
    h.check("dict")
    for i in range(2900):
        del d[i]
    d[5000] = 1
    copies = [dict(d), d.copy(), d | {1: 2}, {**d}]
    h.check("dict copies")
    s = set()
    for i in range(3000):
        s.add(i)
    more = [s.copy(), s | {-1}, s & set(range(100)), frozenset(s)]
    h.check("sets")
    s.clear()
    keyed = {Key(i): str(i) for i in range(200)}
    h.check("own hash")
    ordered = collections.OrderedDict((str(i), i) for i in range(300))
    ordered.move_to_end("5")
    counter = collections.Counter("the quick brown fox" * 20)
    default = collections.defaultdict(list)
    for i in range(500):
        default[i % 37].append(i)
    chain = collections.ChainMap({}, dict(default), counter)
    h.check("collections")
    rows = [list(range(i)) for i in range(60)]
    flat = [x for row in rows for x in row]
    flat.sort(key=lambda x: -x)
    pairs = list(zip(flat, flat[1:]))
    rows.extend(rows)
    rows[10:20] = []
    h.check("lists")
    tuples = tuple(tuple(r) for r in rows)
    h.traceback("tuples", tuples)
    split = {"a": 1, "b": 2}
    split.clear()
    strings = dict.fromkeys("abcdefghij", 0)
    strings[1] = "no longer only strings"
    h.check("strings")
    h.note("sizes", [len(copies), len(more), len(keyed), len(chain), len(pairs)])
