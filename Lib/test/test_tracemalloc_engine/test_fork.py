"""What a forked child does: by how tracing was turned on, by the policy, and
whatever the other threads of the parent were doing."""

import os
import unittest
from test import support
from test.support import threading_helper

import _tracemalloc as engine

from . import blocks
from .util import Untraced, child_says

if not support.has_fork_support:
    raise unittest.SkipTest("needs fork()")

# In each program: forked(call) is what call() gives in a forked child.
FORKED = '''
import _tracemalloc as engine, os, pickle, signal, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)

def forked(call, *args):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        # What hangs is killed, and the parent sees that it was.
        signal.alarm(60)
        status = 1
        try:
            result = pickle.dumps(call(*args))
            os.write(write, result)
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
        finally:
            os._exit(status)
    os.close(write)
    result = b""
    while more := os.read(read, 65536):
        result += more
    os.close(read)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the forked child ended with {status}"
    return pickle.loads(result)

def place():
    frame = sys._getframe(1)
    return frame.f_code.co_filename, frame.f_lineno

def sound():
    """Tracing works here."""
    def deep(n):
        return (bytearray(1), place()) if n == 0 else deep(n - 1)
    block, where = deep(30)
    frames = engine._get_object_traceback(block)
    assert frames[0] == where, (frames, where)
    assert len(frames) == min(engine.get_traceback_limit(), 32 + depth()), frames
    assert engine._check() is None, engine._check()
    return True

def depth():
    frame, n = sys._getframe(1), 0
    while frame is not None:
        frame, n = frame.f_back, n + 1
    return n - 1
'''


class Policies(Untraced):
    """The policy decides; without one, how tracing was turned on does."""

    def says(self, wanted, code, *options, **more):
        child_says(self, wanted, code, *options, before=FORKED, **more)

    def test_get_and_set(self):
        self.assertIsNone(engine.get_fork_policy())
        for policy in ("disable", "follow", None):
            engine.set_fork_policy(policy)
            self.assertEqual(engine.get_fork_policy(), policy)
        for wrong in ("", "Disable", "none", "follow\0", "disable "):
            with self.assertRaises(ValueError):
                engine.set_fork_policy(wrong)
        for wrong in (1, b"follow", True, ["follow"]):
            with self.assertRaises(TypeError):
                engine.set_fork_policy(wrong)
        self.assertIsNone(engine.get_fork_policy())

    def test_matrix(self):
        # (how it was turned on, policy) -> is the child tracing?
        self.says("\n".join([
            "start None True", "start disable False", "start follow True",
            "enable None False", "enable disable False", "enable follow True",
        ]), """
            for how in ("start", "enable"):
                for policy in (None, "disable", "follow"):
                    engine.set_fork_policy(policy)
                    getattr(engine, how)()
                    print(how, policy, forked(engine.is_tracing))
                    assert engine.is_tracing() and sound()
                    engine.stop()
                    assert forked(engine.is_tracing) is False
        """)

    def test_turned_on_by_options(self):
        code = "print(forked(engine.is_tracing), engine.is_tracing())"
        x, env = ("-X", "tracemalloc=3"), {"PYTHONTRACEMALLOC": "3"}
        self.says("False True", code, *x)
        self.says("False True", code, env=env)
        for policy, child in (("follow", True), ("disable", False)):
            wanted = f"{child} True"
            self.says(wanted, code, *x, "-X", f"tracemalloc_fork={policy}")
            self.says(wanted, code, env=env | {"PYTHONTRACEMALLOC_FORK": policy})
            self.says(wanted, f"engine.set_fork_policy({policy!r})\n" + code, *x)
        # The function has the last word, and None takes it back.
        self.says("False True", "engine.set_fork_policy('disable')\n" + code,
                  *x, "-X", "tracemalloc_fork=follow")
        self.says("False True", "engine.set_fork_policy(None)\n" + code,
                  *x, "-X", "tracemalloc_fork=follow")

    def test_the_last_start_counts(self):
        self.says("False True False", """
            engine.enable()
            engine.start()              # already on: changes nothing
            first = forked(engine.is_tracing)
            engine.stop(); engine.start()
            second = forked(engine.is_tracing)
            engine.disable(); engine.enable()
            print(first, second, forked(engine.is_tracing))
        """)

    def test_disabled_child(self):
        # Traces are dropped, and it can be turned on again.
        self.says("((False, (0, 0), 0, None, 7, 0), True, True)", """
            engine.set_traceback_limit(7)
            engine.enable()
            kept = bytearray(1000)
            def child():
                state = (engine.is_tracing(), engine.get_traced_memory(),
                         len(engine._get_traces()),
                         engine._get_object_traceback(kept),
                         engine.get_traceback_limit(), engine._lost())
                again = []
                for how in (engine.enable, engine.start):
                    how()
                    again.append(sound())
                    engine.stop()
                return state, *again
            print(forked(child))
            assert sound()
        """)

    def test_following_child(self):
        self.says("True True True", """
            engine.start(50)
            kept = bytearray(1000)
            before = engine._get_object_traceback(kept)
            size = engine.get_traced_memory()[0]
            def child():
                same = engine._get_object_traceback(kept) == before
                near = abs(engine.get_traced_memory()[0] - size) < 50000
                return same, near, sound()
            print(*forked(child))
            assert sound()
        """)

    def test_tasks_are_cancelled_in_the_child(self):
        self.says("follow 0 1\ndisable 0 1", """
            class Task:
                def _fire(self):
                    return True
            engine.start()
            engine._task_schedule(Task(), 1000, 0)
            for policy in ("follow", "disable"):
                engine.set_fork_policy(policy)
                print(policy, forked(lambda: len(engine._task_list())),
                      len(engine._task_list()))
        """)

    def test_filters_stay(self):
        if not hasattr(engine, "_set_filters"):
            self.skipTest("no live filters")
        self.says("True", """
            engine.start()
            engine._set_filters([(False, "<dropped>", 0, False, -1)])
            def child():
                names = {}
                exec(compile("x = bytearray(1)", "<dropped>", "exec"), names)
                exec(compile("y = bytearray(1)", "<kept>", "exec"), names)
                return (engine._get_object_traceback(names["x"]) is None
                        and engine._get_object_traceback(names["y"]) is not None)
            print(forked(child))
        """)

    def test_grandchildren(self):
        self.says("[True, True, True, True]", """
            engine.start(10)
            def child(n):
                return [sound()] + (forked(child, n - 1) if n else [])
            print(forked(child, 3))
        """)
        self.says("[False, True, True]", """
            engine.enable()
            def child(n):
                state = [engine.is_tracing()]
                engine.start(3)         # by start(): the next one follows
                return state + (forked(child, n - 1) if n else [])
            print(forked(child, 2))
        """)


