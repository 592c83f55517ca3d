"""Perf maps: entries from any thread, one line each, in a file that is nobody else's."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from .util import CapiTestCase

#: What the code in other processes begins with.
PRELUDE = """
import errno, os, sys, perfmap_ext as ext
path = "/tmp/perf-%d.map" % os.getpid()
def read(which=path):
    with open(which, "rb") as file:
        return file.read()
def fork():
    # A map that an ended process with the number of the child has left would be added to: not that one.
    while True:
        left = os.listdir("/tmp")
        pid = os.fork()
        if "perf-%d.map" % (pid or os.getpid()) not in left:
            return pid
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
def finish(word="done"):
    ext.fini()
    if os.path.lexists(path):
        os.remove(path)
    print(word)
"""

#: Becomes the interpreter, unless an ended process with the same number has left its map.
LAUNCHER = ("/bin/sh", "-c", 'map="/tmp/perf-$$.map"; if [ -e "$map" ] || [ -h "$map" ]; then exit 76; fi; exec "$@"', "sh")


def setUpModule() -> None:
    if not sys.platform.startswith("linux"):
        raise unittest.SkipTest("perf maps are for Linux")
    if not os.access("/tmp", os.W_OK):
        raise unittest.SkipTest("/tmp cannot be written to")


class PerfMapTestCase(CapiTestCase):
    extensions = ("perfmap_ext",)

    def setUp(self) -> None:
        self.before = set(os.listdir("/tmp"))
        self.addCleanup(self.remove_maps)

    def remove_maps(self) -> None:
        """After a failure; maps of other processes that have just begun are spared."""
        for name in set(os.listdir("/tmp")) - self.before:
            match = re.fullmatch(r"perf-(\d+)\.map", name)
            if match and not os.path.exists("/proc/" + match[1]):
                try:
                    os.remove("/tmp/" + name)
                except OSError:
                    pass

    def run_map(self, code: str, *arguments: str, **options) -> str:
        options.setdefault("wanted", "done")
        return self.run_code(PRELUDE + code, *arguments, launcher=LAUNCHER, **options)


class EntryTests(PerfMapTestCase):
    """The lines of the file."""

    def test_format(self) -> None:
        self.run_map("""
assert ext.write(0x7f3529fcf759, 0xb, b"py::bar:/run/t.py") == (0, 0)
assert ext.write(0, 0, b"a b  c") == (0, 0)
assert ext.write(2 ** 64 - 1, 2 ** 32 - 1, b"x") == (0, 0)
assert read() == b"7f3529fcf759 b py::bar:/run/t.py\\n0 0 a b  c\\nffffffffffffffff ffffffff x\\n", read()
finish()
""")

    def test_init_and_fini(self) -> None:
        self.run_map("""
assert not os.path.exists(path)
assert ext.init() == (0, 0) and read() == b""
assert ext.init() == (0, 0)                     # open already
fds = len(os.listdir("/proc/self/fd"))
for _ in range(50): ext.init()
assert len(os.listdir("/proc/self/fd")) == fds
ext.write(1, 2, b"one")
ext.fini()
assert len(os.listdir("/proc/self/fd")) == fds - 1
ext.fini(); ext.fini()                          # closed already
ext.write(3, 4, b"two")                         # opens again, goes on behind
assert read() == b"1 2 one\\n3 4 two\\n", read()
finish()
""")

    def test_file_is_private(self) -> None:
        self.run_map("""
os.umask(0)
ext.init()
status = os.stat(path)
assert status.st_mode & 0o777 == 0o600 and status.st_uid == os.geteuid(), status
import fcntl
fd = max(int(f) for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f)
         and os.readlink("/proc/self/fd/" + f) == path)
assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
finish()
""")

    def test_odd_names(self) -> None:
        """Whatever the name is, there is one line for every reader, and it says what it can."""
        self.run_map("""
names = [b"", b" ", b"plain", "caf\\u00e9 \\u4e2d\\U0001f600".encode(), b"not \\xff\\xfe UTF-8", b"tab\\there",
         b"x" * 100_000, "\\u00e9".encode() * 50_000, b"y" * 1023, b"y" * 1024, b"y" * 980, b"y" * 990]
odd = [b"new\\nline", b"\\n", b"carriage\\rreturn", b"a\\r\\nb", b"escape \\x1b[31m", b"\\x0b\\x0c\\x1c\\x1d\\x1e\\x7f",
       "next\\u0085line".encode(), "line\\u2028separator\\u2029".encode(), b"\\n" * 5000]
for n, name in enumerate(names + odd):
    assert ext.write(n, 16, name) == (0, 0)
assert ext.write(99, 16, None) == (0, 0)
content = read()
lines = content.split(b"\\n")
assert lines.pop() == b"" and len(lines) == len(names) + len(odd) + 1
for n, (line, name) in enumerate(zip(lines, names)):
    assert line == b"%x 10 %s" % (n, name), (line[:80], name[:80])
