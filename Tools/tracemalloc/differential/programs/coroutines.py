"""Coroutines driven by hand: chains of await, interleaved, closed early."""
import types


@types.coroutine
def pause(value):
    got = yield value
    return got


async def leaf(n, kept):
    kept.append(bytearray(100 + n))
    got = await pause([n] * 10)
    kept.append(bytearray(200 + n))
    return got


async def chain(depth, n, kept):
    if depth:
        return await chain(depth - 1, n, kept)
    return await leaf(n, kept)


async def wraps(n, kept):
    try:
        for i in range(3):
            kept.append(await chain(i * 12, n, kept))
    finally:
        kept.append(bytearray(333))


def main(h):
    kept = []
    coros = [wraps(n, kept) for n in range(12)]
    for c in coros:
        c.send(None)
    h.check("started")
    for c in reversed(coros):
        c.send("x" * 50)
    h.check("resumed")
    for c in coros[:4]:
        c.close()
    h.check("closed")
    for c in coros[4:8]:
        try:
            c.throw(ValueError(kept[:2]))
        except ValueError:
            pass
    for c in coros[8:]:
        try:
            while True:
                c.send(bytes(77))
        except StopIteration:
            pass
    h.check("ended")
    h.traceback("last", kept[-1])
