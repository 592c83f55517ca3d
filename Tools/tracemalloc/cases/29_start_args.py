"""
Source : python/cpython#126315 (fuzzed arguments), python/cpython#15545
Kind   : arguments of start() and of the private calls
Seen   : fuzzers call the entry points with any object.
Right  : 1..65535 are taken; 0, negative and larger numbers raise ValueError (or
         OverflowError), other types TypeError; a refused start() leaves the
         module as it was; start() while tracing keeps the old limit.
"""
import _tracemalloc
import tracemalloc as tm

from _case import fail, need

need(not tm.is_tracing())
for bad in (0, -1, -2**31, 65536, 2**31 - 1, 2**31, 2**63, -2**63, 2**200):
    try:
        tm.start(bad)
        fail("start took", bad, "limit", tm.get_traceback_limit())
    except (ValueError, OverflowError):
        pass
    need(not tm.is_tracing(), bad)
for bad in ("5", 1.0, None, b"1", [], memoryview(bytearray(b"abc")), object()):
    try:
        tm.start(bad)
        fail("start took", bad)
    except TypeError:
        pass
    need(not tm.is_tracing(), bad)
class Idx:
    def __index__(self): return 6
class Angry:
    def __index__(self): raise ZeroDivisionError
tm.start(Idx()); need(tm.get_traceback_limit() == 6); tm.stop()
try:
    tm.start(Angry()); fail("no error")
except ZeroDivisionError:
    pass
for extra in ((1, 2),):
    try:
        tm.start(*extra); fail("two arguments taken")
    except TypeError:
        pass
for n in (1, 2, 65534, 65535):
    tm.start(n)
    need(tm.is_tracing() and tm.get_traceback_limit() == n, n)
    x = bytearray(300)
    need(tm.get_object_traceback(x) is not None)
    tm.start(1 if n > 1 else 9)                  # ignored: already tracing
    need(tm.get_traceback_limit() == n, n, tm.get_traceback_limit())
    tm.stop()
    need(not tm.is_tracing())
need(tm.get_traced_memory() == (0, 0) and tm.get_tracemalloc_memory() == 0)
need(tm.get_object_traceback(x) is None)
need(_tracemalloc._get_traces() == [])
tm.stop(); tm.clear_traces(); tm.reset_peak()    # all harmless when off
try:
    tm.take_snapshot(); fail("snapshot while off")
except RuntimeError:
    pass
print("OK")
