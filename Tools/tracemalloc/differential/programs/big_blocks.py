"""Blocks above the small-object limit, up to tens of megabytes, and peaks."""


def hold(size):
    return bytearray(size)


def main(h):
    sizes = [511, 512, 513, 514, 4096, 65536, 1 << 20, 40 << 20]
    kept = {size: hold(size) for size in sizes}
    h.check("kept")
    del kept[40 << 20]
    h.numbers("largest dropped")
    h.reset_peak()
    h.numbers("peak reset")
    text = "x" * 3_000_000
    wide = text + "\u0100"
    h.check("text")
    del text
    wider = wide[:1_000_000] + "\U00010000"
    h.check("wider text")
    h.traceback("wider", wider)
    many = [hold(1000 + i) for i in range(500)]
    del many[::2]
    h.check("holes")
    numbers = [10 ** (500 * i) for i in range(1, 20)]
    h.check("long integers")
    kept.clear()
    del numbers
    h.reset_peak()
