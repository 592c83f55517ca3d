"""
Source : CorralPeltzer/newTrackon#52 (a truncated pickle kept a program from
         starting); same file format here
Kind   : dump and load: full disk, unwritable path, cut or damaged file
Seen   : a half-written file is taken for a good one, or its reading fails in an
         odd way.
Right  : dump() to a full device, a directory, a missing directory, a read-only
         file raises OSError and leaves the snapshot and the tracing intact;
         load() of an empty, cut or bit-flipped file raises an ordinary
         exception (or gives a Snapshot), never crashes, and uses bounded
         memory; good files round-trip, also through a pipe path and bytes path.
"""
from _case import ADDRESS_SANITIZER, child, clean

CODE = """
    import os, random, resource, sys, tempfile, pathlib, tracemalloc as tm
    if sys.argv[1] == "limited":
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    tm.start(6)
    keep = [bytearray(300) for _ in range(200)]
    s = tm.take_snapshot()
    hold = tempfile.TemporaryDirectory()
    d = hold.name
    good = os.path.join(d, "good")
    s.dump(good)
    for path in (good, os.fsencode(good), pathlib.Path(good)):
        s.dump(path)
        r = tm.Snapshot.load(path)
        assert list(r.traces) == list(s.traces) and r.traceback_limit == 6
    import copy, pickle
    for proto in range(pickle.HIGHEST_PROTOCOL + 1):     # sent through a queue
        r = pickle.loads(pickle.dumps(s, proto))
        assert list(r.traces) == list(s.traces) and r.statistics("lineno") == s.statistics("lineno")
    assert list(copy.deepcopy(s).traces) == list(s.traces)
    problems = {"directory": d, "missing directory": os.path.join(d, "no", "x"), "empty name": "", "NUL": "a\\0b"}
    if os.path.exists("/dev/full"): problems["full disk"] = "/dev/full"
    for what, path in problems.items():
        try:
            s.dump(path)
        except (OSError, ValueError):
            pass
        else:
            raise SystemExit("dump to %s succeeded" % what)
    assert tm.is_tracing() and list(tm.Snapshot.load(good).traces) == list(s.traces)
    data = open(good, "rb").read()
    bad = os.path.join(d, "bad")
    rnd = random.Random(5)
    cases = [data[:n] for n in (0, 1, 2, 10, 100, len(data) // 2, len(data) - 1)]
    cases += [b"", b"\\0" * 100, b"\\xff" * 100, b"not a snapshot", data + b"more"]
    for _ in range(400):
        b = bytearray(data)
        for _ in range(rnd.choice([1, 1, 3, 20])):
            b[rnd.randrange(len(b))] = rnd.randrange(256)
        cases.append(bytes(b))
    outcome = {}
    for c in cases:
        with open(bad, "wb") as f: f.write(c)
        try:
            r = tm.Snapshot.load(bad)
            k = type(r).__name__
        except Exception as exc:
            k = type(exc).__name__
        outcome[k] = outcome.get(k, 0) + 1
    for path in (os.path.join(d, "none"), d):
        try:
            tm.Snapshot.load(path); raise SystemExit("loaded " + path)
        except OSError: pass
    assert "SystemExit" not in outcome
    hold.cleanup()
    print("done")
"""
limit = "unlimited" if ADDRESS_SANITIZER else "limited"   # of address space
clean(child(CODE, argv=[limit], timeout=120), "damaged files", "done")
print("OK")
