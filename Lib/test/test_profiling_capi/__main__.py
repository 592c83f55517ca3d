import unittest

unittest.main("test.test_profiling_capi")
