"""Types of C modules: datetime, decimal, csv, collections, operator, ElementTree."""
import csv
import datetime
import decimal
import fractions
import io
import operator
import random
import xml.etree.ElementTree as tree


def dates(n):
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    return [day + datetime.timedelta(hours=i) for i in range(n)]


def decimals(n):
    with decimal.localcontext() as context:
        context.prec = 200
        return [decimal.Decimal(i + 1) ** decimal.Decimal("0.5") for i in range(n)]


def rows(n):
    text = "".join(f'{i},"a ""quoted"" one",{i * 2}\n' for i in range(n))
    out = io.StringIO()
    csv.writer(out).writerows(csv.reader(io.StringIO(text)))
    return list(csv.DictReader(io.StringIO(out.getvalue()), ["a", "b", "c"]))


def elements(n):
    text = "<r>" + "".join(f"<i k='{i}'>t{i}</i>" for i in range(n)) + "</r>"
    root = tree.fromstring(text)
    return root, tree.tostring(root), [e.attrib for e in root.iter("i")]


def ratios(n):
    return [fractions.Fraction(i, 7) + fractions.Fraction(1, i + 1) for i in range(n)]


def rest(n):
    rng = random.Random(5)
    get = operator.itemgetter(0, 1)
    return [get([rng.random(), rng.randrange(10 ** 9)]) for _ in range(n)], rng


def setup():
    for maker in (dates, decimals, rows, elements, ratios, rest):
        maker(2)


def main(h):
    for maker in (dates, decimals, rows, elements, ratios, rest):
        h.reset_peak()
        kept = maker(80)
        h.numbers(maker.__name__)
        h.check(maker.__name__)
        h.traceback(maker.__name__, kept[0])
        del kept
        h.check(f"{maker.__name__} dropped")
