"""Tests of the C interface for profilers: reference tracers, profile and trace functions, perf maps.

The extensions in this folder are built when the tests run, with public headers only.
"""

import os.path

from test.support import load_package_tests


def load_tests(loader, standard_tests, pattern):
    """Collect the tests of all files of this folder."""
    here = os.path.dirname(__file__)
    return load_package_tests(here, loader, standard_tests, pattern)
