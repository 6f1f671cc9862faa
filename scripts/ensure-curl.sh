#!/bin/sh
# Makes sure that curl is installed: the tests type what the docs say.
# Exit 0: it is there. Exit 1: it is not, and the message says what to do.
set -eu

if command -v curl >/dev/null; then
    echo "ensure-curl: curl is there"
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "ensure-curl: curl is missing: install it (Debian package curl)" >&2
    exit 1
fi
echo "ensure-curl: installing Debian's curl"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends curl >/dev/null
echo "ensure-curl: curl is there now"
