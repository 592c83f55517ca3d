"""gunicorn with preload serves from traced workers."""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request

APPLICATION = '''
import os, tracemalloc
if not tracemalloc.is_tracing():
    tracemalloc.start(10)
kept = []
def application(environ, start_response):
    kept.append(bytearray(1000))
    body = ("%d %d" % (os.getpid(), tracemalloc.get_traced_memory()[0])).encode()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [body]
'''

with tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "leaky.py").write_text(APPLICATION)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        os.set_inheritable(listener.fileno(), True)
        server = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "--preload", "-w", "2",
             "--log-level", "warning", "-b", f"fd://{listener.fileno()}", "leaky:application"],
            cwd=folder, close_fds=False)
        try:
            seen = {}
            for _ in range(200):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
                    pid, size = map(int, answer.read().split())
                seen.setdefault(pid, []).append(size)
            assert server.pid not in seen
            for sizes in seen.values():
                assert sizes[0] > 0, sizes
                # every request keeps 1000 bytes more
                assert sizes[-1] - sizes[0] >= 1000 * (len(sizes) - 1), sizes
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
