"""Strings and bytes built step by step: resized in place, joined, recoded."""


def plus(n):
    s = "a"
    for _ in range(n):
        s += "bcd" * 9
    return s


def plus_wide(n):
    s = "\u0100"
    for _ in range(n):
        s += "\u0101" * 11
    return s


def plus_bytes(n):
    s = b"a"
    for _ in range(n):
        s = s + b"bcd" * 9
    return s


def joined(n):
    return "".join(str(i) for i in range(n)), b"".join([b"q" * 3] * n)


def formatted(n):
    return f"{n:>20} {n!r:*^30} {'k' * n}", "%d-%s" % (n, "k" * n), "{:,}".format(n)


def coded(n):
    text = "h\u00e9llo \u20ac" * n
    return (text.encode(), text.encode("utf-16"), text.encode("latin-1", "replace"),
            text.encode().decode(), bytes(range(256)).decode("latin-1"))


def cut(n):
    text = "one two three " * n
    return (text.split(), text.partition("three"), text.replace("two", "2"),
            text.upper(), text[::3], text.title().swapcase(), text.splitlines())


def counted(n):
    return bytes(i % 256 for i in range(n)), tuple(i for i in range(n))


MAKERS = plus, plus_wide, plus_bytes, joined, formatted, coded, cut, counted


def main(h):
    kept = []
    for maker in MAKERS:
        for n in (1, 2, 5, 30, 100, 333):
            h.reset_peak()
            kept.append(maker(n))
            h.numbers(f"{maker.__name__} {n}")
        h.check(maker.__name__)
    for i, item in enumerate(kept):
        h.traceback(f"item {i}", item)
    kept.clear()
    h.check("dropped")
