"""
Source : python/cpython#121120
Kind   : the tool sees itself
Seen   : dump() allocates memory which the tracer then reports, so that a later
         snapshot contains the tool's own blocks.
Right  : taking, filtering, comparing and dumping a snapshot does not change
         that snapshot; the allocations can be filtered out by tracemalloc's own
         file names; after the objects are dropped the totals are back; two
         snapshots in a row differ by little.
"""
from _case import child, clean

CODE = """
    import gc, os, tempfile, tracemalloc as tm, pickle, linecache, fnmatch
    tm.start(1)
    hold = tempfile.TemporaryDirectory()
    p = os.path.join(hold.name, "s")
    keep = [bytearray(1000) for _ in range(500)]
    for _ in range(3):
        tm.take_snapshot().dump(p); tm.Snapshot.load(p); gc.collect()
    base = tm.get_traced_memory()[0]
    s1 = tm.take_snapshot()
    before = [t._trace for t in s1.traces]
    s1.dump(p); s1.statistics("lineno"); s1.filter_traces([tm.Filter(False, "nothing")]); s1.compare_to(s1, "traceback")
    s1.statistics("filename", True)
    s2 = tm.take_snapshot()
    assert [t._trace for t in s1.traces] == before
    del before
    noise = [tm.Filter(False, tm.__file__), tm.Filter(False, pickle.__file__), tm.Filter(False, fnmatch.__file__),
             tm.Filter(False, "<string>"), tm.Filter(False, linecache.__file__)]
    a, b = s1.filter_traces(noise), s2.filter_traces(noise)
    diff = [d for d in b.compare_to(a, "lineno") if d.size_diff]
    assert sum(abs(d.size_diff) for d in diff) < 5000, diff[:5]
    del s1, s2, a, b, diff
    gc.collect()
    now = tm.get_traced_memory()[0]
    assert abs(now - base) < 20000, now - base
    # a snapshot itself is not charged with its own list of traces
    x = tm.take_snapshot()
    biggest = max(t.size for t in x.traces)
    y = tm.take_snapshot()
    n = len(x.traces)
    assert len(y.traces) - n < 200, (n, len(y.traces))
    hold.cleanup()
    print("done")
"""
clean(child(CODE), "looking does not change", "done")
print("OK")
