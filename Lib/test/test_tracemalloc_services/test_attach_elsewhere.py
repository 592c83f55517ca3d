"""attach to processes that see other users, other folders or another root, and
to those that it may not look into."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import tracemalloc
import unittest

from test.test_tracemalloc_services.util import (
    ServiceTest, environment, run_python)

if not os.path.exists("/proc/self/ns/user") or not hasattr(os, "pidfd_open"):
    raise unittest.SkipTest("needs Linux")


class ElsewhereTest(ServiceTest):
    BEGIN = '''
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def unshare(flags):
    try:
        os.unshare(flags)
    except OSError as error:
        say(error); sys.exit()
def mount(*args):
    if libc.mount(*args, None):
        say("mount:", os.strerror(ctypes.get_errno())); sys.exit()
def private_tmp():
    mount(b"none", b"/", None, 0x44000)     # MS_REC | MS_PRIVATE
    mount(b"none", b"/tmp", b"tmpfs", 0)
'''
    END = '''
say("ready")
while True:
    leak()
    kept.append(bytearray(999))
    time.sleep(0.02)
'''

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)

    def elsewhere(self, text):
        service = self.service(self.BEGIN + text + self.END)
        said = service.hear()
        if said != "ready":
            self.skipTest(said)
        return service

    def attach(self, pid, *arguments, status=0, **options):
        done = run_python("-m", "tracemalloc", "attach", str(pid), *arguments,
                          cwd=self.folder, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        if status:
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr if status else done.stdout

    def check(self, service):
        self.attach(service.pid, "start")
        self.attach(service.pid, "snapshot", "-o", "x.snapshot")
        snapshot = tracemalloc.Snapshot.load(self.folder / "x.snapshot")
        self.assertEqual(snapshot.traceback_limit, 25)


@unittest.skipIf(os.geteuid(), "needs root")
class NamespaceTests(ElsewhereTest):
    def test_private_tmp(self):
        # the root is the same one, the folder is not
        self.check(self.elsewhere("unshare(os.CLONE_NEWNS); private_tmp()"))

    USER = '''
os.setgid(65534); os.setuid(65534)
libc.prctl(4, 1, 0, 0, 0)       # or root, too, may not write its maps
unshare(os.CLONE_NEWUSER | os.CLONE_NEWNS)
say("mapped?")
hear()
'''

    def user(self, text, inside=0):
        service = self.service(self.BEGIN + self.USER + text + self.END)
        said = service.hear()
        if said != "mapped?":
            self.skipTest(said)
        if inside is not None:
            proc = pathlib.Path(f"/proc/{service.pid}")
            (proc / "setgroups").write_text("deny")
            for name in ("uid_map", "gid_map"):
                (proc / name).write_text(f"{inside} 65534 1")
        service.say()
        said = service.hear()
        if said.startswith("mount"):
            self.skipTest(said)
        self.assertEqual(said, "ready")
        return service

    def test_another_number_of_the_user(self):
        for inside in (0, 7):
            with self.subTest(inside=inside):
                service = self.user("private_tmp()", inside)
                self.check(service)
                seen = os.stat(f"/proc/{service.pid}/root/tmp/"
                               f"tracemalloc-{inside}")
                self.assertEqual(seen.st_uid, 65534)
                text = self.attach(service.pid, "status")
                self.assertIn("tracing: on", text)

    def test_number_that_is_taken(self):
        # root's own folder, which is not this one's
        service = self.user("")
        mine = self.elsewhere("")
        self.attach(mine.pid, "status")
        self.assertIn("tracemalloc-0: Belongs to another user",
                      self.attach(service.pid, "status", status=1))

    def test_no_number(self):
        service = self.user("", None)
        self.assertIn("another user namespace",
                      self.attach(service.pid, "status", status=1))

    def test_another_root(self):
        (self.folder / "tmp").mkdir()
        (self.folder / "tmp").chmod(0o1777)
        self.check(self.elsewhere("os.chroot(os.path.dirname(__file__))"))
        self.assertTrue((self.folder / "tmp/tracemalloc-0").is_dir())

    def test_links_in_another_root(self):
        # they would lead into ours
        (self.folder / "target").mkdir()
        for make in (lambda: (self.folder / "tmp").symlink_to(
                         self.folder / "target"),
                     lambda: ((self.folder / "tmp").unlink(),
                              (self.folder / "tmp").mkdir(),
                              (self.folder / "tmp/tracemalloc-0").symlink_to(
                                  self.folder / "target"))):
            make()
            service = self.elsewhere("os.chroot(os.path.dirname(__file__))")
            self.assertIn("Is a symbolic link",
                          self.attach(service.pid, "start", status=1))
            self.assertEqual(os.listdir(self.folder / "target"), [])

    def test_no_tmp(self):
        service = self.elsewhere("os.chroot(os.path.dirname(__file__))")
        self.assertIn("/tmp: No such file",
                      self.attach(service.pid, "start", status=1))

    def test_folder_is_made_with_the_rights_of_the_user(self):
        # not given away by root: it may have been replaced by then
        service = self.elsewhere('''
os.mkdir("tmp", 0o755)
os.chroot(os.path.dirname(__file__))
os.setgid(65534); os.setuid(65534)
''')
        self.assertIn("tmp/tracemalloc-65534: Permission denied",
                      self.attach(service.pid, "start", status=1))


class ClosedTests(ElsewhereTest):
    @unittest.skipIf(os.geteuid(), "needs root")
    def test_of_another_user(self):
        service = self.elsewhere("")
        for pid in (service.pid, 1):
            done = subprocess.run(
                [sys.executable, "-m", "tracemalloc", "attach", str(pid),
                 "top"], user=65534, group=65534, extra_groups=[], text=True,
                capture_output=True, env=environment(), check=False, cwd="/")
            if "tracemalloc: " not in done.stderr:
                self.skipTest(f"nobody cannot run the interpreter: "
                              f"{done.stderr}")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"permission denied: it belongs to "
                             r"\S+ \(0\), you are \S+ \(65534\); attach as "
                             "its user or as root\n$")

    def test_init(self):
        self.assertRegex(self.attach(1, "top", status=1),
                         "not reserved a signal|permission denied: ")

    def test_thread(self):
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(stop.set)
        self.assertIn(f"is a thread of process {os.getpid()}",
                      self.attach(thread.native_id, "top", status=1))

    def test_zombie(self):
        process = subprocess.Popen(["true"])
        self.addCleanup(process.wait)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.assertIn("has ended", self.attach(process.pid, "top", status=1))

    def test_arguments(self):
        for arguments in (("-5", "top"), ("x", "top"), ("1_0", "top"),
                          ("", "top"), ("\u0661", "top"),
                          ("1", "top", "--timeout", "nan"),
                          ("1", "top", "--timeout", "0"),
                          ("1", "top", "--timeout", "-1"),
                          ("1", "top", "--timeout", "x"),
                          ("1", "top", "-n", "-1"), ("1",), ()):
            with self.subTest(arguments=arguments):
                done = run_python("-m", "tracemalloc", "attach", *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_stopped(self):
        service = self.elsewhere("")
        service.signal(signum=signal.SIGSTOP)
        self.assertIn("it is stopped", self.attach(
            service.pid, "start", "--timeout", "0.3", status=1))
        service.signal(signum=signal.SIGCONT)
        self.assertIn("tracing: off", self.attach(service.pid, "status"))

    def test_no_stderr(self):
        command = [sys.executable, "-m", "tracemalloc", "attach", "0", "top"]
        done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *command],
                              capture_output=True, env=environment(),
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (1, b""))

    def test_bad_output(self):
        service = self.elsewhere("")
        self.attach(service.pid, "start")
        for name in ("no/such/folder", "/dev/full", "", "."):
            error = self.attach(service.pid, "top", "-o", name, status=1)
            self.assertIn(f": {name}: " if name else ": '': ", error)

    def test_number_of_lines(self):
        service = self.elsewhere("")
        self.attach(service.pid, "start")
        self.attach(service.pid, "snapshot", "-o", "x")
        for option in ("-n", "--top", "--number"):
            text = self.attach(service.pid, "top", option, "1")
            self.assertEqual(text.count("#"), 1)
            self.assertIn(" more: ", text)
            text = self.attach(service.pid, "diff", option, "1")
            self.assertRegex(text, r"\A.*size=.*\n\d+ more lines?: \S+ ")
        self.assertNotIn(" more: ", self.attach(service.pid, "top", "-n", "0"))
        self.assertNotIn(" more line", self.attach(service.pid, "diff", "-n",
                                                   "0"))


if __name__ == "__main__":
    unittest.main()
