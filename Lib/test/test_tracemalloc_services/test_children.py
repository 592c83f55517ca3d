"""Reserved signals in child processes of all kinds."""

import tracemalloc
import unittest

from test.support import import_helper

from test.test_tracemalloc_services.util import (
    SIGNAL, ServiceTest, environment)

# For a child: leak when the parent says so through a pipe.
CHILD = '''
def child(ask, answer):
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    os.write(answer, b"%d\\n" % os.getpid())
    while os.read(ask, 1):
        leak()
        os.write(answer, b"done\\n")
'''
# The parent: prints the pid of the child, then one line for each that it hears.
PARENT = '''
ask, asked = os.pipe()
answered, answer = os.pipe()
for fd in (ask, answer):
    os.set_inheritable(fd, True)
'''
TALK = '''
os.close(ask); os.close(answer)
lines = os.fdopen(answered)
say(lines.readline().strip())
for _ in sys.stdin:
    os.write(asked, b"x")
    say(lines.readline().strip())
lines.close()
os.close(asked)
'''


class ChildrenTests(ServiceTest):
    def check(self, begin, end="", errors="", **options):
        """Signal a child that begin makes, twice."""
        service = self.service(CHILD + PARENT + begin + TALK + end, **options)
        pid = int(service.hear())
        self.assertNotEqual(pid, service.pid)

        def leak():
            service.say()
            service.expect("done")
        for _ in range(2):
            first, _, lines = service.pair(leak, pid)
            self.check_leak(lines, service.script)
            self.assertEqual(first.pid, pid)
        self.assertEqual(service.files(), [])
        service.finish(errors=errors)

    def test_fork(self):
        self.check('''
pid = os.fork()
if not pid:
    os.close(asked)
    child(ask, answer)
    os._exit(0)
''', "assert os.waitpid(pid, 0)[1] == 0\n")

    def test_fork_from_a_thread(self):
        self.check('''
import threading
def make():
    global pid
    pid = os.fork()
    if not pid:
        os.close(asked)
        child(ask, answer)
        os._exit(0)
thread = threading.Thread(target=make)
thread.start(); thread.join()
''', "assert os.waitpid(pid, 0)[1] == 0\n", None)

    def test_double_fork(self):
        self.check('''
pid = os.fork()
if not pid:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(3, ask); os.close(asked)
    os.chdir("/"); os.umask(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    child(ask, answer)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
''')

    EXECED = '''
if sys.argv[1:]:
    child(*map(int, sys.argv[1:]))
    sys.exit()
command = [sys.executable, sys.argv[0], str(ask), str(answer)]
'''

    def test_subprocess(self):
        for options in ("pass_fds=(ask, answer)", "close_fds=False",
                        "close_fds=False, preexec_fn=int"):
            with self.subTest(options=options):
                self.check(self.EXECED + f'''
import subprocess
process = subprocess.Popen(command, {options})
''', "assert process.wait() == 0\n")
                for path in self.folder.glob("tracemalloc-*"):
                    path.unlink()

    def test_posix_spawn(self):
        self.check(self.EXECED + '''
pid = os.posix_spawn(command[0], command, os.environ,
                     setsigdef=[signal.SIGUSR2, signal.SIGTERM])
''', "assert os.waitpid(pid, 0)[1] == 0\n")

    def test_spawn(self):
        self.check(self.EXECED + '''
pid = os.spawnv(os.P_NOWAIT, command[0], command)
''', "assert os.waitpid(pid, 0)[1] == 0\n")

    def test_exec(self):
        # the environment is enough, also when the option came from -X
        self.check(self.EXECED + '''
pid = os.fork()
if not pid:
    os.close(asked)
    os.execv(command[0], command)
''', "assert os.waitpid(pid, 0)[1] == 0\n")

    def test_blocked_over_exec(self):
        self.check(self.EXECED + '''
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
pid = os.spawnv(os.P_NOWAIT, command[0], command)
''', "assert os.waitpid(pid, 0)[1] == 0\n")

    MULTIPROCESSING = '''
import multiprocessing
def run(connection):
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    connection.send(os.getpid())
    while connection.recv():
        leak()
        connection.send("done")
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    ours, theirs = context.Pipe()
    process = context.Process(target=run, args=(theirs,))
    process.start()
    say(ours.recv())
    for _ in sys.stdin:
        ours.send(True)
        say(ours.recv())
    ours.send(False)
    process.join()
    assert process.exitcode == 0
'''

    def test_multiprocessing(self):
        import_helper.import_module("_multiprocessing")
        for method in ("fork", "forkserver", "spawn"):
            with self.subTest(method=method):
                service = self.service(
                    self.MULTIPROCESSING.replace("{method}", method))
                pid = int(service.hear())

                def leak():
                    service.say()
                    service.expect("done")
                _, _, lines = service.pair(leak, pid)
                self.check_leak(lines, service.script)
                service.finish()

    def test_signals_around_exec(self):
        # a child is signalled from the moment that it has a pid
        service = self.service('''
            import subprocess
            command = [sys.executable, "-c", "import sys; sys.exit(3)"]
            def spawn():
                return os.posix_spawn(command[0], command, os.environ)
            def popen():
                global process
                process = subprocess.Popen(command)
                return process.pid
            for start in (spawn, popen) * 5:
                pid = start()
                done = 0, 0
                while done[0] == 0:
                    os.kill(pid, signal.SIGUSR2)
                    done = os.waitpid(pid, os.WNOHANG)
                    time.sleep(0.0002)      # the child must get on between two
                status = os.waitstatus_to_exitcode(done[1])
                if start is popen:
                    process.returncode = status
                say(status)
            ''')
        self.assertEqual(service.finish(errors=None).split(), ["3"] * 10)

    def test_other_programs_ignore_it(self):
        for start in ('import subprocess\n'
                      'pid = subprocess.Popen(["sleep", "1000"]).pid\n',
                      'pid = os.posix_spawnp("sleep", ["sleep", "1000"], '
                      'os.environ)\n'):
            service = self.service(start + '''
os.kill(pid, signal.SIGUSR2)
os.kill(pid, signal.SIGTERM)
say(os.waitpid(pid, 0)[1])
''')
            self.assertEqual(service.finish(errors=None), "15\n")

    def test_exec_that_fails(self):
        service = self.talker('''
            for function in (os.execv, os.posix_spawn):
                try:
                    rest = [os.environ] if function is os.posix_spawn else []
                    function("/no/such", ["x"], *rest)
                except FileNotFoundError:
                    pass
            ''')
        service.pair(lambda: self.tell(service, "leak()"))
        service.finish()

    def test_registered_is_not_for_children(self):
        service = self.service('''
            import subprocess, tracemalloc
            tracemalloc.register(signal.SIGUSR2)
            process = subprocess.Popen(["sleep", "1000"])
            process.send_signal(signal.SIGUSR2)
            say(process.wait())
            ''', options=())
        self.assertEqual(service.finish(), f"-{int(SIGNAL)}\n")

    def test_folder_is_inherited_as_it_was(self):
        (self.folder / "here").mkdir()
        service = self.service('''
            import subprocess
            os.chdir("/")
            subprocess.run([sys.executable, "-c",
                "import signal; signal.raise_signal(signal.SIGUSR2)"],
                check=True)
            ''', options=("-X", "tracemalloc_signal=USR2,directory=here"))
        service.finish()
        self.assertEqual(len(list((self.folder / "here").iterdir())), 1)

    def test_child_whom_the_folder_does_not_suit(self):
        (self.folder / "here").mkdir()
        service = self.service('''
            import subprocess
            os.rmdir("here")
            subprocess.run([sys.executable, "-c",
                "import signal; signal.raise_signal(signal.SIGUSR2);"
                "print('fine')"], check=True)
            ''', options=("-X", "tracemalloc_signal=USR2,directory=here"))
        self.assertEqual(service.finish(errors=None), "fine\n")
        self.assertRegex(service.errors, r"\Atracemalloc: SIGUSR2: .*here: "
                         r"No such file or directory\n\Z")

    def test_child_begins_anew(self):
        # of a process that is between its two signals
        service = self.service('''
            import tracemalloc
            signal.raise_signal(signal.SIGUSR2)
            pid = os.fork()
            if not pid:
                say(tracemalloc.is_tracing())
                signal.raise_signal(signal.SIGUSR2)
                say(tracemalloc.is_tracing())
                leak()
                signal.raise_signal(signal.SIGUSR2)
                say(tracemalloc.is_tracing())
                os._exit(0)
            os.waitpid(pid, 0)
            say(tracemalloc.is_tracing())
            ''')
        self.assertEqual(service.finish().split(),
                         ["False", "True", "False", "True"])
        self.assertEqual(len(list(self.folder.glob("*.snapshot"))), 3)

    def test_child_that_follows(self):
        service = self.service('''
            import tracemalloc
            signal.raise_signal(signal.SIGUSR2)
            leak()
            pid = os.fork()
            if not pid:
                say(os.getpid())
                signal.raise_signal(signal.SIGUSR2)
                signal.raise_signal(signal.SIGUSR2)
                say(tracemalloc.is_tracing())
                os._exit(0)
            os.waitpid(pid, 0)
            ''', options=("-X", "tracemalloc_signal=USR2",
                          "-X", "tracemalloc_fork=follow"))
        pid, tracing = service.finish().split()
        self.assertEqual(tracing, "False")
        first, *_ = service.files("*.snapshot", pid)
        top = tracemalloc.Snapshot.load(first).statistics("filename")[0]
        self.assertGreaterEqual(top.size, 20 * 50_000)

    def test_signals_while_forking(self):
        service = self.service('''
            for _ in range(60):
                signal.signal(signal.SIGUSR2, signal.SIG_DFL)
                pid = os.fork()
                if not pid:
                    os.kill(os.getppid(), signal.SIGUSR2)
                    os._exit(5)
                os.kill(pid, signal.SIGUSR2)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
            ''')
        service.finish()
        self.assertGreater(len(service.files()), 0)

    def test_exported(self):
        service = self.service(
            "say(os.environ['PYTHONTRACEMALLOC_SIGNAL'])",
            options=("-X", "tracemalloc_signal=USR1,nframe=4,"
                     "directory=/tmp"),
            env=environment(PYTHONTRACEMALLOC_SIGNAL="USR2"))
        self.assertEqual(service.finish(),
                         "USR1,nframe=4,directory=/tmp,inherited\n")


if __name__ == "__main__":
    unittest.main()
