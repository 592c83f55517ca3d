"""Asynchronous generators and comprehensions, driven by hand."""
import types


@types.coroutine
def pause():
    return (yield)


async def ticks(n, kept):
    try:
        for i in range(n):
            kept.append(bytearray(50 + i))
            await pause()
            yield [i] * 20
    finally:
        kept.append(bytearray(999))


async def consume(n, kept):
    out = []
    async for item in ticks(n, kept):
        out.append(item)
        await pause()
    return out


async def comprehend(n, kept):
    pairs = [(a, bytearray(5)) async for a in ticks(n, kept) if a]
    table = {i: b async for b in ticks(n, kept) for i in b}
    return pairs, table


class Manager:
    async def __aenter__(self):
        await pause()
        return bytearray(123)

    async def __aexit__(self, *exc):
        await pause()


async def managed(kept):
    async with Manager() as m, Manager() as k:
        kept.append((m, k))


async def early(kept):
    gen = ticks(10, kept)
    kept.append(await anext(gen))
    await gen.aclose()


def drive(coro):
    try:
        while True:
            coro.send(None)
    except StopIteration as exc:
        return exc.value


def main(h):
    kept = []
    half = consume(20, kept)
    for _ in range(9):
        half.send(None)
    h.check("half way")
    outs = [drive(consume(n, kept)) for n in (1, 5, 15)]
    h.check("consumed")
    both = drive(comprehend(12, kept))
    h.check("comprehended")
    drive(managed(kept))
    drive(early(kept))
    h.traceback("closed early", kept[-1])
    half.close()
    h.note("lengths", [len(outs), len(both)])
