"""Deep and branching recursion: many contexts, tracebacks beyond the limit."""


def deep(n):
    return [bytearray(20)] if n == 0 else deep(n - 1) + [n]


def tree(depth, path):
    if depth == 0:
        return bytearray(path + 1)
    return (tree(depth - 1, path * 2), tree(depth - 1, path * 2 + 1))


def even(n, kept):
    kept.append([n])
    if n:
        odd(n - 1, kept)


def odd(n, kept):
    kept.append((n, kept[-1]))
    if n:
        even(n - 1, kept)


def through_c(n):
    """Recursion that passes through C code: one C call a level."""
    if n == 0:
        return bytearray(111)
    return list(map(through_c, [n - 1]))


def by_key(n):
    if n == 0:
        return [bytearray(222)]
    return sorted([n], key=lambda x: len(by_key(x - 1))) + by_key(n - 1)[-1:]


class Chain:
    def __init__(self, n):
        self.next = Chain(n - 1) if n else bytearray(99)


def main(h):
    kept = [deep(n) for n in (0, 1, 23, 24, 25, 26, 58, 59, 60, 61, 200, 700)]
    h.check("deep")
    trees = [tree(d, 0) for d in (3, 9)]
    h.check("branching")
    mutual = []
    even(120, mutual)
    h.check("mutual")
    nested = through_c(70)
    h.check("through C")
    keyed = by_key(6)
    objects = [Chain(n) for n in (1, 30, 100)]
    h.check("constructors")
    h.traceback("innermost", kept[-1])
    trees.clear()
    h.note("lengths", [len(mutual), len(nested), len(keyed), len(objects)])
