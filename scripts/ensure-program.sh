#!/bin/sh
# ensure-program.sh PROGRAM PACKAGE: makes sure that a program is installed, by Debian's package. It starts none.
# Exit 0: it is there. Exit 1: it is not, and the message says what to do.
set -eu
program=$1 package=$2

if command -v "$program" >/dev/null; then
    echo "ensure-program: $program is there"
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "ensure-program: $program is missing: install it (Debian package $package)" >&2
    exit 1
fi
echo "ensure-program: installing Debian's $package"
apt-get update -qq
# In runlevel 1 Debian's install scripts start no service: the tests start their own.
RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$package" >/dev/null
echo "ensure-program: $program is there now"
