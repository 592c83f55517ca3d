"""array, memoryview, struct, bytearray: exported buffers and item copies."""
import array
import struct


def main(h):
    arrays = [array.array(code, range(100)) for code in "bBhHiIlLqQfd"]
    h.check("arrays")
    views = [memoryview(a) for a in arrays]
    parts = [v[10:20] for v in views]
    cast = [v.cast("B") for v in views]
    h.check("views")
    lists = [v.tolist() for v in views] + [bytes(c) for c in cast]
    h.check("copies")
    h.traceback("list", lists[3])
    packer = struct.Struct("<IhdQ8s")
    packed = [packer.pack(i, i % 100, i * 0.5, i * i, b"text") for i in range(200)]
    unpacked = [packer.unpack(p) for p in packed]
    joined = b"".join(packed)
    more = list(packer.iter_unpack(joined))
    h.check("struct")
    for p in parts + cast + views:
        p.release()
    for a in arrays:
        a.extend(a)
        del a[50:]
    h.check("extended")
    buf = bytearray(1000)
    with memoryview(buf) as m:
        m[10:20] = b"0123456789"
        try:
            buf.append(1)
        except BufferError as exc:
            h.note("error", str(exc))
    buf.insert(0, 1)
    buf[500:] = b""
    buf.extend(range(200))
    h.note("n", [len(unpacked), len(more), len(buf)])
