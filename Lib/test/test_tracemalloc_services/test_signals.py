"""A reserved signal: what it does, and that nothing takes it away."""

import os
import pathlib
import signal
import stat
import sys
import textwrap
import time
import tracemalloc
import unittest

from test.support import import_helper

from test.test_tracemalloc_engine import blocks
from test.test_tracemalloc_services.util import (
    OTHER_THREAD, ServiceTest, environment, run_python)


class PairTests(ServiceTest):
    """First signal, second signal, and again."""

    def test_pair(self):
        service = self.talker()
        first, second, lines = service.pair(
            lambda: self.tell(service, "leak()"))
        self.check_leak(lines, service.script)
        self.check_json(service.files("*.diff.json")[0], service.script)
        self.assertEqual(first.pid, service.pid)
        self.assertEqual(first.traceback_limit, 25)
        grown = second.compare_to(first, "lineno")[0]
        self.assertEqual(grown.traceback[0].filename, str(service.script))
        self.assertGreaterEqual(grown.size_diff, 20 * 50_000)
        service.finish()

    def test_tracing_only_in_between(self):
        service = self.talker("import tracemalloc")
        say = "say(tracemalloc.is_tracing(), tracemalloc.get_traceback_limit())"
        service.say(say)
        service.expect("False 1")
        service.expect("done")


        def asked():
            service.say(say)
            service.expect("True 25")
            service.expect("done")
        service.pair(asked)
        service.say(say)
        service.expect("False 1")
        service.expect("done")

    def test_starts_over(self):
        service = self.talker()
        for number in range(1, 4):
            _, _, lines = service.pair(lambda: self.tell(service, "leak()"))
            self.check_leak(lines, service.script)
            self.assertEqual(len(service.files("*.snapshot")), 2 * number)
            self.assertEqual(len(service.files("*.diff.json")), number)
        service.finish()

    def test_files_are_private(self):
        service = self.talker("os.umask(0)")
        service.pair(lambda: self.tell(service, "leak()"))
        for path in service.files():
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(
            ["program.py", *(path.name for path in service.files())]))

    def test_files_with_any_umask(self):
        service = self.talker("os.umask(0o777)")
        service.pair(lambda: self.tell(service, "leak()"))
        for path in service.files():
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)

    def test_names(self):
        service = self.talker()
        service.pair(lambda: self.tell(service, "leak()"))
        for path, end in zip(service.files(), (
                "0001.snapshot", "0002.diff.json", "0002.diff.txt",
                "0002.snapshot"), strict=True):
            self.assertRegex(path.name, rf"\Atracemalloc-{service.pid}-"
                             rf"\d{{8}}T\d{{6}}-{end}\Z")

    def test_tracing_by_the_program_goes_on(self):
        service = self.talker("import tracemalloc; tracemalloc.start(3)")
        self.tell(service, "leak()")
        first, _, lines = service.pair(lambda: self.tell(service, "leak()"))
        self.check_leak(lines, service.script)
        self.assertEqual(first.traceback_limit, 3)
        self.assertGreater(len(first.traces), 19)
        service.say("say(tracemalloc.is_tracing())")
        service.expect("True")

    def test_stopped_meanwhile(self):
        service = self.talker("import tracemalloc")
        service.signal()
        service.wait_files(1)
        self.tell(service, "tracemalloc.stop()")
        # so this is a first one again
        _, _, lines = service.pair(lambda: self.tell(service, "leak()"))
        self.check_leak(lines, service.script)
        service.finish()

    def test_a_burst_is_one_request(self):
        service = self.talker()
        self.tell(service, "\n".join([
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); "
            "[os.kill(os.getpid(), signal.SIGUSR2) for _ in range(50)]; "
            "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])"]))
        self.assertEqual(len(service.files()), 1)
        service.finish()

    def test_options(self):
        other = self.folder / "with, comma"
        other.mkdir()
        name = str(other).replace(",", ",,")
        service = self.talker(options=(
            "-X", f"tracemalloc_signal=SIGUSR1,nframe=2,directory={name}"))
        service.folder = other
        service.signal(signum=signal.SIGUSR1)
        path, = service.wait_files(1)
        self.assertEqual(tracemalloc.Snapshot.load(path).traceback_limit, 2)
        service.finish()


    def test_sample(self):
        service = self.talker("import tracemalloc", options=(
            "-X", "tracemalloc_signal=USR2,sample_interval=1000"))
        first, _, lines = service.pair(lambda: self.tell(service, "leak(99)"))
        self.check_leak(lines, service.script)
        self.assertEqual(first.sample_interval, 1000)
        service.say("say(tracemalloc.get_sample_interval())")
        service.expect("1")


