"""The program that is profiled: deterministic, with calls of every kind, and one function that takes most of the time."""


def leaf(n: int) -> int:
    return n * 2


def branchy(n: int) -> str:
    if n % 3 == 0:
        return "fizz"
    elif n % 5 == 0:
        return "buzz"
    return str(n)


def recursive(n: int) -> int:
    return 1 if n < 2 else recursive(n - 1) + recursive(n - 2)


def generator(n: int):
    for i in range(n):
        yield leaf(i)


def failing(n: int) -> None:
    try:
        if n % 2:
            raise KeyError(n)
        int("x")
    except (KeyError, ValueError):
        pass
    finally:
        leaf(n)


class Shape:
    def __init__(self, side: int) -> None:
        self.side = side

    @property
    def area(self) -> int:
        return self.side ** 2

    def __lt__(self, other: "Shape") -> bool:
        return self.area < other.area


async def step(n: int) -> int:
    return leaf(n)


async def steps(n: int) -> int:
    return sum([await step(i) for i in range(n)])


def drive(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def hot(rounds: int) -> int:
    total = 0
    for i in range(rounds):
        total += len([x * x for x in range(200)]) + i % 7
    return total


def main(rounds: int = 40) -> int:
    total = 0
    for i in range(rounds):
        total += leaf(i) + len(branchy(i)) + recursive(8) + sum(generator(10))
        failing(i)
        sorted(Shape(side) for side in (3, 1, 2))
        total += drive(steps(5))
        total += hot(150)
    return total
