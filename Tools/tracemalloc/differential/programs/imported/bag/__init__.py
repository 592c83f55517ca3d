"""A package that allocates while it is imported."""
TABLE = {n: [n] * 10 for n in range(50)}


class Item:
    """Something with a body."""
    fields = tuple(range(20))


items = [Item() for _ in range(20)]
