"""Lines and file names of tracebacks: code objects that die, are renamed, or
tell odd lines."""

import ast
import gc
import importlib
import os
import shutil
import sys
import textwrap
import types
import unittest

import _imp
import _tracemalloc as engine
from test.support import import_helper, os_helper, suppress_immortalization

from .util import GIL_DISABLED, Probe, Tracing, child_says, made_in


def place_of(block):
    """The most recent frame of a block."""
    return engine._get_object_traceback(block)[0]


def make_function(name, lines_before, filename):
    """A function whose one allocation is on line lines_before + 2."""
    source = "\n" * lines_before + "def make():\n    return bytearray(1)"
    return made_in(filename, source)["make"]


class DyingCode(Tracing):
    """Code objects die and their addresses are reused: with the site array
    every cache keyed by an instruction address must go."""

    limit = 3

    def setUp(self):
        super().setUp()
        # Without a GIL code lives for ever once there was a second thread.
        self.enterContext(suppress_immortalization())

    def test_same_address_other_code(self):
        kept = []
        addresses = set()
        # How soon an address comes back is the allocator's business, and in
        # the free-threaded build the collector's, too: go on until one has.
        while len(kept) < 600 or len(addresses) == len(kept) < 30_000:
            i = len(kept)
            make = make_function("make", i % 41, f"<dead {i}>")
            addresses.add(id(make.__code__))
            kept.append(make())
            del make
            if GIL_DISABLED and i % 20 == 19:
                gc.collect()    # code has deferred reference counts there
        # The test is about nothing if no address was used twice.
        self.assertLess(len(addresses), len(kept))
        for i, block in enumerate(kept):
            self.assertEqual(place_of(block), (f"<dead {i}>", i % 41 + 2))

    def test_same_address_same_caller(self):
        # Module code, run by the same line each time: the context of the
        # callers is the same, too.
        kept = []
        for i in range(600):
            code = compile("\n" * (i % 41) + "x = bytearray(1)", f"<gone {i}>",
                           "exec")
            names = {}
            exec(code, names)
            kept.append(names["x"])
            del code
        for i, block in enumerate(kept):
            self.assertEqual(place_of(block), (f"<gone {i}>", i % 41 + 1))

    def test_callers_die(self):
        # The dead code is not the one that allocates.
        def allocate():
            return bytearray(1)

        kept = []
        for i in range(400):
            code = compile("\n" * (i % 37) + "x = allocate()", f"<caller {i}>",
                           "exec")
            names = {"allocate": allocate}
            exec(code, names)
            kept.append(names["x"])
        for i, block in enumerate(kept):
            frames = engine._get_object_traceback(block)
            self.assertEqual(frames[1], (f"<caller {i}>", i % 37 + 1))

    def test_dies_while_a_generator_keeps_its_frame(self):
        names = made_in("<generator>", """
            def numbers():
                yield bytearray(1)
                yield bytearray(2)
        """)
        g = names.pop("numbers")()
        first = next(g)
        gc.collect()
        second = next(g)
        del g
        self.assertEqual(place_of(first), ("<generator>", 3))
        self.assertEqual(place_of(second), ("<generator>", 4))

    def test_many_living_code_objects(self):
        # More than any first table holds; then every other one dies.
        makers = [make_function("make", i % 50, f"<living {i}>")
                  for i in range(1500)]
        kept = [make() for make in makers]
        del makers[::2]
        gc.collect()
        again = [make() for make in makers]
        more = [make_function("make", i % 50, f"<later {i}>")
                for i in range(800)]
        later = [make() for make in more]
        for i, block in enumerate(kept):
            self.assertEqual(place_of(block), (f"<living {i}>", i % 50 + 2))
        for i, block in enumerate(again):
            i = 2 * i + 1
            self.assertEqual(place_of(block), (f"<living {i}>", i % 50 + 2))
        for i, block in enumerate(later):
            self.assertEqual(place_of(block), (f"<later {i}>", i % 50 + 2))

    def test_names_outlive_their_strings(self):
        kept = []
        for i in range(50):
            name = "".join(["<name ", str(i), ">"])
            kept.append(made_in(name, "x = bytearray(1)")["x"])
            del name
        gc.collect()
        junk = ["z" * (i % 40) for i in range(5000)]
        for i, block in enumerate(kept):
            self.assertEqual(place_of(block), (f"<name {i}>", 1))
        del junk

    def test_code_that_dies_while_tracing_is_off(self):
        for i in range(100):
            make = make_function("make", i % 29, f"<off {i}>")
            block = make()
            engine.stop()
            del make
            engine.start(3)
            other = make_function("make", (i + 5) % 29, f"<on {i}>")
            block = other()
            self.assertEqual(place_of(block), (f"<on {i}>", (i + 5) % 29 + 2))

    def test_the_tables_of_sites_are_not_traced(self):
        # A site array kept in co_extra would be made by the traced allocator,
        # inside a call of it.
        # (A program of its own: monitoring, once used, allocates for each code
        # object that is run.)
        child_says(self, "300 300", """
            import _tracemalloc as engine, sys
            source = "\\n".join(f"def f{i}():\\n    return bytearray()"
                               for i in range(300))
            names = {}
            engine.start(3)
            exec(compile(source, "<many>", "exec"), names)
            functions = [names[f"f{i}"] for i in range(300)]
            engine.clear_traces()
            kept = [f() for f in functions]
            sizes = [t[1] for t in engine._get_traces()
                     if t[2][0][0] == "<many>"]
            print(len(sizes), sizes.count(sys.getsizeof(bytearray())))
        """)


