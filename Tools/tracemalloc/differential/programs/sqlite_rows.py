"""sqlite3 in memory: rows, Python functions called from SQL, adapters."""
import sqlite3


def setup():
    db = sqlite3.connect(":memory:")
    db.execute("select 1").fetchall()
    db.close()


def lengthen(text):
    return text + "!" * 10


class Collect:
    def __init__(self):
        self.items = []

    def step(self, value):
        self.items.append(value)

    def finalize(self):
        return ",".join(map(str, self.items))


def main(h):
    db = sqlite3.connect(":memory:")
    db.execute("create table t(id integer primary key, name text, blob)")
    with db:
        db.executemany("insert into t values (?, ?, ?)",
                       ((i, "name%d" % i, bytes(i)) for i in range(300)))
    h.check("filled")
    rows = db.execute("select * from t").fetchall()
    h.check("rows")
    h.traceback("row", rows[10])
    db.row_factory = sqlite3.Row
    named = db.execute("select id, name from t where id < 40").fetchall()
    dicts = [dict(r) for r in named]
    h.check("named rows")
    db.create_function("lengthen", 1, lengthen)
    db.create_aggregate("collect", 1, Collect)
    long = [r[0] for r in db.execute("select lengthen(name) from t")]
    (all_ids,), = map(tuple, db.execute("select collect(id) from t"))
    h.check("functions")
    cursor = db.execute("select * from t")
    half = [cursor.fetchone() for _ in range(20)]
    try:
        db.execute("select nothing from nowhere")
    except sqlite3.OperationalError as exc:
        error = str(exc)
    h.check("half read")
    cursor.close()
    db.close()
    del rows, named
    h.note("n", [len(dicts), len(long), len(all_ids), len(half), error])
