#!/bin/sh
# Build the documentation pages of the fork as HTML in build/docs/html; a warning of Sphinx is an error.
#
# usage: docs.sh PYTHON [all]
#
# "all" reads the whole documentation, upstream's pages with ours in their places, which takes minutes, and writes nothing; here a warning
# is an error when it is about one of our pages or of those that a patch changes.
#
# Sphinx is installed from PyPI into build/docs/venv, which PYTHON (the built interpreter) makes once; that takes a network.
# SPHINXBUILD names another Sphinx (8.2 or later) and saves it.  Settings: Tools/tracemalloc/docs.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
settings=$root/Tools/tracemalloc/docs
docs=$BUILD_DIR/docs
log=$docs/docs.log
source=$docs/source
UPSTREAM_DOC=$BUILD_DIR/src/Doc
export UPSTREAM_DOC
mkdir -p "$docs"

fail() {
    tail -n 30 "$log" >&2
    echo "docs: $1; the whole output is in $log" >&2
    exit 1
}

if [ -n "${SPHINXBUILD:-}" ]; then
    sphinx=$(command -v "$SPHINXBUILD") || {
        echo "docs: SPHINXBUILD=$SPHINXBUILD: no such command" >&2
        exit 1
    }
else
    sphinx=$docs/venv/bin/sphinx-build
    if ! cmp -s "$settings/requirements.txt" "$docs/venv/requirements.txt"; then
        echo "docs: installing Sphinx"
        rm -rf "$docs/venv"
        "$1" -m venv "$docs/venv" >"$log" 2>&1 || fail "cannot make a virtual environment"
        "$docs/venv/bin/python" -m pip --disable-pip-version-check install -r "$settings/requirements.txt" -c "$UPSTREAM_DOC/constraints.txt" \
            >>"$log" 2>&1 || fail "cannot install Sphinx (no network?); SPHINXBUILD can name another one"
        cp "$settings/requirements.txt" "$docs/venv"
    fi
fi

if [ "${2:-}" = all ]; then
    pages=$({
        cd "$root/Doc" && find . -name '*.rst' | sed 's|^\./||; s|\.rst$||'
        sed -n 's|^+++ b/Doc/\(.*\)\.rst$|\1|p' "$root"/patches/*.patch
    } | sort -u | paste -sd '|' -)
    PYTHONDONTWRITEBYTECODE=1 "$sphinx" -q -b dummy -D html_theme=alabaster -d "$docs/doctrees-all" "$UPSTREAM_DOC" "$docs/all" >"$log" 2>&1 ||
        fail "Sphinx cannot read the whole documentation"
    if grep -E "($pages)(\.rst)?:" "$log"; then
        echo "docs: these are about our pages; the whole output is in $log" >&2
        exit 1
    fi
    echo "docs: no warnings about $(echo "$pages" | tr '|' ' ')"
    exit 0
fi

rm -rf "$source" "$docs/html"
mkdir -p "$source"
cp -R "$root/Doc/." "$source"
{
    printf '%s\n' "Python 3.13.5 with its own tracemalloc" "======================================" "" ".. toctree::" "   :maxdepth: 2" ""
    (cd "$source" && find . -name '*.rst' ! -name index.rst | sed 's|^\./|   |; s|\.rst$||' | sort -r)
} >"$source/index.rst"
"$sphinx" -q -E -W --keep-going -b html -c "$settings" -d "$docs/doctrees" "$source" "$docs/html" >"$log" 2>&1 || fail "there are errors in the pages"
echo "$docs/html/index.html"
