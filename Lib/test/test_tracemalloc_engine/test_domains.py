"""Domains named by PyTraceMalloc_Track(): addresses of one are apart from
those of another, and domain 0 is that of Python's own blocks."""

import sys
import unittest

import _tracemalloc as engine
from test.support import import_helper

from .util import Tracing, Untraced, here, walk

_testcapi = import_helper.import_module("_testcapi")
_testinternalcapi = import_helper.import_module("_testinternalcapi")

track = _testcapi.tracemalloc_track
untrack = _testcapi.tracemalloc_untrack
traceback_of = _testinternalcapi._PyTraceMalloc_GetTraceback

ADDRESS = 0xabcd_0000
LARGEST = 2**32 - 1


def found(domain=None):
    """{(domain, size): count} of traces of at least one domain other than 0."""
    counts = {}
    for trace in engine._get_traces():
        if trace[0] == domain or (domain is None and trace[0] != 0):
            key = trace[0], trace[1]
            counts[key] = counts.get(key, 0) + 1
    return counts


class Domains(Tracing):
    limit = 10

    def test_traceback(self):
        for domain in (0, 1, 5, 0xdeadbeef, LARGEST):
            for release_gil in (False, True):
                with self.subTest(domain=domain, release_gil=release_gil):
                    track(domain, ADDRESS, 123, release_gil)
                    frames = walk(sys._getframe())
                    got = traceback_of(domain, ADDRESS)
                    self.assertEqual(got[0], here(-3))
                    self.assertEqual(got[1:], frames[1:10])
                    untrack(domain, ADDRESS, release_gil)
                    self.assertIsNone(traceback_of(domain, ADDRESS))

    def test_same_address_in_many_domains(self):
        for domain in range(1, 400):
            track(domain, ADDRESS, domain)
        track(LARGEST, ADDRESS, 7)
        wanted = {(d, d): 1 for d in range(1, 400)} | {(LARGEST, 7): 1}
        self.assertEqual(found(), wanted)
        self.check_engine()
        for domain in range(1, 400, 2):
            untrack(domain, ADDRESS)
            del wanted[domain, domain]
        self.assertEqual(found(), wanted)
        self.check_engine()

    def test_domains_in_any_order(self):
        domains = [9, 3, LARGEST, 1, 5, 2**31, 4, 2**31 - 1, 2]
        for domain in domains:
            track(domain, ADDRESS, 10)
            self.check_engine()
        self.assertEqual(found(), {(d, 10): 1 for d in domains})

    def test_many_addresses(self):
        base = engine.get_traced_memory()[0]
        for i in range(20_000):
            track(3, ADDRESS + 8 * i, 1000)
        total = engine.get_traced_memory()[0] - base
        self.assertGreaterEqual(total, 20_000 * 1000)
        self.assertEqual(found(), {(3, 1000): 20_000})
        for i in range(0, 20_000, 3):
            untrack(3, ADDRESS + 8 * i)
        self.assertEqual(found(), {(3, 1000): 20_000 - 6667})
        self.check_engine()
        for i in range(20_000):
            untrack(3, ADDRESS + 8 * i)
        self.assertEqual(found(), {})
        total = engine.get_traced_memory()[0] - base
        self.assertLess(abs(total), 1_000_000)

    def test_tracked_twice_is_replaced(self):
        for domain in (0, 7):
            base = engine.get_traced_memory()[0]
            track(domain, ADDRESS, 1_000_000)
            track(domain, ADDRESS, 3_000_000)
            line = here(-1)
            total = engine.get_traced_memory()[0] - base
            self.assertAlmostEqual(total, 3_000_000, delta=10_000)
            self.assertEqual(traceback_of(domain, ADDRESS)[0], line)
            track(domain, ADDRESS, 5)
            total = engine.get_traced_memory()[0] - base
            self.assertLess(total, 10_000)
            untrack(domain, ADDRESS)
            self.check_engine()

    def test_peak(self):
        engine.reset_peak()
        base = engine.get_traced_memory()[0]
        track(5, ADDRESS, 10_000_000)
        untrack(5, ADDRESS)
        now, peak = engine.get_traced_memory()
        self.assertAlmostEqual(peak - base, 10_000_000, delta=50_000)
        self.assertLess(abs(now - base), 50_000)

    def test_peak_seen_without_the_gil(self):
        for release_gil in (True, False, True):
            engine.reset_peak()
            base = engine.get_traced_memory()[0]
            track(5, ADDRESS, 10_000_000, release_gil)
            untrack(5, ADDRESS, release_gil)
            now, peak = engine.get_traced_memory()
            self.assertAlmostEqual(peak - base, 10_000_000, delta=50_000)
            block = bytearray(20_000_000)       # above it
            del block
            peak = engine.get_traced_memory()[1]
            self.assertAlmostEqual(peak - base, 20_000_000, delta=50_000)
            self.check_engine()

    def test_what_was_live_at_a_peak_seen_without_the_gil(self):
        track(5, ADDRESS, 10_000_000, True)
        for _ in range(3):
            bytearray(1000)         # who has the GIL takes notice
        untrack(5, ADDRESS)
        frozen = engine._freeze_peak()
        self.assertGreater(frozen.peak_size, 10_000_000)
        self.assertIn(5, {frozen.trace(i)[0] for i in range(len(frozen))})

    def test_totals_in_the_upper_half_of_the_numbers(self):
        engine.reset_peak()
        half = sys.maxsize // 2
        for n in range(3):
            track(5, ADDRESS + n, half)
        self.assertGreaterEqual(engine.get_traced_memory()[0], 3 * half)
        for n in range(3):
            untrack(5, ADDRESS + n)
        live, peak = engine.get_traced_memory()
        self.assertLess(live, half)
        self.assertGreaterEqual(peak, 3 * half)
        self.check_engine()

    def test_untracking_what_is_not_there(self):
        untrack(5, ADDRESS)
        untrack(0, ADDRESS)
        track(5, ADDRESS, 10)
        untrack(6, ADDRESS)
        untrack(5, ADDRESS + 1)
        self.assertEqual(found(), {(5, 10): 1})
        untrack(5, ADDRESS)
        untrack(5, ADDRESS)
        self.assertEqual(found(), {})
        self.check_engine()

    def test_zero_bytes_and_odd_addresses(self):
        for address in (0, 1, 7, ADDRESS + 3, 2**64 - 1 if sys.maxsize > 2**32
                        else 2**32 - 1):
            for domain in (0, 5):
                track(domain, address, 0)
                self.assertIsNotNone(traceback_of(domain, address))
                track(domain, address, 11)
                untrack(domain, address)
                self.assertIsNone(traceback_of(domain, address))
        self.check_engine()

    def test_clear(self):
        for domain in range(1, 50):
            track(domain, ADDRESS, 1_000_000)
        engine.clear_traces()
        self.assertEqual(found(), {})
        self.assertLess(engine.get_traced_memory()[1], 1_000_000)
        track(5, ADDRESS, 9)
        self.assertEqual(found(), {(5, 9): 1})

    def test_a_domain_is_only_in_columns_when_there_is_one(self):
        frozen = engine._freeze()
        self.assertEqual({frozen.trace(i)[0] for i in range(len(frozen))}, {0})
        track(5, ADDRESS, 9)
        frozen = engine._freeze()
        self.assertEqual({frozen.trace(i)[0] for i in range(len(frozen))}, {0, 5})

    def test_get_traces_of_draft_3_has_domain_0_only(self):
        # {address: ...} could not tell two domains apart.
        track(5, ADDRESS, 9)
        self.assertIsNone(engine.get_trace(ADDRESS))
        track(0, ADDRESS, 10)
        self.assertEqual(engine.get_trace(ADDRESS)[0], 10)
        self.assertEqual(engine.get_traces()[ADDRESS][0], 10)


