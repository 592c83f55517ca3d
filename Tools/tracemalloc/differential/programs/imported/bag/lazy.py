"""A submodule; its data is a block of its own."""
from . import TABLE

DATA = bytearray(5000)
SUMS = [sum(v) for v in TABLE.values()]
