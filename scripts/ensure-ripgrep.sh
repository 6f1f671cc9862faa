#!/bin/sh
# Makes sure that ripgrep is installed: the tests compare its answers with ours.
# Exit 0: it is there. Exit 1: it is not, and the message says what to do.
set -eu

if command -v rg >/dev/null; then
    echo "ensure-ripgrep: rg is there"
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "ensure-ripgrep: rg is missing: install it (Debian package ripgrep)" >&2
    exit 1
fi
echo "ensure-ripgrep: installing Debian's ripgrep"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends ripgrep >/dev/null
echo "ensure-ripgrep: rg is there now"
