"""Tests of tracing in running services: reserved signals, children, and the
commands that drive other programs."""

import os.path

from test.support import has_fork_support, load_package_tests
import unittest

if not has_fork_support:
    raise unittest.SkipTest("needs signals and fork()")


def load_tests(loader, standard_tests, pattern):
    """Collect what the files of this folder define."""
    here = os.path.dirname(__file__)
    return load_package_tests(here, loader, standard_tests, pattern)
