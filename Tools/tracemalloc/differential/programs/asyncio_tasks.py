"""Tasks, gather, queues, cancellation and time-outs on an asyncio loop."""
import asyncio


class Registry:
    """Stands for the set of all tasks: when a set of objects that are told
    apart by address grows is decided by the addresses, for this it is not.
    """

    def __init__(self):
        self.items = {}

    def add(self, item):
        self.items[id(item)] = item

    def discard(self, item):
        self.items.pop(id(item), None)

    def __iter__(self):
        return iter(self.items.values())

    def __len__(self):
        return len(self.items)


def setup():
    asyncio.tasks._scheduled_tasks.data = Registry()
    asyncio.run(work([]))           # imports what is imported late


async def leaf(n, kept):
    kept.append(bytearray(300 + n))
    await asyncio.sleep(0)
    kept.append({n: str(n)})
    return [n] * 5


async def branch(n, kept):
    return await asyncio.gather(*(leaf(n + i, kept) for i in range(4)))


async def producer(queue):
    for i in range(20):
        await queue.put(bytearray(i))
    await queue.put(None)


async def consumer(queue, kept):
    while (item := await queue.get()) is not None:
        kept.append(item)


async def cancelled(kept):
    try:
        await asyncio.Event().wait()
    finally:
        kept.append(bytearray(4321))


async def work(kept):
    for n in range(5):
        kept.append(await branch(n, kept))
    queue = asyncio.Queue(3)
    async with asyncio.TaskGroup() as group:
        group.create_task(producer(queue))
        group.create_task(consumer(queue, kept))
    task = asyncio.create_task(cancelled(kept))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        kept.append("cancelled")


async def looks(h, kept):
    await work(kept)
    h.check("inside the loop")
    waiting = [asyncio.create_task(leaf(n, kept)) for n in range(10)]
    await asyncio.sleep(0)
    h.check("tasks under way")
    await asyncio.wait(waiting)


def main(h):
    kept = []
    asyncio.run(looks(h, kept))
    h.check("loop closed")
    h.traceback("from a cancelled task", kept[0])