class WhereverItComesTests(ServiceTest):
    """The main thread need not be running Python code."""

    def check(self, blocking):
        service = self.service(f'''
            leak()
            say("ready")
            {blocking}
            leak()
            say("over")
            ''')
        service.expect("ready")
        service.signal()
        service.wait_files(1)
        service.signal()
        service.wait_files(4)
        return service

    def test_sleep(self):
        service = self.check("time.sleep(1000)")
        self.assertIsNone(service.process.poll())

    def test_accept(self):
        service = self.check(
            "import socket; s = socket.create_server(('127.0.0.1', 0)); "
            "s.accept()")
        self.assertIsNone(service.process.poll())

    def test_read_goes_on(self):
        service = self.check("hear()")
        service.say()
        service.expect("over")
        service.finish()

    def test_lock(self):
        self.check("import threading; lock = threading.Lock(); "
                   "lock.acquire(); lock.acquire()")

    def test_join(self):
        self.check("import threading; t = threading.Thread(target=time.sleep,"
                   " args=(1000,), daemon=True); t.start(); t.join()")

    def test_select(self):
        self.check("import select; select.select([], [], [])")

    def test_wait_for_child(self):
        self.check("import subprocess; p = subprocess.Popen(['sleep', '60']);"
                   " p.wait()")

    def test_asyncio(self):
        self.check("import asyncio; asyncio.run(asyncio.sleep(1000))")

    def test_pause_is_for_the_program(self):
        # the alarms are for a signal that comes just before the pause begins
        service = self.check(
            "signal.signal(signal.SIGALRM, lambda *a: None); "
            "signal.signal(signal.SIGUSR1, lambda *a: signal.setitimer("
            "signal.ITIMER_REAL, 0.5, 0.5)); signal.pause(); "
            "signal.setitimer(signal.ITIMER_REAL, 0)")
        service.signal(signum=signal.SIGUSR1)
        service.expect("over")
        service.finish()

    def test_signal_that_had_to_wait(self):
        # it must not be left to the end of the system call
        service = self.service('''
            import tracemalloc._services as services
            real = services.take
            def take():
                os.kill(os.getpid(), signal.SIGUSR1)
                return real()
            services.take = take
            signal.signal(signal.SIGUSR1,
                          lambda *args: os.write(1, b"called\\n"))
            say("ready")
            hear()
            ''')
        service.expect("ready")
        service.signal()
        service.expect("called")
        service.say()
        service.finish()

    def test_c_code_that_holds_the_gil(self):
        service = self.service('''
            say("ready")
            sum(range(20_000_000))
            say("over")
            ''')
        service.expect("ready")
        for _ in range(5):
            service.signal()
        service.expect("over")
        service.finish()
        self.assertEqual(len(service.files()), 1)

    @unittest.skipUnless(sys.platform == "linux" and sys.maxsize > 2**32,
                         "needs timers of the kernel")
    def test_just_before_a_system_call(self):
        # The handler has run by then, and the call would block for ever.
        blocks.load()
        service = self.service(
            blocks.loading() + textwrap.dedent('''
                for _ in range(2):
                    say("ready")
                    say(tm_blocks.raise_and_read(signal.SIGUSR2, 0))
                '''))
        for number in 1, 2:
            service.expect("ready")
            service.wait_files(number, "*.snapshot")
            service.say()
            service.expect("10")
        service.finish()

    def test_other_thread(self):
        # sent to a thread while the main one waits
        service = self.service(OTHER_THREAD)
        service.expect("ready")
        service.say()
        service.wait_files(1)

    def test_garbage_collection(self):
        service = self.service('''
            import gc
            class Cycle:
                def __init__(self): self.me = self
                def __del__(self):
                    signal.raise_signal(signal.SIGUSR2)
                    leak()
            for _ in range(2):
                Cycle(); gc.collect()
            ''')
        service.finish()
        self.check_leak(service.files("*.txt")[0].read_text().splitlines(),
                        service.script)

    def test_import(self):
        # from inside the very modules that the work needs
        service = self.service('''
            import builtins
            real = builtins.__import__
            def importing(name, *rest):
                signal.raise_signal(signal.SIGUSR2)
                return real(name, *rest)
            builtins.__import__ = importing
            import pickle, datetime, json, argparse, traceback
            builtins.__import__ = real
            ''')
        service.finish()
        self.assertGreater(len(service.files()), 7)

    def test_deep_recursion(self):
        service = self.service('''
            def deep():
                try:
                    deep()
                except RecursionError:
                    pass
                else:
                    return
                if not kept:
                    kept.append(1)
                    signal.raise_signal(signal.SIGUSR2)
            deep()
            ''')
        service.finish()
        self.assertEqual(len(service.files()), 1)

    def test_finalization(self):
        service = self.service('''
            import atexit
            def later():
                signal.raise_signal(signal.SIGUSR2)
                leak()
                signal.raise_signal(signal.SIGUSR2)
            atexit.register(later)
            class Last:
                def __del__(self, kill=os.kill, pid=os.getpid(),
                            number=signal.SIGUSR2):
                    kill(pid, number)
            sys.modules["last"] = Last()
            sys.last_thing = Last()
            ''')
        service.finish()
        self.assertEqual(len(service.files()), 4)

    def test_trace_function_does_not_see_it(self):
        service = self.service('''
            def trace(frame, *rest):
                if "tracemalloc" in frame.f_code.co_filename:
                    say("seen", frame.f_code.co_filename)
                return trace
            sys.settrace(trace)
            signal.raise_signal(signal.SIGUSR2)
            signal.raise_signal(signal.SIGUSR2)
            sys.settrace(None)
            ''')
        self.assertEqual(service.finish(), "")

    def test_handlers_of_others_wait(self):
        service = self.service('''
            def handler(*args):
                frame = sys._getframe(1)
                while frame:
                    assert "_services" not in frame.f_code.co_filename
                    frame = frame.f_back
                kept.append("handled")
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            for _ in range(6):
                signal.raise_signal(signal.SIGUSR2)
            signal.setitimer(signal.ITIMER_REAL, 0)
            say(set(kept))
            ''')
        self.assertEqual(service.finish(), "{'handled'}\n")