class Names(Tracing):
    """File names are kept by content."""

    def test_all_kinds_of_strings(self):
        names = ["", "a", "a.py", "caf\xe9.py", "\u4e2d\u6587.py",
                 "\U0001f40d.py", "lone\udc80surrogate", "nul\0inside",
                 "new\nline", "x" * 100_000, "\xff" * 300, "\uffff" * 300]
        kept = []
        for name in names:
            code = compile("x = bytearray(1)", "<>", "exec")
            scope = {}
            exec(code.replace(co_filename=name), scope)
            kept.append(scope["x"])
        for name, block in zip(names, kept):
            self.assertEqual(place_of(block), (name, 1))

    def test_equal_names_are_one(self):
        blocks = []
        for _ in range(3):
            name = "".join(["same", ".py"])
            exec(compile("def make(): return bytearray(1)", name, "exec"),
                 scope := {})
            blocks += [scope["make"]() for _ in range(2)]
        frozen = engine._freeze()
        frames = [frozen.trace(frozen.get_by_address(
            engine.get_object_address(block)))[2] for block in blocks]
        self.assertEqual(len({id(f[0][0]) for f in frames}), 1)
        self.assertEqual({f[0] for f in frames}, {("same.py", 1)})

    def test_str_subclass(self):
        class Name(str):
            def __eq__(self, other):
                raise AssertionError("compared")

            __hash__ = str.__hash__

        code = compile("x = bytearray(1)", "<>", "exec")
        scope = {}
        exec(code.replace(co_filename=Name("sub.py")), scope)
        name, line = place_of(scope["x"])
        self.assertIs(type(name), str)
        self.assertEqual((name, line), ("sub.py", 1))

    def test_renamed_in_place(self):
        # importlib's _fix_co_filename renames a code object that may have
        # allocated already.
        exec(compile("def f():\n    def g():\n        return bytearray(2)\n"
                     "    return bytearray(1), g", "<old>", "exec"), scope := {})
        f = scope["f"]
        code = f.__code__
        before, g = f()
        inner = g()
        _imp._fix_co_filename(code, "<new>")
        after, g2 = f()
        self.assertEqual(code.co_filename, "<new>")
        self.assertEqual(place_of(before), ("<old>", 4))
        self.assertEqual(place_of(inner), ("<old>", 3))
        self.assertEqual(place_of(after), ("<new>", 4))
        self.assertEqual(place_of(g2()), ("<new>", 3))
        # The code of g is renamed, too, as a constant of f.
        self.assertEqual(place_of(g()), ("<new>", 3))
        _imp._fix_co_filename(code, "<old>")
        self.assertEqual(place_of(f()[0]), ("<old>", 4))

    def test_renamed_many_times(self):
        # New names may lie where old ones did.
        exec(compile("def f(): return bytearray(1)", "<0>", "exec"),
             scope := {})
        f = scope["f"]
        kept = [f()]
        for i in range(1, 200):
            _imp._fix_co_filename(f.__code__, f"<{i}>")
            kept.append(f())
        for i, block in enumerate(kept):
            self.assertEqual(place_of(block), (f"<{i}>", 1))

    def test_moved_package(self):
        # The usual way to be renamed: compiled code imported from elsewhere.
        with os_helper.temp_dir() as folder:
            first = os.path.join(folder, "first")
            second = os.path.join(folder, "second")
            os.mkdir(first)
            source = os.path.join(first, "tm_moved.py")
            with open(source, "w") as f:
                f.write("block = bytearray(1)\n"
                        "def make():\n    return bytearray(2)\n")
            for where in (first, second):
                with import_helper.DirsOnSysPath(where):
                    if where == second:
                        shutil.move(first, second)
                    importlib.invalidate_caches()
                    module = import_helper.import_fresh_module("tm_moved")
                path = os.path.join(where, "tm_moved.py")
                self.assertEqual(place_of(module.block), (path, 1))
                self.assertEqual(place_of(module.make()), (path, 3))

    def test_copies_with_other_names(self):
        exec(compile("def f(): return bytearray(1)", "<a>", "exec"),
             scope := {})
        f = scope["f"]
        first = f()
        g = types.FunctionType(
            f.__code__.replace(co_filename="<b>", co_firstlineno=77), {})
        second = g()
        f.__code__ = g.__code__.replace(co_filename="<c>")
        third = f()
        self.assertEqual(place_of(first), ("<a>", 1))
        self.assertEqual(place_of(second), ("<b>", 77))
        self.assertEqual(place_of(third), ("<c>", 77))