assert len(content.decode("utf-8", "replace").splitlines()) == len(lines)
tail = [line.split(b" ", 2)[2] for line in lines[len(names):-1]]
assert tail == [b"new?line", b"?", b"carriage?return", b"a??b", b"escape ?[31m", b"??????", b"next?line", b"line?separator?",
                b"?" * 5000], tail[:8]
finish()
""")

    def test_many_threads(self) -> None:
        self.run_map("""
ext.init()
seconds, failed = ext.flood(8, 5000)
assert failed == 0
lines = read().decode().split("\\n")
assert lines.pop() == ""
seen = set()
for line in lines:
    address, size, name = line.split(" ", 2)
    thread, number = name.removeprefix("flood_").removesuffix(":/x.py").split("_")
    assert int(address, 16) == 0x10000000 * (int(thread) + 1) + int(number) and size == "10", line
    seen.add(name)
assert len(lines) == len(seen) == 8 * 5000
finish()
""")

    def test_first_use_by_many_threads(self) -> None:
        for _ in range(20):
            self.run_map("""
seconds, failed = ext.flood(16, 10)
assert failed == 0 and read().count(b"\\n") == 160
finish()
""")

    def test_with_and_without_the_gil(self) -> None:
        self.run_map("""
import threading
def work(n):
    for i in range(500):
        assert ext.write(n, i, b"name", n % 2) == (0, 0)
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
for t in threads: t.start()
ext.flood(2, 500)
for t in threads: t.join()
assert read().count(b"\\n") == 6 * 500 + 2 * 500
finish()
""")

    def test_opened_and_closed_while_others_write(self) -> None:
        self.run_map("""
import threading
stop = False
def toggle():
    while not stop:
        ext.fini(); ext.init()
t = threading.Thread(target=toggle)
t.start()
assert ext.flood(4, 2000)[1] == 0
stop = True
t.join()
assert read().count(b"\\n") == 8000
finish()
""")

    def test_closed_when_the_interpreter_ends(self) -> None:
        out = self.run_map("""
ext.write(1, 2, b"kept")
print(path)
""", wanted=None)
        with open(out.strip(), encoding="utf-8") as file:
            self.assertEqual(file.read(), "1 2 kept\n")
        os.remove(out.strip())


class FileTests(PerfMapTestCase):
    """What may stand at the path already, and what may happen to the file."""

    def test_symbolic_link(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for target in "existing", "missing":
                with self.subTest(target=target):
                    victim = os.path.join(folder, target)
                    if target == "existing":
                        with open(victim, "w", encoding="utf-8") as file:
                            file.write("precious")
                    self.run_map("""
os.symlink(sys.argv[1], path)
assert ext.init() == (-1, errno.ELOOP), ext.init()
assert ext.write(1, 2, b"x") == (-1, errno.ELOOP)
assert os.path.islink(path)
os.remove(path)
assert ext.write(1, 2, b"x") == (0, 0)          # free again
assert read() == b"1 2 x\\n"
finish()
""", victim)
                    if target == "existing":
                        with open(victim, encoding="utf-8") as file:
                            self.assertEqual(file.read(), "precious")
                    else:
                        self.assertFalse(os.path.lexists(victim))

    def test_hard_link(self) -> None:
        self.run_map("""
import tempfile
with tempfile.NamedTemporaryFile("w", dir="/tmp") as file:
    file.write("precious"); file.flush()
    os.link(file.name, path)
    assert ext.write(1, 2, b"x") == (-1, errno.EPERM)
    assert open(file.name).read() == "precious"
finish()
""")

    def test_not_a_file(self) -> None:
        self.run_map("""
os.mkfifo(path)
assert ext.write(1, 2, b"x")[0] == -1           # and does not wait for a reader
os.remove(path)
os.mkdir(path)
assert ext.write(1, 2, b"x") == (-1, errno.EISDIR)
os.rmdir(path)
finish()
""")

    @unittest.skipUnless(hasattr(os, "geteuid") and os.geteuid() == 0, "needs to be root to make a file of another user")
    def test_file_of_another_user(self) -> None:
        self.run_map("""
with open(path, "w") as file:
    file.write("theirs")
os.chown(path, 12345, 12345)
os.chmod(path, 0o666)
assert ext.init()[0] == -1
result, error = ext.write(1, 2, b"x")
assert result == -1 and error in (errno.EPERM, errno.EACCES), error
assert read() == b"theirs"
finish()
""")

    def test_own_file(self) -> None:
        """Another writer of maps in the process has been first: its entries stay."""
        self.run_map("""
with open(path, "w") as file:
    file.write("1 2 other\\n")
