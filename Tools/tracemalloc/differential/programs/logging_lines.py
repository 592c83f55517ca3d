"""logging: records, formatters, handlers, an exception in a record."""
import io
import logging
import logging.handlers


def build():
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    memory = logging.handlers.MemoryHandler(
        1000, flushLevel=logging.CRITICAL + 1, target=handler)
    log = logging.Logger("work")
    log.addHandler(memory)
    return log, memory, out


def fails(log, n):
    try:
        return {}[n]
    except KeyError:
        log.exception("no %d", n)


def setup():
    log, memory, out = build()
    fails(log, 1)
    memory.flush()


def main(h):
    logging.logThreads = logging.logProcesses = False
    log, memory, out = build()
    for i in range(100):
        log.warning("line %d of %s", i, "x" * i)
    h.check("records kept")
    for i in range(10):
        fails(log, i)
    h.check("exceptions")
    h.traceback("record", memory.buffer[0])
    memory.flush()
    h.check("flushed")
    h.note("n", len(out.getvalue()) > 1000)
    memory.close()
