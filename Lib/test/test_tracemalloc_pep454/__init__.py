"""Tests of tracemalloc as the third draft of PEP 454 describes it.

A file for each class or group of functions of the text.  They were written
from its sentences: a comment above or in a test says which promise it holds
the module to.
"""

import os.path
from test import support


def load_tests(loader, tests, pattern):
    folder = os.path.dirname(__file__)
    return support.load_package_tests(folder, loader, tests, pattern)
