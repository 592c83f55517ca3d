"""Snapshot files: write, dump and load, good files and bad ones."""

import datetime
import os
import pathlib
import pickle
import random
import stat
import struct
import subprocess
import sys
import textwrap
import tracemalloc
import unittest
from binascii import crc32
from test.support import os_helper, skip_if_sanitizer
from test.test_tracemalloc_pep454 import util
from tracemalloc import Snapshot

TRAILER = 9         # bytes after the pickle: a mark and a checksum


def with_checksum(data: bytes) -> bytes:
    """Data without a trailer, with the right one."""
    return data + b"tmsum" + crc32(data).to_bytes(4, "little")


class Files(util.Untraced):
    def setUp(self):
        super().setUp()
        self.enterContext(os_helper.temp_cwd())

    def put(self, data, name="file"):
        with open(name, "wb") as file:
            file.write(data)
        return name

    def get(self, name="file"):
        with open(name, "rb") as file:
            return file.read()

    def same(self, one, other):
        for name in ("timestamp", "pid", "traceback_limit", "lost", "metrics",
                     "stats"):
            self.assertEqual(getattr(one, name), getattr(other, name), name)
        self.assertIs(type(one.traces), type(other.traces))
        self.assertEqual(one.traces, other.traces)

    def refused(self, name="file"):
        """Loading is refused with a ValueError that names the file."""
        with self.assertRaises(ValueError) as caught:
            Snapshot.load(name)
        self.assertIn(name, str(caught.exception))
        return str(caught.exception)


