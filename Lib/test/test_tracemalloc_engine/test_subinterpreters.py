"""Subinterpreters: what they run is traced, with a shared GIL and with one of
their own, and nothing of their traces needs them alive."""

import unittest

from test.support import import_helper, threading_helper

from . import blocks
from .util import GIL_DISABLED, child_says

_interpreters = import_helper.import_module("_interpreters")

# In each program: run(interp, code), made(config), and the kinds.
INTERPRETERS = '''
import _interpreters, _tracemalloc as engine, contextlib, gc, sys, threading
# Shared GIL, shared GIL but a pymalloc of its own, own GIL.
KINDS = ("legacy", _interpreters.new_config("isolated", gil="shared"),
         "isolated")

@contextlib.contextmanager
def made(kind):
    interp = _interpreters.create(kind)
    try:
        yield interp
    finally:
        _interpreters.destroy(interp)

def run(interp, code):
    failed = _interpreters.exec(interp, code)
    assert failed is None, failed.errdisplay

def files():
    """{file name: bytes} of the most recent frames."""
    sizes = {}
    for domain, size, frames, total in engine._get_traces():
        name = frames[0][0]
        assert type(name) is str
        name.encode("utf-8", "surrogatepass")
        sizes[name] = sizes.get(name, 0) + size
    return sizes

def code_of(name, source):
    """Statements that run source under a file name and keep its names."""
    return (f"import builtins\\n"
            f"builtins.kept = getattr(builtins, 'kept', [])\\n"
            f"names = {{}}\\n"
            f"exec(compile({source!r}, {name!r}, 'exec'), names)\\n"
            f"builtins.kept.append(names)\\n")

KEEP = "keep = [bytearray(700) for _ in range(50)]\\n"

def sound():
    assert engine._check() is None, engine._check()
'''


class Programs(unittest.TestCase):
    def says_ok(self, code, *options, **more):
        child_says(self, "ok", code + '\nprint("ok")\n', *options,
                   before=INTERPRETERS, **more)

    def says_ok_everywhere(self, code):
        """Over pymalloc and over the debug allocators."""
        import textwrap
        code = textwrap.dedent(code)
        for env in ({}, {"PYTHONMALLOC": "debug"}):
            with self.subTest(env=env):
                self.says_ok(code, env=env)


