"""The application of the checks, for WSGI and ASGI servers: every request leaks.

With LEAKY_HANDLER in the environment it switches tracing itself, by a handler
of SIGUSR2 that is installed where it is imported: with preload, in the leader.
"""
import asyncio
import os
import signal

kept = []

if os.environ.get("LEAKY_HANDLER"):
    def switch(*_):
        import tracemalloc
        tracemalloc.start(25)
    signal.signal(signal.SIGUSR2, switch)


def page():
    kept.append(bytearray(20_000))      # the leak
    return b"%d fine" % os.getpid()


def application(environ, start_response):
    body = page()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    if scope["type"] == "http":
        body = page()
        await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 200,
                    "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})
