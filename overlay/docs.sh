#!/bin/sh
# Build the documentation pages of the fork as HTML in build/docs, with whatever Sphinx is at hand.
# Upstream's own Doc/conf.py asks for a recent Sphinx and its theme; these pages need neither, so a small configuration does.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
sphinx=$(command -v "${SPHINXBUILD:-sphinx-build}") || {
    echo "docs: Sphinx is not installed (on Debian: apt-get install python3-sphinx); SPHINXBUILD names another" >&2
    exit 1
}
work=$BUILD_DIR/docs/source
rm -rf "$BUILD_DIR/docs"
mkdir -p "$work"
cp -R "$root/Doc/." "$work"
cat >"$work/conf.py" <<EOF
project = "tracemalloc of the fork"
extensions = []
master_doc = "index"
nitpicky = False


def setup(app):
    for role in ("pep", "source", "gh"):
        pass
    app.add_object_type("audit-event", "audit")
    app.add_directive("availability", Note)
    app.add_directive("impl-detail", Note)


from docutils.parsers.rst.directives.admonitions import Note
EOF
{
    printf '%s\n' "Documentation" "=============" "" ".. toctree::" ""
    (cd "$work" && find . -name '*.rst' ! -name index.rst | sed 's|^\./|   |; s|\.rst$||' | sort)
} >"$work/index.rst"
"$sphinx" -q -b html "$work" "$BUILD_DIR/docs/html" >"$BUILD_DIR/docs/docs.log" 2>&1 || {
    tail -n 30 "$BUILD_DIR/docs/docs.log" >&2
    echo "docs: failed; the whole output is in $BUILD_DIR/docs/docs.log" >&2
    exit 1
}
echo "$BUILD_DIR/docs/html/index.html"
