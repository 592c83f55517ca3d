"""A trace function that sets f_lineno: also of callers that are suspended."""
import sys


def loop(kept):
    kept.append(bytearray(100))
    kept.append(bytearray(200))
    kept.append(bytearray(300))
    kept.append(bytearray(400))
    return kept


FIRST = loop.__code__.co_firstlineno


def jumper(moves):
    """Trace function: at line a of loop() go on at line b, once each."""
    def trace(frame, event, arg):
        if frame.f_code is not loop.__code__:
            return None
        move = (frame.f_lineno - FIRST) if event == "line" else None
        if move in moves:
            frame.f_lineno = FIRST + moves.pop(move)
        return trace
    return trace


def resumed(kept):
    for i in range(6):
        kept.append(bytearray(1000 + i))
        yield i
        kept.append(bytearray(2000 + i))


def inner(kept, frame_of):
    kept.append([bytearray(50)])
    return frame_of


def outer(kept):
    a = inner(kept, 1)
    b = inner(kept, 2)
    c = inner(kept, 3)
    return a, b, c


def watch(frame, event, arg):
    return watch if frame.f_code.co_filename == __file__ else None


def traced(function, f, *args):
    sys.settrace(function)
    try:
        return f(*args)
    finally:
        sys.settrace(None)


def main(h):
    kept = []
    for moves in ({}, {2: 4}, {4: 1}, {1: 3, 4: 2}):
        traced(jumper(dict(moves)), loop, kept)
        h.check(f"jumps {sorted(moves)}")
    traced(watch, outer, kept)
    h.check("only watched")
    gen = resumed(kept)
    next(gen)
    line = resumed.__code__.co_firstlineno
    back = [line + 2]

    def move(frame, event, arg):
        if back and event == "line" and frame.f_lineno == line + 4:
            frame.f_lineno = back.pop()
        return move

    def global_trace(frame, event, arg):
        return move if frame.f_code is resumed.__code__ else None

    traced(global_trace, list, gen)
    h.check("generator moved")

    events = []

    def profile(frame, event, arg):
        events.append((event, frame.f_lineno, bytearray(10)))

    sys.setprofile(profile)
    outer(kept)
    sys.setprofile(None)
    h.check("profiled")
    h.note("n", len(kept))
