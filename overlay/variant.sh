#!/bin/sh
# Configure and build one variant of the laid tree, out of tree in build/VARIANT.  Owns what distinguishes the variants.
#
# usage: variant.sh configure|build VARIANT, or variant.sh install VARIANT [NAME=VALUE...]
#
# build lays the tree and configures as far as that is needed.  Two runs on one variant wait for each other.
# Environment: BUILD_DIR (default: build/ of the repository), JOBS (default: number of processors), PYTHON_FOR_REGEN.

# the functions set their own arguments
# shellcheck disable=SC2119,SC2120
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
root=$(dirname -- "$here")
BUILD_DIR=${BUILD_DIR:-$root/build}
mkdir -p "$BUILD_DIR" || exit 1
BUILD_DIR=$(CDPATH='' cd -- "$BUILD_DIR" && pwd) || exit 1
export BUILD_DIR
action=$1
variant=$2
top=$BUILD_DIR/$variant
PYTHON_FOR_REGEN=$(sh "$here/find-python.sh") || exit 1
export PYTHON_FOR_REGEN

# Sanitizers watch the build too, which runs the interpreter that it makes.
ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0:allocator_may_return_null=1:handle_segv=0:detect_stack_use_after_return=0}
UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
TSAN_OPTIONS=${TSAN_OPTIONS:-handle_segv=0:suppressions=$BUILD_DIR/src/Tools/tsan/suppressions_free_threading.txt}
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS

upstream_dir() {
    sed -n 's/^directory *= *//p' "$here/upstream.ini"
}

lay() {
    if [ "$variant" = stock ]; then
        "$PYTHON_FOR_REGEN" "$here/tree.py" unpack
        source=$BUILD_DIR/upstream/$(upstream_dir)
    else
        "$PYTHON_FOR_REGEN" "$here/tree.py" lay --quiet
        source=$BUILD_DIR/src
    fi
}

# The user's options for upstream's configure, one quoted word a line, as ./configure has saved them.
saved_options() {
    if [ -f "$BUILD_DIR/configure.options" ]; then
        cat "$BUILD_DIR/configure.options"
    fi
}

configure_variant() {
    mkdir -p "$top"
    # Sanitizers through BASECFLAGS where upstream's option would also switch pymalloc off, which is what we want to test.
    env_words=
    case $variant in
        release | stock) words= ;;
        debug) words="--with-pydebug" ;;
        nogil) words="--disable-gil" ;;
        asan)
            words="--with-undefined-behavior-sanitizer"
            # Four of the undefined-behaviour checks make gcc up to ten times slower on upstream's larger files, and the address sanitizer
            # sees most of what they would; the room fuzzers have them all.
            slow=-fno-sanitize=null,alignment,object-size,pointer-overflow
            env_words="BASECFLAGS='$slow -fsanitize=address -fno-omit-frame-pointer' LDFLAGS=-fsanitize=address OPT='-g -O1 -Wall'"
            ;;
        tsan)
            words="--disable-gil --with-thread-sanitizer"
            env_words="OPT='-g -O1 -Wall'"
            ;;
        *)
            echo "unknown variant $variant: release debug nogil asan tsan stock" >&2
            return 1
            ;;
    esac
    options=$(saved_options)
    case $variant in
        release | stock) ;;
        *) options=$(printf '%s\n' "$options" | grep -v -e enable-optimizations -e with-lto -e enable-bolt) ;;
    esac
    wanted="$source $words $env_words $options"
    if [ -f "$top/config.status" ] && [ -f "$top/Makefile" ] && [ "$(cat "$top/.configured" 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    if [ -f "$top/.configured" ] && [ "$(cat "$top/.configured")" != "$wanted" ]; then
        # objects of other options are of no use
        echo "options have changed: building $variant afresh"
        find "$top" -mindepth 1 -delete
    fi
    rm -f "$top/.configured"
    # The user's LDFLAGS must not replace the sanitizer's.
    [ "$variant" != asan ] || options=$(printf '%s\n' "$options" | sed "s/^'LDFLAGS=/&-fsanitize=address /")
    # eval: the saved options are quoted words
    (
        cd "$top" || exit 1
        eval "set -- $(printf '%s' "$options" | tr '\n' ' ')"
        [ -z "$env_words" ] || eval "export $env_words"
        # shellcheck disable=SC2086
        exec "$PYTHON_FOR_REGEN" "$here/step.py" --log "$top/configure.log" --title "configuring $variant" --count '^checking' --of 790 -- \
            sh "$source/configure" PYTHON_FOR_REGEN="$PYTHON_FOR_REGEN" $words "$@"
    ) || return 1
    printf '%s\n' "$wanted" >"$top/.configured"
}

build_variant() {
    jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
    # Of a build from scratch make can say how many compilations it takes; the dry run costs a moment.
    total=0
    [ -x "$top/python" ] || total=$(make -n -C "$top" 2>/dev/null | grep -c -e '-c .*\.c')
    "$PYTHON_FOR_REGEN" "$here/step.py" --log "$top/build.log" --title "building $variant" --count ' -c .*\.[cS]( |$)' --of "$total" -- \
        make -C "$top" -j"$jobs" || return 1
}

install_variant() {
    "$PYTHON_FOR_REGEN" "$here/step.py" --log "$top/install.log" --title "installing $variant" -- make -C "$top" install "$@" || return 1
}

# ./python at the root runs the release build.
link_python() {
    [ "$variant" = release ] && [ "$BUILD_DIR" = "$root/build" ] || return 0
    printf '#!/bin/sh\nexec "%s/python" "$@"\n' "$top" >"$root/.python.new" && chmod 755 "$root/.python.new" && mv "$root/.python.new" "$root/python"
}

exec 9>"$BUILD_DIR/.$variant.lock" || exit 1
flock -n 9 || {
    echo "waiting for another build of $variant"
    flock 9
}
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
shift 2
case $action in
    configure) lay && configure_variant ;;
    build) lay && configure_variant && build_variant && link_python ;;
    install) install_variant "$@" ;;
    *)
        echo "usage: variant.sh configure|build|install VARIANT" >&2
        exit 2
        ;;
esac
