"""
Source : python/cpython#143016
Kind   : exception in the Python part
Seen   : a Snapshot built from a tuple of traces failed in filter_traces(()) with
         AttributeError, although the class documents its traces as a tuple.
Right  : list or tuple, empty filters give an independent copy with equal
         traces; non-empty filters, statistics, compare_to, dump/load work too.
"""
import os
import tempfile
import tracemalloc

from _case import fail, need

tracemalloc.start(4)
keep = [bytearray(600) for _ in range(30)]
base = tracemalloc.take_snapshot()
tracemalloc.stop()
for kind in (list, tuple):
    s = tracemalloc.Snapshot(kind(base.traces._traces), base.traceback_limit)
    try:
        c = s.filter_traces(())
    except Exception as exc:
        fail(kind.__name__, "filter_traces(()) raised", repr(exc))
    need(len(c.traces) == len(s.traces), kind)
    need(list(c.traces) == list(s.traces), kind)
    need(c is not s and c.traces is not s.traces)
    need(c.traceback_limit == s.traceback_limit)
    f = s.filter_traces([tracemalloc.Filter(True, __file__)])
    need(0 < len(f.traces) <= len(s.traces))
    need(all(d.size_diff == 0 and d.count_diff == 0 for d in s.compare_to(c, "lineno")), kind)
    with tempfile.TemporaryDirectory() as d:
        p = os.path.join(d, "snap")
        s.dump(p)
        b = tracemalloc.Snapshot.load(p)
        need(list(b.traces) == list(s.traces), kind, "dump/load")
for junk in (None, 5):
    try:
        base.filter_traces(junk)
        fail("filter_traces took", junk)
    except TypeError:
        pass
print("OK")
