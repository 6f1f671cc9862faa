#!/bin/sh
# Builds the images that the tests run in, from Debian packages and without any registry:
#   fanfold-test/base      python3, git, ca-certificates, ripgrep
#   fanfold-test/nopython  Debian's minimum: dash and coreutils, no Python
#   fanfold-test/busybox   one busybox and nothing else
# What is there already is kept. The root filesystems are cached, so that a new engine gets them within seconds.
# `--rebuild` throws the cache and the images away first.
set -eu

SUITE=bookworm
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfold/images
NAMES="base nopython busybox"

say() { echo "test-images: $*"; }

need_mmdebstrap() {
    command -v mmdebstrap >/dev/null && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        say "mmdebstrap is missing: install it (Debian package mmdebstrap)" >&2
        exit 1
    fi
    say "installing mmdebstrap"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends mmdebstrap >/dev/null
}

rootfs_base() { mmdebstrap --quiet --variant=minbase --include=python3,git,ca-certificates,ripgrep "$SUITE" "$1"; }

rootfs_nopython() { mmdebstrap --quiet --variant=minbase "$SUITE" "$1"; }

rootfs_busybox() {
    work=$(mktemp -d)
    chmod 755 "$work"
    mmdebstrap --quiet --variant=extract --include=busybox-static --format=tar "$SUITE" - |
        tar -x -C "$work" ./bin/busybox
    for applet in $("$work/bin/busybox" --list); do
        [ "$applet" = busybox ] || ln -s busybox "$work/bin/$applet"
    done
    mkdir -p "$work/proc" "$work/sys" "$work/dev" "$work/etc" "$work/root"
    mkdir -m 1777 "$work/tmp"
    tar -c --owner=0 --group=0 --numeric-owner -C "$work" -f "$1" .
    rm -rf "$work"
}

if [ "${1:-}" = --rebuild ]; then
    for name in $NAMES; do
        rm -f "$CACHE/$name.tar"
        docker image rm -f "fanfold-test/$name" >/dev/null 2>&1 || true
    done
fi
mkdir -p "$CACHE"
for name in $NAMES; do
    if docker image inspect "fanfold-test/$name:latest" >/dev/null 2>&1; then
        say "fanfold-test/$name is there"
        continue
    fi
    if [ ! -s "$CACHE/$name.tar" ]; then
        need_mmdebstrap
        say "making the root filesystem of fanfold-test/$name"
        "rootfs_$name" "$CACHE/$name.partial.tar"
        mv "$CACHE/$name.partial.tar" "$CACHE/$name.tar"
    fi
    docker import "$CACHE/$name.tar" "fanfold-test/$name:latest" >/dev/null
    say "fanfold-test/$name is built"
done
