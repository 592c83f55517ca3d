"""Threads that end with the interpreter, or that a fork leaves behind, while they set tracers and functions: nobody waits for them."""

import unittest

from test import support

from .util import CapiTestCase

TIMEOUT = 60.0      # seconds; a program takes a fraction of one
SETTERS = {
    "profile": "sys.setprofile(nothing); sys.setprofile(None)",
    "trace": "sys.settrace(nothing); sys.settrace(None)",
    "all": "threading.setprofile_all_threads(nothing); threading.setprofile_all_threads(None)",
    "tracer": "ext.tag_on(0); ext.tag_off(); ext.tag_removals()",
    "gc": "gc.collect()",
}
WORK = """
    import gc, os, sys, threading, time, reftracer_ext as ext
    stop, begun = False, threading.Semaphore(0)
    def nothing(*unused): pass
    def work():
        {setter}
        begun.release()
        while not stop:
            {setter}
    def start(count):
        threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
        for thread in threads: thread.start()
        for _ in threads: begun.acquire()
        return threads
"""


class DeadThreadTests(CapiTestCase):
    extensions = ("reftracer_ext",)

    def run_setters(self, code: str, times: int) -> None:
        for name, setter in SETTERS.items():
            with self.subTest(name):
                for _ in range(times):
                    self.run_code(WORK.format(setter=setter) + code, wanted="done", options=("-W", "ignore"), timeout=TIMEOUT)

    def test_daemon_threads_at_the_end(self) -> None:
        """The program ends although daemon threads were about to stop the others."""
        self.run_setters("""
    start(3)
    class AtTheEnd:
        def __del__(self): ext.remove_tracer()
    sys.modules["kept"] = AtTheEnd()
    print("done")
        """, 3)

    def test_tracer_at_the_end(self) -> None:
        """The same when the daemon threads are in the tracer, which sets itself anew; it is used until the end."""
        for _ in range(5):
            self.run_code("""
    import threading, reftracer_ext as ext
    begun = threading.Semaphore(0)
    def work():
        while True:
            for i in 0, 1:
                ext.tag_on(i, ext.QUIET, 20, 1 - i)
                [[i] for i in range(100)]
            begun.release()
    for _ in range(3): threading.Thread(target=work, daemon=True).start()
    for _ in range(6): begun.acquire()
    ext.tag_on(3, ext.QUIET, 1000, 4)
    print("done")
            """, wanted="done", timeout=TIMEOUT)

    @support.requires_fork()
    def test_child_of_a_fork(self) -> None:
        """A child can do what threads of its parent were doing."""
        self.run_setters("""
    threads = start(2)
    for _ in range(20):
        pid = os.fork()
        if not pid:
            sys.setprofile(nothing); sys.setprofile(None)
            ext.tag_on(1); ext.tag_off()
            gc.collect()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert status == 0, status
    stop = True
    for thread in threads: thread.join()
    print("done")
        """, 1)


if __name__ == "__main__":
    unittest.main()
