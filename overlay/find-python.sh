#!/bin/sh
# Print the path of a Python 3.11 or later that really runs: a launcher on the PATH may exist and still run nothing.
# $PYTHON_FOR_REGEN is tried first, then the system's own, then what the PATH has.
for candidate in "${PYTHON_FOR_REGEN:-}" /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
    [ -n "$candidate" ] || continue
    path=$(command -v "$candidate" 2>/dev/null) || continue
    answer=$("$path" -c 'import sys, lzma; print("runs" if sys.version_info >= (3, 11) else "old")' 2>/dev/null) || continue
    if [ "$answer" = runs ]; then
        echo "$path"
        exit 0
    fi
done
echo "no working Python 3.11 or later found: install python3 or set PYTHON_FOR_REGEN to one" >&2
exit 1
