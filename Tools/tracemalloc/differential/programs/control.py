"""start, stop, clear and other limits in the middle of a program."""


def deep(n, size):
    return bytearray(size) if n == 0 else deep(n - 1, size)


def main(h):
    kept = [deep(i % 70, 100 + i) for i in range(100)]
    h.check("first")
    h.clear()
    h.check("cleared")
    for i in range(0, 100, 3):
        kept[i] = None                  # untraced by now
    for i in range(0, 100, 5):
        if kept[i] is not None:
            kept[i].extend(bytes(3000))     # moved: traced from here on
    h.check("grown after clearing")
    for limit in (1, 3, 60, 200, h.limit):
        h.restart(limit)
        more = [deep(i % 70, 200 + i) for i in range(100)]
        h.check(f"limit {limit}")
        h.traceback("before the restart", kept[1])
        h.traceback("after it", more[65])
        del more
        h.numbers("dropped")
    kept += [deep(3, 1 << 20) for _ in range(3)]
    del kept[-3:]
    h.numbers("peak stays")
    h.reset_peak()
    h.numbers("peak gone")
    for i, block in enumerate(kept):
        if block is not None:
            del block[:]
            block.append(i)
    h.check("old blocks shrunk")
