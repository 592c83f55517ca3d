"""Signals at any moment of a busy program: it computes what it would have."""

import random
import time
import tracemalloc
import unittest

from test.test_tracemalloc_services.util import ServiceTest

# Threads, exceptions, generators, imports, garbage, forks, programs, waiting;
# anything that goes wrong shows on stderr or in the exit status.
BUSY = '''
import gc, importlib, json, select, socket, subprocess, threading
def numbers(n):
    for i in range(n):
        yield i
def deep(n):
    return n and 1 + deep(n - 1)
def in_thread(results):
    results.append(sum(numbers(2000)))
def step(i):
    leak(1); del kept[20:]
    assert deep(200) == 200
    assert sum(numbers(3000)) == 4498500
    try:
        {}[i]
    except KeyError as error:
        assert error.args == (i,)
    assert json.loads(json.dumps(list(range(50)))) == list(range(50))
    sys.modules.pop("colorsys", None)
    importlib.import_module("colorsys")
    cycle = []; cycle.append(cycle); del cycle
    if i % 10 == 0:
        gc.collect()
        results = []
        threads = [threading.Thread(target=in_thread, args=(results,))
                   for _ in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert results == [1999000] * 2
        ours, theirs = socket.socketpair()
        theirs.settimeout(0.002)
        try:
            theirs.recv(1)
        except TimeoutError:
            pass
        ours.send(b"x")
        assert theirs.recv(1) == b"x"
        ours.close(); theirs.close()
    if i % 40 == 0:
        signal.signal(signal.SIGUSR2, (signal.SIG_DFL, signal.SIG_IGN,
                                       lambda *a: None)[i // 40 % 3])
        pid = os.fork()
        if not pid:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert subprocess.run(["true"]).returncode == 0
        pid = os.posix_spawn("/bin/true", ["true"], os.environ)
        assert os.waitpid(pid, 0)[1] == 0
say("ready")
i = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    step(i)
    i += 1
say("over")
'''


class StressTests(ServiceTest):
    DURATION = 3.0

    def check(self, wait):
        """Signal without waiting for answers."""
        service = self.service(BUSY)
        service.expect("ready")
        chance = random.Random(wait)
        end = time.monotonic() + self.DURATION
        while time.monotonic() < end:
            service.signal()
            time.sleep(chance.uniform(0, wait))
        service.say()
        service.expect("over")
        service.finish()
        snapshots = service.files("*.snapshot")
        self.assertGreater(len(snapshots), 1)
        for path in snapshots:
            tracemalloc.Snapshot.load(path)
        diffs = len(service.files("*.diff.txt"))
        self.assertEqual(len(service.files("*.diff.json")), diffs)
        self.assertIn(len(snapshots) - 2 * diffs, (0, 1))
        self.assertEqual(list(self.folder.glob(".*")), [])

    def test_fast(self):
        self.check(0.001)

    def test_slower(self):
        self.check(0.05)


if __name__ == "__main__":
    unittest.main()