assert ext.write(3, 4, b"x") == (0, 0)
assert read() == b"1 2 other\\n3 4 x\\n"
finish()
""")

    def test_descriptors_closed(self) -> None:
        """A program that closes all descriptors does not find entries in the file that it opens next."""
        self.run_map("""
import tempfile, time
for wait in 0, 0.1:
    ext.write(1, 2, b"before")
    with open("/tmp/other-%d" % os.getpid(), "wb+", buffering=0) as other:
        found = [int(f) for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f)
                 and os.readlink("/proc/self/fd/" + f) == path]
        if wait:
            os.dup2(other.fileno(), found[0])
            time.sleep(wait)        # more than a tick of the coarse clock
        else:
            os.close(found[0])
        assert ext.write(3, 4, b"after") == (0, 0)
        assert os.fstat(other.fileno()).st_size == 0
    os.remove(other.name)
assert read() == b"1 2 before\\n3 4 after\\n" * 2, read()
finish()
""")

    def test_full_disk(self) -> None:
        """An error is reported; a line that was cut off spoils only itself."""
        self.run_map("""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ext.write(1, 2, b"whole")
resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
assert ext.write(3, 4, b"x" * 50) == (-1, errno.EFBIG)
assert ext.write(5, 6, b"y") == (-1, errno.EFBIG)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert ext.write(7, 8, b"z") == (0, 0)
lines = read().split(b"\\n")
assert lines[0] == b"1 2 whole" and lines[-2:] == [b"7 8 z", b""], lines
finish()
""")


class ForkTests(PerfMapTestCase):
    """The child writes a file of its own."""

    def test_child(self) -> None:
        self.run_map("""
ext.write(1, 2, b"parent")
pid = fork()
if pid == 0:
    mine = "/tmp/perf-%d.map" % os.getpid()
    ok = ext.write(3, 4, b"child") == (0, 0) and ext.flood(4, 100)[1] == 0
    ext.fini()
    ok = ok and read(mine).count(b"\\n") == 401 and b"parent" not in read(mine)
    os.remove(mine)
    os._exit(0 if ok else 3)
_, status = os.waitpid(pid, 0)
assert status == 0, status
ext.write(5, 6, b"parent")
assert read() == b"1 2 parent\\n5 6 parent\\n", read()
finish()
""")

    def test_fork_while_threads_write(self) -> None:
        self.run_map("""
import threading
t = threading.Thread(target=ext.flood, args=(4, 20000))
t.start()
for _ in range(20):
    pid = fork()
    if pid == 0:
        mine = "/tmp/perf-%d.map" % os.getpid()
        ok = ext.write(3, 4, b"child") == (0, 0) and read(mine) == b"3 4 child\\n"
        os.remove(mine)
        os._exit(0 if ok else 3)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
t.join()
assert read().count(b"\\n") == 80000
finish()
""", options=("-W", "ignore"))


class CopyTests(PerfMapTestCase):
    """What is known of other code can be taken over from another map."""

    def test_copy(self) -> None:
        self.run_map("""
import tempfile
with tempfile.TemporaryDirectory() as folder:
    other = os.path.join(folder, "other.map")
    with open(other, "wb") as file:
        file.write(b"1 2 theirs\\n" * 5000)
    ext.write(3, 4, b"mine")
    assert ext.copy_map(os.fsencode(other)) == (0, 0)
    ext.write(5, 6, b"mine")
    assert read() == b"3 4 mine\\n" + b"1 2 theirs\\n" * 5000 + b"5 6 mine\\n"
    ext.fini()
    assert ext.copy_map(os.fsencode(other)) == (0, 0)   # opens the map
    assert read().count(b"theirs") == 10000
    assert ext.copy_map(os.fsencode(other + "?")) == (-1, errno.ENOENT)
    os.symlink(other, other + ".link")
    assert ext.copy_map(os.fsencode(other + ".link")) == (-1, errno.ELOOP)
    assert ext.copy_map(os.fsencode(folder))[0] == -1
    assert read().count(b"theirs") == 10000
finish()
""")


class TrampolineTests(PerfMapTestCase):
    """-X perf, which writes its entries through the same functions."""

    def setUp(self) -> None:
        super().setUp()
        self.run_code("""
            import sys
            try:
                sys.activate_stack_trampoline("perf")
            except ValueError:
                print("this build has no perf trampoline"); sys.exit(77)
            import os; os.remove("/tmp/perf-%d.map" % os.getpid())
        """)

    def test_names_that_are_not_utf8(self) -> None:
        """A file name with bytes that are no text is written as it is on disk; no exception comes of it."""
        self.run_map("""
def run(name, code="def f(): return 1\\nf()\\n"):
    exec(compile(code, name, "exec"), {})
