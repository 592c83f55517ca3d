"""Generators: frames that are suspended, resumed elsewhere, thrown into."""


def numbers(n):
    held = [bytearray(200)]
    for i in range(n):
        held.append([i])
        yield bytearray(100 + i)


def nested(n):
    if n:
        yield from nested(n - 1)
    yield [n] * 50


def thrown():
    kept = []
    while True:
        try:
            yield kept
        except KeyError as exc:
            kept.append(bytearray(300))
            kept.append(str(exc))


def resume(gen, depth):
    if depth:
        return resume(gen, depth - 1)
    return next(gen)


def closing():
    try:
        yield 1
    finally:
        LEFT.append(bytearray(444))


LEFT = []


def main(h):
    gens = [numbers(50) for _ in range(10)]
    first = [next(g) for g in gens]
    h.check("started")
    second = [resume(g, i) for i, g in enumerate(gens)]
    h.check("resumed at other depths")
    rest = [list(g) for g in gens[:5]]
    h.check("exhausted")
    deep = list(nested(40))
    h.check("nested")
    t = thrown()
    next(t)
    for i in range(10):
        t.throw(KeyError(i))
    h.check("thrown into")
    t.close()
    for _ in range(5):
        c = closing()
        next(c)
        c.close()
    h.traceback("made while closing", LEFT[0])
    squares = (bytearray(x * x) for x in range(20))
    some = [next(squares), next(squares)]
    h.check("expression")
    h.note("lengths", [len(first), len(second), len(rest), len(deep), len(some)])
    LEFT.clear()
