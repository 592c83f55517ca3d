"""Stack switches: every block carries the traceback of the greenlet that made it."""
import traceback
import tracemalloc

import greenlet

tracemalloc.start(50)


def expected():
    frames = traceback.extract_stack()[:-2]
    return [(f.filename, f.lineno) for f in frames]


def make(kept, rounds):
    for _ in range(rounds):
        here, block = expected(), bytearray(700)
        kept.append((here, block))
        greenlet.getcurrent().parent.switch()


def deeper(depth, kept, rounds):
    if depth:
        return deeper(depth - 1, kept, rounds)
    return make(kept, rounds)


kept = []
ROUNDS = 50
LINE = make.__code__.co_firstlineno + 2
tasks = [greenlet.greenlet(deeper) for _ in range(8)]
for depth, task in enumerate(tasks):
    task.switch(depth * 3, kept, ROUNDS)
for _ in range(ROUNDS):
    for task in tasks:
        if not task.dead:
            task.switch()
        mine = object()
        seen = tracemalloc.get_object_traceback(mine)
        assert (seen[-1].filename, len(seen)) == (__file__, 1), seen

assert len(kept) == 8 * ROUNDS
for number, (_, block) in enumerate(kept):
    seen = [(f.filename, f.lineno) for f in tracemalloc.get_object_traceback(block)]
    names = [line for _, line in seen]
    # make() at its allocating line, called by deeper() as often as it recursed
    depth = len(seen)
    assert seen[-1] == (__file__, LINE), seen
    assert all(name == __file__ for name, _ in seen), seen
    assert (depth - 2) % 3 == 0 and depth <= 2 + 21, (number, depth, names)
tracemalloc.stop()
