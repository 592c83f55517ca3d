"""
Source : bpo-34228 and Doc/using/cmdline.rst of 3.13
Kind   : start-up options and environment
Seen   : PYTHONTRACEMALLOC=0 was refused; bad values must end start-up with a
         clear message and not with a crash.
Right  : 0 and an empty variable mean off; 1..65535 mean that many frames; -X
         wins over the variable; -E and -I ignore the variable but not -X; a bad
         value ends start-up with a non-zero exit and "number of frames" in the
         message. (Observed on 3.13.5: blanks before the number are accepted in
         the variable, so they are not tested.)
"""
from _case import child, clean, need

SHOW = "import tracemalloc as t; print(t.is_tracing(), t.get_traceback_limit() if t.is_tracing() else '-')"


def show(*opts, **env):
    return child(SHOW, *opts, env=env)


good = [
    ((), {}, "False -"),
    ((), {"PYTHONTRACEMALLOC": ""}, "False -"),
    ((), {"PYTHONTRACEMALLOC": "0"}, "False -"),
    ((), {"PYTHONTRACEMALLOC": "1"}, "True 1"),
    ((), {"PYTHONTRACEMALLOC": "12"}, "True 12"),
    ((), {"PYTHONTRACEMALLOC": "65535"}, "True 65535"),
    (("-X", "tracemalloc"), {}, "True 1"),
    (("-X", "tracemalloc=0"), {}, "False -"),
    (("-X", "tracemalloc=5"), {}, "True 5"),
    (("-X", "tracemalloc=65535"), {}, "True 65535"),
    (("-X", "tracemalloc=3", "-X", "tracemalloc=9"), {}, None),
    (("-X", "tracemalloc=0"), {"PYTHONTRACEMALLOC": "7"}, "False -"),
    (("-X", "tracemalloc=4"), {"PYTHONTRACEMALLOC": "7"}, "True 4"),
    (("-X", "tracemalloc"), {"PYTHONTRACEMALLOC": "7"}, "True 1"),
    (("-E",), {"PYTHONTRACEMALLOC": "7"}, "False -"),
    (("-I",), {"PYTHONTRACEMALLOC": "7"}, "False -"),
    (("-I", "-X", "tracemalloc=4"), {"PYTHONTRACEMALLOC": "7"}, "True 4"),
    (("-E", "-X", "tracemalloc=4"), {"PYTHONTRACEMALLOC": "junk"}, "True 4"),
    (("-I",), {"PYTHONTRACEMALLOC": "junk"}, "False -"),
    (("-S", "-X", "tracemalloc=4"), {}, "True 4"),
    (("-X", "dev", "-X", "tracemalloc=4"), {}, "True 4"),
    (("-X", "importtime", "-X", "tracemalloc=4"), {}, "True 4"),
    (("-X", "frozen_modules=off", "-X", "tracemalloc=4"), {}, "True 4"),
]
for opts, env, want in good:
    res = show(*opts, **env)
    clean(res, f"{opts} {env}", want)
for value in ("-1", "-5", "abc", "1.5", "65536", "70000", "99999999999", "99999999999999999999999", "1x", "0x10"):
    for opts, env in (((), {"PYTHONTRACEMALLOC": value}), (("-X", "tracemalloc=" + value), {})):
        rc, out, err = show(*opts, **env)
        need(rc not in (0, "timeout") and rc > 0, opts, env, "accepted or crashed:", rc, out, err[-300:])
        need("number of frames" in err or "tracemalloc" in err, opts, env, err[-300:])
print("OK")