class ReservedTests(ServiceTest):
    """What the program does with the signal does not take it away."""

    def check(self, line, status=0):
        service = self.talker(line)
        service.pair(lambda: self.tell(service, "leak()"))
        service.finish(status)
        return service

    def test_default(self):
        self.check("signal.signal(signal.SIGUSR2, signal.SIG_DFL)")

    def test_ignored(self):
        self.check("signal.signal(signal.SIGUSR2, signal.SIG_IGN)")

    def test_all_to_default(self):
        self.check('''
            for number in signal.valid_signals():
                try:
                    signal.signal(number, signal.SIG_DFL)
                except OSError:
                    pass
            ''')

    def test_siginterrupt(self):
        service = self.service('''
            signal.siginterrupt(signal.SIGUSR2, False)
            say("ready")
            time.sleep(1000)
            ''')
        service.expect("ready")
        service.signal()
        service.wait_files(1)

    def test_view(self):
        service = self.service('''
            s = signal
            def handler(*args): pass
            say(s.getsignal(s.SIGUSR2) is s.SIG_DFL)
            for value in (s.SIG_IGN, handler, s.SIG_DFL):
                before = s.getsignal(s.SIGUSR2)
                say(s.signal(s.SIGUSR2, value) == before,
                    s.getsignal(s.SIGUSR2) == value)
            ''')
        self.assertEqual(service.finish().split(), ["True"] * 7)

    def test_handler_is_called_after_ours(self):
        service = self.talker('''
            import glob
            def handler(number, frame):
                files = len(glob.glob("*.snapshot"))
                os.write(1, f"called {files}\\n".encode())
            signal.signal(signal.SIGUSR2, handler)
            ''')
        service.signal()
        service.expect("called 1")
        self.tell(service, "leak()")
        service.signal()
        service.expect("called 2")
        service.finish()

    def test_exception_of_the_handler(self):
        service = self.service('''
            def handler(number, frame):
                raise KeyError("mine")
            signal.signal(signal.SIGUSR2, handler)
            try:
                signal.raise_signal(signal.SIGUSR2)
            except KeyError as error:
                say(error)
            ''')
        self.assertEqual(service.finish(), "'mine'\n")
        self.assertEqual(len(service.files()), 1)

    def test_asyncio_handler(self):
        service = self.service('''
            import asyncio
            async def main():
                heard = asyncio.Event()
                asyncio.get_running_loop().add_signal_handler(
                    signal.SIGUSR2, heard.set)
                say("ready")
                await heard.wait()
                say("heard")
            asyncio.run(main())
            ''')
        service.expect("ready")
        service.signal()
        service.expect("heard")
        service.finish()
        self.assertEqual(len(service.files()), 1)

    def test_faulthandler(self):
        for chain in (False, True):
            with self.subTest(chain=chain):
                service = self.talker(f'''
                    import faulthandler
                    faulthandler.register(signal.SIGUSR2, chain={chain})
                    ''')
                service.pair(lambda: self.tell(service, "leak()"))
                self.tell(service, "faulthandler.unregister(signal.SIGUSR2)")
                service.pair(lambda: self.tell(service, "leak()"))
                service.finish(errors=None)
                self.assertEqual(service.errors.count("Current thread"), 2)

    def test_wakeup_descriptor(self):
        service = self.service('''
            import socket
            ours, theirs = socket.socketpair()
            theirs.setblocking(False)
            signal.set_wakeup_fd(theirs.fileno())
            signal.raise_signal(signal.SIGUSR2)
            say(ours.recv(10) == bytes([signal.SIGUSR2]))
            signal.set_wakeup_fd(-1)
            ours.close()
            theirs.close()
            ''')
        self.assertEqual(service.finish(), "True\n")

    def test_simulated_signal(self):
        # _thread.interrupt_main() sends nothing
        service = self.service('''
            import _thread
            signal.signal(signal.SIGUSR2, lambda *args: say("called"))
            _thread.interrupt_main(signal.SIGUSR2)
            ''')
        self.assertEqual(service.finish(), "called\n")
        self.assertEqual(service.files(), [])

    def test_sigaction_of_a_library(self):
        # behind the interpreter's back; a forked child has it right again
        ctypes = import_helper.import_module("ctypes")
        service = self.service('''
            import ctypes
            libc = ctypes.CDLL(None)
            libc.signal(signal.SIGUSR2, None)
            pid = os.fork()
            if not pid:
                say("ready", os.getpid())
                time.sleep(1000)
            hear()
            os.kill(pid, signal.SIGKILL)
            say(os.waitpid(pid, 0)[1])
            ''')
        pid = int(service.hear().split()[1])
        service.signal(pid)
        service.wait_files(1, pid=pid)
        service.say()
        service.expect(str(int(signal.SIGKILL)))

    def test_stock_would_die(self):
        # the control: without the option the signal kills
        service = self.talker(options=())
        service.signal()
        service.process.wait()
        self.assertEqual(service.process.returncode, -signal.SIGUSR2)


