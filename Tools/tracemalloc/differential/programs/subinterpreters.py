"""Interpreters that share the GIL: code run there, while they live and after."""
import _interpreters

STATES = 4

BODY = """
import sys
sys._clear_internal_caches()
kept = bytearray(9_000_000)             # no peak before is as high
kept = [bytearray(300 + i) for i in range(30)]
def deep(n):
    return [bytearray(40)] if n == 0 else deep(n - 1)
kept.append(deep(40))
exec(compile("more = [[i] for i in range(50)]", "<module>", "exec"))
"""


# The name of the file is not made up: one that dies with its interpreter stays
# alive in 3.13, where the tracer holds it.
CLEAR = "import gc, sys\ngc.collect()\nsys._clear_internal_caches()\n"


def new():
    return _interpreters.create("legacy")


def setup():
    i = new()
    _interpreters.run_string(i, BODY)
    _interpreters.destroy(i)


def main(h):
    first = new()
    h.reset_peak()
    error = _interpreters.run_string(first, BODY)
    h.note("error", repr(error))
    _interpreters.run_string(first, CLEAR)
    h.check("ran")
    _interpreters.run_string(first, "del kept[::2]\n" + CLEAR)
    h.check("released some")
    _interpreters.destroy(first)
    h.check("destroyed")
    second, third = new(), new()
    for i in (second, third):
        h.reset_peak()
        _interpreters.run_string(i, BODY + CLEAR)
    _interpreters.destroy(second)
    h.check("one left")
    _interpreters.destroy(third)
