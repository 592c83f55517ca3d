import unittest

unittest.main("test.test_tracemalloc_services")
