"""An ASGI application whose handlers wait for each other, and one never ends."""
import asyncio
import json

waiting = set()
never = asyncio.Event()


async def log(entry):
    """Write to a log that never answers."""
    record = [entry | {"part": n, "text": "y" * 100} for n in range(40)]
    await never.wait()
    return record


async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    task = asyncio.create_task(log({"path": scope["path"],
                                    "query": scope["query_string"].decode()}))
    waiting.add(task)
    task.add_done_callback(waiting.discard)
    body = json.dumps({"waiting": len(waiting)}).encode()
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})