class WriteTests(Files):
    def made(self):
        tracemalloc.start(5)
        keep = [util.deep(n, 4000 + n) for n in range(1, 9)]
        snapshots = [Snapshot.create(True), Snapshot.create(False),
                     tracemalloc.take_snapshot(),
                     Snapshot.create(True, metrics=False)]
        tracemalloc.stop()
        del keep
        return snapshots

    def test_round_trip(self):
        for snapshot in self.made():
            snapshot.lost = 12
            self.assertIsNone(snapshot.write("file"))
            self.same(snapshot, Snapshot.load("file"))

    def test_addresses_survive(self):
        snapshot = self.made()[0]
        snapshot.write("file")
        loaded = Snapshot.load("file")
        self.assertEqual(list(loaded.traces), list(snapshot.traces))
        self.assertEqual(loaded.top_by("address").stats,
                         snapshot.top_by("address").stats)

    def test_without_traces(self):
        # If traces is False, don't load traces.
        for snapshot in self.made():
            for method in (snapshot.write, snapshot.dump):
                if snapshot.traces is None and method == snapshot.dump:
                    continue
                method("file")
                loaded = Snapshot.load("file", traces=False)
                self.assertIsNone(loaded.traces)
                self.assertEqual(loaded.stats, snapshot.stats)
                self.assertIsNone(Snapshot.load("file", False).traces)

    def test_made_by_hand(self):
        for snapshot in util.two_snapshots():
            snapshot.write("file")
            loaded = Snapshot.load("file")
            self.assertEqual(dict(loaded.traces), snapshot.traces)
            self.assertEqual(loaded.metrics, snapshot.metrics)
            self.assertEqual(loaded.timestamp, snapshot.timestamp)
            self.assertEqual(loaded.pid, 10)
        Snapshot(util.BEFORE, 5).write("file")
        self.assertIsNone(Snapshot.load("file").traces)

    def test_given_stats(self):
        given = {"z.py": {1: (5, 1)}, None: {None: (1, 1)}}
        snapshot = Snapshot(util.BEFORE, 5, {1: (2, (("a.py", 1),))}, given)
        snapshot.write("file")
        loaded = Snapshot.load("file")
        self.assertEqual(loaded.stats, given)
        self.assertEqual(dict(loaded.traces), {1: (2, (("a.py", 1),))})

    def test_timestamps(self):
        zone = datetime.timezone(datetime.timedelta(hours=5, minutes=45))
        for timestamp in (util.AFTER, util.AFTER.replace(tzinfo=zone),
                          util.AFTER.replace(tzinfo=datetime.UTC)):
            snapshot = Snapshot(timestamp, 5, {1: (2, (("a.py", 1),))})
            for method in (snapshot.write, snapshot.dump):
                method("file")
                self.assertEqual(Snapshot.load("file").timestamp, timestamp)

    def test_other_attributes(self):
        snapshot = self.made()[2]
        snapshot.note = {"list": [1, 2.5, None, True], "bytes": b"\0\xff",
                         "text": "é\udc80", "set": {1, (2, 3)},
                         "big": 1 << 200, "frozen": frozenset("ab")}
        for method in (snapshot.write, snapshot.dump):
            method("file")
            self.assertEqual(Snapshot.load("file").note, snapshot.note)

    def test_attributes_that_cannot_be_read_back(self):
        snapshot = self.made()[2]
        snapshot.write("file")
        before = self.get()
        snapshot.note = object()
        self.assertRaises(TypeError, snapshot.write, "file")
        self.assertEqual(self.get(), before)

    def test_odd_names(self):
        names = ("é.py", "\udc80.py", "\U0001f40d", "", "a\0b", "x" * 70_000)
        rows = [(0, n, ((name, 1),), 1) for n, name in enumerate(names)]
        snapshot = Snapshot(rows, 1)
        for method in (snapshot.write, snapshot.dump):
            method("file")
            self.assertEqual(
                [t.traceback[0].filename
                 for t in Snapshot.load("file").traces], list(names))

    def test_only_plain_things_are_stored(self):
        # No name of any class or function stands in the file.
        class Finder(pickle.Unpickler):
            def find_class(self, module, name):
                raise AssertionError(f"{module}.{name}")

        for snapshot in self.made():
            snapshot.write("file")
            with open("file", "rb") as file:
                self.assertIs(type(Finder(file).load()), dict)

    def test_compact(self):
        tracemalloc.start(1)
        keep = [bytes(64) for _ in range(100_000)]
        snapshot = Snapshot.create(True)
        tracemalloc.stop()
        del keep
        snapshot.write("file")
        self.assertLess(os.path.getsize("file"), 100_000 * 14)

    def test_paths(self):
        snapshot = util.two_snapshots()[0]
        for method in (snapshot.write, snapshot.dump):
            for path in ("a", b"b", pathlib.Path("c")):
                method(path)
                self.assertEqual(Snapshot.load(path).stats, snapshot.stats)
            self.assertEqual(sorted(os.listdir()), ["a", "b", "c"])

    def test_descriptor(self):
        snapshot = util.two_snapshots()[0]
        for method in (snapshot.write, snapshot.dump):
            file = open("a", "wb", buffering=0)
            method(os.dup(file.fileno()))
            file.close()
            self.assertEqual(Snapshot.load("a").stats, snapshot.stats)

    def test_subclass(self):
        class Mine(Snapshot):
            pass

        snapshot = Mine(util.BEFORE, 5, {1: (2, (("a.py", 1),))})
        for method in (snapshot.write, snapshot.dump):
            method("file")
            self.assertIs(type(Mine.load("file")), Mine)
            self.assertIs(type(Snapshot.load("file")), Snapshot)

    def test_odd_values_cannot_be_written(self):
        snapshot = Snapshot([(0, 1.5, (("a.py", 1),), 1)], 1)
        self.assertRaises((TypeError, ValueError, OverflowError),
                          snapshot.write, "file")
        self.assertEqual(os.listdir(), [])