class Lines(Tracing):
    """The lines are those of the line table, whatever it says."""

    def run_code(self, code):
        def probe():
            return Probe(bytearray(1), sys._getframe())

        scope = {"probe": probe, "out": []}
        exec(code, scope)
        for one in scope["out"]:
            one.check(self)
        return [one.expected[1][1] for one in scope["out"]]

    def test_expressions_over_lines(self):
        code = compile(textwrap.dedent("""
            def both(*args):
                out.extend(a for a in args if a)

            both(probe(),
                 probe(),

                 both(
                     probe(),
                     probe()),
                 probe()
                 if True else
                 probe())
            out.append(probe(
                )); out.append(
                probe())
        """), "<lines>", "exec")
        self.assertEqual(sorted(self.run_code(code)),
                         [5, 6, 9, 10, 11, 14, 16])

    def test_lines_set_by_hand(self):
        tree = ast.parse("out.append(probe())\nout.append(probe())\n"
                         "out.append(probe())")
        for lines in ((1, 2, 3), (3, 2, 1), (7, 7, 7), (2**31 - 1, 1, 2**30),
                      (1, 2**31 - 1, 2**31 - 2), (100000, 5, 100001)):
            for statement, line in zip(tree.body, lines):
                for node in ast.walk(statement):
                    if hasattr(node, "lineno"):
                        node.lineno = node.end_lineno = line
            code = compile(tree, "<by hand>", "exec")
            with self.subTest(lines=lines):
                self.assertEqual(self.run_code(code), list(lines))

    def test_first_line_moved(self):
        code = compile("out.append(probe())", "<moved>", "exec")
        for first in (1, 2, 5000, 2**30, 2**31 - 1):
            with self.subTest(first=first):
                self.assertEqual(
                    self.run_code(code.replace(co_firstlineno=first)), [first])

    def test_no_line_table(self):
        code = compile("out.append(probe())", "<none>", "exec")
        self.assertEqual(self.run_code(code.replace(co_linetable=b"")), [0])

    def test_instructions_without_line(self):
        # A table that says "no line" for everything: code 15 entries.
        code = compile("out.append(probe())", "<no line>", "exec")
        units = len(code.co_code) // 2
        table = b""
        while units:
            n = min(units, 8)
            table += bytes([0x80 | 15 << 3 | n - 1])
            units -= n
        self.assertEqual(self.run_code(code.replace(co_linetable=table)), [0])

    def test_line_table_that_ends_early(self):
        code = compile("out.append(probe())\nout.append(probe())",
                       "<short>", "exec")
        table = code.co_linetable
        self.assertLess(2, len(table))
        for n in range(1, len(table)):
            # Cut where an entry begins.
            if table[n] & 0x80:
                self.run_code(code.replace(co_linetable=table[:n]))

    def test_huge_line_table(self):
        lines = 30_000
        source = "def f():\n" + "    x = 1\n" * lines + "    return bytearray(1)"
        f = made_in("<huge>", source)["f"]
        for _ in range(3):
            self.assertEqual(place_of(f()), ("<huge>", lines + 2))

    def test_many_allocating_lines(self):
        lines = 5_000
        source = "def f(out):\n" + "    out.append(bytearray())\n" * lines
        out = []
        made_in("<wide>", source)["f"](out)
        self.assertEqual([place_of(block)[1] for block in out],
                         list(range(2, lines + 2)))

    def test_far_apart_lines(self):
        out = []
        source = "\n" * 70_000 + "out.append(bytearray(1))"
        source += "\n" * 70_000 + "out.append(bytearray(1))"
        made_in("<far>", source, out=out)
        self.assertEqual([place_of(block)[1] for block in out],
                         [70_001, 140_001])