class DomainZero(Tracing):
    """A library may report a block of Python's allocator on its own: that
    block must not be counted twice."""

    limit = 4

    def test_blocks_that_are_traced_already(self):
        for make in (lambda: bytearray(), lambda: bytes(400),
                     lambda: bytes(5000), # more lists than a free list may keep from before
                     lambda: [[None] * 3 for _ in range(200)][-1]):
            thing = make()
            address = engine.get_object_address(thing)
            size, _ = engine.get_trace(address)
            track(0, address, size)
            line = here(-1)
            self.assertEqual(engine._get_object_traceback(thing)[0], line)
            frozen = engine._freeze()
            addresses = [frozen.address(i) for i in range(len(frozen))]
            self.assertEqual(addresses.count(address), 1)
            self.check_engine()
            # Another size than that of the block.
            for other in (size + 1_000_000, 0, size - 1, 3):
                track(0, address, other)
                self.assertEqual(engine.get_trace(address)[0], other)
                self.check_engine()
            untrack(0, address)
            self.assertIsNone(engine.get_trace(address))
            self.check_engine()
            del thing
            self.check_engine()

    def test_tracked_blocks_may_be_freed_or_resized(self):
        block = bytearray(100_000)
        # The buffer's address is not known to Python: take that of the object.
        address = engine.get_object_address(block)
        track(0, address, 77)
        block.extend(bytes(1_000_000))
        self.assertEqual(engine.get_trace(address)[0], 77)
        del block
        self.assertIsNone(engine.get_trace(address))
        self.check_engine()

    def test_address_inside_a_block(self):
        thing = bytes(400)
        address = engine.get_object_address(thing)
        for offset in (1, 16, 48, 399):
            track(0, address + offset, 50)
            self.assertEqual(engine.get_trace(address + offset)[0], 50)
        self.assertEqual(engine.get_trace(address)[0], sys.getsizeof(thing))
        self.check_engine()
        for offset in (1, 16, 48, 399):
            untrack(0, address + offset)
        self.assertEqual(engine.get_trace(address)[0], sys.getsizeof(thing))
        self.check_engine()


class Off(Untraced):
    def test_off(self):
        for release_gil in (False, True):
            with self.assertRaises(RuntimeError):
                track(5, ADDRESS, 9, release_gil)
            with self.assertRaises(RuntimeError):
                untrack(5, ADDRESS, release_gil)
        engine.start()
        self.assertEqual(found(), {})
        untrack(5, ADDRESS)

    def test_forgotten_at_stop(self):
        engine.start()
        track(5, ADDRESS, 9)
        engine.stop()
        engine.start()
        self.assertEqual(found(), {})
        self.assertIsNone(traceback_of(5, ADDRESS))


if __name__ == "__main__":
    unittest.main()
