"""Frozen snapshots (_tracemalloc.Columns) against a naive model of them."""

import array
import fnmatch
import random
import unittest

import _tracemalloc
from _tracemalloc import Columns

LIVE = hasattr(_tracemalloc, "start")
FAILING = hasattr(_tracemalloc, "_fail_after")


def random_traces(rnd, n, files=5, lines=6, depth=5):
    """Hand-made traces in the 3.13 form, many of them with equal frames."""
    stacks = []
    for _ in range(max(n // 4, 1)):
        frames = tuple((f"f{rnd.randrange(files)}.py", rnd.randrange(1, lines))
                       for _ in range(rnd.randrange(1, depth + 1)))
        stacks.append((frames, len(frames) + rnd.choice((0, 0, 1, 7))))
    traces = []
    for _ in range(n):
        frames, total = rnd.choice(stacks)
        traces.append((rnd.choice((0, 0, 0, 7, 9)), rnd.randrange(6000), frames, total))
    return traces


# -- the model ---------------------------------------------------------------

def keys_of(frames, key, cumulative):
    if key == "traceback":
        return [frames]
    chosen = frames if cumulative else frames[:1]
    if key == "filename":
        return [((name, 0),) for name, _ in chosen]
    return [(frame,) for frame in chosen]


def model_group(traces, key, cumulative=False):
    sums = {}
    for _, size, frames, _ in traces:
        for found in keys_of(frames, key, cumulative):
            old = sums.get(found, (0, 0))
            sums[found] = (old[0] + size, old[1] + 1)
    return sums


def oldest_first(frames):
    return tuple(reversed(frames))


def model_statistics(traces, key, cumulative=False):
    rows = [(frames, *sums) for frames, sums in model_group(traces, key, cumulative).items()]
    rows.sort(key=lambda row: (row[1], row[2], oldest_first(row[0])), reverse=True)
    return rows


def model_changes(new, old, key, cumulative=False):
    new, old = (model_group(traces, key, cumulative) for traces in (new, old))
    rows = []
    for frames in new.keys() | old.keys():
        size, count = new.get(frames, (0, 0))
        old_size, old_count = old.get(frames, (0, 0))
        rows.append((frames, size, size - old_size, count, count - old_count))
    rows.sort(key=lambda r: (abs(r[2]), r[1], abs(r[4]), r[3], oldest_first(r[0])),
              reverse=True)
    return rows


def source_name(name):
    return name[:-1] if name.endswith((".pyc", ".pyo")) else name


def hits(trace, rule):
    _, pattern, line, all_frames, domain = rule
    if domain >= 0 and trace[0] != domain:
        return False
    if pattern is None:
        return True
    frames = trace[2] if all_frames else trace[2][:1]
    return any(fnmatch.fnmatchcase(source_name(name), source_name(pattern))
               and (line < 1 or line == lineno) for name, lineno in frames)


def model_filter(traces, rules):
    includes = [rule for rule in rules if rule[0]]
    excludes = [rule for rule in rules if not rule[0]]
    return [trace for trace in traces
            if (not includes or any(hits(trace, rule) for rule in includes))
            and not any(hits(trace, rule) for rule in excludes)]


KEYS = [("filename", False), ("filename", True), ("lineno", False), ("lineno", True),
        ("traceback", False)]


class Reading(unittest.TestCase):
    def test_traces_come_back(self):
        traces = random_traces(random.Random(1), 500)
        columns = Columns.from_traces(traces, None, 5)
        self.assertEqual(len(columns), 500)
        self.assertEqual(columns.tolist(), traces)
        self.assertEqual(list(columns), traces)
        self.assertEqual([columns.trace(i) for i in range(500)], traces)
        self.assertEqual(columns.trace(-1), traces[-1])
        self.assertEqual(columns[3], traces[3])
        self.assertEqual(columns.traceback_limit, 5)
        self.assertEqual(columns.total_size, sum(trace[1] for trace in traces))
        self.assertEqual(columns.lost, 0)
        self.assertTrue(columns.has_traces)

    def test_equal_tracebacks_are_one_object(self):
        def make():
            return (0, 1, tuple([tuple(["a.py", n]) for n in (1, 2)]), 2)
        columns = Columns.from_traces([make(), make(), (0, 1, make()[2], 9)])
        self.assertIs(columns.trace(0)[2], columns.trace(1)[2])
        self.assertIs(columns.trace(0)[2], columns.trace(2)[2])
        self.assertEqual(columns.trace(2)[3], 9)

    def test_index_out_of_range(self):
        columns = Columns.from_traces([(0, 1, (("a.py", 1),), 1)])
        for index in (1, -2, 2**70, -2**70):
            with self.assertRaises(IndexError):
                columns.trace(index)
        with self.assertRaises(TypeError):
            columns.trace("0")

    def test_three_items(self):
        frames = (("a.py", 1),)
        columns = Columns.from_traces([(0, 1, frames)])
        self.assertEqual(columns.trace(0), (0, 1, frames, None))

    def test_lists_instead_of_tuples(self):
        columns = Columns.from_traces([[0, 1, [["a.py", 1]], 1]])
        self.assertEqual(columns.trace(0), (0, 1, (("a.py", 1),), 1))

    def test_frames_that_change_while_they_are_read(self):
        frame, frames = ["a.py", 1], [None]
        frames[0] = frame

        def traces():
            for line in range(1, 6):
                frame[1] = line
                yield (0, 1, frames, 1)
                yield (0, 1, (frame,), 1)

        lines = [trace[2][0][1] for trace in Columns.from_traces(traces())]
        self.assertEqual(lines, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5])

    def test_objects_that_die_while_they_are_read(self):
        def traces():
            for line in range(20_000):
                yield (0, line, tuple([tuple([f"f{line}.py", line])]), 1)

        columns = Columns.from_traces(traces())
        for line in range(0, 20_000, 97):
            self.assertEqual(columns.trace(line), (0, line, ((f"f{line}.py", line),), 1))

    def test_names_of_any_kind(self):
        names = ["", "a", "\xe9", "\u4e00", "\U0001f600", "\udc80", "a\0b", "x" * 5000]
        traces = [(0, 1, ((name, 1),), 1) for name in names]
        columns = Columns.from_traces(traces)
        self.assertEqual(columns.tolist(), traces)
        self.assertEqual({row[0] for row in columns.group("filename")},
                         {((name, 0),) for name in names})

    def test_repr(self):
        self.assertEqual(repr(Columns.from_traces([])), "<Columns of 0 traces>")

    def test_cannot_be_made_empty_handed(self):
        with self.assertRaises(TypeError):
            Columns()


class DraftForm(unittest.TestCase):
    TRACES = [(0, 5, (("a.py", 3), ("<unknown>", 0)), 2), (0, 7, (("<unknown>", 0),), 1),
              (0, 9, (("b.py", 0),), 1)]

    def test_the_unknown_is_none(self):
        columns = Columns.from_traces(self.TRACES)
        self.assertEqual([columns.trace(i, draft=True) for i in range(3)],
                         [(5, (("a.py", 3), (None, None))), (7, ((None, None),)),
                          (9, (("b.py", None),))])
        self.assertEqual(columns.tolist(), self.TRACES)
        self.assertEqual(dict((key, (size, count)) for key, size, count
                              in columns.group("filename", draft=True)),
                         {"a.py": (5, 1), None: (7, 1), "b.py": (9, 1)})
        self.assertEqual({row[0] for row in columns.group("line", False, True)},
                         {("a.py", 3), (None, None), ("b.py", None)})
        self.assertEqual({row[0] for row in columns.group("traceback", False, True)},
                         {(("a.py", 3), (None, None)), ((None, None),), (("b.py", None),)})
        self.assertEqual(columns.stats(), {"a.py": {3: (5, 1)}, None: {None: (7, 1)},
                                           "b.py": {None: (9, 1)}})

    def test_none_is_read_as_the_unknown(self):
        given = [(0, 5, (("a.py", 3), (None, None)), 2), (0, 7, ((None, None),), 1),
                 (0, 9, (("b.py", None),), 1)]
        self.assertEqual(Columns.from_traces(given).tolist(), self.TRACES)

    def test_no_frames_at_all(self):
        columns = Columns.from_traces([(0, 5, (), 0), (0, 2, ((None, None),), 1)])
        self.assertEqual(columns.trace(0), (0, 5, (), 0))
        self.assertEqual(columns.group("lineno", draft=True), [((None, None), 7, 2)])
        self.assertEqual(columns.stats(), {None: {None: (7, 2)}})
        self.assertEqual(sorted(columns.group("lineno")),
                         [((), 5, 1), ((("<unknown>", 0),), 2, 1)])
        self.assertEqual(columns.group("lineno", cumulative=True),
                         [((("<unknown>", 0),), 2, 1)])

    def test_the_unknown_matches_no_pattern(self):
        columns = Columns.from_traces(self.TRACES)
        keep_all = [(True, "*", 0, False, -1)]
        self.assertEqual(len(columns.filter(keep_all)), 3)
        self.assertEqual(columns.filter(keep_all, draft=True).tolist(),
                         [self.TRACES[0], self.TRACES[2]])


class Groups(unittest.TestCase):
    def test_like_the_model(self):
        rnd = random.Random(7)
        for size in (0, 1, 2, 10, 300, 2000):
            traces = random_traces(rnd, size)
            columns = Columns.from_traces(traces)
            for key, cumulative in KEYS:
                with self.subTest(key=key, cumulative=cumulative, size=size):
                    expected = model_statistics(traces, key, cumulative)
                    # Twice: the second answer comes from what the first has left.
                    for _ in range(2):
                        self.assertEqual(columns.group(key, cumulative), expected)

    def test_ties_are_in_the_order_of_the_tracebacks(self):
        rnd = random.Random(8)
        traces = [(0, 10, trace[2], trace[3]) for trace in random_traces(rnd, 300, 9, 30)]
        traces += [(0, 10, ((name, 5),), 1) for name in ("\u4e00", "\xe9", "Z", "", "\U0001f600")]
        columns = Columns.from_traces(traces)
        for key, cumulative in KEYS:
            with self.subTest(key=key, cumulative=cumulative):
                self.assertEqual(columns.group(key, cumulative),
                                 model_statistics(traces, key, cumulative))

    def test_recursion_counts_every_frame(self):
        frames = (("a.py", 1), ("a.py", 1), ("a.py", 2), ("b.py", 1))
        columns = Columns.from_traces([(0, 10, frames, 4)])
        self.assertEqual(columns.group("lineno", True),
                         model_statistics([(0, 10, frames, 4)], "lineno", True))
        self.assertEqual(dict((key[0][0], count) for key, _, count
                              in columns.group("filename", True)), {"a.py": 3, "b.py": 1})

    def test_totals_do_not_part_tracebacks(self):
        frames = (("a.py", 1),)
        columns = Columns.from_traces([(0, 1, frames, 1), (0, 2, frames, 5), (3, 4, frames, None)])
        self.assertEqual(columns.group("traceback"), [(frames, 7, 3)])

    def test_sums_beyond_64_bits(self):
        frames, other = (("a.py", 1), ("b.py", 2)), (("a.py", 2),)
        huge = 2**64 - 1
        traces = [(0, huge, frames, 2)] * 5 + [(0, huge, other, 1)] * 3 + [(0, 2**63, other, 1)]
        columns = Columns.from_traces(traces)
        self.assertEqual(columns.total_size, 8 * huge + 2**63)
        for key, cumulative in KEYS:
            self.assertEqual(columns.group(key, cumulative),
                             model_statistics(traces, key, cumulative))
        fewer = Columns.from_traces(traces[:2])
        for a, b, sign in ((fewer, columns, -1), (columns, fewer, 1)):
            changes = a.compare(b, "filename")
            self.assertEqual(changes[0][2], sign * (6 * huge + 2**63))
        self.assertEqual(Columns.unpack(columns.pack()).total_size, 8 * huge + 2**63)

    def test_unknown_keys(self):
        columns = Columns.from_traces([])
        for key in ("", "file", "Lineno", None, 5, "lineno\0"):
            with self.assertRaises(ValueError):
                columns.group(key)
        with self.assertRaises(ValueError):
            columns.group("traceback", True)

    def test_compare_like_the_model(self):
        rnd = random.Random(9)
        for size in (0, 1, 10, 400):
            new, old = random_traces(rnd, size), random_traces(rnd, max(size - 3, 0), 7)
            a, b = Columns.from_traces(new), Columns.from_traces(old)
            for key, cumulative in KEYS:
                with self.subTest(key=key, cumulative=cumulative, size=size):
                    self.assertEqual(a.compare(b, key, cumulative),
                                     model_changes(new, old, key, cumulative))
                    self.assertTrue(all(row[2] == row[4] == 0
                                        for row in a.compare(a, key, cumulative)))

    def test_compare_refuses(self):
        columns = Columns.from_traces([], [])
        with self.assertRaises(TypeError):
            columns.compare([], "lineno")
        for args in (("address",), ("traceback", True), ("nothing",)):
            with self.assertRaises(ValueError):
                columns.compare(columns, *args)


class Addresses(unittest.TestCase):
    FRAMES = (("a.py", 1),)

    def make(self, addresses):
        return Columns.from_traces([(0, i, self.FRAMES, 1) for i in range(len(addresses))],
                                   addresses)

    def test_look_up(self):
        rnd = random.Random(4)
        for top in (50, 2**20, 2**48, 2**64 - 1):
            addresses = [rnd.randrange(top) for _ in range(300)]
            columns = self.make(addresses)
            self.assertTrue(columns.has_addresses)
            self.assertEqual([columns.address(i) for i in range(300)], addresses)
            for address in addresses + [0, 1, top, top - 1, rnd.randrange(top)]:
                expected = addresses.index(address) if address in addresses else -1
                self.assertEqual(columns.get_by_address(address), expected)

    def test_odd_addresses(self):
        columns = self.make([5])
        for address in (-1, 2**64, -2**80):
            self.assertEqual(columns.get_by_address(address), -1)
        with self.assertRaises(TypeError):
            columns.get_by_address("5")
        for index in (1, -2):
            with self.assertRaises(IndexError):
                columns.address(index)
        self.assertEqual(columns.address(-1), 5)
        self.assertEqual(self.make([]).get_by_address(5), -1)

    def test_group(self):
        self.assertEqual(self.make([30, 10, 20, 10]).group("address"),
                         [(10, 4, 2), (20, 2, 1), (30, 0, 1)])

    def test_unknown_addresses(self):
        columns = Columns.from_traces([(0, 1, self.FRAMES, 1)])
        self.assertFalse(columns.has_addresses)
        for ask in (lambda: columns.address(0), lambda: columns.get_by_address(5),
                    lambda: columns.group("address")):
            with self.assertRaises(ValueError):
                ask()

    def test_as_many_as_traces(self):
        for count in (0, 2):
            with self.assertRaises(ValueError):
                Columns.from_traces([(0, 1, self.FRAMES, 1)], range(count))


class BadTraces(unittest.TestCase):
    def refuse(self, error, *traces, **kwargs):
        with self.assertRaises(error):
            Columns.from_traces(traces, **kwargs)

    def test_types(self):
        good = (("a.py", 1),)
        for trace in (None, 5, "abc", (0, 1.0, good, 1), (None, 1, good, 1), (0, "1", good, 1),
                      (0, 1, None, 1), (0, 1, "ab", 1), (0, 1, (5,), 1), (0, 1, ("ab",), 1),
                      (0, 1, ((b"a.py", 1),), 1), (0, 1, (("a.py", "1"),), 1),
                      (0, 1, (("a.py", 1.0),), 1), (0, 1, good, "1")):
            self.refuse(TypeError, trace)
        with self.assertRaises(TypeError):
            Columns.from_traces(5)
        with self.assertRaises(TypeError):
            Columns.from_traces([(0, 1, good, 1)], ["5"])

    def test_shapes(self):
        good = (("a.py", 1),)
        for trace in ((), (0, 1), (0, 1, good, 1, 1), (0, 1, (("a.py",),), 1),
                      (0, 1, (("a.py", 1, 2),), 1)):
            self.refuse(ValueError, trace)

    def test_ranges(self):
        good = (("a.py", 1),)
        for trace in ((-1, 1, good, 1), (2**32, 1, good, 1), (0, -1, good, 1), (0, 2**64, good, 1),
                      (0, 1, good, -1), (0, 1, good, 2**32), (0, 1, (("a.py", -1),), 1),
                      (0, 1, (("a.py", 2**32),), 1)):
            self.refuse(OverflowError, trace)
        for limit in (0, -1, 2**32):
            self.refuse(OverflowError, traceback_limit=limit)
        self.refuse(OverflowError, (0, 1, good, 1), addresses=[-1])

    def test_an_exception_of_the_iterator(self):
        def traces():
            yield (0, 1, (("a.py", 1),), 1)
            raise LookupError
        with self.assertRaises(LookupError):
            Columns.from_traces(traces())


class Filters(unittest.TestCase):
    PATTERNS = ("*", "f1.py", "f[0-2].py", "*2.pyc", "f?.pyo", "", "nothing", "f3*", None)

    def random_rule(self, rnd):
        return (rnd.random() < 0.5, rnd.choice(self.PATTERNS), rnd.choice((0, 0, 0, -3, 2, 3)),
                rnd.random() < 0.4, rnd.choice((-1, -1, -1, 0, 7, 8)))

    def test_like_the_model(self):
        rnd = random.Random(11)
        traces = random_traces(rnd, 600)
        traces += [(7, 1, (("f2.pyc", 3), ("f9.pyo", 2)), 2), (0, 3, (), 0)]
        columns = Columns.from_traces(traces, range(len(traces)), 5)
        for _ in range(300):
            rules = [self.random_rule(rnd) for _ in range(rnd.choice((0, 1, 1, 2, 3, 8)))]
            kept = columns.filter(rules)
            self.assertEqual(kept.tolist(), model_filter(traces, rules), rules)
            self.assertEqual([traces[kept.address(i)] for i in range(len(kept))], kept.tolist())
        self.assertEqual(columns.tolist(), traces)
        self.assertEqual(kept.traceback_limit, 5)

    def test_a_selection_is_as_good_as_the_whole(self):
        traces = random_traces(random.Random(12), 400)
        rules = [(True, "f[12].py", 0, False, -1)]
        expected = model_filter(traces, rules)
        kept = Columns.from_traces(traces).filter(rules)
        self.assertNotEqual(expected, [])
        for key, cumulative in KEYS:
            self.assertEqual(kept.group(key, cumulative),
                             model_statistics(expected, key, cumulative))
        self.assertEqual(kept.filter([(False, "f1.py", 0, True, -1)]).tolist(),
                         model_filter(expected, [(False, "f1.py", 0, True, -1)]))

    def test_many_filters(self):
        traces = random_traces(random.Random(13), 200)
        rules = [(False, f"n{i}.py", i, bool(i % 2), i % 5 - 1) for i in range(2000)]
        self.assertEqual(Columns.from_traces(traces).filter(rules).tolist(), traces)

    def test_numbers_that_no_trace_has(self):
        columns = Columns.from_traces([(0, 1, (("a.py", 1),), 1)])
        for rule, kept in (((True, "*", 2**80, False, -1), 0), ((True, "*", -2**80, False, -1), 1),
                           ((True, "*", 0, False, 2**80), 0), ((True, "*", None, False, None), 1),
                           ((True, "*", 0, False, -2**80), 1), ((False, "*", 0, False, 2**32), 1)):
            self.assertEqual(len(columns.filter([rule])), kept, rule)

    def test_refuses(self):
        columns = Columns.from_traces([])
        for filters in (None, 5, [5], [()], [(True,)], [(True, 5, 0, False, -1)],
                        [(True, "*", "1", False, -1)], [[True, "*", 0, False, -1]]):
            with self.assertRaises(TypeError):
                columns.filter(filters)


class Packing(unittest.TestCase):
    def columns(self, seed=21, n=200):
        traces = random_traces(random.Random(seed), n)
        traces += [(0, 2**64 - 1, (("\u4e00.py", 2**32 - 2), ("<unknown>", 0)), None), (5, 0, (), 0)]
        rnd = random.Random(seed + 1)
        addresses = [rnd.randrange(2**rnd.randrange(1, 65)) for _ in traces]
        return Columns.from_traces(traces, addresses, 7)

    def test_there_and_back(self):
        for columns in (self.columns(), Columns.from_traces([]), Columns.from_traces([], []),
                        Columns.from_traces(random_traces(random.Random(3), 5))):
            pack = columns.pack()
            self.assertLessEqual({type(value) for value in pack.values()},
                                 {int, bytes, list, type(None)})
            back = Columns.unpack(pack)
            self.assertEqual(back.tolist(), columns.tolist())
            self.assertEqual(back.traceback_limit, columns.traceback_limit)
            self.assertEqual(back.has_addresses, columns.has_addresses)
            if columns.has_addresses:
                self.assertEqual(list(map(back.address, range(len(back)))),
                                 list(map(columns.address, range(len(columns)))))
            self.assertEqual(back.pack(), pack)

    def test_a_selection_packs_only_what_it_uses(self):
        kept = self.columns().filter([(True, "f1.py", 0, False, -1)])
        pack = kept.pack()
        used = {name for trace in kept for name, _ in trace[2]}
        self.assertEqual(set(pack["files"]), used | {"<unknown>"})
        self.assertEqual(Columns.unpack(pack).tolist(), kept.tolist())

    def test_small(self):
        # Blocks as a heap has them: a dozen bytes a trace is the promise.
        rnd = random.Random(5)
        traces, addresses, at = [], [], 0x7F0000000000
        frames = [tuple((f"m{rnd.randrange(40)}.py", rnd.randrange(900)) for _ in range(25))
                  for _ in range(500)]
        for _ in range(20_000):
            at += 16 * rnd.randrange(1, 9)
            addresses.append(at)
            traces.append((0, rnd.randrange(16, 512), rnd.choice(frames), 30))
        pack = Columns.from_traces(traces, addresses).pack()
        self.assertLess(sum(len(pack[key]) for key in ("sizes", "tracebacks", "addresses")),
                        13 * len(traces))

    def refuse(self, pack):
        with self.assertRaises(ValueError):
            Columns.unpack(pack)

    def test_odd_items(self):
        good = self.columns().pack()
        for key in good:
            for value in (None, 5, -1, 2**70, b"", b"\0", "x", [], [5], ["<unknown>", "<unknown>"],
                          (), (b"", b"", b""), 1.5, bytearray(3), {}):
                if ((key, value) in (("lost", 5), ("limit", 5), ("sums", None))
                        or value is None and key in ("addresses", "domains")):
                    continue        # as good as what it replaces
                with self.subTest(key=key, value=value):
                    self.refuse(good | {key: value})
            self.refuse({other: good[other] for other in good if other != key})
        self.refuse(good | {"more": 1})
        self.refuse({})
        for value in (None, [], b"", 5):
            with self.assertRaises(TypeError):
                Columns.unpack(value)

    def test_rules(self):
        empty = Columns.from_traces([]).pack()
        one = empty | {"files": ["<unknown>", "a"], "site_files": b"\1", "site_lines": b"\5",
                       "chain_lengths": b"\1", "chain_sites": b"\0", "traceback_chains": b"\0",
                       "traceback_totals": b"\2", "sizes": b"\7", "tracebacks": b"\0"}
        self.assertEqual(Columns.unpack(one).tolist(), [(0, 7, (("a", 5),), 1)])
        bad = {
            "twice the same name": {"files": ["<unknown>", "a", "a"]},
            "another first name": {"files": ["x", "a"]},
            "no such file": {"site_files": b"\2"},
            "twice the same site": {"site_files": b"\1\1", "site_lines": b"\5\5"},
            "more lines than files": {"site_lines": b"\5\6"},
            "no such site": {"chain_sites": b"\1"},
            "a chain beyond the sites": {"chain_lengths": b"\2"},
            "sites beyond the chains": {"chain_sites": b"\0\0"},
            "twice the same chain": {"chain_lengths": b"\1\1", "chain_sites": b"\0\0"},
            "no such chain": {"traceback_chains": b"\1"},
            "twice the same traceback": {"traceback_chains": b"\0\0", "traceback_totals": b"\2\2"},
            "no such traceback": {"tracebacks": b"\1"},
            "more sizes": {"sizes": b"\7\7"},
            "more addresses": {"addresses": b"\7\7"},
            "fewer domains": {"domains": b""},
            "padded": {"sizes": b"\x87\0"},
            "unfinished": {"sizes": b"\x87"},
            "left over": {"sizes": b"\7\x80"},
            "beyond 64 bits": {"sizes": b"\xff" * 9 + b"\2"},
            "too long": {"sizes": b"\xff" * 10 + b"\1"},
            "beyond 32 bits": {"site_lines": b"\xff\xff\xff\xff\x10"},
            "sums beside traces": {"sums": (b"\1", b"\0", b"\1")},
            "limit 0": {"limit": 0},
            "another format": {"format": 2},
        }
        for what, change in bad.items():
            with self.subTest(what):
                self.refuse(one | change)
        self.assertEqual(Columns.unpack(one | {"sizes": b"\xff" * 9 + b"\1"}).total_size, 2**64 - 1)

    def test_mutated(self):
        good = self.columns(n=40).pack()
        keys = [key for key, value in good.items() if isinstance(value, bytes)]
        rnd = random.Random(99)
        read = 0
        for _ in range(4000):
            key = rnd.choice(keys)
            data = bytearray(good[key])
            for _ in range(rnd.choice((1, 1, 2, 5))):
                what = rnd.randrange(4)
                at = rnd.randrange(len(data) + 1)
                if what == 0:
                    data[at:at] = rnd.randbytes(rnd.randrange(1, 12))
                elif what == 1:
                    del data[at:at + rnd.randrange(1, 5)]
                elif at < len(data):
                    data[at] = rnd.choice((0, 0x7F, 0x80, 0xFF, data[at] ^ 1, rnd.randrange(256)))
            try:
                columns = Columns.unpack(good | {key: bytes(data)})
            except ValueError:
                continue
            read += 1
            # What is accepted is as good as any: nothing may point nowhere.
            pack = columns.pack()
            self.assertEqual(Columns.unpack(pack).tolist(), columns.tolist())
            for by, cumulative in KEYS:
                columns.group(by, cumulative)
        self.assertGreater(read, 10)


@unittest.skipUnless(FAILING, "needs failing allocations")
class WithoutMemory(unittest.TestCase):
    def until_it_works(self, function):
        """Fail each engine allocation in turn; return what the function gives."""
        for n in range(1, 100_000):
            _tracemalloc._fail_after(n, True)
            try:
                result = function()
            except MemoryError:
                continue
            finally:
                left = _tracemalloc._fail_after(0)
            if left < n:
                return result
        self.fail("never worked")

    def test_each_allocation(self):
        traces = random_traces(random.Random(2), 60)
        addresses = list(range(len(traces), 0, -1))
        columns = self.until_it_works(lambda: Columns.from_traces(traces, addresses))
        self.assertEqual(columns.tolist(), traces)
        pack = columns.pack()

        def fresh():
            return Columns.unpack(pack)

        rules = [(True, "f[12].py", 0, True, 7), (False, "f2.py", 3, False, -1)]
        for what, function in {
            "unpack": fresh,
            "pack": lambda: fresh().pack(),
            "tolist": lambda: fresh().tolist(),
            "lines": lambda: fresh().group("lineno", True),
            "tracebacks": lambda: fresh().group("traceback"),
            "addresses": lambda: fresh().group("address"),
            "look-up": lambda: fresh().get_by_address(5),
            "compare": lambda: fresh().compare(columns, "traceback"),
            "stats": lambda: fresh().stats(),
            "filter": lambda: fresh().filter(rules).pack(),
            "pattern": lambda: _tracemalloc._fnmatch("abc", "*[a-c]?c*x*"),
            "freeze": lambda: _tracemalloc._freeze() and None,
            "live stats": lambda: _tracemalloc.get_stats() and None,
        }.items():
            with self.subTest(what):
                expected = function()
                found = self.until_it_works(function)
                if not isinstance(expected, Columns):
                    self.assertEqual(found, expected)


@unittest.skipUnless(LIVE, "needs the engine")
class Live(unittest.TestCase):
    def setUp(self):
        if _tracemalloc.is_tracing():
            self.skipTest("is being traced")
        self.addCleanup(_tracemalloc.stop)

    def test_freeze(self):
        _tracemalloc.start(3)
        blocks = [bytearray(1000 + i) for i in range(50)]
        columns = _tracemalloc._freeze()
        self.assertEqual(columns.traceback_limit, 3)
        self.assertTrue(columns.has_addresses)
        self.assertEqual(columns.lost, 0)
        for block in blocks:
            trace = _tracemalloc.get_object_trace(block)
            index = columns.get_by_address(_tracemalloc.get_object_address(block))
            self.assertEqual(columns.trace(index, draft=True), trace)
            self.assertEqual(len(columns.trace(index)[2]), 3)
            self.assertGreaterEqual(columns.trace(index)[3], 3)
        sizes = sorted(trace[1] for trace in columns)
        for block in blocks:
            self.assertIn(len(block) + 1, sizes)

    def test_nothing_of_its_own_making(self):
        # What a copy is made of is not in it, and what it keeps for itself is
        # not in the next one, even when all of it has been looked at.
        lines = 800
        code = compile("[\n" + "object(),\n" * lines + "]", "many lines", "eval")
        _tracemalloc.start(5)
        kept = eval(code)
        for make in (_tracemalloc._freeze, _tracemalloc._get_traces):
            with self.subTest(make=make):
                make()
                first = make()
                before = len(make())
                self.assertGreater(before, lines)
                for trace in first:
                    pass
                self.assertLess(abs(len(make()) - before), 100)
                self.assertLess(abs(before - len(first)), 100)
                self.assertIsNone(_tracemalloc._check())
                del first, trace
        del kept
        self.assertIsNone(_tracemalloc._check())

    def test_sums_are_those_of_the_traces(self):
        _tracemalloc.start(4)
        kept = [[object() for _ in range(100)] for _ in range(20)]
        live = _tracemalloc.get_traced_memory()[0]
        columns, sums = _tracemalloc._freeze(), _tracemalloc._freeze(False)
        del kept
        self.assertLess(abs(columns.total_size - live), 4000)
        self.assertFalse(sums.has_traces)
        self.assertEqual(sums.group("lineno")[0], columns.group("lineno")[0])
        self.assertGreaterEqual(columns.group("lineno")[0][2], 2000)

    def test_without_traces(self):
        _tracemalloc.start(4)
        kept = [bytes(100) for _ in range(100)]
        sums = _tracemalloc._freeze(False)
        del kept
        self.assertEqual(len(sums), 0)
        self.assertEqual(repr(sums), "<Columns without traces>")
        self.assertFalse(sums.has_addresses)
        self.assertGreater(sums.total_size, 100 * 100)
        by_file, by_line = sums.group("filename"), sums.group("lineno")
        self.assertEqual(sum(row[1] for row in by_file), sums.total_size)
        self.assertEqual(sum(row[1] for row in by_line), sums.total_size)
        self.assertEqual(sum(size for lines in sums.stats().values()
                             for size, _ in lines.values()), sums.total_size)
        for ask in (lambda: sums.group("address"), lambda: sums.group("traceback"),
                    lambda: sums.group("lineno", True), lambda: sums.address(0),
                    lambda: sums.get_by_address(0), lambda: sums.filter([]), sums.tolist,
                    lambda: sums.compare(sums, "lineno", True)):
            with self.assertRaisesRegex(ValueError, "need traces"):
                ask()
        with self.assertRaises(IndexError):
            sums.trace(0)
        back = Columns.unpack(sums.pack())
        self.assertEqual(back.stats(), sums.stats())
        self.assertEqual(back.group("lineno"), by_line)
        self.assertFalse(back.has_traces)
        pack = sums.pack()
        for change in ({"sums": None}, {"sums": pack["sums"][:2]}, {"tracebacks": b""},
                       {"sums": (b"", b"", b"")}, {"sums": ("", "", "")}, {"domains": b""}):
            with self.assertRaises(ValueError):
                Columns.unpack(pack | change)

    def test_dicts_and_lists(self):
        _tracemalloc.start(2)
        block = bytearray(5000)
        address = _tracemalloc.get_object_address(block)
        by_address = _tracemalloc.get_traces()
        self.assertEqual(by_address[address], _tracemalloc.get_object_trace(block))
        rows = _tracemalloc._get_traces()
        self.assertIn(by_address[address], [(size, frames) for _, size, frames, _ in rows])
        self.assertEqual({len(row) for row in rows}, {4})
        self.assertTrue(all(len(frames) <= 2 for _, _, frames, _ in rows))

    def test_not_tracing(self):
        self.assertEqual(_tracemalloc.get_traces(), {})
        self.assertEqual(_tracemalloc.get_stats(), {})
        self.assertEqual(_tracemalloc._get_traces(), [])
        self.assertEqual(len(_tracemalloc._freeze()), 0)
        self.assertEqual(_tracemalloc._freeze(False).stats(), {})

    def test_outlives_tracing(self):
        _tracemalloc.start(2)
        kept = [bytes(50 + i) for i in range(500)]
        columns = _tracemalloc._freeze()
        before = columns.group("traceback"), columns.tolist()
        _tracemalloc.clear_traces()
        _tracemalloc.stop()
        _tracemalloc.start(1)
        del kept
        more = [array.array("b", bytes(30)) for _ in range(500)]
        self.assertEqual((columns.group("traceback"), columns.tolist()), before)
        del more

    def test_memory_is_counted_and_given_back(self):
        traces = random_traces(random.Random(1), 20_000)
        _tracemalloc.start(1)
        before = _tracemalloc.get_tracemalloc_memory()
        columns = Columns.from_traces(traces)
        columns.group("traceback")
        with_columns = _tracemalloc.get_tracemalloc_memory()
        del columns
        after = _tracemalloc.get_tracemalloc_memory()
        self.assertGreater(with_columns - before, 20_000 * 12)
        self.assertGreater(with_columns - after, 20_000 * 12)


if __name__ == "__main__":
    unittest.main()
