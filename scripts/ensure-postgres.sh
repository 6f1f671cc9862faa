#!/bin/sh
# Makes sure that PostgreSQL's programs are installed. It starts no server: tests that want one start their own, in a folder.
# Exit 0: they are there. Exit 1: they are not, and the message says what to do.
set -eu

there() { command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; }

if there; then
    echo "ensure-postgres: PostgreSQL is there"
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "ensure-postgres: PostgreSQL is missing: install it (Debian package postgresql)" >&2
    exit 1
fi
echo "ensure-postgres: installing Debian's postgresql"
apt-get update -qq
# In runlevel 1 Debian's install scripts start no service: the tests start their own.
RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends postgresql >/dev/null
echo "ensure-postgres: PostgreSQL is there now"
