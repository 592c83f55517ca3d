"""./configure and make on the toy fork: sources in their order, every refusal in one line with nothing half-made, options handed on."""
import os
import shutil
import signal
import subprocess
import tarfile
import time
import unittest
from pathlib import Path

from toy import TOOLS, ToyCase, tree

CONFIGURE = """#!/bin/sh
for word; do echo "word: $word"; done >words
printf 'all:\\n\\tcp ../src/Python/other.c other\\n\\tprintf "#!/bin/sh\\\\necho toy \\\\$$*\\\\n" >python\\n\\tchmod +x python\\n' >Makefile
echo >config.status
"""
FETCHED = "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" = -o ] && out=$2; shift; done\n"


class ConfigureTests(ToyCase):
    def setUp(self) -> None:
        super().setUp()
        # the toy upstream gets a configure of its own, and a tarball again
        upstream = self.folder / "Toy-1.0"
        self.write(upstream / "configure", CONFIGURE)
        (upstream / "configure").chmod(0o755)
        with tarfile.open(self.tarball, "w:xz") as tar:
            tar.add(upstream, "Toy-1.0")
        self.write(self.root / "overlay/upstream.ini",
                   f"[upstream]\nversion = 1.0\ndirectory = Toy-1.0\ntarball = {self.tarball.name}\n"
                   f"size = {self.tarball.stat().st_size}\nsha256 = {tree.sha256_file(self.tarball)}\ndigest = {tree.tree_digest(upstream)}\n"
                   "[sources]\ndebian-package = toy\ndebian-suite = stable\nrelease = https://toy.invalid/toy.tar.xz\n")
        for name in ("configure", "GNUmakefile", "Makefile.pre.in"):
            shutil.copy2(TOOLS.parent / name, self.root / name)
        for path in TOOLS.iterdir():
            if path.suffix in (".sh", ".py"):
                shutil.copy2(path, self.root / "overlay" / path.name)
        self.cache = self.folder / "cache/cpython-tracemalloc"
        self.bin = self.folder / "bin"
        self.tool("apt-get", "exit 100")
        self.tool("curl", "exit 6")

    def tool(self, name: str, text: str) -> None:
        self.write(self.bin / name, f"#!/bin/sh\n{text}\n")
        (self.bin / name).chmod(0o755)

    def environ(self) -> dict[str, str]:
        keep = {k: v for k, v in os.environ.items() if k not in ("BUILD_DIR", "JOBS", "MAKEFLAGS", "MAKELEVEL", "VARIANT", "CC", "CFLAGS")}
        return {**keep, "PATH": f"{self.bin}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.folder / "cache")}

    def run_in(self, *command: str) -> subprocess.CompletedProcess:
        return subprocess.run(command, cwd=self.root, env=self.environ(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def configure(self, *words: str) -> subprocess.CompletedProcess:
        return self.run_in("./configure", "--skip-packages", *words)

    def assert_refused(self, done: subprocess.CompletedProcess, pattern: str) -> None:
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, pattern)
        for name in ("build/src", "build/upstream/Toy-1.0", "Makefile", "build/config.mk"):
            self.assertFalse((self.root / name).exists(), name)
        self.assertEqual([p.name for p in (self.root / "build").glob(".fetch*")], [])

    def assert_ready(self, done: subprocess.CompletedProcess) -> None:
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue((self.root / "Makefile").exists())
        self.assertTrue((self.root / "build/release/config.status").exists())

    def test_a_tarball_then_make_and_python(self):
        self.assert_ready(self.configure(f"--with-upstream={self.tarball}", "--prefix=/opt/toy dir", "--enable-it", "CFLAGS=-O1 -g"))
        words = (self.root / "build/release/words").read_text().splitlines()
        self.assertEqual(words[-3:], ["word: --prefix=/opt/toy dir", "word: --enable-it", "word: CFLAGS=-O1 -g"])
        done = self.run_in("make")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual((self.root / "build/release/other").read_text(), "int ours;\n")
        self.assertEqual(self.run_in("./python", "a", "b").stdout, "toy a b\n")

    def test_make_alone_configures_first_and_needs_no_network_later(self):
        self.cache.mkdir(parents=True)
        shutil.copy(self.tarball, self.cache)
        self.assertEqual(self.run_in("make", "build").returncode, 0)
        shutil.rmtree(self.cache)
        self.write(self.root / "Python/other.c", "int changed;\n")
        self.assertEqual(self.run_in("make", "VARIANT=debug").returncode, 0)
        self.assertEqual((self.root / "build/debug/other").read_text(), "int changed;\n")
        self.assertIn("word: --with-pydebug", (self.root / "build/debug/words").read_text())
        self.assert_ready(self.configure())

    def test_a_directory(self):
        self.assert_ready(self.configure("--with-upstream", str(self.folder / "Toy-1.0")))

    def test_refusals(self):
        short = self.folder / "short.tar.xz"
        short.write_bytes(self.tarball.read_bytes()[:-1])
        bad = self.folder / "bad.tar.xz"
        bad.write_bytes(self.tarball.read_bytes()[:-1] + b"x")
        for words, pattern in (((f"--with-upstream={short}",), "cut short"), ((f"--with-upstream={bad}",), "wrong sha256"),
                               ((f"--with-upstream={self.folder}/none",), "does not exist"), ((f"--with-upstream={self.bin}",), "not the pristine tree"),
                               (("--prefix=here",), "absolute path"), (("word",), "unexpected word"), ((), "neither the Debian mirror nor .* answers")):
            with self.subTest(words=words):
                self.assert_refused(self.configure(*words), pattern)
        self.assertFalse(self.cache.exists())

    def test_options_that_change_build_afresh(self):
        self.assert_ready(self.configure(f"--with-upstream={self.tarball}"))
        self.write(self.root / "build/release/object", "of other options\n")
        self.assert_ready(self.configure("--enable-it"))
        self.assertFalse((self.root / "build/release/object").exists())
        self.write(self.root / "build/release/object", "of the same options\n")
        self.assert_ready(self.configure("--enable-it"))
        self.assertTrue((self.root / "build/release/object").exists())

    def test_the_release_address_fills_the_cache(self):
        self.tool("curl", f"{FETCHED}cp {self.tarball} \"$out\"")
        self.assert_ready(self.configure())
        self.assertEqual([p.name for p in self.cache.iterdir()], [self.tarball.name])

    def test_a_wrong_file_from_the_release_address(self):
        self.tool("curl", f"{FETCHED}echo login page >\"$out\"")
        self.assert_refused(self.configure(), "what came from .* has 11 bytes")

    @unittest.skipUnless(Path("/etc/debian_version").exists(), "not Debian")
    def test_the_source_package_whatever_its_revision(self):
        self.tool("apt-get", f"case \" $* \" in *' source '*) cp {self.tarball} toy_1.0.orig.tar.xz; touch toy_1.0-7.dsc;; esac")
        self.assert_ready(self.configure())

    def test_a_damaged_cache_is_replaced(self):
        self.write(self.cache / self.tarball.name, "half a file")
        self.tool("curl", f"{FETCHED}cp {self.tarball} \"$out\"")
        self.assert_ready(self.configure())
        self.assertEqual(tree.sha256_file(self.cache / self.tarball.name), tree.sha256_file(self.tarball))

    def test_an_interrupted_run_leaves_nothing_and_can_be_repeated(self):
        self.tool("curl", f"{FETCHED}echo half >\"$out\"\necho >{self.folder}/started\nexec sleep 60")
        process = subprocess.Popen(["./configure", "--skip-packages"], cwd=self.root, env=self.environ(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while not (self.folder / "started").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        self.assertNotEqual(process.wait(timeout=60), 0)
        self.assertEqual([p.name for p in (self.root / "build").glob(".fetch*")], [])
        self.assertFalse(self.cache.exists())
        self.tool("curl", f"{FETCHED}cp {self.tarball} \"$out\"")
        self.assert_ready(self.configure())

    def test_a_configure_of_upstream_that_fails_is_shown(self):
        self.add_failing_configure()
        done = self.configure(f"--with-upstream={self.tarball}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no acceptable compiler", done.stderr)
        self.assertIn("configure.log", done.stderr)
        self.assertFalse((self.root / "Makefile").exists())

    def add_failing_configure(self) -> None:
        self.write(self.root / "patches/series", "fail.patch\n")
        first, second = CONFIGURE.splitlines()[:2]
        self.write(self.root / "patches/fail.patch", "Purpose: x\n\n--- a/configure\n+++ b/configure\n@@ -1,2 +1,3 @@\n"
                   f" {first}\n+echo no acceptable compiler; exit 1\n {second}\n")


if __name__ == "__main__":
    unittest.main()
