"""weakref: references, callbacks that allocate, proxies, weak containers."""
import weakref


class Thing:
    def __init__(self, n):
        self.n = [n] * n


class Slim:
    __slots__ = ("__weakref__",)


LOG = []


def gone(ref):
    LOG.append(bytearray(66))


def main(h):
    things = [Thing(i) for i in range(50)]
    slim = [Slim() for _ in range(50)]
    refs = [weakref.ref(t, gone) for t in things] + [weakref.ref(s) for s in slim]
    h.check("references")
    h.traceback("slim", slim[3])
    h.traceback("reference", refs[0])
    proxies = [weakref.proxy(t) for t in things[:10]]
    lengths = [len(p.n) for p in proxies]
    values = weakref.WeakValueDictionary(enumerate(things))
    keys = weakref.WeakKeyDictionary((t, [i]) for i, t in enumerate(things))
    group = weakref.WeakSet(slim)
    h.check("containers")
    del things[::2], slim[::2]
    h.check("half gone")
    h.traceback("made by a callback", LOG[0])
    ends = [weakref.finalize(t, LOG.append, bytearray(12)) for t in things]
    bound = [weakref.WeakMethod(t.__init__) for t in things]
    h.check("finalizers")
    things.clear()
    slim.clear()
    h.check("all gone")
    for e in ends:
        e.detach()
    h.note("n", [len(lengths), len(values), len(keys), len(group), len(bound)])
    LOG.clear()
