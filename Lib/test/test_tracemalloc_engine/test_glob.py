"""File name patterns: _fnmatch() means what fnmatch.fnmatchcase() means, and
takes linear time."""

import fnmatch
import random
import time
import unittest
import warnings

from _tracemalloc import _fnmatch

# Letters for random names and patterns.  Few, so that things match; the brackets
# and signs are those that have a meaning somewhere in a pattern.
ALPHABETS = (
    "ab", "ab.*?", "abc[]-!*?^\\", "a-c!]b[", "!-]^&|~[a\\*", "a\n\0*?",
    "a\xe9\u4e00\U0001f600*?[]-!b", "ab\udc80*[]-\U0010ffff",
)

# What each of these matches is easily got wrong.
ODD_PATTERNS = (
    "", "*", "**", "?", "*?", "?*", "*?*?*", "[", "[]", "[!]", "[]]", "[!]]", "[a",
    "[!", "[[]", "[[a]", "[^a]", "[!^]", "[\\]", "[\\a]", "[-a]", "[a-]", "[!-a]",
    "[--a]", "[a--]", "[%--]", "[a-c-e]", "[a-b-c-d]", "[b-a]", "[!b-a]", "[c-b-a]",
    "[b-a!c]", "[b-a!-c]", "[b-a!-!]", "[!b-a!c]", "[]-a]", "[]-Z]", "[!]-Z]",
    "[a-cx-z]", "[a-bb-c]", "[a&&b]", "[a||b]", "[a~~b]", "[[:alpha:]]", "a[]b]c",
    "*[a-c]*[!a-c]", "*.py", "*.py*", "a*b*c", "*a?*", "*[ab]?c*", "[a-z]*[0-9].py",
    "\\*", "[*]", "[?]", "[]]*[[]",
)


def random_text(rnd, letters, longest):
    return "".join(rnd.choice(letters) for _ in range(rnd.randrange(longest + 1)))


class LikeFnmatch(unittest.TestCase):
    def setUp(self):
        # The patterns are patterns on purpose: re warns of "possible" sets.
        catcher = warnings.catch_warnings()
        catcher.__enter__()
        self.addCleanup(catcher.__exit__, None, None, None)
        warnings.simplefilter("ignore")

    def check(self, name, pattern):
        if _fnmatch(name, pattern) is not fnmatch.fnmatchcase(name, pattern):
            self.fail(f"{ascii(name)} and {ascii(pattern)}: got "
                      f"{_fnmatch(name, pattern)}")

    def test_odd_patterns(self):
        names = ["", "a", "b", "c", "d", "A", "-", "!", "]", "[", "^", "\\", "*", "?",
                 ":", "&", "|", "~", "%", ",", "ab", "abc", "a.py", "]x[", "x\n",
                 "a]c", "a[]b]c", "[a", "[!", "[]", "\\*", "\\x", "q7.py"]
        for pattern in ODD_PATTERNS:
            for name in names:
                self.check(name, pattern)

    def test_every_code_point_of_latin1_in_ranges(self):
        for pattern in ("[ -~]", "[!a-f]", "[\x80-\xff]", "[--0]", "[+--]", "[A-z]"):
            for code in range(256):
                self.check(chr(code), pattern)

    def test_random_patterns(self):
        rnd = random.Random(454)
        for _ in range(8000):
            letters = rnd.choice(ALPHABETS)
            pattern = random_text(rnd, letters, 12)
            for _ in range(3):
                self.check(random_text(rnd, letters.replace("*", "x"), 8), pattern)

    def test_random_sets(self):
        rnd = random.Random(3)
        for _ in range(6000):
            letters = rnd.choice(ALPHABETS[2:])
            body = random_text(rnd, letters, 9)
            pattern = f"{rnd.choice(['', '*', 'a'])}[{body}]{rnd.choice(['', '*', '?'])}"
            for _ in range(4):
                self.check(random_text(rnd, letters, 3), pattern)

    def test_long_parts_between_stars(self):
        rnd = random.Random(13)
        for _ in range(400):
            letters = rnd.choice(("ab", "abc", "a\xe9\u4e00"))
            name = "".join(rnd.choice(letters) for _ in range(rnd.randrange(80, 700)))
            start = rnd.randrange(len(name) - 70)
            part = list(name[start:start + rnd.randrange(1, 300)])
            for _ in range(rnd.randrange(6)):
                part[rnd.randrange(len(part))] = rnd.choice(("?", "[ab]", "[!b]", "a"))
            self.check(name, f"*{''.join(part)}*{rnd.choice(['', 'a*', '?*', 'b'])}")

    def test_real_names(self):
        names = ["/usr/lib/python3.13/json/decoder.py", "<frozen importlib._bootstrap>",
                 "<string>", "C:\\Users\\x\\d.py", "we[i]rd.py", "a.py", "A.PY"]
        patterns = ["*/json/*", "<*>", "<frozen *>", "*.py", "*.PY", "?.py",
                    "we[[]i]rd.py", "/usr/lib/python3.1[0-9]/*", "C:\\*", "*d.py"]
        for pattern in patterns:
            for name in names:
                self.check(name, pattern)

    def test_case_counts(self):
        self.assertFalse(_fnmatch("A.py", "a.py"))
        self.assertTrue(_fnmatch("A.py", "[A].py"))

    def test_types(self):
        for args in (("a",), ("a", b"a"), (b"a", "a"), ("a", None), (None, "*")):
            with self.assertRaises(TypeError):
                _fnmatch(*args)


class LinearTime(unittest.TestCase):
    def seconds(self, name, pattern, expected):
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            self.assertIs(_fnmatch(name, pattern), expected)
            best = min(best, time.process_time() - start)
        return best

    def test_a_million_stars(self):
        self.assertTrue(_fnmatch("name.py", "*" * 1_000_000))
        self.assertTrue(_fnmatch("name.py", "*" * 1_000_000 + ".py"))
        self.assertFalse(_fnmatch("name.py", "*" * 1_000_000 + "x"))

    def test_time_grows_as_the_size_does(self):
        # Quadratic time would be 64 times as much for 8 times the size: allow
        # half of that, the rest is what caches and a busy machine cost.
        shapes = {
            "star and letter": (lambda n: ("a" * n, "*a" * n, True)),
            "no end": (lambda n: ("a" * n, "a*" * (n // 2) + "b", False)),
            "any and star": (lambda n: ("a" * n, "?*" * n, True)),
            "unclosed": (lambda n: ("a" * n, "[" * n, False)),
            "long literal": (lambda n: ("a" * n, f"*{'a' * (n // 2)}b*", False)),
            "long set": (lambda n: ("b" * n, "[" + "a-z" * n + "]*", True)),
            "many sets": (lambda n: ("a" * n, "*[a]" * (n // 4), True)),
            "many wrong ranges": (lambda n: ("a", "[" + "z-a" * n + "]", False)),
        }
        for what, shape in shapes.items():
            with self.subTest(what):
                small = self.seconds(*shape(25_000))
                large = self.seconds(*shape(200_000))
                self.assertLess(large, 32 * max(small, 0.001))

    def test_many_anys_in_a_part(self):
        # Bit by bit: what is left of a square is divided by the word size.
        self.assertFalse(_fnmatch("a" * 40_000, "*" + "a?" * 10_000 + "b*"))


if __name__ == "__main__":
    unittest.main()
