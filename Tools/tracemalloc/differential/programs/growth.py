"""Blocks that grow and shrink by realloc: in place, moving, and back."""
import array
import collections
import io


def grow_list(n):
    out = []
    for i in range(n):
        out.append(None)
    return out


def shrink_list(items):
    while len(items) > 3:
        items.pop()
    return items


def grow_bytes(n):
    out = bytearray()
    for i in range(n):
        out += b"12345"
    return out


def shrink_bytes(out):
    while len(out) > 10:
        del out[len(out) // 2:]
    return out


def main(h):
    kept = []
    for n in (1, 5, 9, 40, 300, 5000):
        kept.append(grow_list(n))
        kept.append(grow_bytes(n))
    h.check("grown")
    h.reset_peak()
    for i, item in enumerate(kept):
        (shrink_list if isinstance(item, list) else shrink_bytes)(item)
        h.traceback(f"shrunk {i}", item)
    h.check("shrunk")
    numbers = array.array("d")
    for i in range(2000):
        numbers.append(i)
    del numbers[100:]
    h.check("array")
    stream = io.BytesIO()
    for i in range(300):
        stream.write(b"z" * i)
    stream.truncate(77)
    value = stream.getvalue()
    h.check("stream")
    text = io.StringIO()
    for i in range(300):
        text.write("line %d\n" % i)
    whole = text.getvalue()
    h.traceback("whole", whole)
    queue = collections.deque()
    for i in range(1000):
        queue.append(i)
    for i in range(900):
        queue.popleft()
    h.check("queue")
    big = [0] * 10
    big *= 5000
    big[:] = big[:2]
    h.check("list cut")
    return value