run("bytes\\udce9.py"); run("lone\\ud800.py"); run("two\\nlines.py"); run("caf\\u00e9.py")
lines = read().split(b"\\n")
for wanted in b":bytes\\xe9.py", b":lone\\\\ud800.py", b":two?lines.py", b":caf\\xc3\\xa9.py":
    assert sum(line.endswith(b" py::f" + wanted) for line in lines) == 1, (wanted, lines[-20:])
finish()
""", options=("-X", "perf"))

    def test_pending_exception(self) -> None:
        """A generator that is entered by an exception gets its entry, and keeps the exception."""
        self.run_map("""
ns = {}
exec(compile("def g():\\n  yield 1\\n", "thrown\\udce9.py", "exec"), ns)
try:
    ns["g"]().throw(KeyError("mine"))
except KeyError as e:
    assert e.args == ("mine",)
else:
    raise AssertionError
finish()
""", options=("-X", "perf"))

    def test_compile_code(self) -> None:
        """A function gets its entry before it is called, and only one."""
        self.run_map("""
def early(): return 1
if sys.argv[1] == "on":
    for _ in range(3):
        assert ext.compile_code(early.__code__) == 0
        assert early() == 1
        assert read().count(b" py::early:") == 1
    sys.deactivate_stack_trampoline()
def late(): return 2
assert ext.compile_code(late.__code__) == 0 and late() == 2     # nothing to do
assert not os.path.exists(path) or b" py::late:" not in read()
finish()
""", "on", options=("-X", "perf"))
        self.run_map("""
def late(): return 2
assert ext.compile_code(late.__code__) == 0 and late() == 2
assert not os.path.exists(path)
finish()
""")

    def test_persist_after_fork(self) -> None:
        """The map of the child names the code of its parent, and nothing is added; or the child begins anew."""
        self.run_map("""
def before(): return 1
before()
assert ext.persist_after_fork(True) == 1
def child(wanted):
    pid = fork()
    if pid == 0:
        mine = "/tmp/perf-%d.map" % os.getpid()
        def after(): return before()
        after()
        text = read(mine)
        os.remove(mine)
        os._exit(0 if text.count(b" py::before:") == 1 and (b"importlib" in text) == wanted
                 and (b" py::child.<locals>.after:" in text) != wanted else 3)
    _, status = os.waitpid(pid, 0)
    assert status == 0, (status, wanted)
child(True)
assert ext.persist_after_fork(False) == 0
child(False)
assert b"after" not in read()
finish()
""", options=("-X", "perf"))

    def test_with_memory_tracing_and_fork(self) -> None:
        self.run_map("""
def make(n, name):
    fs = []
    for k in range(n):
        ns = {}
        exec(compile("def f(): return [1] * 3", "%s%d.py" % (name, k), "exec"), ns)
        ns["f"](); fs.append(ns["f"])
    return fs
fs = make(300, "parent")
pid = fork()
if pid == 0:
    mine = "/tmp/perf-%d.map" % os.getpid()
    fs.clear()
    make(100, "child")
    text = read(mine)
    os.remove(mine)
    os._exit(0 if text.count(b":child") >= 100 and b":parent1" not in text else 3)
_, status = os.waitpid(pid, 0)
assert status == 0, status
assert read().count(b"py::f:parent") == 300
finish()
""", options=("-X", "perf", "-X", "tracemalloc=3"))

    def test_perf_record(self) -> None:
        """perf(1) finds the names of Python functions through the map."""
        perf = shutil.which("perf")
        if perf is None:
            self.skipTest("there is no perf")
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "perf.data")
            script = os.path.join(folder, "program.py")
            with open(script, "w", encoding="utf-8") as file:
                # The code of the map is a few instructions at each call.  A build with frame pointers shows the callers too, but
                # the names are to be seen without.
                file.write("import os, time\n"
                           "def the_hot_function():\n"
                           "    pass\n"
                           "def caller():\n"
                           "    end = time.process_time() + 2\n"
                           "    while time.process_time() < end:\n"
                           "        for i in range(10000):\n"
                           "            the_hot_function()\n"
                           "caller()\n"
                           "print(os.getpid())\n")
            record = [perf, "record", "-e", "cpu-clock", "-F", "4000", "-o", data, sys.executable, "-X", "perf", script]
            done = subprocess.run(record, capture_output=True, text=True, errors="replace")
            if done.returncode or not os.path.exists(data):
                self.skipTest(f"perf cannot record here: {done.stderr.strip()[-200:]}")
            map_file = f"/tmp/perf-{done.stdout.split()[0]}.map"
            self.addCleanup(os.remove, map_file)
            shown = subprocess.run([perf, "script", "-i", data, "-F", "ip,sym"], capture_output=True, text=True, errors="replace")
            symbols = shown.stdout.split()
            self.assertIn(f"py::the_hot_function:{script}", symbols, f"{len(symbols)} symbols, e.g. {symbols[-20:]}")


if __name__ == "__main__":
    unittest.main()