class AllOrNothingTests(Files):
    def setUp(self):
        super().setUp()
        self.snapshot, _ = util.two_snapshots()

    def test_failure_leaves_the_old_file(self):
        # ... and nothing else
        code = textwrap.dedent("""
            import resource, signal, sys
            from test.test_tracemalloc_pep454 import util
            from tracemalloc import Snapshot
            rows = [(0, n, (("file%d.py" % n, n),), 1) for n in range(5000)]
            snapshot = Snapshot(rows, 1)
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
            for method in (snapshot.write, snapshot.dump):
                for name in ("there", "new"):
                    try:
                        method(name)
                    except OSError:
                        pass
                    else:
                        sys.exit("no error")
        """)
        try:
            import resource     # noqa: F401
        except ImportError:
            self.skipTest("needs resource limits")
        self.put(b"precious", "there")
        done = subprocess.run([sys.executable, "-c", code], timeout=60,
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.get("there"), b"precious")
        self.assertEqual(os.listdir(), ["there"])

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_full_device(self):
        for method in (self.snapshot.write, self.snapshot.dump):
            self.assertRaises(OSError, method, "/dev/full")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))

    def test_devices_are_written_to(self):
        self.snapshot.write(os.devnull)
        self.assertFalse(stat.S_ISREG(os.stat(os.devnull).st_mode))

    def test_wrong_places(self):
        os.mkdir("folder")
        self.put(b"", "plain")
        for method in (self.snapshot.write, self.snapshot.dump):
            for name in ("folder", "nowhere/file", "plain/file", ""):
                with self.subTest(name=name):
                    self.assertRaises(OSError, method, name)
            self.assertRaises((OSError, ValueError), method, "a\0b")
            self.assertRaises(TypeError, method, None)
        self.assertEqual(sorted(os.listdir()), ["folder", "plain"])
        with self.assertRaises(FileNotFoundError) as caught:
            self.snapshot.write("nowhere/file")
        self.assertEqual(caught.exception.filename, "nowhere/file")

    @unittest.skipIf(hasattr(os, "geteuid") and os.geteuid() == 0,
                     "root may write everything")
    def test_read_only_file(self):
        self.put(b"old")
        os.chmod("file", 0o444)
        self.assertRaises(PermissionError, self.snapshot.write, "file")
        self.assertEqual(self.get(), b"old")

    def test_permissions(self):
        old = os.umask(0o027)
        try:
            self.snapshot.write("new")
        finally:
            os.umask(old)
        self.assertEqual(stat.S_IMODE(os.stat("new").st_mode), 0o640)
        os.chmod("new", 0o604)
        self.snapshot.dump("new")
        self.assertEqual(stat.S_IMODE(os.stat("new").st_mode), 0o604)

    @os_helper.skip_unless_symlink
    def test_symbolic_links(self):
        os.mkdir("folder")
        os.symlink("folder/real", "link")
        self.snapshot.write("link")
        self.assertTrue(os.path.islink("link"))
        self.assertEqual(os.listdir("folder"), ["real"])
        self.snapshot.dump("link")
        self.assertTrue(os.path.islink("link"))
        self.assertEqual(Snapshot.load("folder/real").stats,
                         self.snapshot.stats)

    def test_interrupted(self):
        class Interrupt(dict):
            def __reduce_ex__(self, protocol):
                raise KeyboardInterrupt

        self.snapshot.dump("file")
        before = self.get()
        self.snapshot.note = Interrupt()
        self.assertRaises(KeyboardInterrupt, self.snapshot.dump, "file")
        self.assertEqual(self.get(), before)
        self.assertEqual(os.listdir(), ["file"])

    def test_long_name(self):
        name = "n" * 255
        self.snapshot.write(name)
        self.assertEqual(os.listdir(), [name])