class Bytecode(Tracing):
    """The engine keys its caches by instruction: rewriting them is fine."""

    def test_specialisation_and_instrumentation(self):
        exec(compile("def f(n):\n"
                     "    a = bytearray(n)\n"
                     "    b = bytearray(n)\n"
                     "    return a, b\n", "<rewritten>", "exec"), scope := {})
        f = scope["f"]
        kept = [f(1) for _ in range(100)]
        previous = sys.gettrace()
        sys.settrace(lambda *args: None)
        try:
            kept += [f(1) for _ in range(5)]
        finally:
            sys.settrace(previous)
        tool = sys.monitoring.OPTIMIZER_ID
        if sys.monitoring.get_tool(tool) is None:
            sys.monitoring.use_tool_id(tool, "test_site")
            sys.monitoring.set_local_events(
                tool, f.__code__, sys.monitoring.events.INSTRUCTION)
            kept += [f(1) for _ in range(5)]
            sys.monitoring.set_local_events(tool, f.__code__, 0)
            sys.monitoring.free_tool_id(tool)
        kept += [f(1) for _ in range(5)]
        for a, b in kept:
            self.assertEqual(place_of(a), ("<rewritten>", 2))
            self.assertEqual(place_of(b), ("<rewritten>", 3))

    def test_extra_of_code_objects_is_left_to_others(self):
        # The engine takes no index of co_extra: an extension that asks for
        # all of them gets as many as without tracing.
        import_helper.import_module("ctypes")
        child_says(self, "ok", """
            import ctypes, _tracemalloc
            request = ctypes.pythonapi.PyUnstable_Eval_RequestCodeExtraIndex
            request.argtypes = [ctypes.c_void_p]
            request.restype = ctypes.c_ssize_t
            _tracemalloc.start(5)
            exec("x = bytearray(1)", {})
            assert request(None) == 0
            print("ok")
        """)


if __name__ == "__main__":
    unittest.main()