class RegisterTests(ServiceTest):
    """tracemalloc.register() and unregister()."""

    BEGIN = "import tracemalloc; tracemalloc.register(signal.SIGUSR2)"

    def test_register(self):
        service = self.talker(self.BEGIN, options=())
        _, _, lines = service.pair(lambda: self.tell(service, "leak()"))
        self.check_leak(lines, service.script)
        service.finish()

    def test_options(self):
        other = self.folder / "other"
        other.mkdir()
        service = self.talker(
            "import tracemalloc, pathlib; tracemalloc.register("
            "signal.SIGUSR2, nframe=3, directory=pathlib.Path('other'))",
            options=())
        self.tell(service, "os.chdir('/')")
        service.folder = other
        first, _, _ = service.pair(lambda: self.tell(service, "leak()"))
        self.assertEqual(first.traceback_limit, 3)

    def test_stays(self):
        service = self.talker(
            self.BEGIN + "; signal.signal(signal.SIGUSR2, signal.SIG_DFL)",
            options=())
        service.pair(lambda: self.tell(service, "leak()"))
        service.finish()

    def test_handler_before_and_after(self):
        service = self.service('''
            import tracemalloc
            def mine(*args): say("mine")
            signal.signal(signal.SIGUSR2, mine)
            tracemalloc.register(signal.SIGUSR2)
            signal.raise_signal(signal.SIGUSR2)
            say(tracemalloc.unregister(signal.SIGUSR2))
            say(signal.getsignal(signal.SIGUSR2) is mine)
            signal.raise_signal(signal.SIGUSR2)
            say(tracemalloc.unregister(signal.SIGUSR2))
            ''', options=())
        self.assertEqual(service.finish().split(),
                         ["mine", "True", "True", "mine", "False"])
        self.assertEqual(len(service.files()), 1)

    def test_unregister_gives_it_back(self):
        service = self.talker(self.BEGIN, options=())
        self.tell(service, "tracemalloc.unregister(signal.SIGUSR2)")
        service.signal()
        service.process.wait()
        self.assertEqual(service.process.returncode, -signal.SIGUSR2)

    def test_unregister_one_of_an_option(self):
        service = self.service('''
            import tracemalloc
            try:
                tracemalloc.unregister(signal.SIGUSR2)
            except RuntimeError as error:
                say(error)
            signal.raise_signal(signal.SIGUSR2)
            ''')
        self.assertIn("option of the interpreter", service.finish())
        self.assertEqual(len(service.files()), 1)

    def test_two_signals(self):
        service = self.talker(
            self.BEGIN + "; tracemalloc.register(signal.SIGUSR1)", options=())
        service.signal()
        service.wait_files(1)
        for number in (2, 3):
            service.signal(signum=signal.SIGUSR1)
            service.wait_files(number, "*.snapshot")
        # USR1 has not started tracing, and so does not stop it
        service.say("say(tracemalloc.is_tracing())")
        service.expect("True")
        service.expect("done")
        service.signal()
        service.wait_files(2, "*.txt")
        service.say("say(tracemalloc.is_tracing())")
        service.expect("False")

    def test_refused(self):
        for signum in (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV,
                       signal.SIGCHLD, signal.SIGRTMIN, 0, -1, 1000):
            with self.subTest(signum=signum), self.assertRaises(ValueError):
                tracemalloc.register(signum, directory=self.folder)
        for bad in (0, 65536):
            with self.assertRaises(ValueError):
                tracemalloc.register(signal.SIGUSR2, nframe=bad)
        with self.assertRaises(TypeError):
            tracemalloc.register(signal.SIGUSR2, nframe="25")
        with self.assertRaises(ValueError):
            tracemalloc.register(signal.SIGUSR2, sample_interval=0)
        with self.assertRaises(TypeError):
            tracemalloc.register("USR2")
        with self.assertRaises(TypeError):
            tracemalloc.register(12.0)
        self.assertIs(signal.getsignal(signal.SIGUSR2), signal.SIG_DFL)

    def test_subinterpreter(self):
        done = run_python("-c", '''if True:
            import _interpreters as i
            one = i.create()
            failed = i.exec(one, "import tracemalloc, signal;"
                            "tracemalloc.register(signal.SIGUSR2)")
            print(failed.type.__name__)
            ''', cwd=self.folder)
        self.assertEqual(done.stdout, "RuntimeError\n", done.stderr)


