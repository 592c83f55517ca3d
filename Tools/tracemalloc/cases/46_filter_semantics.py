"""
Source : caproto/caproto#659, PetterS/quickjs#75 (projects that filter their own
         frames), 3.13 documentation of Filter and DomainFilter
Kind   : filters
Seen   : people filter by module file, by wildcard, by library domain.
Right  : .pyc patterns match .py names; * ? [] work; matching is case-sensitive
         on POSIX; only the newest frame is looked at unless all_frames; lineno
         and domain restrict; inclusive filters are or-ed, exclusive ones each
         remove; an exclusive filter with a domain keeps the other domains; a
         Windows-like name with backslashes matches itself.
"""
import os
import tracemalloc as tm

from _case import need

F = lambda *f: tuple(f)
T = [  # newest frame first
    (0, 1, F(("a.py", 1), ("m.py", 9)), 2), (0, 2, F(("a.py", 2), ("b.py", 9)), 2), (0, 4, F(("b.py", 1), ("a.py", 5)), 2),
    (0, 8, F(("lib/c.py", 7),), 1), (5, 16, F(("a.py", 1),), 1), (6, 32, F(("<string>", 1), ("a.py", 1)), 2),
    (0, 64, F(("A.py", 1),), 1), (0, 128, F(("C:\\Users\\x\\d.py", 3),), 1), (0, 256, F(("<unknown>", 0),), 1),
    (0, 512, F(("we[i]rd.py", 1),), 1), (0, 1024, F(("old.pyc", 1),), 1),
]
ALL = sum(t[1] for t in T)
S = tm.Snapshot(T, 2)
X, D = tm.Filter, tm.DomainFilter


def got(*filters):
    return sum(t.size for t in S.filter_traces(filters).traces)


posix = os.path.normcase("A") == "A"
checks = [
    ((), ALL), ((X(True, "a.py"),), 1 + 2 + 16 + (0 if posix else 64)),
    ((X(True, "a.pyc"),), 1 + 2 + 16 + (0 if posix else 64)),
    ((X(True, "*"),), ALL), ((X(False, "*"),), 0), ((X(True, "?.py"),), 1 + 2 + 4 + 16 + 64),
    ((X(True, "lib/*"),), 8), ((X(True, "*c.py"),), 8), ((X(True, "[ab].py"),), 1 + 2 + 4 + 16 + (0 if posix else 64)),
    ((X(True, "a.py", 1),), 1 + 16 + (0 if posix else 64)), ((X(True, "a.py", lineno=5),), 0),
    ((X(True, "a.py", all_frames=True),), 1 + 2 + 4 + 16 + 32 + (0 if posix else 64)),
    ((X(True, "a.py", lineno=5, all_frames=True),), 4), ((X(False, "a.py", all_frames=True),), ALL - (1 + 2 + 4 + 16 + 32) - (0 if posix else 64)),
    ((X(False, "a.py"),), ALL - 19 - (0 if posix else 64)), ((X(True, "a.py", domain=5),), 16), ((X(True, "a.py", domain=0),), 3 + (0 if posix else 64)),
    ((X(False, "a.py", domain=5),), ALL - 16), ((X(False, "a.py", domain=99),), ALL),
    ((D(True, 0),), ALL - 48), ((D(False, 0),), 48), ((D(True, 5), D(True, 6)), 48), ((D(True, 77),), 0),
    ((X(True, "a.py"), X(True, "b.py")), 1 + 2 + 16 + 4 + (0 if posix else 64)),
    ((X(True, "*.py"), X(False, "a.py")), ALL - 32 - 256 - 19 - (0 if posix else 64)),
    ((X(True, "a.py"), X(False, "a.py", 2)), 17 + (0 if posix else 64)), ((X(True, "a.py"), D(False, 5)), 3 + (0 if posix else 64)),
    ((X(False, "a.py"), X(False, "b.py"), D(True, 0)), 8 + (64 if posix else 0) + 128 + 256 + 512 + 1024),
    ((X(True, "<unknown>"),), 256), ((X(True, "<string>"),), 32), ((X(True, "old.py"),), 1024), ((X(True, "old.pyc"),), 1024),
    ((X(True, "C:\\Users\\x\\d.py"),), 128), ((X(True, "we[[]i]rd.py"),), 512), ((X(True, ""),), 0),
]
for filters, want in checks:
    r = got(*filters)
    need(r == want, [(f.inclusive, getattr(f, "filename_pattern", None), getattr(f, "lineno", None), f.domain) for f in filters], "gave", r, "wanted", want)
need(got(*[X(False, "n%d.py" % i) for i in range(2000)]) == ALL)
need(list(S.traces._traces) == T, "filtering changed the snapshot")
print("OK")
