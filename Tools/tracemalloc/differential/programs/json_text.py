"""json: encode and decode, with the C and the Python halves."""
import json
import json.decoder
import json.encoder
import json.scanner

DATA = {"rows": [{"id": i, "name": "n%d" % i, "tags": ["a", "b", str(i)],
                  "price": i * 1.25, "on": bool(i % 2), "none": None}
                 for i in range(120)]}


def pairs(items):
    return tuple(items)


def setup():
    json.loads(json.dumps(DATA, indent=1))


def main(h):
    text = json.dumps(DATA)
    h.numbers("dumped")
    pretty = json.dumps(DATA, indent=2, sort_keys=True)
    back = json.loads(text)
    h.check("loaded")
    h.traceback("row", back["rows"][5])
    hooked = json.loads(pretty, object_pairs_hook=pairs, parse_float=str)
    h.check("with hooks")
    decoder = json.JSONDecoder()
    decoder.parse_string = json.decoder.py_scanstring
    decoder.scan_once = json.scanner.py_make_scanner(decoder)
    slow = decoder.decode(text)
    h.check("the Python scanner")
    try:
        json.loads(text[:-10])
    except json.JSONDecodeError as exc:
        error = exc
    h.check("error")
    h.note("n", [len(pretty), len(hooked), len(slow), str(error)])
