"""Instance attributes: inline values, dictionaries made late, shared keys."""

ATTRIBUTES = ["attribute%d" % i for i in range(200)]


class Open:
    def __init__(self, n):
        self.a = [n]
        self.b = n


class Many:
    def __init__(self, n):
        for i in range(n):
            setattr(self, ATTRIBUTES[i], i)


class Dynamic:
    def __getattr__(self, name):
        return [name]


class Computed:
    @property
    def value(self):
        return bytearray(30)

    def __getitem__(self, key):
        return [key]

    def __call__(self, *args, **kwargs):
        return args, kwargs


class Sub(dict):
    pass


class Listed(list):
    __slots__ = ("x", "__dict__")


def main(h):
    opens = [Open(i) for i in range(100)]
    h.check("inline values")
    spaces = [o.__dict__ for o in opens[:50]]
    h.check("dictionaries")
    for o in opens[50:70]:
        del o.a
        o.later = o.b
    h.check("deleted and added")
    opens[0].__dict__ = {"replaced": 1}
    many = [Many(i) for i in (1, 5, 29, 30, 31, 40, 200)]
    h.check("many attributes")
    for i, o in enumerate(opens[:5] + many):
        h.traceback(f"instance {i}", o)
    dynamic = [getattr(Dynamic(), ATTRIBUTES[i]) for i in range(20)]
    computed = Computed()
    values = [computed.value for _ in range(10)] + [computed[i] for i in range(10)]
    values += [computed(i, k=i) for i in range(20)]
    subs = [Sub(a=i) for i in range(20)] + [Listed([i]) for i in range(20)]
    for s in subs:
        s.extra = [0]
    h.check("others")
    for i in (0, 25):
        h.traceback(f"subclass {i}", subs[i])
    spaces.clear()
    opens.clear()
    h.check("dropped")
    h.note("n", [len(dynamic), len(values)])
