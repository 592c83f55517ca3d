"""Objects that come from free lists: a block is traced for its latest user."""


class Number(float):
    pass


def floats(n):
    return [i * 1.5 for i in range(n)]


def tuples(n):
    return [tuple(range(i % 22)) for i in range(n)]


def lists(n):
    return [[i] for i in range(n)]


def dicts(n):
    return [{"a": i} for i in range(n)]


def contexts(n):
    import contextvars
    return [contextvars.copy_context() for _ in range(n)]


def slices(n):
    return [slice(i, i + 1000) for i in range(n)]


def generators(n):
    return [(x for x in (i,)) for i in range(n)]


def methods(n):
    return [[].append for _ in range(n)]


MAKERS = floats, tuples, lists, dicts, contexts, slices, generators, methods


def setup():
    import contextvars  # noqa: F401


def main(h):
    for maker in MAKERS:
        name = maker.__name__
        first = maker(150)
        h.check(f"{name} first")
        del first                       # fills the free list
        second = maker(100)
        h.traceback(f"{name} reused", second[0])
        h.traceback(f"{name} reused late", second[-1])
        h.numbers(f"{name} second")
        del second[::3]
        third = maker(60)
        h.traceback(f"{name} third", third[0])
        h.check(f"{name} third")
    for maker in MAKERS:
        kept = maker(90)
        del kept
    number = Number(3.5)
    h.traceback("subclass of float", number)