class StartUpTests(ServiceTest):
    """-X tracemalloc_signal and PYTHONTRACEMALLOC_SIGNAL."""

    BAD = {"FOO": "FOO", "": "USR2", "KILL": "cannot be caught",
           "SIGSTOP": "cannot be caught", "9": "cannot be caught",
           "RTMIN": "real-time", "SIGRTMIN+3": "real-time",
           "RTMAX": "real-time", "40": "real-time", "SEGV": "fault",
           "usr2": "usr2", "100000": "100000", "USR2 ": "USR2",
           "USR2,": "option", "USR2,,nframe=3": "option", "USR2,foo": "foo", "USR2,nframe=": "nframe",
           "USR2,nframe=0": "range", "USR2,nframe=x": "nframe",
           "USR2,sample_interval=0": "sample_interval",
           "USR2,directory=": "directory",
           "USR2,directory=/no/such": "/no/such",
           "\xfc\u20ac": "no such signal"}

    def check(self, done, value, reason):
        self.assertEqual(done.returncode, 1, done.stderr)
        first = done.stderr.splitlines()[0]
        self.assertIn("tracemalloc_signal", first.lower())
        self.assertIn(reason, first)
        if value.isascii():
            self.assertIn(value.split(",")[0].strip(), first)
        self.assertNotIn("not reached", done.stdout)

    def test_bad_option(self):
        for value, reason in self.BAD.items():
            with self.subTest(value=value):
                self.check(run_python("-X", f"tracemalloc_signal={value}",
                                      "-c", "print('not reached')"),
                           value, reason)

    def test_bad_variable(self):
        for value, reason in self.BAD.items():
            if value:
                with self.subTest(value=value):
                    env = environment(PYTHONTRACEMALLOC_SIGNAL=value)
                    self.check(run_python("-c", "print('not reached')",
                                          env=env), value, reason)

    def test_no_value(self):
        done = run_python("-X", "tracemalloc_signal", "-c", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("USR2", done.stderr.splitlines()[0])

    def test_variable(self):
        service = self.talker(options=(), env=environment(
            PYTHONTRACEMALLOC_SIGNAL="12"))
        service.pair(lambda: self.tell(service, "leak()"))
        service.finish()

    def test_variable_not_looked_at(self):
        for option in ("-E", "-I"):
            done = run_python(option, "-c", "1", env=environment(
                PYTHONTRACEMALLOC_SIGNAL="FOO"))
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_help(self):
        self.assertIn("tracemalloc_signal", run_python("--help-xoptions").stdout)
        self.assertIn("PYTHONTRACEMALLOC_SIGNAL",
                      run_python("--help-env").stdout)

    def test_nothing_without_option(self):
        done = run_python("-c", "import sys; print("
                          "[m for m in sys.modules if 'tracemalloc' in m])")
        self.assertEqual(done.stdout, "[]\n")

    def test_signals_while_starting(self):
        # from the moment that the signal is caught: none may kill
        for delay in range(0, 40, 4):
            service = self.service("say('ready')")
            status = pathlib.Path(f"/proc/{service.pid}/status")
            if not status.exists():
                self.skipTest("needs /proc")

            def caught():
                for line in status.read_text().splitlines():
                    if line.startswith("SigCgt"):
                        return int(line.split()[1], 16) >> 11 & 1
            while not caught() and service.process.poll() is None:
                pass
            time.sleep(delay / 1000)
            service.signal()
            service.expect("ready")
            service.finish()
            for path in service.files():
                path.unlink()


if __name__ == "__main__":
    unittest.main()
