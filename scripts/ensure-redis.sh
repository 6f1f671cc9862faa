#!/bin/sh
# Makes sure that a redis-server program is installed. It starts none: a test that wants one starts its own, on a free port.
# Exit 0: it is there. Exit 1: it is not, and the message says what to do.
set -eu

if command -v redis-server >/dev/null; then
    echo "ensure-redis: redis-server is there"
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "ensure-redis: redis-server is missing: install it (Debian package redis-server)" >&2
    exit 1
fi
echo "ensure-redis: installing Debian's redis-server"
apt-get update -qq
# In runlevel 1 Debian's install scripts start no service: the tests start their own.
RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends redis-server >/dev/null
echo "ensure-redis: redis-server is there now"
