"""The data of an array is traced in NumPy's own domain, on the right line."""
import tracemalloc

import numpy

tracemalloc.start(10)
array = numpy.ones(1_000_000)
domain = numpy.lib.tracemalloc_domain
assert domain != 0
snapshot = tracemalloc.take_snapshot()
own = snapshot.filter_traces([tracemalloc.DomainFilter(True, domain)])
big = [trace for trace in own.traces if trace.size >= array.nbytes]
assert len(big) == 1, big
frames = [(frame.filename, frame.lineno) for frame in big[0].traceback]
assert (__file__, 7) in frames, frames
before = tracemalloc.get_traced_memory()[0]
del array, snapshot, own, big
assert before - tracemalloc.get_traced_memory()[0] >= 8_000_000
total = sum(numpy.arange(n).sum() for n in range(1000))
assert total == sum(n * (n - 1) // 2 for n in range(1000))
tracemalloc.stop()
