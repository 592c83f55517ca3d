"""One object of every builtin type a program commonly makes, kept and dropped."""
import types


class Plain:
    pass


class Slotted:
    __slots__ = ("a", "b", "__weakref__")


def function(a, b=2, *, c=3):
    return a, b, c


def generator():
    yield 1


def make_all(n):
    text = str(n) * 3
    return [
        object(), n + 100_000, float(n), complex(n, 1), 10 ** 40 + n,
        text, text.encode(), bytearray(n), memoryview(bytes(n)),
        (n, text), [n, text], {n: text}, {n, text}, frozenset((n, text)),
        slice(n), range(n, n + 5), iter([n]), iter((n,)), iter({n: 1}),
        reversed([n]), enumerate([n]), zip([n], [n]), map(str, [n]),
        filter(None, [n]), Plain(), Slotted(), Plain().__init__,
        function.__get__(n), [].append, generator(), (x for x in [n]),
        property(make_all), staticmethod(make_all), classmethod(make_all),
        types.SimpleNamespace(n=n), types.MappingProxyType({n: 1}),
        types.MethodType(function, n), lambda: n, super(Plain, Plain()),
        Exception(n), {n: 1}.keys(), {n: 1}.items(), list[int], int | str,
    ]


def main(h):
    kept = [make_all(n) for n in range(40)]
    h.check("kept")
    for i, obj in enumerate(kept[7]):
        h.traceback(f"object {i}", obj)
    for row in kept:
        del row[::2]
    h.check("every other dropped")
    kept.clear()
    h.check("all dropped")
    for n in range(40):
        make_all(n)
