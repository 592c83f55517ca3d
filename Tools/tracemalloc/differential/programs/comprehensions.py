"""Comprehensions (inlined and not), unpacking, walrus, sorting, itertools."""
import itertools

MODULE_LEVEL = None


class Scope:
    rows = [[x, [y for y in range(x)]] for x in range(20)]
    table = {x: bytearray(x) for x in range(20)}


def inlined(n):
    return [bytearray(i) for i in range(n)], {i: [i] for i in range(n)}


def nested(n):
    return [[(i, j, [i]) for j in range(i) if (k := i * j) % 3] for i in range(n)], k


def captured(n):
    return [lambda: [i, n] for i in range(n)]


def lazy(n):
    outer = (bytearray(i) for i in range(n))
    return list(x + y for x in outer for y in (b"a", b"b"))


def unpacked(n):
    first, *rest = [*range(n), *"abc"]
    return (*rest, first), [*rest, *rest], {**{"a": rest}, "b": first}


def tools(n):
    a, b = itertools.tee(map(str, range(n)))
    return (list(itertools.chain(a, b)), list(itertools.combinations(range(8), 3)),
            [list(g) for _, g in itertools.groupby(range(n), lambda x: x // 5)],
            list(itertools.zip_longest(range(n), "ab")),
            list(itertools.accumulate(range(n), lambda x, y: x + y * 1000)))


def sorts(n):
    rows = [((i * 7919) % 101, str(i)) for i in range(n)]
    return sorted(rows), sorted(rows, key=lambda r: r[1], reverse=True)


def main(h):
    for maker in (inlined, nested, captured, lazy, unpacked, tools, sorts):
        kept = [maker(n) for n in (1 + 1, 30, 61)]
        h.check(maker.__name__)
        h.traceback(maker.__name__, kept[1])
        del kept
        h.reset_peak()
    exec("rows = [bytearray(i) for i in range(30)]\n", globals())
    h.check("module level")
    del globals()["rows"]
