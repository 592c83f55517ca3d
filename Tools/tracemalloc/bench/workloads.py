"""The workloads of the bench: what is timed, untraced and traced.

Two groups.  "micro": loops that do little but allocate, where tracing costs
most.  "broad": what programs do, still with many allocations.  Each is a
function of one number, the amount of work; its unit is chosen so that the
registered amount takes some 30 to 100 ms untraced.  All are deterministic and
keep nothing when they return.  What only one of them needs it imports itself
(the first run is not timed): a process that counts instructions starts fast.
"""
import types
from collections.abc import Callable
from typing import NamedTuple


class Workload(NamedTuple):
    name: str
    group: str
    run: Callable[[int], object]
    amount: int

    def at(self, scale: float) -> int:
        """The amount of work at a scale; never nothing."""
        return max(1, round(self.amount * scale))


WORKLOADS: dict[str, Workload] = {}


def workload(group: str, amount: int):
    def register(function):
        name = function.__name__
        WORKLOADS[name] = Workload(name, group, function, amount)
        return function
    return register


# ---- micro ---------------------------------------------------------------

@workload("micro", 600_000)
def objects(n):
    """The cheapest pair there is: one block made, the same dropped."""
    for _ in range(n):
        object()


@workload("micro", 350_000)
def pairs(n):
    """Tuples, kept for a while."""
    for _ in range(n // 10_000 + 1):
        kept = [(i, kept_by) for i, kept_by in enumerate(range(-10_000, 0))]
    return len(kept)


@workload("micro", 600_000)
def lists(n):
    """Lists of one item: header and items are two blocks."""
    ring = [None] * 512
    for i in range(n):
        ring[i & 511] = [i]


@workload("micro", 350_000)
def dicts(n):
    """Small dictionaries with the same keys."""
    ring = [None] * 256
    for i in range(n):
        ring[i & 255] = {"id": i, "on": True, "tag": None}


class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y


@workload("micro", 200_000)
def instances(n):
    """Instances of a class, with an __init__ written in Python."""
    ring = [None] * 512
    for i in range(n):
        ring[i & 511] = Point(i, i)


@workload("micro", 180_000)
def strings(n):
    """Short texts made from numbers and from one another."""
    last = ""
    for i in range(n):
        last = f"{i}:{last[-20:]}"


@workload("micro", 420_000)
def numbers(n):
    """Floats and integers that are not cached."""
    total = 0.5
    for i in range(1_000, 1_000 + n):
        total = total * 0.5 + i * 1_000


@workload("micro", 120_000)
def blocks(n):
    """bytes of 1 to 1000 bytes: all size classes, and past the largest."""
    ring = [None] * 1024
    size = 1
    for i in range(n):
        size = size * 733 % 1009
        ring[i & 1023] = bytes(size)


# ---- broad ---------------------------------------------------------------

def _numbers(n):
    for i in range(n):
        yield [i]


def _flatten(depth, n):
    if depth:
        yield from _flatten(depth - 1, n)
    else:
        yield from _numbers(n)


@workload("broad", 80_000)
def generators(n):
    """Generators, alone and in a chain of yield from."""
    for _ in _numbers(n):
        pass
    for _ in _flatten(12, n):
        pass
    return sum(len(x) for x in (_ for _ in _numbers(n)))


@types.coroutine
def _pause():
    yield


async def _leaf(i):
    if i % 64 == 0:
        await _pause()
    return [i]


async def _chain(depth, i):
    if depth:
        return await _chain(depth - 1, i)
    return await _leaf(i)


def _drive(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value


@workload("broad", 20_000)
def await_chain(n):
    """Chains of ten awaits, some of them suspended at the bottom."""
    for i in range(n):
        _drive(_chain(10, i))


async def _tick(i, sleep):
    await sleep(0)
    return {"i": i}


async def _gather(n, asyncio):
    for start in range(0, n, 100):
        await asyncio.gather(*(_tick(i, asyncio.sleep)
                               for i in range(start, start + 100)))


@workload("broad", 8_000)
def asyncio_tasks(n):
    """Tasks on a loop, a hundred at a time."""
    import asyncio

    asyncio.run(_gather(n, asyncio))


def _thread_work(n, out):
    ring = [None] * 256
    for i in range(n):
        ring[i & 255] = {"i": i, "text": str(i)}
    out.append(n)


@workload("broad", 250_000)
def threads(n):
    """Four threads that allocate at the same time."""
    import threading

    out: list[int] = []
    ts = [threading.Thread(target=_thread_work, args=(n // 4, out))
          for _ in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()


DOCUMENT = {"rows": [{"id": i, "name": f"name {i}", "tags": ["a", "b", str(i)],
                      "size": {"w": i * 1.5, "h": i}} for i in range(40)]}


@workload("broad", 200)
def deepcopy(n):
    """copy.deepcopy of nested dictionaries and lists."""
    import copy

    for _ in range(n):
        copy.deepcopy(DOCUMENT)


@workload("broad", 400)
def json_roundtrip(n):
    """json, the C halves: text and back."""
    import json

    for _ in range(n):
        json.loads(json.dumps(DOCUMENT))


@workload("broad", 600)
def json_indented(n):
    """json, the encoder written in Python."""
    import json

    for _ in range(n):
        json.dumps(DOCUMENT, indent=2)


LOG_LINE = r"(?P<who>[\w.]+)@(?P<where>[\w.]+)\s+(\d+)\s+\"([^\"]*)\""
LOG_TEXT = "".join(f'user{i}@host{i % 7}.example {i} "GET /page/{i}"\n'
                   for i in range(500))


@workload("broad", 85)
def regex(n):
    """re: matches, groups, substitution by a function."""
    import re

    line = re.compile(LOG_LINE)
    for _ in range(n):
        for match in line.finditer(LOG_TEXT):
            match.groupdict()
        re.sub(r"\d+", lambda m: m.group() + "!", LOG_TEXT[:4_000])


SOURCE = '''
class Service(Base):
    """A class to be parsed."""
    limit: int = 10

    def handle(self, request, *args, key=None, **more):
        for i, item in enumerate(request.items):
            if item and not key or i > self.limit:
                yield {"i": i, **more}, [x * 2 for x in args if x]
            else:
                try:
                    value = self.table[item](lambda q: q + 1)
                except (KeyError, ValueError) as exc:
                    raise RuntimeError(f"no {item!r}") from exc
        return (yield value)
''' * 4


@workload("broad", 50)
def ast_parse(n):
    """ast: parse and walk."""
    import ast

    for _ in range(n):
        for node in ast.walk(ast.parse(SOURCE)):
            ast.iter_child_nodes(node)


@workload("broad", 55)
def compile_exec(n):
    """Code objects that are compiled, run once and dropped."""
    for i in range(n):
        source = "".join(f"def f{k}(a, b={k}):\n    return [a, b, {k + i}]\n"
                         f"x{k} = f{k}(1)\n" for k in range(20))
        exec(compile(source, f"made{i % 5}.py", "exec"), {})


def _raises(depth):
    if depth:
        return _raises(depth - 1)
    raise ValueError("depth", [depth])


@workload("broad", 25_000)
def exceptions(n):
    """Exceptions through ten frames, chained."""
    for _ in range(n):
        try:
            try:
                _raises(10)
            except ValueError as exc:
                raise KeyError(1) from exc
        except KeyError:
            pass


def _down(n):
    if n == 0:
        return [0]
    return [n, _down(n - 1)]


@workload("broad", 900)
def deep_recursion(n):
    """Three hundred frames deep, one block in each."""
    for _ in range(n):
        _down(300)


def _low_loop(depth, n):
    if depth:
        return _low_loop(depth - 1, n)
    ring = [None] * 64
    for i in range(n):
        ring[i & 63] = [i]
    return len(ring)


@workload("broad", 800_000)
def deep_loop(n):
    """A busy loop below two hundred frames."""
    _low_loop(200, n)


def _branch(depth):
    if depth == 0:
        return (1,)
    return [_branch(depth - 1), {"at": depth}, _branch(depth - 1)]


@workload("broad", 40)
def branching(n):
    """A tree built by recursion: every leaf has its own context."""
    for _ in range(n):
        _branch(12)


@workload("broad", 280)
def big_buffers(n):
    """Blocks of a kilobyte to megabytes that grow by realloc."""
    import io

    for _ in range(n):
        buffer = bytearray()
        for size in range(0, 60_000, 900):
            buffer += bytes(size)
        text = io.StringIO()
        for i in range(300):
            text.write("line " * 10)
        text.getvalue()


def _logger():
    import io
    import logging

    log = logging.Logger("bench")
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(logging.Formatter(
        "%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    return log


@workload("broad", 3_500)
def log_lines(n):
    """logging: records, formatting, one handler."""
    log = _logger()
    for i in range(n):
        log.info("request %d of %s took %.3f", i, "user", i * 0.001)


@workload("broad", 3_000)
def classes(n):
    """Classes made at run time, with instances."""
    for i in range(n):
        base = type("Base", (), {"a": i, "f": lambda self: [self]})
        made = type("Made", (base,), {"__slots__": ("x", "y")})
        made().f()
        base().f()


class Row:
    def __init__(self, id, name, tags, more):
        self.id, self.name, self.tags, self.more = id, name, tags, more


ROWS = [Row(i, f"name {i}", ["a", str(i)], {"k": i}) for i in range(200)]


@workload("broad", 110)
def pickling(n):
    """pickle: instances of a class, out and in."""
    import pickle

    for _ in range(n):
        pickle.loads(pickle.dumps(ROWS))


@workload("broad", 75)
def sqlite(n):
    """sqlite3 in memory: insert, select, rows as dictionaries."""
    import sqlite3

    db = sqlite3.connect(":memory:")
    db.row_factory = sqlite3.Row
    db.execute("create table t(id integer, name text, price real)")
    for _ in range(n):
        db.executemany("insert into t values (?, ?, ?)",
                       ((i, f"name {i}", i * 0.5) for i in range(200)))
        [dict(row) for row in db.execute("select * from t order by price desc limit 200")]
        db.execute("delete from t")
    db.close()


@workload("broad", 13_000)
def templates(n):
    """Text from templates, split, joined, cleaned."""
    import string

    template = string.Template("<li class='$kind'><b>$name</b>: $text</li>")
    out = []
    for i in range(n):
        item = template.substitute(kind="new" if i % 3 else "old",
                                   name=f"n{i}", text=i)
        out.append("-".join(word.strip("<>").upper() for word in item.split()))
        if len(out) > 100:
            "\n".join(out)
            out.clear()


def _managed(i):
    yield [i]


@workload("broad", 30_000)
def context_managers(n):
    """with: generators as context managers, and closures."""
    import contextlib
    import functools

    managed = contextlib.contextmanager(_managed)
    for i in range(n):
        with managed(i) as got:
            functools.partial(got.append, i)()


XML = "<r>" + "".join(f"<i k='{i}'><a>{i}</a><b x='y'>text</b></i>"
                      for i in range(150)) + "</r>"
TABLE = "".join(f'{i},"name ""{i}""",{i * 0.5}\n' for i in range(300))


@workload("broad", 85)
def xml_and_csv(n):
    """Parsers written in C that call back and build trees."""
    import csv
    import io
    from xml.etree import ElementTree

    for _ in range(n):
        [e.text for e in ElementTree.fromstring(XML).iter("a")]
        list(csv.DictReader(io.StringIO(TABLE), ["id", "name", "price"]))


@workload("broad", 55)
def comprehensions(n):
    """Comprehensions, sorting with keys, grouping."""
    for i in range(n):
        rows = [{"id": k, "key": (k * 7919) % 101} for k in range(1_500)]
        rows.sort(key=lambda r: (r["key"], -r["id"]))
        groups: dict[int, list] = {}
        for row in rows:
            groups.setdefault(row["key"], []).append(row["id"])
        {k: tuple(sorted(v)) for k, v in groups.items()}
