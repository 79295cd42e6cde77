#!/bin/sh
# Makes .venv from the committed uv.lock: `sh bootstrap.sh run`, `… test`, `… bench` or `… soak`.
# Needs Python 3.11 to 3.14 and a way to make a virtual environment; brings uv itself.
# When .venv already matches the lock it does nothing and needs no network.
set -eu
cd "$(dirname "$0")"
mode=${1:-run}

say() { printf '[bootstrap] %s\n' "$*"; }
fail() {
    printf '[bootstrap] %s\n' "$@" >&2
    exit 1
}

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; }

# An upgrade of the system makes another version of its Python, which looks for packages elsewhere.
has_venv() {
    [ -x .venv/bin/python ] && fits .venv/bin/python &&
        .venv/bin/python -c 'import os, site, sys; sys.exit(not os.path.isdir(site.getsitepackages()[0]))'
}

find_python() {
    for name in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.14 python3.11; do
        if command -v "$name" >/dev/null 2>&1 && fits "$name"; then
            command -v "$name"
            return
        fi
    done
    found=$(python3 --version 2>/dev/null || echo "no python3")
    fail "Python 3.11 to 3.14 is needed; this machine has: $found." \
        "Install one (Debian 12+, Ubuntu 24.04+: apt-get install python3 python3-venv)" \
        "or name one: PYTHON=/path/to/python3.12 make $mode"
}

check_space() {
    free=$(df -Pk . | awk 'NR == 2 {print $4}')
    [ "$free" -ge 1500000 ] || fail "only $((free / 1024)) MB are free here; installing needs 1500 MB." \
        "Free some space, or clone to another disk."
}

make_venv() {
    if has_venv; then
        return
    fi
    python=$(find_python)
    say "making .venv with $("$python" --version) ($python)"
    rm -rf .venv
    if "$python" -m venv .venv >/dev/null 2>&1; then
        return
    fi
    rm -rf .venv # what a venv without ensurepip leaves behind
    for maker in "$python -m virtualenv" "virtualenv --python $python"; do
        if $maker .venv >/dev/null 2>&1; then
            return
        fi
    done
    if "$python" -m pip --version >/dev/null 2>&1 || command -v uv >/dev/null 2>&1; then
        "$python" -m venv --without-pip .venv && return
    fi
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    fail "this Python cannot make virtual environments: the Debian package is missing." \
        "Run: apt-get install python$version-venv    (as root, or with sudo), then again: make $mode"
}

find_uv() {
    if [ -x .venv/bin/uv ]; then
        echo .venv/bin/uv
        return
    fi
    if .venv/bin/python -m pip --version >/dev/null 2>&1; then
        .venv/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9' >&2 ||
            fail "uv could not be installed: is the network there? The lines above say more."
    elif command -v uv >/dev/null 2>&1; then
        command -v uv
        return
    else
        "$(find_python)" -m pip --python .venv/bin/python install --quiet 'uv>=0.9' >&2 ||
            fail "uv could not be installed: is the network there? The lines above say more."
    fi
    echo .venv/bin/uv
}

case $mode in
run) groups=--no-dev ;;
test) groups="--dev --extra voice" ;; # nothing is skipped: speech is transcribed too
bench) groups="--dev --group bench" ;;
soak) groups="--dev --extra voice --group mutation" ;;
*) fail "usage: sh bootstrap.sh run|test|bench|soak" ;;
esac

wanted=$(cat uv.lock pyproject.toml | cksum)
others=test # what tests need holds what running needs
case $mode in bench | soak) others=$mode ;; esac
for done in "$mode" "$others"; do
    if [ "$(cat ".venv/.in-sync-$done" 2>/dev/null)" = "$wanted" ] && has_venv; then
        exit 0
    fi
done
check_space
make_venv
uv=$(find_uv)
say "installing what uv.lock names (about 250 MB to download the first time)"
rm -f .venv/.in-sync-*
UV_PROJECT_ENVIRONMENT=.venv UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV='' \
    "$uv" sync --locked --inexact --python .venv/bin/python $groups </dev/null ||
    fail "installing failed; the lines above say what. Is the network there, is the disk full?"
echo "$wanted" >".venv/.in-sync-$mode"
say "installed"
