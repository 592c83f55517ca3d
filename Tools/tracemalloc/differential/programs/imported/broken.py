"""A module that fails half-way."""
HALF = [bytearray(100) for _ in range(10)]
1 / 0
