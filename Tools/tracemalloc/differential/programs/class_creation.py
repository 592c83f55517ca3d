"""Classes made at run time: plain, with slots, meta classes, data."""
import abc
import collections
import dataclasses


def plain(n):
    class Plain:
        attribute = [n]

        def method(self):
            return n
    return Plain


def slots(n):
    return type("Slots%d" % n, (), {"__slots__": ("a%d" % n, "b")})


class Meta(type):
    def __new__(cls, name, bases, space):
        space["extra"] = bytearray(77)
        return super().__new__(cls, name, bases, space)


def with_meta(n):
    class WithMeta(metaclass=Meta):
        pass
    return WithMeta


def abstract(n):
    class Abstract(abc.ABC):
        @abc.abstractmethod
        def method(self):
            ...

    class Concrete(Abstract):
        def method(self):
            return 1
    return Concrete


def data(n):
    return dataclasses.make_dataclass("Data", [("a", int), ("b", int, n)])


def names(n):
    return collections.namedtuple("Names", "a b c")


class Named:
    def __init_subclass__(cls, **more):
        cls.more = [more]


class Field:
    def __set_name__(self, owner, name):
        self.name = [name]


def fields(n):
    class Fields(Named, n=n):
        a, b = Field(), Field()
    return Fields


def inherits(n):
    base = plain(n)
    for i in range(5):
        base = type("Level%d" % i, (base,), {"level": i})
    return base


MAKERS = plain, slots, with_meta, abstract, data, names, fields, inherits


def setup():
    for maker in MAKERS:
        maker(1)


def main(h):
    for maker in MAKERS:
        kept = [maker(n) for n in range(6)]
        h.check(f"{maker.__name__} kept")
        h.traceback(maker.__name__, kept[2])
        if maker in (plain, slots, with_meta, abstract, fields,
                     inherits):
            made = [cls() for cls in kept for _ in range(4)]
            h.traceback(f"instance of {maker.__name__}", made[0])
            for obj in made:
                if maker is not slots:
                    obj.x, obj.y = obj, maker
            h.check(f"{maker.__name__} instances")
            del made, obj
        del kept
        h.check(f"{maker.__name__} dropped")