class Traced(Programs):
    def test_code_run_there_is_traced(self):
        self.says_ok_everywhere("""
            engine.start(5)
            for kind in KINDS:
                with made(kind) as interp:
                    name = f"<in {kind}>"
                    run(interp, code_of(name, KEEP))
                    assert files()[name] > 50 * 700, files().get(name)
                    sound()
                sound()
                # All of it went with the interpreter.
                assert files().get(name, 0) < 10_000, files().get(name)
        """)

    def test_asked_from_there(self):
        # The engine is one for the process, whoever asks.
        self.says_ok_everywhere("""
            engine.start(5)
            for kind in KINDS:
                with made(kind) as interp:
                    run(interp, '''if True:
                        import _tracemalloc as engine, sys
                        block = bytearray(1)
                        line = sys._getframe().f_lineno - 1
                        frames = engine._get_object_traceback(block)
                        assert frames == (("<script>", line),), frames
                        assert engine.is_tracing()
                        assert engine.get_traceback_limit() == 5
                        assert engine.get_object_trace(block) is not None
                        assert len(engine._freeze()) > 10
                        assert engine._check() is None, engine._check()
                    ''')
                sound()
        """.replace('"<script>"', 'sys._getframe().f_code.co_filename'))

    def test_destroyed_before_the_snapshot(self):
        # File names and code objects of the interpreter are gone by then.
        self.says_ok_everywhere("""
            engine.start(10)
            for kind in KINDS:
                for n in range(4):
                    with made(kind) as interp:
                        run(interp, code_of(f"/only/{kind}/here_{n}.py", KEEP))
                        run(interp, "import json, re, collections")
                        before = files()
                        assert f"/only/{kind}/here_{n}.py" in before
                    gc.collect()
                    junk = ["%d-%s" % (k, "z" * (k % 90)) for k in range(9000)]
                    del junk
                    files()
                    engine._freeze()
                    sound()
        """)

    def test_started_and_stopped_from_there(self):
        self.says_ok_everywhere("""
            for kind in KINDS:
                with made(kind) as interp:
                    run(interp, "import _tracemalloc as e; e.start(3)")
                    assert engine.is_tracing()
                    block = bytearray(1)
                    assert len(engine._get_object_traceback(block)) == 1
                    run(interp, code_of("<x>", KEEP))
                    assert files()["<x>"] > 50 * 700
                    sound()
                    run(interp, "import _tracemalloc as e; e.clear_traces()")
                    sound()
                    assert engine._get_object_traceback(block) is None
                    run(interp, "import _tracemalloc as e; e.stop()")
                    assert not engine.is_tracing()
                engine.start(4)
                with made(kind) as interp:
                    run(interp, code_of("<y>", KEEP))
                    engine.stop()
                    run(interp, code_of("<z>", KEEP))
                    engine.start(2)
                    run(interp, code_of("<w>", KEEP))
                    assert "<y>" not in files() and "<w>" in files()
                    sound()
                sound()
                engine.stop()
        """)

    def test_made_before_tracing(self):
        self.says_ok_everywhere("""
            with contextlib.ExitStack() as stack:
                many = [stack.enter_context(made(kind))
                        for kind in KINDS * 2]
                for i, interp in enumerate(many):
                    run(interp, code_of(f"<early {i}>", KEEP))
                engine.start(5)
                for i, interp in enumerate(many):
                    run(interp, code_of(f"<late {i}>", KEEP))
                found = files()
                for i in range(4):
                    assert found[f"<late {i}>"] > 50 * 700
                    assert f"<early {i}>" not in found
                sound()
            sound()
        """)

    def test_left_alive_until_exit(self):
        for options in ((), ("-X", "tracemalloc=7")):
            self.says_ok("""
if not engine.is_tracing():
    engine.start(7)
for kind in KINDS:
    interp = _interpreters.create(kind)
    run(interp, code_of("<left>", KEEP))
sound()
""", *options)

    def test_switching_between_interpreters_on_one_thread(self):
        # Frames of two interpreters alternate on one C stack; each has a
        # thread state, and known callers, of its own.
        self.says_ok_everywhere("""
            engine.start(50)
            def deep(n, call):
                return call() if n == 0 else deep(n - 1, call)
            def check():
                block = bytearray(1)
                frame = sys._getframe()
                frames = []
                line = frame.f_lineno - 3
                while frame is not None:
                    frames.append((frame.f_code.co_filename, frame.f_lineno))
                    frame = frame.f_back
                frames[0] = frames[0][0], line
                got = engine._get_object_traceback(block)
                assert got == tuple(frames[:50]), (got, frames)
            for kind in KINDS:
                with made(kind) as interp:
                    for n in (0, 5, 30, 2):
                        def both():
                            check()
                            run(interp, "def f(n):\\n"
                                        "    if n: return f(n - 1)\\n"
                                        "    return [bytearray(9)] * 3\\n"
                                        "for n in (0, 9, 40): f(n)")
                            check()
                        deep(n, both)
                sound()
        """)

    def test_extra_index_of_code_is_per_interpreter(self):
        # Nothing that one interpreter keeps for its code objects may be looked
        # up in another: the same source, at other lines, in each.
        self.says_ok_everywhere("""
            engine.start(3)
            with contextlib.ExitStack() as stack:
                many = [stack.enter_context(made(k)) for k in KINDS * 3]
                for round in range(20):
                    for i, interp in enumerate(many):
                        run(interp, f'''if True:
                            import _tracemalloc as engine
                            names = {{}}
                            source = "\\\\n" * {round + i} + "x = bytearray(1)"
                            exec(compile(source, "<{i}.{round}>", "exec"), names)
                            frames = engine._get_object_traceback(names["x"])
                            assert frames[0] == ("<{i}.{round}>", {round + i + 1}), frames
                        ''')
                sound()
        """)

    def test_thread_states_of_an_interpreter_end_with_it(self):
        self.says_ok("""
engine.start(3)
# (With an allocator of its own an interpreter leaves blocks behind, which stay
# traced.  In the free-threaded build each one does.)
def round():
    with made("legacy") as interp:
        run(interp, "x = [bytearray(9) for i in range(10)]")
for _ in range(3):
    round()
count = len(engine._get_traces())
before = engine._memory()[0]
for _ in range(30):
    round()
after = engine._memory()[0]
more = max(len(engine._get_traces()) - count, 0)
assert after - before < 100_000 + more * 60, (before, after, more)
sound()
""")


