#!/bin/sh
# Print the version of the fork: that of the upstream release, and where this repository stands above it.
root=$(dirname -- "$(dirname -- "$0")")
release=$(sed -n 's/^version *= *//p' "$root/overlay/upstream.ini")
count=$(git -C "$root" rev-list --count HEAD 2>/dev/null) && commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null) || count=
if [ -n "$count" ]; then
    echo "$release+tm$count.g$commit"
else
    echo "$release+tm"
fi