class StockFormTests(Files):
    """What stock Python 3.13 loads and dumps."""

    def stand_ins(self):
        """Classes that pickle as stock's do, and nothing more."""
        class _Traces:
            pass

        class Snapshot:
            pass

        for cls in (_Traces, Snapshot):
            cls.__module__, cls.__qualname__ = "tracemalloc", cls.__name__
        return Snapshot, _Traces

    def dump_as_stock(self, rows, limit=2, protocol=5, **attributes):
        stock, stock_traces = self.stand_ins()
        snapshot = stock()
        snapshot.traces, snapshot.traceback_limit = stock_traces(), limit
        snapshot.traces._traces = rows
        vars(snapshot).update(attributes)
        known = tracemalloc.Snapshot, tracemalloc._Traces
        tracemalloc.Snapshot, tracemalloc._Traces = stock, stock_traces
        try:
            return pickle.dumps(snapshot, protocol)
        finally:
            tracemalloc.Snapshot, tracemalloc._Traces = known

    def rows(self, number=200):
        choose = random.Random(7)
        places = [(f"f{n % 7}.py", n) for n in range(1, 400)]
        chains = [tuple(choose.choices(places, k=choose.randrange(1, 6)))
                  for _ in range(30)]
        return [(choose.choice((0, 0, 7)), choose.choice(
            (1, 200, 70_000, 1 << 31, 1 << 40)), choose.choice(chains),
            choose.randrange(1, 65535)) for _ in range(number)]

    def test_load_from_stock(self):
        for number in (0, 1, 2, 200, 5000):
            for protocol in (2, 3, 4, 5):
                rows = self.rows(number)
                self.put(self.dump_as_stock(rows, 5, protocol, note="yes"))
                loaded = Snapshot.load("file")
                self.assertEqual([t._trace for t in loaded.traces], rows)
                self.assertEqual(loaded.traceback_limit, 5)
                self.assertEqual(loaded.note, "yes")
                # Not known, but then the file's own time says something.
                self.assertIsNone(loaded.pid)
                self.assertEqual(loaded.timestamp.timestamp(),
                                 int(os.stat("file").st_mtime))

    def test_traces_of_before_3_9(self):
        rows = [(0, 5, (("a.py", 1), ("b.py", 2))), (0, 7, (("a.py", 1),))]
        self.put(self.dump_as_stock(rows))
        loaded = Snapshot.load("file")
        self.assertIsNone(loaded.traces[0].traceback.total_nframe)
        self.assertEqual([t.size for t in loaded.traces], [5, 7])
        self.assertEqual(loaded.stats, {"a.py": {1: (12, 2)}})
        # also when made by hand
        self.assertEqual(Snapshot(rows, 2).statistics("filename")[0].size, 12)

    def test_dump_for_stock(self):
        stock, stock_traces = self.stand_ins()
        wanted = {("tracemalloc", "Snapshot"): stock,
                  ("tracemalloc", "_Traces"): stock_traces,
                  ("datetime", "datetime"): datetime.datetime}

        class Stock(pickle.Unpickler):
            def find_class(self, module, name):
                return wanted[module, name]

        tracemalloc.start(3)
        keep = [util.deep(n) for n in range(1, 5)]
        snapshots = [tracemalloc.take_snapshot(), Snapshot.create(True),
                     *util.two_snapshots(), Snapshot(self.rows(), 5)]
        tracemalloc.stop()
        del keep
        for snapshot in snapshots:
            snapshot.dump("file")
            with open("file", "rb") as file:
                loaded = Stock(file).load()
            self.assertIs(type(loaded), stock)
            self.assertEqual(loaded.traceback_limit, snapshot.traceback_limit)
            rows = loaded.traces._traces
            self.assertIs(type(rows), list)
            self.assertEqual(sum(row[1] for row in rows),
                             sum(s.size for s in snapshot.statistics("lineno")))
            for domain, size, frames, total in rows:
                for name, number in frames:
                    self.assertIs(type(name), str)
                    self.assertIs(type(number), int)

    def test_round_trip_of_dump(self):
        rows = self.rows()
        snapshot = Snapshot(rows, 5)
        snapshot.lost = 9
        snapshot.add_metric("m", 0.5, "percent")
        snapshot.dump("file")
        loaded = Snapshot.load("file")
        self.same(snapshot, loaded)
        self.assertEqual(loaded.traces._traces, rows)
        loaded.dump("file")
        self.same(snapshot, Snapshot.load("file"))

    def test_dump_takes_the_form_of_a_sequence(self):
        snapshot, _ = util.two_snapshots()
        snapshot.dump("file")
        loaded = Snapshot.load("file")
        self.assertEqual([t.size for t in loaded.traces],
                         [size for size, _ in snapshot.traces.values()])
        self.assertIsInstance(loaded.traces[0], tracemalloc.Trace)
        self.assertEqual(loaded.metrics, snapshot.metrics)
        self.assertEqual(loaded.timestamp, snapshot.timestamp)

    def test_dump_needs_traces(self):
        snapshot, _ = util.two_snapshots()
        snapshot.traces = None
        self.assertRaisesRegex(ValueError, "need traces", snapshot.dump, "f")
        self.assertEqual(os.listdir(), [])

    def test_objects_as_attributes(self):
        snapshot = Snapshot(self.rows(), 5)
        snapshot.one = snapshot.traces[3]
        snapshot.place = snapshot.traces[3].traceback
        snapshot.frame = snapshot.place[0]
        snapshot.when = util.AFTER
        snapshot.dump("file")
        loaded = Snapshot.load("file")
        self.assertEqual((loaded.one, loaded.place, loaded.frame, loaded.when),
                         (snapshot.one, snapshot.place, snapshot.frame,
                          snapshot.when))
        self.assertEqual(loaded.place.total_nframe,
                         snapshot.place.total_nframe)


