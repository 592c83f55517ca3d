"""sys.monitoring: instrumented code, events at every line and instruction."""
import sys

TOOL = 3
MON = sys.monitoring


def work(n, kept):
    for i in range(n):
        kept.append(bytearray(i))
        if i % 2:
            kept.append([i])
    return {i: (i,) for i in range(n)}


def recurse(n, kept):
    kept.append([n])
    return recurse(n - 1, kept) if n else bytearray(77)


def main(h):
    kept = []
    work(20, kept)
    h.check("plain")
    MON.use_tool_id(TOOL, "differential")
    E = MON.events
    for name in ("LINE", "INSTRUCTION", "CALL", "PY_START", "JUMP"):
        event = getattr(E, name)
        log = []
        MON.register_callback(TOOL, event, lambda *a: log.append(a[1:2]))
        MON.set_local_events(TOOL, work.__code__, event)
        kept.append(work(10, kept))
        h.numbers(f"{name} local")
        MON.set_local_events(TOOL, work.__code__, 0)
        MON.register_callback(TOOL, event, None)
        h.check(name)
    MON.register_callback(TOOL, E.PY_RETURN, lambda *a: bytearray(9))
    MON.set_events(TOOL, E.PY_RETURN | E.PY_START)
    kept.append(recurse(70, kept))
    MON.set_events(TOOL, 0)
    h.check("everywhere")
    MON.free_tool_id(TOOL)
    work(20, kept)
    h.traceback("afterwards", kept[-1])