class Threads(Untraced):
    """Fork from a thread that is not the main one, and under others."""

    def says(self, wanted, code, *options, **more):
        child_says(self, wanted, code, *options, before=FORKED, **more)

    @threading_helper.requires_working_threading()
    def test_from_another_thread(self):
        self.says("True True False", """
            import threading
            engine.start(20)
            found = []
            def work(n):
                if n:
                    return work(n - 1)
                def child():
                    # The stack of this thread is the child's only one.
                    block = bytearray(1); where = place()
                    frames = engine._get_object_traceback(block)
                    assert frames[0] == where
                    assert len(frames) == min(20, depth()), frames
                    return sound()
                found.append(forked(child))
                engine.set_fork_policy("follow")
                found.append(forked(child))
                engine.set_fork_policy("disable")
                found.append(forked(engine.is_tracing))
            thread = threading.Thread(target=work, args=(40,))
            thread.start(); thread.join()
            assert sound()
            print(*found)
        """)

    @threading_helper.requires_working_threading()
    def test_new_threads_in_the_child(self):
        self.says("True", """
            import threading
            engine.start(20)
            def child():
                results = []
                threads = [threading.Thread(target=lambda:
                                            results.append(sound()))
                           for _ in range(5)]
                for t in threads: t.start()
                for t in threads: t.join()
                return results == [True] * 5 and sound()
            thread = threading.Thread(target=lambda: print(forked(child)))
            thread.start(); thread.join()
        """)

    @threading_helper.requires_working_threading()
    def test_under_python_threads(self):
        self.says("ok", """
            import threading
            engine.start(5)
            stop = threading.Event()
            def work():
                while not stop.is_set():
                    kept = [bytearray(n * 7) for n in range(100)]
            threads = [threading.Thread(target=work) for _ in range(3)]
            for t in threads: t.start()
            for i in range(40):
                engine.set_fork_policy(("follow", "disable")[i % 2])
                def child():
                    if not engine.is_tracing():
                        engine.start(3)
                    return sound()
                assert forked(child)
            stop.set()
            for t in threads: t.join()
            assert sound()
            print("ok")
        """)

    def test_under_native_threads(self):
        # One of them may hold a lock of the engine at the moment of the fork:
        # locks are made anew in the child.
        self.says("ok", blocks.loading() + """
engine.start(5)
for i in range(60):
    engine.set_fork_policy(("follow", "disable")[i % 2])
    tm_blocks.native_start(6, 3000)
    def child():
        if not engine.is_tracing():
            engine.start(3)
        address = tm_blocks.malloc(0, 1000)
        assert engine.get_trace(address)[0] == 1000
        tm_blocks.free(0, address)
        assert tm_blocks.track(7, 4096, 10, True) == 0
        assert tm_blocks.untrack(7, 4096, True) == 0
        engine._freeze()
        ok = sound()
        engine.stop()
        return ok
    assert forked(child)
    assert tm_blocks.native_join() == 0
assert sound()
print("ok")
""")

    def test_traces_of_native_threads_in_the_child(self):
        # What a thread that is gone had tracked can still be untracked.
        self.says("ok", blocks.loading() + """
engine.start(5)
for i in range(200):
    tm_blocks.track(5, 4096 + i, 10, True)
def child():
    for i in range(200):
        tm_blocks.untrack(5, 4096 + i)
    assert not [t for t in engine._get_traces() if t[0] == 5]
    return sound()
assert forked(child)
assert len([t for t in engine._get_traces() if t[0] == 5]) == 200
print("ok")
""")