@threading_helper.requires_working_threading()
class Parallel(Programs):
    """More than one GIL: interpreters record at the same time."""

    def test_side_by_side(self):
        self.says_ok_everywhere("""
            engine.start(8)
            def work(me):
                for n in range(2):
                    with made("isolated") as interp:
                        run(interp, code_of(f"<side {me}.{n}>", '''if True:
                            def deep(n):
                                return [bytearray(n * 13 % 900)] + (
                                    deep(n - 1) if n else [])
                            keep = []
                            for i in range(300):
                                keep.append(deep(i % 40))
                                if i % 3 == 0:
                                    keep.pop(0)
                            keep = deep(90)
                        '''))
                        size = files()[f"<side {me}.{n}>"]
                        assert size > 90 * 400, size
            threads = [threading.Thread(target=work, args=(i,))
                       for i in range(4)]
            problems = []
            threading.excepthook = lambda args: problems.append(args)
            for t in threads: t.start()
            while any(t.is_alive() for t in threads):
                kept = [bytearray(300) for _ in range(100)]
                sound()
            for t in threads: t.join()
            assert not problems, problems
            sound()
        """)

    def test_started_and_stopped_under_them(self):
        self.says_ok_everywhere("""
            problems = []
            threading.excepthook = lambda args: problems.append(args)
            go = True
            def work(me):
                while go:
                    with made("isolated") as interp:
                        run(interp, '''if True:
                            import json, re
                            for _ in range(30):
                                keep = [bytearray(n * 7) for n in range(150)]
                                keep = {str(i): [i] for i in range(200)}
                        ''')
            threads = [threading.Thread(target=work, args=(i,))
                       for i in range(3)]
            for t in threads: t.start()
            for i in range(60):
                engine.start(i % 4 + 1)
                kept = [bytearray(300) for _ in range(300)]
                if i % 3 == 0:
                    engine.clear_traces()
                if i % 4 == 0:
                    engine._freeze()
                sound()
                engine.stop()
            go = False
            for t in threads: t.join()
            assert not problems, problems
            engine.start(3)
            with made("isolated") as interp:
                run(interp, code_of("<after>", KEEP))
                assert files()["<after>"] > 50 * 700
            sound()
        """)

    def test_asked_in_parallel(self):
        self.says_ok("""
engine.start(6)
problems = []
threading.excepthook = lambda args: problems.append(args)
def work(me):
    with made("isolated") as interp:
        run(interp, '''if True:
            import _tracemalloc as engine
            for i in range(60):
                block = bytearray(i)
                frames = engine._get_object_traceback(block)
                assert frames is None or len(frames) == 1, frames
                engine.get_traced_memory()
                engine.get_object_trace(block)
                if i % 10 == 0:
                    engine._freeze()
                    engine.get_stats()
        ''')
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
while any(t.is_alive() for t in threads):
    engine.clear_traces()
    kept = [bytearray(300) for _ in range(100)]
for t in threads: t.join()
assert not problems, problems
sound()
""")

    def test_first_one_made_meanwhile(self):
        # The thread that makes it has released the GIL: others are in the
        # middle of allocating and freeing when locks become necessary.
        for limit in (1, 20):
            self.says_ok(f"""
sys.setswitchinterval(1e-5)
engine.start({limit})
stop = False
def work():
    while not stop:
        kept = [bytearray(size) for size in range(1, 500, 7)
                for _ in range(20)]
        del kept[::2]
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads: t.start()
for _ in range(3):
    with made("isolated") as interp:
        run(interp, "keep = [bytearray(n % 500) for n in range(2000)]")
stop = True
for t in threads: t.join()
sound()
""")

    def test_blocks_of_native_threads_meanwhile(self):
        self.says_ok(blocks.loading() + """
engine.start(6)
problems = []
threading.excepthook = lambda args: problems.append(args)
def work(me):
    for _ in range(3):
        with made("isolated") as interp:
            run(interp, "keep = [bytearray(n * 9) for n in range(2000)]")
threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
for t in threads: t.start()
for _ in range(5):
    tm_blocks.native_start(4, 1000)
    assert tm_blocks.native_join() == 0
    sound()
for t in threads: t.join()
assert not problems, problems
sound()
""")


class InternalApi(Programs):
    def test_run_in_subinterp_with_config(self):
        import_helper.import_module("_testinternalcapi")
        self.says_ok("""
import _testinternalcapi, types
engine.start(5)
def run_in(name, **config):
    assert _testinternalcapi.run_in_subinterp_with_config(
        code_of(name, KEEP), types.SimpleNamespace(**config)) == 0
config = dict(use_main_obmalloc=True, allow_fork=True, allow_exec=True,
              allow_threads=True, allow_daemon_threads=True,
              check_multi_interp_extensions=False, gil="shared")
if not sysconfig_nogil():
    for n in range(3):
        # One that uses the main interpreter's pymalloc.
        run_in("<main obmalloc>", **config)
        sound()
config |= dict(use_main_obmalloc=False, check_multi_interp_extensions=True,
               gil="own")
for n in range(3):
    run_in("<own>", **config)
    sound()
block = bytearray(1)
assert engine._get_object_traceback(block) is not None
""".replace("sysconfig_nogil()", repr(GIL_DISABLED)))

    def test_run_in_subinterp(self):
        import_helper.import_module("_testcapi")
        if GIL_DISABLED:
            self.skipTest("legacy interpreters share what is not thread-safe")
        self.says_ok("""
import _testcapi
engine.start(5)
for n in range(4):
    assert _testcapi.run_in_subinterp(code_of("<legacy>", KEEP)) == 0
    sound()
    if n == 1:
        engine.clear_traces()
    if n == 2:
        assert _testcapi.run_in_subinterp(
            "import _tracemalloc as e; e.stop()") == 0
        assert not engine.is_tracing()
        engine.start(2)
""")


if __name__ == "__main__":
    unittest.main()
