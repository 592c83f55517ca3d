"""What is in place of a signal before and after it is reserved, and in the
programs that are started: signals sent to threads, and given back."""

import signal
import textwrap
import unittest

from test.test_tracemalloc_services.util import (
    OTHER_THREAD, ServiceTest, run_python)


class ThreadsTests(ServiceTest):
    """A signal that another thread catches is passed on to the main one."""

    # The main thread blocks the signal, so that a thread of ours gets it and
    # what is passed on stays on its way.
    BEGIN = '''
import threading, tracemalloc
def block(): signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
def unblock():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])
def in_thread(number=1):
    def run():
        unblock()
        for _ in range(number):
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
    block()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
'''

    def run_it(self, text, registered=True):
        service = self.service(
            self.BEGIN + textwrap.dedent(text),
            options=() if registered else ("-X", "tracemalloc_signal=USR2"))
        self.output = service.finish()
        return len(service.files("*.snapshot"))

    def test_default_after_unregister(self):
        files = self.run_it('''
            tracemalloc.register(signal.SIGUSR2)
            in_thread()
            tracemalloc.unregister(signal.SIGUSR2)
            unblock()
            say(signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL)
            ''')
        self.assertEqual((self.output, files), ("True\n", 1))

    def test_handler_after_unregister(self):
        for before in (True, False):
            with self.subTest(before=before):
                self.run_it(f'''
            def mine(*args): kept.append(args)
            if {before}: signal.signal(signal.SIGUSR2, mine)
            tracemalloc.register(signal.SIGUSR2)
            signal.signal(signal.SIGUSR2, mine)
            in_thread()
            tracemalloc.unregister(signal.SIGUSR2)
            unblock()
            say(len(kept), signal.getsignal(signal.SIGUSR2) is mine)
            signal.raise_signal(signal.SIGUSR2)
            say(len(kept))
            ''')
                self.assertEqual(self.output, "1 True\n2\n")

    def test_handler_set_after_unregister(self):
        self.run_it('''
            def mine(*args): kept.append(args)
            tracemalloc.register(signal.SIGUSR2)
            in_thread()
            tracemalloc.unregister(signal.SIGUSR2)
            signal.signal(signal.SIGUSR2, mine)
            say(signal.getsignal(signal.SIGUSR2) is mine)
            os.kill(os.getpid(), signal.SIGUSR2)
            unblock()
            say(len(kept))
            signal.signal(signal.SIGUSR2, signal.SIG_IGN)
            signal.raise_signal(signal.SIGUSR2)
            ''')
        self.assertEqual(self.output, "True\n1\n")

    def test_default_still_kills_after_unregister(self):
        service = self.service(self.BEGIN + textwrap.dedent('''
            tracemalloc.register(signal.SIGUSR2)
            in_thread()
            tracemalloc.unregister(signal.SIGUSR2)
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
            os.kill(os.getpid(), signal.SIGUSR2)
            unblock()
            time.sleep(1000)
            '''), options=())
        service.finish(-signal.SIGUSR2)

    def test_registered_again(self):
        files = self.run_it('''
            tracemalloc.register(signal.SIGUSR2)
            in_thread()
            tracemalloc.unregister(signal.SIGUSR2)
            tracemalloc.register(signal.SIGUSR2)
            unblock()
            ''')
        self.assertEqual(files, 1)

    def test_fork_after_unregister(self):
        self.run_it('''
            tracemalloc.register(signal.SIGUSR2)
            in_thread()
            tracemalloc.unregister(signal.SIGUSR2)
            if not os.fork():
                unblock()
                os.kill(os.getpid(), signal.SIGUSR2)
                os._exit(1)
            assert os.wait()[1] == signal.SIGUSR2
            unblock()
            ''')

    def test_taken_by_sigwait(self):
        # What was passed on never comes; later signals must not be taken for
        # it.
        files = self.run_it('''
            in_thread()
            signal.sigtimedwait([signal.SIGUSR2], 0)
            unblock()
            signal.raise_signal(signal.SIGUSR2)
            ''', registered=False)
        self.assertEqual(files, 2)

    def test_taken_by_sigwait_and_sleep(self):
        # nor must they fail to interrupt a system call
        service = self.service(self.BEGIN + textwrap.dedent('''
            in_thread()
            signal.sigtimedwait([signal.SIGUSR2], 0)
            unblock()
            ''') + OTHER_THREAD)
        service.expect("ready")
        service.say()
        service.wait_files(2, "*.snapshot")