class OtherWays(Untraced):
    def test_subprocess_with_preexec(self):
        child_says(self, "ok", """
            import _tracemalloc as engine, subprocess, sys
            engine.start(3)
            def before():
                bytearray(10000)
                assert engine.is_tracing()
            done = subprocess.run([sys.executable, "-c", "print(1)"],
                                  preexec_fn=before, stdout=subprocess.PIPE)
            assert done.stdout.strip() == b"1"
            assert engine._check() is None
            print("ok")
        """)

    @unittest.skipUnless(hasattr(os, "forkpty"), "needs forkpty()")
    def test_forkpty(self):
        child_says(self, "ok", """
            import _tracemalloc as engine, os
            engine.start(3)
            pid, fd = os.forkpty()
            if pid == 0:
                ok = engine.is_tracing() and engine._check() is None
                os._exit(0 if ok else 1)
            assert os.waitpid(pid, 0)[1] == 0
            os.close(fd)
            print("ok")
        """)

    def test_multiprocessing(self):
        child_says(self, "ok", """
            import _tracemalloc as engine, multiprocessing, sys
            engine.start(3)
            context = multiprocessing.get_context("fork")
            def work(n):
                block = bytearray(n)
                line = sys._getframe().f_lineno - 1
                assert engine._get_object_traceback(block)[0][1] == line
                assert engine._check() is None
                return n
            with context.Pool(2) as pool:
                assert pool.map(work, range(10)) == list(range(10))
            print("ok")
        """, "-W", "ignore::DeprecationWarning")

    def test_a_fork_that_fails(self):
        # The parent goes on with its locks released.
        child_says(self, "ok", """
            import _tracemalloc as engine, os
            try:
                import resource
                limits = resource.getrlimit(resource.RLIMIT_NPROC)
                resource.setrlimit(resource.RLIMIT_NPROC, (0, limits[1]))
            except (ImportError, AttributeError, ValueError, OSError):
                resource = None
            engine.start(3)
            for _ in range(3):
                try:
                    pid = os.fork()
                except OSError:
                    continue
                if pid == 0:
                    os._exit(0)         # allowed all the same (root)
                os.waitpid(pid, 0)
            bytearray(1000)
            assert engine._check() is None
            engine.stop()
            print("ok")
        """)


if __name__ == "__main__":
    unittest.main()
