"""python -m tracemalloc attach: another process drives the tracing."""

import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import tracemalloc
import unittest

from tracemalloc import _requests
from test.test_tracemalloc_services.util import (
    ServiceTest, environment, run_python, wait_until)

if not os.path.exists("/proc/self/maps") or not hasattr(os, "pidfd_open"):
    raise unittest.SkipTest("needs Linux")


class AttachTest(ServiceTest):
    def attach(self, pid, *arguments, status=0, **options):
        done = run_python("-m", "tracemalloc", "attach", str(pid), *arguments,
                          cwd=self.folder, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertNotIn("Traceback (most recent call last)", done.stderr)
        return done.stderr if status else done.stdout

    def sleeper(self, before="", **options):
        """A program that waits in a system call."""
        service = self.service(before + '''
leak()
say("ready")
while True:
    leak()
    time.sleep(0.02)
''', **options)
        service.expect("ready")
        return service


class CommandTests(AttachTest):
    def test_a_session(self):
        service = self.sleeper()
        pid = service.pid
        self.assertIn("tracing: off", self.attach(pid, "status"))
        self.assertIn("25 frames", self.attach(pid, "start"))
        status = self.attach(pid, "status")
        self.assertIn("tracing: on, 25 frames", status)
        self.assertIn("traced: ", status)

        def grown():
            text = self.attach(pid, "top", "-n", "1")
            return ".py:5: size=" in text and text
        self.assertIn("#1: ", wait_until(grown, "the top"))
        lines = self.attach(pid, "diff").splitlines()
        self.check_leak(lines, service.script)
        text = self.attach(pid, "snapshot")
        path, = service.files("*.snapshot")
        self.assertIn(str(path), text)
        tracemalloc.Snapshot.load(path)
        self.attach(pid, "stop")
        self.assertIn("tracing: off", self.attach(pid, "status"))
        self.assertIsNone(service.process.poll())

    def test_output(self):
        service = self.sleeper()
        pid = service.pid
        self.attach(pid, "start", "--nframe", "7")
        self.attach(pid, "snapshot", "-o", "one.snapshot")
        one = tracemalloc.Snapshot.load(self.folder / "one.snapshot")
        self.assertEqual((one.pid, one.traceback_limit), (pid, 7))
        wait_until(lambda: self.attach(pid, "diff").startswith(
            str(service.script)), "a difference")
        self.attach(pid, "diff", "-o", "diff.json")
        self.check_json(self.folder / "diff.json", service.script)
        self.attach(pid, "diff", "-o", "diff.txt")
        self.check_leak((self.folder / "diff.txt").read_text().splitlines(),
                        service.script)
        self.attach(pid, "top", "-o", "top.txt")
        self.assertIn(":5: size=", (self.folder / "top.txt").read_text())
        self.assertEqual(service.files(), [])

    def test_sample(self):
        service = self.sleeper()
        self.attach(service.pid, "start", "--sample", "1000")
        self.attach(service.pid, "snapshot", "-o", "x.snapshot")
        snapshot = tracemalloc.Snapshot.load(self.folder / "x.snapshot")
        self.assertEqual(snapshot.sample_interval, 1000)

    def test_refusals(self):
        service = self.sleeper()
        for action in ("snapshot", "diff", "top"):
            self.assertIn("not tracing",
                          self.attach(service.pid, action, status=1))
        self.assertIn("off already", self.attach(service.pid, "stop"))
        self.attach(service.pid, "status", "-o", "x", status=2)
        self.attach(service.pid, "fly", status=2)
        self.attach("x", "top", status=2)

    def test_diff_after_the_first_signal(self):
        service = self.sleeper()
        service.signal()
        service.wait_files(1)
        wait_until(lambda: self.attach(service.pid, "diff").startswith(
            str(service.script)), "a difference")
        self.assertIn("the second of a pair",
                      self.attach(service.pid, "status"))
        # "stop" ends the pair
        self.attach(service.pid, "stop")
        self.assertIn("the first of a pair",
                      self.attach(service.pid, "status"))

    def test_application_does_not_notice(self):
        service = self.talker('''
            signal.signal(signal.SIGUSR2, lambda *args: say("called"))
            ''')
        self.attach(service.pid, "start")
        self.attach(service.pid, "top")
        self.tell(service, "leak()")
        self.assertEqual(service.files(), [])
        service.finish()

    def test_asyncio_does_not_notice(self):
        service = self.service('''
            import asyncio
            async def main():
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGUSR2, say, "called")
                say("ready")
                await loop.run_in_executor(None, hear)
            asyncio.run(main())
            ''')
        service.expect("ready")
        self.attach(service.pid, "start")
        service.say()
        self.assertEqual(service.finish(), "")

    def test_registered(self):
        service = self.sleeper(
            "import tracemalloc; tracemalloc.register(signal.SIGUSR1)\n",
            options=())
        self.attach(service.pid, "start")
        self.assertIn("SIGUSR1", self.attach(service.pid, "status"))

    def test_children(self):
        service = self.service('''
import subprocess
if os.fork():
    if os.fork():
        other = subprocess.Popen(["sleep", "1000"])
    else:
        say(os.getpid())
else:
    say(os.getpid())
time.sleep(1000)
''')
        pids = [service.pid, int(service.hear()), int(service.hear())]
        self.addCleanup(lambda: [os.kill(pid, 9) for pid in pids[1:]])
        out = self.attach(service.pid, "start", "--children")
        self.assertEqual(out.count("tracing, 25 frames"), 3)
        self.assertEqual(out.count("left alone"), 1)
        self.attach(service.pid, "snapshot", "--children", "-o", "x.snapshot")
        for pid in pids:
            snapshot = tracemalloc.Snapshot.load(
                self.folder / f"x-{pid}.snapshot")
            self.assertEqual(snapshot.pid, pid)


class SafetyTests(AttachTest):
    def test_not_reserved(self):
        for program in ("signal.signal(signal.SIGUSR2, print)\n", ""):
            service = self.sleeper(program, options=())
            error = self.attach(service.pid, "top", status=1)
            self.assertIn("tracemalloc_signal", error)
            self.assertEqual(len(error.splitlines()), 1)
            self.assertIsNone(service.process.poll())
        with subprocess.Popen(["sleep", "1000"]) as process:
            self.attach(process.pid, "top", status=1)
            self.assertIn("tracemalloc_signal", self.attach(
                process.pid, "top", "--children", status=1))
            self.assertIsNone(process.poll())
            process.kill()

    def test_no_such_process(self):
        with subprocess.Popen(["true"]) as process:
            process.wait()
        self.assertIn("no such process",
                      self.attach(process.pid, "top", status=1))
        self.attach("0", "top", status=1)
        self.attach(str(10 ** 30), "top", status=1)

    def test_taken_by_a_library(self):
        # which leaves the marker, and would let the signal kill
        service = self.sleeper("import ctypes; "
                               "ctypes.CDLL(None).signal(12, None)\n")
        self.assertIn("tracemalloc_signal",
                      self.attach(service.pid, "top", status=1))
        self.assertIsNone(service.process.poll())

    def test_given_back(self):
        service = self.sleeper(
            "import tracemalloc; tracemalloc.register(signal.SIGUSR1); "
            "tracemalloc.unregister(signal.SIGUSR1)\n", options=())
        self.attach(service.pid, "top", status=1)
        self.assertIsNone(service.process.poll())

    def test_timeout(self):
        service = self.talker('''
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
            ''')
        error = self.attach(service.pid, "start", "--timeout", "0.3", status=1)
        self.assertIn("blocks the signal", error)
        # what comes too late is not done
        service.say("signal.pthread_sigmask(signal.SIG_UNBLOCK, "
                    "[signal.SIGUSR2])")
        service.expect("done")
        self.assertIn("tracing: off", self.attach(service.pid, "status"))
        self.assertEqual(service.files(), [])

    def test_ends_meanwhile(self):
        service = self.service('''
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
            say("ready")
            while signal.SIGUSR2 not in signal.sigpending():
                time.sleep(0.01)
            os._exit(0)
            ''')
        service.expect("ready")
        self.assertIn("has ended", self.attach(service.pid, "start", status=1))

    def replace(self, text):
        """A program in which the interpreter's side of attach is changed."""
        return self.sleeper("from tracemalloc import _requests\n" + text)

    # attach, which looks for the answer when the process is gone
    LATE = '''if True:
        import select, sys, _tracemalloc, tracemalloc.__main__
        ask = _tracemalloc._signal_ask
        def ask_and_wait(descriptor, *rest):
            ask(descriptor, *rest)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll()
        _tracemalloc._signal_ask = ask_and_wait
        sys.exit(tracemalloc.__main__.main(sys.argv[1:]))
        '''

    def test_answers_and_ends(self):
        # the answer counts, however soon the end comes after it
        for end in ("os._exit(3)", "os.kill(os.getpid(), 9)",
                    "_tracemalloc._signal_release(signal.SIGUSR1)"):
            service = self.replace(f'''
import _tracemalloc, tracemalloc
tracemalloc.register(signal.SIGUSR1)
def answer_all(*args, real=_requests.answer_all):
    real(*args)
    {end}
    os._exit(0)
_requests.answer_all = answer_all
''')
            done = run_python("-c", self.LATE, "attach", str(service.pid),
                              "status")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("tracing: off", done.stdout)

    def test_too_long(self):
        service = self.replace('''
def put_fields(fields, text, file):
    file.truncate((1 << 30) + 1)
_requests.put_fields = put_fields
''')
        error = self.attach(service.pid, "status", status=1)
        self.assertIn("is longer than 64 MiB", error)
        self.assertEqual(len(error.splitlines()), 1)

    def test_too_much_saved(self):
        service = self.replace('''
_requests.store = lambda snapshot, file: file.truncate((1 << 34) + 1)
''')
        self.attach(service.pid, "start")
        error = self.attach(service.pid, "snapshot", "-o", "x", status=1)
        self.assertIn("is longer than 16 GiB", error)
        self.assertEqual(len(error.splitlines()), 1)
        self.assertFalse((self.folder / "x").exists())

    def test_odd_answers(self):
        for answer, status in ((b"", 1), (b"\xff\0\n\n", 1), (b"status=no", 1),
                               (b"status=ok\n\n\x1b[2Jx\n", 0)):
            service = self.replace(f'''
def put_fields(fields, text, file):
    file.write({answer})
_requests.put_fields = put_fields
''')
            text = self.attach(service.pid, "status", status=status)
            self.assertNotIn("\x1b", text)
            self.assertEqual(len(text.splitlines()), 1)

    def folder_of_requests(self):
        return pathlib.Path(_requests.folder_path(os.geteuid()))

    def test_folder(self):
        service = self.sleeper()
        self.attach(service.pid, "status")
        folder = self.folder_of_requests()
        self.assertEqual(stat.S_IMODE(folder.lstat().st_mode), 0o700)
        self.assertEqual(folder.lstat().st_uid, os.geteuid())
        self.assertEqual([name for name in os.listdir(folder)
                          if name.startswith(f"{service.pid}-")], [])

    def test_stale_files(self):
        service = self.sleeper()
        self.attach(service.pid, "status")
        folder = self.folder_of_requests()
        with subprocess.Popen(["true"]) as process:
            process.wait()
        stale = [folder / f"{process.pid}-1-ff.request",
                 folder / f"{os.getpid()}-1-ff.answer",
                 folder / f".{process.pid}-1-ff.request.part"]
        for path in stale:
            path.touch()
        self.attach(service.pid, "status")
        self.assertEqual([path for path in stale if path.exists()], [])

    def put(self, service, name, text="command=start\n", link=None):
        folder = self.folder_of_requests()
        path = folder / (f"{service.pid}-"
                         f"{_requests.start_time(service.pid)}-{name}.request")
        if link:
            path.symlink_to(link)
        else:
            path.write_text(text)
        self.addCleanup(path.unlink, missing_ok=True)
        return path

    def test_bad_requests(self):
        service = self.sleeper()
        self.attach(service.pid, "status")
        outside = self.folder / "outside"
        outside.write_text("command=start\n")
        paths = [self.put(service, "link", link=outside),
                 self.put(service, "empty", ""),
                 self.put(service, "long", "x" * 10_000),
                 self.put(service, "odd", "command=fly\n"),
                 self.put(service, "odder", "command=start\nnframe=x\n"),
                 self.put(service, "binary", "\ud800".encode(
                     "utf-8", "surrogatepass").decode("latin-1"))]
        # each signal takes one that cannot be read, and says so
        for _ in paths:
            run_python("-m", "tracemalloc", "attach", str(service.pid),
                       "status", "--timeout", "1")
        self.assertEqual([path for path in paths if path.exists()], [])
        self.assertTrue(outside.exists())
        self.assertIn("tracing: off", self.attach(service.pid, "status"))

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_other_user(self):
        # as root on a process of nobody, and the other way round
        # (the folder for temporary files may be one that only root may enter)
        self.folder.chmod(0o755)
        open_to_all = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))
        self.addCleanup(shutil.rmtree, open_to_all)
        open_to_all.chmod(0o1777)
        service = self.sleeper('''
os.setgid(65534); os.setuid(65534)
''', options=("-X", f"tracemalloc_signal=USR2,directory={open_to_all}"))
        self.attach(service.pid, "start")
        self.attach(service.pid, "snapshot", "-o", "x.snapshot")
        self.attach(service.pid, "snapshot")
        service.folder = open_to_all
        path, = service.files()
        self.assertEqual(path.stat().st_uid, 65534)
        folder = pathlib.Path(_requests.folder_path(65534))
        self.assertEqual(folder.stat().st_uid, 65534)
        mine = self.sleeper()
        done = subprocess.run(
            [sys.executable, "-m", "tracemalloc", "attach", str(mine.pid),
             "top"], user=65534, group=65534, extra_groups=[], text=True,
            capture_output=True, env=environment(), check=False, cwd="/")
        if done.returncode != 1 or "Permission" in done.stderr:
            self.skipTest(f"nobody cannot run the interpreter: {done.stderr}")
        self.assertIn("permission denied", done.stderr)

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_hostile_folder(self):
        # somebody else has made the folder of this user
        folder = pathlib.Path(_requests.folder_path(65534))
        service = self.service('''
            os.setgid(65534); os.setuid(65534)
            say("ready")
            while True:
                time.sleep(1000)
            ''', options=("-X", "tracemalloc_signal=USR2,directory=/tmp"))
        service.expect("ready")

        def clear():
            if folder.is_symlink():
                folder.unlink()
            elif folder.exists():
                folder.rmdir()
        self.addCleanup(clear)
        for make, reason in (
                (lambda: (folder.mkdir(0o777), folder.chmod(0o777),
                          os.chown(folder, 65534, -1)), "open to other"),
                (lambda: (folder.mkdir(0o700), os.chown(folder, 1, -1)),
                 "another user"),
                (lambda: folder.symlink_to(self.folder), "symbolic link")):
            clear()
            make()
            error = self.attach(service.pid, "start", status=1)
            self.assertRegex(error.lower(), reason)


if __name__ == "__main__":
    unittest.main()
