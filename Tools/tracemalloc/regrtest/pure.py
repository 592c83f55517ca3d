"""Run upstream's test_tracemalloc against upstream's own pure-Python tracemalloc.py on top of our _tracemalloc.

usage: python pure.py PRISTINE          (under the interpreter to be tested)

The old module is loaded from the pristine tree under the name "upstream_tracemalloc" and stands in for tracemalloc in this process
only; the children that the tests start see the interpreter as it is.
"""
import importlib.util
import sys
import unittest
from pathlib import Path


def load(pristine: Path):
    spec = importlib.util.spec_from_file_location("upstream_tracemalloc", pristine / "Lib/tracemalloc.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["upstream_tracemalloc"] = module
    spec.loader.exec_module(module)
    return module


def below(frames: int, call):
    """Call below some more frames: upstream's tests expect the depth of stack that its own runner has."""
    return below(frames - 1, call) if frames else call()


def main() -> int:
    sys.modules["tracemalloc"] = load(Path(sys.argv[1]))
    from test import test_tracemalloc
    assert test_tracemalloc.tracemalloc.__spec__.name == "upstream_tracemalloc"
    suite = unittest.defaultTestLoader.loadTestsFromModule(test_tracemalloc)
    runner = unittest.TextTestRunner(verbosity=2, stream=sys.stdout)
    result = below(10, lambda: runner.run(suite))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
