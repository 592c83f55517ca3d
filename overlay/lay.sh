#!/bin/sh
# Lay the source tree that is built: pristine upstream + overlay files + patches, in build/src.
# Incremental: a file whose contents stay the same is not touched. All the work is done by tree.py; this finds a Python for it.
#
# usage: lay.sh [--build DIR] [--upstream TARBALL|DIRECTORY] [--verify] [--quiet]
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
PYTHON_FOR_REGEN=$(sh "$here/find-python.sh") || exit 1
export PYTHON_FOR_REGEN
exec "$PYTHON_FOR_REGEN" "$here/tree.py" lay "$@"
