"""Folders that are missing, full, or somebody else's: one line on stderr, and
the program goes on."""

import os
import signal
import subprocess
import tracemalloc
import unittest

from test.test_tracemalloc_services.util import (
    ServiceTest, run_python)


class AtRegistrationTests(ServiceTest):
    """Bad folders are refused when the signal is reserved."""

    def check(self, path, error, reason):
        with self.assertRaisesRegex(error, reason):
            tracemalloc.register(signal.SIGUSR2, directory=path)
        self.assertIs(signal.getsignal(signal.SIGUSR2), signal.SIG_DFL)
        done = run_python("-X", f"tracemalloc_signal=USR2,directory={path}",
                          "-c", "print('not reached')", cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        first = done.stderr.splitlines()[0]
        self.assertIn(str(path), first)
        self.assertRegex(first, reason)

    def test_missing(self):
        self.check(self.folder / "none", FileNotFoundError, "No such file")

    def test_no_current_directory(self):
        path = self.folder / "gone"
        path.mkdir()
        done = run_python("-c", """if True:
            import os, sys
            os.rmdir(os.getcwd())
            os.execv(sys.executable, [sys.executable, "-X",
                     "tracemalloc_signal=USR2", "-c", "print('reached')"])
            """, cwd=path)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("USR2: .: No such file", done.stderr)

    def test_a_file(self):
        path = self.folder / "file"
        path.touch()
        self.check(path, NotADirectoryError, "Not a directory")

    def test_symbolic_link(self):
        (self.folder / "real").mkdir()
        (self.folder / "link").symlink_to("real")
        self.check(self.folder / "link", OSError, "symbolic link")
        with self.assertRaisesRegex(OSError, "symbolic link"):
            tracemalloc.register(signal.SIGUSR2,
                                 directory=str(self.folder / "link") + "/")

    def test_open_to_everybody(self):
        path = self.folder / "open"
        path.mkdir()
        path.chmod(0o777)
        self.check(path, PermissionError, "sticky")
        path.chmod(0o1777)
        done = run_python("-X", f"tracemalloc_signal=USR2,directory={path}",
                          "-c", "")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_read_only(self):
        path = self.folder / "read_only"
        path.mkdir(mode=0o500)
        if os.access(path, os.W_OK):
            self.skipTest("nothing is read-only for root")
        self.check(path, PermissionError, "Permission denied")

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_of_another_user(self):
        path = self.folder / "foreign"
        path.mkdir()
        os.chown(path, 65534, 65534)
        self.check(path, PermissionError, "another user")


class LaterTests(ServiceTest):
    """Folders that go bad meanwhile."""

    def check(self, service, reason):
        for _ in range(3):
            service.signal()
            self.assertRegex(service.process.stderr.readline(),
                             rf"\Atracemalloc: SIGUSR2: .*{reason}\n\Z")
            self.tell(service, "leak()")

    def start(self, path):
        return self.talker(options=(
            "-X", f"tracemalloc_signal=USR2,directory={path}"))

    def test_removed(self):
        path = self.folder / "folder"
        path.mkdir()
        service = self.start(path)
        path.rmdir()
        self.check(service, "No such file or directory")
        service.finish()

    def test_replaced_by_a_link(self):
        path = self.folder / "folder"
        path.mkdir()
        service = self.start(path)
        path.rmdir()
        (self.folder / "else").mkdir()
        path.symlink_to(self.folder / "else")
        self.check(service, "symbolic link")
        self.assertEqual(os.listdir(self.folder / "else"), [])

    def test_recovers(self):
        path = self.folder / "folder"
        path.mkdir()
        service = self.start(path)
        path.rmdir()
        self.check(service, "No such file or directory")
        path.mkdir()
        service.folder = path
        # three failed ones: the next is the second of a pair
        self.tell(service, "leak()")
        service.signal()
        found = service.wait_files(1, "*.diff.txt")
        self.check_leak(found[0].read_text().splitlines(), service.script)

    def mount(self, path, options):
        path.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs",
                               str(path)], capture_output=True, check=False)
        if done.returncode:
            self.skipTest("cannot mount a tmpfs")
        self.addCleanup(subprocess.run, ["umount", "-l", str(path)],
                        check=False)

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_full(self):
        path = self.folder / "small"
        self.mount(path, "size=64k,mode=700")
        service = self.start(path)
        (path / "filler").write_bytes(bytes(64 * 1024))
        self.check(service, "No space left on device")
        self.assertEqual(os.listdir(path), ["filler"])
        (path / "filler").unlink()
        service.folder = path
        service.signal()
        service.wait_files(1, "*.diff.txt")
        service.finish()

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_remounted_read_only(self):
        path = self.folder / "small"
        self.mount(path, "size=1m,mode=700")
        service = self.start(path)
        subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True)
        self.check(service, "Read-only file system")
        service.finish()

    def test_file_size_limit(self):
        service = self.talker('''
            import resource
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            ''')
        self.check(service, "File too large")
        self.assertEqual(service.files(), [])

    def test_no_descriptors(self):
        service = self.talker('''
            import resource
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
            ''')
        self.check(service, "Too many open files")

    def test_without_stderr(self):
        # descriptor 2 may be anything then
        service = self.service('''
            os.close(2)
            sys.stderr = None
            assert os.open("precious", os.O_WRONLY | os.O_CREAT) == 2
            os.rmdir("folder")
            for _ in range(4):
                signal.raise_signal(signal.SIGUSR2)
            ''', options=("-X", "tracemalloc_signal=USR2,directory="
                          + str(self.make("folder"))))
        service.finish()
        self.assertEqual((self.folder / "precious").read_bytes(), b"")

    def make(self, name):
        path = self.folder / name
        path.mkdir()
        return path

    def test_name_is_taken(self):
        # nothing that is there is ever overwritten or followed
        service = self.talker('''
            import tracemalloc._services as services
            def stem(self, names=iter(["taken", "link", "free"])):
                return "tracemalloc-" + str(os.getpid()) + "-" + next(names)
            services._Process.stem = stem
            ''')
        taken = self.folder / f"tracemalloc-{service.pid}-taken.snapshot"
        taken.write_text("mine")
        link = self.folder / f"tracemalloc-{service.pid}-link.snapshot"
        link.symlink_to("target")
        service.signal()
        service.wait_files(2, "[tf]*.snapshot")
        self.assertEqual(taken.read_text(), "mine")
        self.assertFalse((self.folder / "target").exists())


if __name__ == "__main__":
    unittest.main()
