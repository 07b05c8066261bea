#!/usr/bin/env bash
# Makes requirements.lock: every dependency of the base and of development, pinned and hashed, without an address.
# Usage: tools/lock.sh [--upgrade | --upgrade-package NAME]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv=.venv/bin/uv
[ -x "$uv" ] || uv=$(command -v uv) || { echo "tools/lock.sh: no uv: run ./test once, or pip install uv" >&2; exit 1; }

new=$(mktemp)
trap 'rm -f "$new"' EXIT
"$uv" lock --quiet "$@"
"$uv" export --quiet --frozen --extra dev --no-emit-project --no-annotate --no-header --format requirements-txt --output-file "$new" >/dev/null
if grep -nE 'https?://|^--(index|extra-index|find-links)' "$new"; then
    echo "tools/lock.sh: the lines above name an address; requirements.lock is left as it was" >&2
    exit 1
fi
cat "$new" >requirements.lock
echo "requirements.lock: $(grep -cE '^[A-Za-z0-9]' requirements.lock) distributions"
