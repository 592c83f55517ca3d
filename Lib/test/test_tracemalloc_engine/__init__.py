"""Tests of the memory-tracing engine, a file for each of its rooms."""

import os.path

from test.support import load_package_tests


def load_tests(loader, standard_tests, pattern):
    """Collect what the files of this folder define."""
    here = os.path.dirname(__file__)
    return load_package_tests(here, loader, standard_tests, pattern)