class Bomb:
    """Pickles as a call that would leave a mark."""

    def __reduce__(self):
        return open, ("mark", "w")


class BadFileTests(Files):
    def test_no_file(self):
        self.assertRaises(FileNotFoundError, Snapshot.load, "nowhere")
        os.mkdir("folder")
        self.assertRaises(OSError, Snapshot.load, "folder")
        self.assertRaises(TypeError, Snapshot.load, None)

    def test_foreign(self):
        for data in (b"", b"\0" * 100, b"\xff" * 100, b"hello\n", b"\x80",
                     b"\x80\x05", b"\x80\x05.", b"tracemalloc" * 20,
                     pickle.dumps(7), pickle.dumps({"traces": 1}),
                     pickle.dumps({"tracemalloc": 1}),
                     pickle.dumps({"tracemalloc": "snapshot"}),
                     with_checksum(pickle.dumps({"tracemalloc": "snapshot"})),
                     with_checksum(pickle.dumps({"tracemalloc": "other"})),
                     with_checksum(pickle.dumps(["tracemalloc"])),
                     pickle.dumps("tracemalloc")):
            with self.subTest(data=data[:40]):
                self.put(data)
                self.refused()

    def test_calls_are_not_made(self):
        snapshot = Snapshot([(0, 5, (("a.py", 1),), 1)], 1)
        snapshot.traces._traces.append(Bomb())
        noted = Snapshot([(0, 5, (("a.py", 1),), 1)], 1)
        noted.note = Bomb()
        for thing in (Bomb(), {"tracemalloc": Bomb()}, snapshot, noted,
                      {"tracemalloc": "snapshot", "traces": [Bomb()]}):
            for protocol in range(2, 6):
                data = pickle.dumps(thing, protocol)
                for content in (data, with_checksum(data)):
                    self.put(content)
                    self.refused()
        self.assertEqual(os.listdir(), ["file"])

    def test_names(self):
        # Everything that is not on the list is refused.
        for module, name in (
                ("os", "system"), ("builtins", "eval"), ("builtins", "getattr"),
                ("tracemalloc", "start"), ("tracemalloc", "__builtins__"),
                ("tracemalloc", "Snapshot.load"), ("tracemalloc", "Task"),
                ("tracemalloc._files", "os"), ("copyreg", "_reconstructor"),
                ("datetime", "sys.exit")):
            head = b"\x80\x04\x8c\x0btracemalloc0"
            for data in (
                    b"c" + f"{module}\n{name}\n".encode(),
                    b"\x8c" + bytes([len(module)]) + module.encode()
                    + b"\x8c" + bytes([len(name)]) + name.encode() + b"\x93"):
                for tail in (b".", b")R.", b")\x81.", b"}b."):
                    self.put(head + data + tail)
                    self.assertIn("names", self.refused())

    def test_wrong_lengths(self):
        # A length that the file cannot hold; nothing is allocated for it.
        head = b"\x80\x04\x8c\x0btracemalloc0"
        huge = (1 << 62).to_bytes(8, "little")
        long = (1 << 31).to_bytes(4, "little")
        for data in (b"\x8e" + huge, b"\x8d" + huge, b"\x96" + huge,
                     b"\x95" + huge, b"B" + long, b"X" + long, b"\x8b" + long,
                     b"\x8b\xff\xff\xff\xff", b"]r" + long, b"j" + long,
                     b"\x8c\xff", b"C\xff", b"\x8a\xff", b"]q\xff", b"h\xff"):
            with self.subTest(data=data):
                self.put(head + data + b".")
                self.refused()
                self.put(with_checksum(head + data + b"."))
                self.refused()

    def test_deep_nesting(self):
        head = b"\x80\x04\x8c\x0btracemalloc0"
        for data in (b")" + b"\x85" * 150_000, b"]" * 150_000 + b"a" * 149_999,
                     b"(" * 150_000, b"}" + b")" + b"\x85" * 150_000 + b"Ns",
                     b"\x8f(" + b")" + b"\x85" * 150_000 + b"\x90"):
            self.put(head + data + b".")
            self.refused()

    def test_cut(self):
        for method in (util.two_snapshots()[0].write,
                       Snapshot(StockFormTests.rows(self, 20), 5).dump):
            method("good")
            data = self.get("good")
            for length in range(len(data)):
                # A dump without its trailer is what stock writes.
                if length == len(data) - TRAILER and "dump" in str(method):
                    continue
                self.put(data[:length])
                self.refused()

    def test_more(self):
        for method in (util.two_snapshots()[0].write,
                       util.two_snapshots()[0].dump):
            method("good")
            self.put(self.get("good") + b"more")
            self.refused()

    def test_changed(self):
        # Every change of a byte is noticed.
        choose = random.Random(99)
        for method in (util.two_snapshots()[0].write,
                       util.two_snapshots()[0].dump):
            method("good")
            data = self.get("good")
            for position in range(len(data)):
                bad = bytearray(data)
                bad[position] ^= choose.randrange(1, 256)
                self.put(bad)
                self.refused()

    def test_wrong_fields(self):
        util.two_snapshots()[0].write("good")
        good = pickle.loads(self.get("good"))
        for name, values in (
                ("version", (0, 2, None, "1")),
                ("timestamp", (5, "", "yesterday", b"2026-01-31")),
                ("pid", ("5", 1.5, [])), ("traceback_limit", (None, "5")),
                ("lost", (None, -1, "5")),
                ("metrics", (None, {}, [1], [("a",)], [("a", "b", "int")],
                             [("a", 1, "float")], [(None, 1, "int")])),
                ("attributes", (None, {"traces": 1}, {"load": 1}, {5: 1},
                                {"_held": 1}, {"__class__": 1})),
                ("stats", (None, [], {"a": 1}, {"a": {1: 2}}, {5: {1: (1, 1)}},
                           {"a": {"1": (1, 1)}}, {"a": {1: (1, "1")}},
                           {"a": {1: (1, 1, 1)}})),
                ("traces", (5, [], {}, {"x": 1}, {**good["traces"], "x": 1},
                            *({**good["traces"], key: value}
                              for key in good["traces"]
                              for value in (None, -1, 1 << 80, "", b"", b"\xff"
                                            * 99, [], [None], {"a": 1}, (1,)
                                            ) if good["traces"][key] != value
                              )))):
            for value in values:
                with self.subTest(name=name, value=value):
                    self.put(with_checksum(pickle.dumps({**good, name: value},
                                                        5)))
                    self.refused()
        for name in good:
            less = dict(good)
            del less[name]
            self.put(with_checksum(pickle.dumps(less, 5)))
            self.refused()

    @skip_if_sanitizer(address=True, memory=True, thread=True)
    def test_memory_stays_bounded(self):
        code = textwrap.dedent("""
            import resource, sys
            from tracemalloc import Snapshot
            limit = 1 << 30
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            for name in sys.argv[1:]:
                try:
                    Snapshot.load(name)
                except ValueError:
                    pass
                else:
                    sys.exit(name)
        """)
        try:
            import resource     # noqa: F401
        except ImportError:
            self.skipTest("needs resource limits")
        head = b"\x80\x04\x8c\x0btracemalloc0"
        names = []
        for code_and_length in (b"\x8e" + b"\0\0\0\0\0\1\0\0",
                                b"B" + b"\0\0\0\xf0", b"\x96" + b"\xff" * 8,
                                b"]r" + b"\xff\xff\xff\x7f"):
            names.append(self.put(head + code_and_length + b"x" * 100 + b".",
                                  f"file{len(names)}"))
        util.two_snapshots()[0].write("good")
        good = pickle.loads(self.get("good"))
        for key, value in good["traces"].items():
            if type(value) is int:
                for huge in (1 << 31, (1 << 32) - 2, 1 << 40, 1 << 62):
                    bad = {**good, "traces": {**good["traces"], key: huge}}
                    names.append(self.put(
                        with_checksum(pickle.dumps(bad, 5)),
                        f"file{len(names)}"))
        done = subprocess.run([sys.executable, "-c", code, *names],
                              timeout=60, capture_output=True, text=True)
        # Numbers such as the limit may be large; sizes may not.
        self.assertNotIn("MemoryError", done.stderr)


