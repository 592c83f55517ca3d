"""A small web shop that leaks: the service of the demo.

HTTP server, JSON and SQLite are the standard library's.  The leak is of the
commonest kind: a cache that nobody bounds, with a key that rarely comes back.

    GET  /items?page=N              a page of the catalogue
    GET  /items/ID?session=TOKEN    one item with its reviews, through the cache
    POST /orders {"item": ID, ...}  a new order
    POST /debug/snapshot            remember what memory is in use now
    GET  /debug/growth              what has grown since, as JSON

The debug pages are what the shop's makers look at when memory grows.  They
need tracing: start the service with -X tracemalloc=25.
"""
import argparse
import gc
import json
import signal
import sqlite3
import sys
import threading
import tracemalloc
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ITEMS = 400
REVIEWS = 6
PAGE = 20
SCHEMA = """
    create table item(id integer primary key, name text, price integer);
    create table review(item integer, stars integer, words text);
    create index review_item on review(item);
    create table buy(id integer primary key, item integer, number integer);
"""
# Not the shop's own doing, and not interesting to its makers.
NOISE = [tracemalloc.Filter(False, tracemalloc.__file__),
         tracemalloc.Filter(False, "<frozen importlib.*>"),
         tracemalloc.Filter(False, "<unknown>")]


class Database:
    """The shop's tables in one file; a connection for each thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.local = threading.local()
        with self.connection() as db:
            db.executescript("pragma journal_mode = wal;" + SCHEMA)
            db.executemany("insert into item values (?, ?, ?)", (
                (i, f"Item number {i}", 100 + i * 7 % 900)
                for i in range(ITEMS)))
            db.executemany("insert into review values (?, ?, ?)", (
                (i, 1 + (i + n) % 5, f"Review {n} of {i}: " + "good, " * 12)
                for i in range(ITEMS) for n in range(REVIEWS)))

    def connection(self) -> sqlite3.Connection:
        if not hasattr(self.local, "db"):
            self.local.db = sqlite3.connect(self.path, timeout=20)
            self.local.db.execute("pragma synchronous = off")
        return self.local.db

    def page(self, number: int) -> list[dict[str, Any]]:
        rows = self.connection().execute(
            "select id, name, price from item order by id limit ? offset ?",
            (PAGE, PAGE * number))
        return [dict(zip(("id", "name", "price"), row)) for row in rows]

    def item(self, number: int) -> dict[str, Any] | None:
        db = self.connection()
        row = db.execute("select id, name, price from item where id = ?",
                         (number,)).fetchone()
        if row is None:
            return None
        reviews = db.execute("select stars, words from review where item = ?",
                             (number,)).fetchall()
        return {"id": row[0], "name": row[1], "price": row[2],
                "reviews": [{"stars": s, "words": w} for s, w in reviews]}

    def order(self, item: int, number: int) -> int:
        with self.connection() as db:
            done = db.execute("insert into buy(item, number) values (?, ?)",
                              (item, number))
            return done.lastrowid or 0


class PageCache:
    """Ready-made pages of items.

    The mistake: the whole query is the key, the visitor's token in it, so
    that almost every page is a new one, and no page is ever dropped.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.pages: dict[str, bytes] = {}

    def get(self, number: int, query: str) -> bytes | None:
        key = f"{number}?{query}"
        page = self.pages.get(key)
        if page is None:
            item = self.database.item(number)
            if item is None:
                return None
            text = json.dumps(item, indent=1)
            page = self.pages[key] = text.encode()      # the leak
        return page


class Growth:
    """What is in use now, and what has been added since remember()."""

    def __init__(self) -> None:
        self.before: tracemalloc.Snapshot | None = None

    @staticmethod
    def now() -> tracemalloc.Snapshot:
        gc.collect()
        return tracemalloc.take_snapshot().filter_traces(NOISE)

    def remember(self) -> None:
        self.before = self.now()

    def report(self, most: int) -> dict[str, Any]:
        """Top lines, top differences, and the way to the first of these."""
        after = self.now()
        if self.before is None:
            raise RuntimeError("no snapshot to compare with")
        grown = after.compare_to(self.before, "lineno")[:most]
        first = grown[0].traceback[0]
        there = after.filter_traces([
            tracemalloc.Filter(True, first.filename, first.lineno)])
        way = there.statistics("traceback")[0]
        return {"top": [str(s) for s in after.statistics("lineno")[:most]],
                "growth": [str(s) for s in grown],
                "first": [first.filename, first.lineno],
                "traceback": way.traceback.format(),
                "limit": after.traceback_limit,
                "traced": tracemalloc.get_traced_memory(),
                "tracer": int(tracemalloc.get_tracemalloc_memory())}


class Shop(ThreadingHTTPServer):
    """The server and what its requests share."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], database: Database) -> None:
        super().__init__(address, Handler)
        self.database = database
        self.cache = PageCache(database)
        self.growth = Growth()


class Handler(BaseHTTPRequestHandler):
    """One connection; a thread of its own serves it."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Shop

    def log_message(self, format: str, *args: object) -> None:
        pass                            # a demo needs no access log

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_json(self, value: object, status: int = 200) -> None:
        self.answer(status, json.dumps(value).encode())

    def not_found(self) -> None:
        self.answer_json({"error": "there is no such page"}, 404)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        match url.path.strip("/").split("/"):
            case ["items"]:
                number = int(parse_qs(url.query).get("page", ["0"])[0])
                self.answer_json(self.server.database.page(number))
            case ["items", number] if number.isdecimal():
                page = self.server.cache.get(int(number), url.query)
                if page is None:
                    self.not_found()
                else:
                    self.answer(200, page)
            case ["debug", "growth"]:
                self.answer_json(self.server.growth.report(5))
            case _:
                self.not_found()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        match self.path:
            case "/orders":
                order = json.loads(body)
                number = self.server.database.order(order["item"],
                                                    order["number"])
                self.answer_json({"order": number}, 201)
            case "/debug/snapshot":
                self.server.growth.remember()
                self.answer_json({"remembered": True})
            case _:
                self.not_found()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0,
                        help="a port of this machine; 0: any free one")
    parser.add_argument("--database", type=Path, required=True,
                        help="the file to make")
    args = parser.parse_args()
    if not tracemalloc.is_tracing():
        parser.error("start the service with -X tracemalloc=25")
    # SIGTERM ends it as Ctrl-C does, also where SIGINT is ignored.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shop = Shop(("127.0.0.1", args.port), Database(args.database))
    print(f"listening on {shop.server_address[1]}", flush=True)
    try:
        shop.serve_forever(poll_interval=0.1)
    except KeyboardInterrupt:
        pass
    finally:
        shop.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
