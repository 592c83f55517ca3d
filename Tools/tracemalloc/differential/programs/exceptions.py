"""Exceptions that are kept with their tracebacks, chained, grouped, dropped."""
import traceback


def raise_at(depth, exc):
    if depth:
        local = bytearray(60)
        raise_at(depth - 1, exc)
        return local
    raise exc


def caught(depth):
    try:
        raise_at(depth, ValueError("depth %d" % depth, [depth]))
    except ValueError as exc:
        return exc


def chained(depth):
    try:
        try:
            raise_at(depth, KeyError(depth))
        except KeyError as first:
            raise TypeError("second") from first
    except TypeError as second:
        return second


def grouped(n):
    try:
        raise ExceptionGroup("many", [caught(i) for i in range(n)])
    except* ValueError as group:
        kept = group
    return kept


def zero(n):
    try:
        return n / 0
    except ZeroDivisionError as exc:
        return exc.with_traceback(None)


def attribute(n):
    try:
        return n.missing
    except AttributeError as exc:
        exc.add_note("a note" * n)
        return exc


def setup():
    traceback.format_exception(chained(1))


def main(h):
    kept = [caught(d) for d in range(0, 90, 9)]
    h.check("kept with frames")
    kept += [chained(d) for d in range(5)]
    kept += [grouped(n) for n in range(1, 6)]
    kept += [f(n) for f in (zero, attribute) for n in range(1, 10)]
    h.check("more kinds")
    h.traceback("exception", kept[3])
    h.traceback("its traceback", kept[3].__traceback__)
    texts = ["".join(traceback.format_exception(e)) for e in kept[10:12]]
    h.check("formatted")
    kept.clear()
    h.check("dropped")
    for d in range(50):
        caught(d)
    try:
        raise_at(5000, ValueError())
    except RecursionError as exc:
        last = exc.args
    h.numbers("recursion error")
    h.note("left", [len(texts), len(last)])