# Times as many damaged files; always the same ones for a number.
FUZZ = int(os.environ.get("TRACEMALLOC_FUZZ") or 1)


class FuzzTests(Files):
    """Thousands of damaged files: only ValueError, OSError or success."""

    def mutate(self, choose, data):
        data = bytearray(data)
        for _ in range(choose.choice((1, 1, 2, 5, 20))):
            kind = choose.randrange(6)
            at = choose.randrange(len(data))
            if kind == 0:
                data[at] = choose.randrange(256)
            elif kind == 1:
                data[at] ^= 1 << choose.randrange(8)
            elif kind == 2:
                del data[at:at + choose.randrange(1, 9)]
            elif kind == 3:
                data[at:at] = choose.randbytes(choose.randrange(1, 9))
            elif kind == 4:
                other = choose.randrange(len(data))
                length = choose.randrange(1, 33)
                data[at:at + length] = data[other:other + length]
            else:
                data[at] = choose.choice(b"(.0NtRbsuaeKMJhjqrXCB\x80\x81\x85"
                                         b"\x86\x87\x8c\x93\x94\x95\x90\x91")
            if not data:
                data += b"\x80"
        return bytes(data)

    def try_file(self, data):
        self.put(data)
        try:
            snapshot = Snapshot.load("file")
        except (ValueError, OSError) as error:
            if isinstance(error, ValueError):
                self.assertIn("file", str(error))
            return 0
        # What was accepted has to work.
        self.assertIs(type(snapshot), Snapshot)
        snapshot.statistics("lineno")
        snapshot.top_by("filename")
        for trace in list(snapshot.traces or ())[:5]:
            repr(trace)
        snapshot.stats
        return 1

    def fuzz(self, data, number, seed):
        choose = random.Random(seed * FUZZ)
        accepted = 0
        for _ in range(number * FUZZ):
            # With the right checksum, so that the damage gets further.
            bad = self.mutate(choose, data)
            accepted += self.try_file(with_checksum(bad))
            if choose.random() < 0.2:
                self.try_file(bad)
                self.try_file(data[:choose.randrange(len(data))])
        return accepted

    def body(self, method):
        method("good")
        return self.get("good")[:-TRAILER]

    def test_written(self):
        snapshot, _ = util.two_snapshots()
        snapshot.note = ["any", {"thing": (1, 2.5, None)}]
        self.fuzz(self.body(snapshot.write), 1500, 454)

    def test_written_without_traces(self):
        snapshot, _ = util.two_snapshots()
        snapshot.traces = None
        self.fuzz(self.body(snapshot.write), 700, 455)

    def test_written_with_domains(self):
        snapshot = Snapshot(StockFormTests.rows(self, 60), 5)
        self.fuzz(self.body(snapshot.write), 1000, 456)

    def test_dumped(self):
        snapshot = Snapshot(StockFormTests.rows(self, 15), 5)
        snapshot.one = snapshot.traces[2]
        self.fuzz(self.body(snapshot.dump), 1500, 457)

    def test_stock(self):
        data = StockFormTests.dump_as_stock(
            self, StockFormTests.rows(self, 15), protocol=2)
        self.fuzz(data, 700, 458)

    stand_ins = StockFormTests.stand_ins

    def test_columns(self):
        # Damage inside the columns alone.
        snapshot = Snapshot(StockFormTests.rows(self, 40), 5)
        snapshot.write("good")
        good = pickle.loads(self.get("good"))
        choose = random.Random(459 * FUZZ)
        blobs = [key for key, value in good["traces"].items()
                 if type(value) is bytes and value]
        self.assertTrue(blobs)
        for _ in range(1000 * FUZZ):
            traces = dict(good["traces"])
            for key in choose.sample(blobs, k=choose.choice((1, 1, 2))
                                     if len(blobs) > 1 else 1):
                traces[key] = self.mutate(choose, traces[key])
            self.try_file(with_checksum(
                pickle.dumps({**good, "traces": traces}, 5)))

    def test_random_programs(self):
        # Nonsense made of opcodes that exist.
        choose = random.Random(460 * FUZZ)
        opcodes = [b"(", b")", b"]", b"}", b"\x8f", b"N", b"\x88", b"K\x05",
                   b"M\x05\x05", b"J\x05\0\0\0", b"\x8a\x01\x05", b"h\0",
                   b"j\0\0\0\0", b"\x94", b"q\0", b"\x85", b"\x86", b"\x87",
                   b"t", b"a", b"e", b"s", b"u", b"b", b"R", b"\x81", b"0",
                   b"1", b"\x90", b"\x91", b"\x93", b"C\x02ab", b"\x8c\x01a",
                   b"ctracemalloc\nSnapshot\n", b"ctracemalloc\nTrace\n",
                   b"ctracemalloc\n_Traces\n", b"ctracemalloc\nFrame\n",
                   b"cdatetime\ndatetime\n", b"cdatetime\ntimedelta\n",
                   b"cdatetime\ntimezone\n", b"\x8c\x07_traces",
                   b"\x8c\x06_trace", b"G" + struct.pack(">d", 1.5)]
        for _ in range(2000 * FUZZ):
            program = b"".join(choose.choices(opcodes, k=choose.randrange(30)))
            self.try_file(b"\x80\x04\x8c\x0btracemalloc0" + program + b".")


class ProgressTests(Files):
    def test_called_while_reading(self):
        from tracemalloc._files import load
        snapshot, _ = util.two_snapshots()
        snapshot.write("file")
        seen = []
        load(Snapshot, "file", True, lambda *args: seen.append(args))
        size = os.path.getsize("file")
        self.assertEqual(seen[-1], (size, size))


if __name__ == "__main__":
    unittest.main()
