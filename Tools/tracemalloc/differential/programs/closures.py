"""Closures, cells, partials, decorators, caches, default arguments."""
import functools


def counter(start):
    held = [start]

    def step(by=1, *, log=[]):
        nonlocal start
        start += by
        log.append(start)
        return held
    return step


def decorate(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return [f(*args, **kwargs)]
    return wrapper


@decorate
@decorate
def twice(n, **more):
    return bytearray(n), more


@functools.lru_cache(maxsize=20)
def cached(n):
    return bytearray(n)


@functools.singledispatch
def dispatch(x):
    return [x]


@dispatch.register
def _(x: int):
    return bytearray(x)


class Lazy:
    @functools.cached_property
    def value(self):
        return bytearray(321)


def setup():
    dispatch(1), dispatch("a")


def main(h):
    steps = [counter(1000 * i) for i in range(30)]
    for s in steps:
        s(5), s(by=6)
    h.check("counters")
    wrapped = [twice(i, a=i, b=[i]) for i in range(30)]
    h.check("decorated")
    for i in range(60):
        cached(i % 35)
    h.check("cache")
    cached.cache_clear()
    parts = [functools.partial(twice, i, k=i) for i in range(20)]
    results = [p(z=1) for p in parts]
    h.check("partials")
    lazies = [Lazy() for _ in range(10)]
    values = [x.value for x in lazies]
    h.traceback("lazy value", values[3])
    many = [dispatch(x) for x in (1, 2, "a", 3.0)]
    fs = [lambda x, i=i: [x, i] for i in range(20)]
    lists = [f(1) for f in fs]
    h.check("rest")
    h.note("n", [len(wrapped), len(results), len(many), len(lists)])
