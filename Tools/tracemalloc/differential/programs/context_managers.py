"""with, contextlib, context variables: enter and exit at other lines."""
import contextlib
import contextvars

VAR = contextvars.ContextVar("VAR")


class Manager:
    def __init__(self, kept):
        self.kept = kept

    def __enter__(self):
        self.kept.append(bytearray(100))
        return self

    def __exit__(self, kind, value, tb):
        self.kept.append([kind, bytearray(200)])
        return kind is KeyError


@contextlib.contextmanager
def generated(kept):
    kept.append(bytearray(300))
    try:
        yield [kept]
    finally:
        kept.append(bytearray(400))


def leave_early(kept):
    for i in range(5):
        with Manager(kept), generated(kept) as g:
            if i == 3:
                return g
            if i == 2:
                continue
            kept.append((i,))


def suppressed(kept):
    with Manager(kept):
        kept.append({}[bytes(20)])
    with contextlib.suppress(ValueError):
        raise ValueError(kept[:1])


def stacked(kept):
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(generated(kept))
        stack.callback(kept.append, bytearray(555))


def varied(n):
    VAR.set(bytearray(n))
    return [VAR.get(), contextvars.copy_context()]


def setup():
    stacked([])


def main(h):
    kept = []
    for f in (leave_early, suppressed, stacked):
        kept.append(f(kept))
        h.check(f.__name__)
    runs = [contextvars.copy_context().run(varied, n) for n in range(20)]
    h.check("contexts")
    h.traceback("in a context", runs[3][0])
    kept.clear()
    h.check("dropped")
