"""copy.deepcopy over nested and shared structures."""
import copy


class Node:
    def __init__(self, name, children=()):
        self.name = name
        self.children = list(children)
        self.parent = None
        for c in self.children:
            c.parent = self


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, n):
        self.a, self.b = [n], {n: bytearray(n)}


def grow(depth):
    if depth == 0:
        return Node("leaf" * 3)
    return Node("d%d" % depth, [grow(depth - 1) for _ in range(3)])


def setup():
    copy.deepcopy([Node("x"), Slotted(1), {1}, (1, [2])])


def main(h):
    shared = [bytearray(100)]
    data = {"a": [shared, shared], "b": ({1, 2}, frozenset((3,)), [shared]),
            "c": [list(range(i)) for i in range(30)]}
    copies = [copy.deepcopy(data) for _ in range(10)]
    h.check("plain data")
    tree = grow(4)
    forest = [copy.deepcopy(tree), copy.copy(tree)]
    h.check("objects with cycles")
    h.traceback("copied", forest[0])
    slotted = copy.deepcopy([Slotted(n) for n in range(50)])
    h.check("slots")
    del copies, tree
    h.note("n", [len(forest), len(slotted)])