class GivenBackTests(ServiceTest):
    def test_faulthandler(self):
        # before the signal is reserved, and after it was given back
        service = self.service('''
            import faulthandler, tracemalloc
            signal.signal(signal.SIGUSR2, lambda *a: say("called"))
            file = open("dump", "w+")
            faulthandler.register(signal.SIGUSR2, file=file, chain=True)
            def check():
                signal.raise_signal(signal.SIGUSR2)
                file.seek(0)
                say(file.read().count("most recent call first"))
                file.truncate(0); file.seek(0)
            check()
            tracemalloc.register(signal.SIGUSR2)
            check()
            tracemalloc.unregister(signal.SIGUSR2)
            check()
            faulthandler.unregister(signal.SIGUSR2)
            signal.raise_signal(signal.SIGUSR2)
            file.close()
            ''', options=())
        self.assertEqual(service.finish().split(),
                         ["called", "1"] * 3 + ["called"])
        self.assertEqual(len(service.files()), 1)

    def test_tracing_ends(self):
        service = self.service('''
            import tracemalloc
            tracemalloc.register(signal.SIGUSR2, sample_interval=99)
            signal.raise_signal(signal.SIGUSR2)
            say(tracemalloc.is_tracing())
            tracemalloc.unregister(signal.SIGUSR2)
            say(tracemalloc.is_tracing(), tracemalloc.get_traceback_limit(),
                tracemalloc.get_sample_interval())
            ''', options=())
        self.assertEqual(service.finish(), "True\nFalse 1 1\n")

    def test_tracing_of_the_program_goes_on(self):
        service = self.service('''
            import tracemalloc
            tracemalloc.register(signal.SIGUSR2)
            tracemalloc.start(3)
            signal.raise_signal(signal.SIGUSR2)
            tracemalloc.unregister(signal.SIGUSR2)
            say(tracemalloc.is_tracing())
            # started by the signal, and then by the program
            for last in (tracemalloc.unregister, signal.raise_signal):
                tracemalloc.stop()
                tracemalloc.register(signal.SIGUSR2)
                signal.raise_signal(signal.SIGUSR2)
                tracemalloc.stop()
                tracemalloc.start(3)
                last(signal.SIGUSR2)
                say(tracemalloc.is_tracing(), tracemalloc.get_traceback_limit())
            ''', options=())
        self.assertEqual(service.finish(), "True\nTrue 3\nTrue 3\n")

    def test_only_by_the_main_interpreter(self):
        done = run_python("-c", '''if True:
            import _interpreters as i, signal, tracemalloc
            tracemalloc.register(signal.SIGUSR2)
            failed = i.exec(i.create(), "import tracemalloc, signal;"
                            "tracemalloc.unregister(signal.SIGUSR2)")
            print(failed.type.__name__)
            print(tracemalloc.unregister(signal.SIGUSR2))
            ''', cwd=self.folder)
        self.assertEqual(done.stdout, "RuntimeError\nTrue\n", done.stderr)


class ExecTests(ServiceTest):
    def test_ignored_signal_stays_ignored(self):
        # as without us: exec keeps what is ignored
        service = self.service('''
            import subprocess, tracemalloc
            def child(how=subprocess.run):
                text = "import signal; print(signal.getsignal(12).name)"
                command = [sys.executable, "-c", text]
                if how is subprocess.run:
                    how(command, check=True)
                else:
                    os.waitpid(how(command[0], command, os.environ), 0)
            tracemalloc.register(signal.SIGUSR2)
            for value in (signal.SIG_IGN, signal.SIG_DFL):
                signal.signal(signal.SIGUSR2, value)
                child()
                child(os.posix_spawn)
            signal.raise_signal(signal.SIGUSR2)
            ''', options=())
        self.assertEqual(service.finish().split(),
                         ["SIG_IGN"] * 2 + ["SIG_DFL"] * 2)
        self.assertEqual(len(service.files()), 1)


class EnableFailsTests(ServiceTest):
    def test_settings_are_restored(self):
        service = self.service('''
            import _tracemalloc, tracemalloc._services as services
            def fail(*args):
                raise MemoryError
            real = _tracemalloc.enable, _tracemalloc.set_sample_interval
            signal.signal(signal.SIGUSR2, signal.SIG_DFL)
            _tracemalloc.set_traceback_limit(3)
            def check():
                signal.raise_signal(signal.SIGUSR2)
                say(_tracemalloc.is_tracing(),
                    _tracemalloc.get_traceback_limit(),
                    _tracemalloc.get_sample_interval())
            _tracemalloc.enable = fail
            check()
            _tracemalloc.enable, _tracemalloc.set_sample_interval = (
                real[0], fail)
            check()
            ''', options=("-X", "tracemalloc_signal=USR2,sample_interval=50"))
        self.assertEqual(service.finish(errors=None), "False 3 1\n" * 2)
        self.assertEqual(service.errors.count("MemoryError"), 2)
        self.assertEqual(len(service.errors.splitlines()), 2)


if __name__ == "__main__":
    unittest.main()
