"""
Source : getsentry/sentry-python#419 (a leak hunt that rests on compare_to by
         file name, count and average)
Kind   : statistics / compare_to arithmetic
Seen   : conclusions are drawn from count, size, average and their differences.
Right  : for each key type sizes and counts add up to the traces; cumulative
         counts each frame's key once per frame; compare_to has new - old for
         each group, groups only in the old snapshot as negative, and is sorted
         by |size_diff| first; bad key types and cumulative traceback are refused.
"""
import random
import tracemalloc as tm

from _case import fail, need

rnd = random.Random(11)


def make(n):
    out = []
    for _ in range(n):
        depth = rnd.randrange(1, 6)
        fr = tuple(("f%d.py" % rnd.randrange(4), rnd.randrange(1, 6)) for _ in range(depth))
        out.append((rnd.choice([0, 0, 0, 7]), rnd.randrange(0, 5000), fr, depth + rnd.randrange(3)))
    return out


A, B = make(3000), make(2500)
for kind in (list, tuple):
    a, b = tm.Snapshot(kind(A), 6), tm.Snapshot(kind(B), 6)
    for key in ("traceback", "lineno", "filename"):
        st = a.statistics(key)
        need(sum(s.size for s in st) == sum(t[1] for t in A), key)
        need(sum(s.count for s in st) == len(A), key)
        need([s.size for s in st] == sorted((s.size for s in st), reverse=True), key, "order")
        keys = [tuple(s.traceback) for s in st]
        need(len(keys) == len(set(keys)), key, "a group appears twice")
        want = {}
        for d, size, fr, tot in A:
            k = fr if key == "traceback" else (fr[0] if key == "lineno" else fr[0][0])
            c = want.setdefault(k, [0, 0]); c[0] += size; c[1] += 1
        for s in st:
            tb = s.traceback
            k = (tuple((f.filename, f.lineno) for f in reversed(tb)) if key == "traceback"
                 else (tb[0].filename, tb[0].lineno) if key == "lineno" else tb[0].filename)
            need(want.pop(k) == [s.size, s.count], key, k)
            if key == "filename":
                need(tb[0].lineno == 0)
            text = str(s)
            need("count=%d" % s.count in text and "size=" in text and "average=" in text, text)
        need(not want)
        cmp = b.compare_to(a, key)
        need(sum(c.size_diff for c in cmp) == sum(t[1] for t in B) - sum(t[1] for t in A), key)
        need(sum(c.count_diff for c in cmp) == len(B) - len(A), key)
        need([abs(c.size_diff) for c in cmp] == sorted((abs(c.size_diff) for c in cmp), reverse=True))
        need(sum(c.size for c in cmp) == sum(t[1] for t in B))
        back = {tuple(c.traceback): (c.size_diff, c.count_diff) for c in a.compare_to(b, key)}
        need(all(back[tuple(c.traceback)] == (-c.size_diff, -c.count_diff) for c in cmp), key, "not antisymmetric")
        none = a.compare_to(tm.Snapshot(kind(), 6), key)
        need(all(c.size == c.size_diff and c.count == c.count_diff for c in none))
        gone = tm.Snapshot(kind(), 6).compare_to(a, key)
        need(all(c.size == 0 and c.count == 0 and c.count_diff < 0 for c in gone) and len(gone) == len(none))
    for key in ("lineno", "filename"):
        st = a.statistics(key, cumulative=True)
        need(sum(s.count for s in st) == sum(len(t[2]) for t in A), key, "cumulative")
        need(sum(s.size for s in st) == sum(t[1] * len(t[2]) for t in A), key, "cumulative")
    for args in (("traceback", True), ("file",), ("",), (None,)):
        try:
            a.statistics(*args); fail("statistics took", args)
        except ValueError:
            pass
big = tm.StatisticDiff(tm.Traceback((("x", 1),)), 2**70, -2**70, 3, -3)
need("TiB" in str(big) and "(-" in str(big), str(big))
print("OK")
