#!/bin/sh
# Make a Debian package of the installed tree: deb.sh PACKAGE VERSION PREFIX, for a release build; the package goes to build/dist.
set -eu
package=$1
version=$2
prefix=$3
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
command -v dpkg-deb >/dev/null || {
    echo "deb: dpkg-deb is not installed" >&2
    exit 1
}
work=$(mktemp -d "$BUILD_DIR/.deb-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
sh "$here/variant.sh" install release DESTDIR="$work/root"
arch=$(dpkg --print-architecture)
mkdir -p "$work/root/DEBIAN" "$work/debian" "$BUILD_DIR/dist"
# The libraries that the binaries ask for, by the packages that own them here.
depends="libc6"
if command -v dpkg-shlibdeps >/dev/null; then
    printf 'Source: %s\nPackage: %s\nArchitecture: any\n' "$package" "$package" >"$work/debian/control"
    found=$(
        cd "$work" || exit 1
        find "root$prefix" -type f \( -name '*.so' -o -path '*/bin/python3*' \) >files
        set --
        while read -r file; do
            [ "$(head -c 4 "$file" | tail -c 3)" != ELF ] || set -- "$@" "$file"
        done <files
        dpkg-shlibdeps -O --ignore-missing-info "$@" 2>/dev/null | sed -n 's/^shlibs:Depends=//p'
    ) || found=
    depends=${found:-$depends}
fi
cat >"$work/root/DEBIAN/control" <<EOF
Package: $package
Version: $version
Architecture: $arch
Maintainer: the cpython-tracemalloc project <noreply@localhost>
Section: python
Priority: optional
Installed-Size: $(du -sk "$work/root" | cut -f1)
Depends: $depends
Description: CPython with a rebuilt tracemalloc
 The interpreter of the cpython-tracemalloc fork with its standard library, installed below $prefix.
EOF
file=$BUILD_DIR/dist/${package}_${version}_$arch.deb
dpkg-deb --root-owner-group --build "$work/root" "$work/package.deb" >"$BUILD_DIR/dist/deb.log"
mv "$work/package.deb" "$file"
echo "$file"
