"""re: compiling patterns, matching, substitution with a function."""
import re

TEXT = "name=value; other = 17 ; flag; mail@example.org <tag a='1'>" * 30
PATTERNS = [r"\w+", r"(\w+)\s*=\s*(\w+)", r"(?P<who>[\w.]+)@(?P<where>[\w.]+)",
            r"(?:a|b|c)*d?", r"[^;]{3,10};", r"(?<=f)la(?=g)", r"<(\w+)[^>]*>",
            r"(x+x+)+y", r"[\u0100-\u0200a-z]+", r"(?i:NAME)"]


def swap(match):
    return match.group(0).upper() + str(match.start())


def setup():
    re.compile("warm(up)+").sub("x", "warmup")


def main(h):
    compiled = [re.compile(p) for p in PATTERNS]
    h.check("compiled")
    found = [p.findall(TEXT) for p in compiled]
    h.check("found")
    matches = [m for p in compiled[:3] for m in p.finditer(TEXT)]
    groups = [m.groups() for m in matches] + [m.groupdict() for m in matches]
    h.check("matches")
    h.traceback("match", matches[0])
    texts = [p.sub(swap, TEXT[:300]) for p in compiled]
    parts = [p.split(TEXT) for p in compiled[:5]]
    h.check("replaced")
    re.purge()
    del compiled
    h.check("purged")
    h.note("n", [len(found), len(groups), len(texts), len(parts)])
