"""Compression and hashing: raw allocations made with the GIL released."""
import bz2
import hashlib
import lzma
import zlib

DATA = b"".join(b"%d line of text\n" % (i * 7919 % 1000) for i in range(8000))


def setup():
    zlib.compress(b"x"), bz2.compress(b"x"), lzma.compress(b"x")
    hashlib.sha256(b"x").hexdigest(), hashlib.blake2b(b"x").hexdigest()


def main(h):
    packed = [zlib.compress(DATA, 6), bz2.compress(DATA, 1)]
    h.numbers("packed")
    h.check("packed")
    back = [zlib.decompress(packed[0]), bz2.decompress(packed[1])]
    h.check("unpacked")
    h.traceback("unpacked", back[0])
    objects = [zlib.compressobj(), zlib.decompressobj(), bz2.BZ2Compressor(),
               bz2.BZ2Decompressor(), lzma.LZMACompressor(preset=0),
               lzma.LZMADecompressor()]
    h.check("objects")
    pieces = [objects[0].compress(DATA[:5000]), objects[0].flush(),
              objects[1].decompress(packed[0][:3000], 2000)]
    h.check("streams")
    hashes = [hashlib.new(name, DATA) for name in
              ("md5", "sha1", "sha256", "sha512", "sha3_256", "blake2b", "blake2s")]
    copies = [x.copy() for x in hashes]
    digests = [x.hexdigest() for x in copies]
    h.check("hashes")
    objects.clear()
    h.check("objects dropped")
    small = lzma.compress(DATA[:20000], preset=0)
    h.note("n", [len(lzma.decompress(small)), len(pieces), len(digests)])
