# Sourced by ./run and ./test, under `set -euo pipefail`: goes to the project's root and makes .venv what
# requirements.lock says. Does nothing where that has been done; waits where another one is doing it.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

bootstrap_fail() {
    echo "bootstrap: $*" >&2
    exit 1
}

# Prints the first Python of at least 3.11 on PATH.
bootstrap_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if "$name" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    bootstrap_fail "needs Python 3.11 or newer with its venv module; found: $(python3 --version 2>&1 || true)." \
        "Install it (on Debian: apt install python3 python3-venv) and run this again"
}

# Prints what the finished .venv is stamped with: the inputs it was made from and the place it was made for,
# since a venv and an editable install hold absolute paths.
bootstrap_stamp() {
    pwd -P
    cksum requirements.lock pyproject.toml tools/bootstrap.sh
    [ ! -f plugins/requirements.txt ] || cksum plugins/requirements.txt
}

bootstrap_install() {
    local python=.venv/bin/python
    # Without a HOME there is no place for a cache that outlives this run.
    [ -n "${HOME:-}" ] || export UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1
    if "$python" -m pip install --quiet --disable-pip-version-check uv && [ -x .venv/bin/uv ]; then
        .venv/bin/uv pip sync --quiet --python "$python" --require-hashes --compile-bytecode requirements.lock
        .venv/bin/uv pip install --quiet --python "$python" --no-deps -e .
    else
        echo "bootstrap: uv is not to be had, going on with pip (slower)" >&2
        "$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
        "$python" -m pip install --quiet --disable-pip-version-check --no-deps -e .
    fi
    # Byte code of our own modules too: without it every start compiles them, where Python may not write it itself.
    "$python" -m compileall -q ishiki
    # What the owner's own plugins need; syncing to the lock takes out everything else.
    if [ -f plugins/requirements.txt ]; then
        "$python" -m pip install --quiet --disable-pip-version-check -r plugins/requirements.txt
    fi
}

bootstrap() {
    local stamp=.venv/.bootstrap-stamp python
    # An empty or unset HOME breaks "~" for pip, uv and tools alike; unset, they ask the user database.
    [ -n "${HOME:-}" ] || unset HOME
    python=$(bootstrap_python)
    # The lock belongs to descriptor 9, which this shell and the installers hold, not to the Python that takes it:
    # it is let go when the last of them ends, however that comes about.
    exec 9<tools/bootstrap.sh
    "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
    if [ "$(cat "$stamp" 2>/dev/null)" != "$(bootstrap_stamp)" ] || ! .venv/bin/python -c '' 2>/dev/null; then
        echo "bootstrap: preparing .venv (a minute or less on most machines)" >&2
        # An unfinished .venv has no stamp and is made anew: what a killed installer left cannot be trusted.
        [ -f "$stamp" ] && .venv/bin/python -c '' 2>/dev/null || "$python" -m venv --clear .venv
        rm -f "$stamp"
        bootstrap_install
        bootstrap_stamp >"$stamp.new"
        mv "$stamp.new" "$stamp"
    fi
    exec 9<&-
}

bootstrap
