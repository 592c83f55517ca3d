"""Settings of Sphinx for `make docs`: the pages of this repository alone, with upstream's own directives and roles.

The pages refer to much that stands in upstream's other pages.  Such references become links to the documentation of the release, after
a look at upstream's sources (UPSTREAM_DOC in the environment) for the thing that they name: a name that stands nowhere is an error here as it
would be in a build of the whole documentation.
"""
import os
import re
import sys
from pathlib import Path

from docutils import nodes

UPSTREAM = Path(os.environ["UPSTREAM_DOC"])
ADDRESS = "https://docs.python.org/3.13/"

sys.path.insert(0, str(UPSTREAM / "tools/extensions"))

project = "Python 3.13.5 with its own tracemalloc"
author = copyright = ""
extensions = ["audit_events", "availability", "c_annotations", "changes", "implementation_detail", "issue_role", "pyspecific",
              "sphinx.ext.extlinks"]
version = release = "3.13"
root_doc = "index"
nitpicky = True
html_theme = "alabaster"
html_show_copyright = False
html_copy_source = False
smartquotes = False
highlight_language = "python3"
extlinks = {
    "source": ("https://github.com/python/cpython/tree/3.13/%s", "%s"),
    "pypi": ("https://pypi.org/project/%s/", "%s"),
}
refcount_file = str(UPSTREAM / "data/refcounts.dat")
stable_abi_file = str(UPSTREAM / "data/stable_abi.dat")

# Where the files of this repository take the place of others, there is nothing to link to.
_OURS = re.compile(r"^(Lib/tracemalloc/|Modules/_tracemalloc)")
_OBJECT = re.compile(r"^( *(?:[*-] )*)\.\. (?:(py|c|std):)?([a-z]+):: +(.+(?:\n\1 {4,}\S.*)*)", re.M)
_TERM = re.compile(r"^   (\S.*)$", re.M)
# Names of C's own library, which upstream's settings list.
_C_NAMES = set(re.findall(r"\('c:\w+', '([^']+)'\)", (UPSTREAM / "conf.py").read_text(encoding="utf-8")))
_LABEL = re.compile(r"^ *\.\. _([\w-]+):", re.M)
_KINDS = {
    "py": {"function", "class", "method", "classmethod", "staticmethod", "attribute", "data", "module", "exception", "decorator",
           "abstractmethod", "awaitablefunction", "coroutinefunction", "currentmodule"},
    "c": {"function", "macro", "type", "var", "member", "struct", "enum", "enumerator"},
    "std": {"envvar", "option"},
}


def _names(kind, signatures):
    """The names that the lines of one directive define."""
    for line in signatures.splitlines():
        if kind == "option":
            yield from re.findall(r"(?:^|, *)(-{1,2}[\w-]+|\w+)", line.strip())
        else:
            words = line.strip().split("(")[0].split("=")[0].strip().split()
            if words:
                yield words[-1].lstrip("*").partition("[")[0]


def _index(pages):
    """Where upstream's pages define what: {(domain, name): (page, anchor)}.

    Pages in the folder *pages* take the place of upstream's.  Options are mostly those of the interpreter.
    """
    found, short = {}, {}
    for path in sorted(UPSTREAM.glob("*/**/*.rst"), key=lambda path: (path.name != "cmdline.rst", path)):
        name = path.relative_to(UPSTREAM)
        if (pages / name).exists():
            continue
        page = name.with_suffix(".html").as_posix()
        text = path.read_text(encoding="utf-8")
        for label in _LABEL.findall(text):
            found.setdefault(("label", label.lower()), (page, label.lower().replace("_", "-")))
        module, owner = "", ("", -1)
        for space, domain, kind, signatures in _OBJECT.findall(text):
            place = domain or ("std" if kind in _KINDS["std"] else "c" if page.startswith("c-api") else "py")
            if kind not in _KINDS.get(place, ()):
                continue
            for name in _names(kind, signatures):
                if kind in ("module", "currentmodule"):
                    module = name
                full = name
                inside = len(space) > owner[1] >= 0 and "." not in name
                if kind not in ("module", "currentmodule") and place != "std":
                    if inside:
                        full = f"{owner[0]}.{name}"
                    elif place == "py" and module and not name.startswith(module + "."):
                        full = f"{module}.{name}"
                    if kind in ("class", "exception", "type", "struct") and not inside:
                        owner = (full, len(space))
                anchor = {"module": f"module-{name}", "envvar": f"envvar-{name}", "option": f"cmdoption-{name.lstrip('-')}"}.get(
                    kind, f"c.{full}" if place == "c" else full)
                found.setdefault((place, full), (page, anchor))
                for key in (name, full.partition(".")[2]):
                    short.setdefault((place, key), (page, anchor))
    glossary = (UPSTREAM / "glossary.rst").read_text(encoding="utf-8").partition(".. glossary::")[2]
    for term in _TERM.findall(glossary):
        found["term", term.lower()] = "glossary.html", "term-" + term.replace(" ", "-")
    return short | found


def _resolve(app, env, node, contnode):
    """A link into upstream's documentation; None when the thing is not there, either."""
    if not hasattr(env, "upstream_index"):
        env.upstream_index = _index(Path(app.srcdir))
    domain, target = node.get("refdomain") or "std", node["reftarget"]
    if domain == "c" and target in _C_NAMES:
        return contnode
    if node.get("reftype") == "ref":
        domain, target = "label", target.lower()
    if node.get("reftype") == "term":
        domain, target = "term", target.lower()
    place = env.upstream_index.get((domain, target)) or env.upstream_index.get((domain, target.split(" ")[0]))
    if place is None:
        return None
    page, anchor = place
    link = nodes.reference("", "", internal=False, refuri=f"{ADDRESS}{page}#{anchor}")
    link += contnode
    return link


def _unlink(app, doctree):
    """Names of our own source files are no links."""
    for link in list(doctree.findall(nodes.reference)):
        if _OURS.match(link.astext()) and "refuri" in link:
            link.replace_self(nodes.literal("", link.astext()))


def setup(app):
    app.connect("missing-reference", _resolve)
    app.connect("doctree-read", _unlink)
    return {"parallel_read_safe": True}
