#!/bin/sh
# Builds Fanfold's own images for the tests, from fanfold-test/base and so without a registry: fanfold-test/controlplane, and the
# sandboxes'. What has not changed is taken from the engine's cache. scripts/test-images.sh makes the base.
#   fanfold-test/builder   the base with this machine's certificate authorities, and Debian's python3-venv; it is kept
# `--rebuild` throws the builder away first. PYTHON is one of 3.11 or later.
set -eu
cd "$(dirname "$0")"

AUTHORITIES=/usr/local/share/ca-certificates

say() { echo "fanfold-images: $*"; }

builder() {
    context=$(mktemp -d)
    trap 'rm -rf "$context"' EXIT
    mkdir "$context/authorities"
    cp "$AUTHORITIES"/*.crt "$context/authorities" 2>/dev/null || true # most machines have none of their own
    cat >"$context/Dockerfile" <<'END'
FROM fanfold-test/base:latest
COPY authorities /usr/local/share/ca-certificates/
RUN update-ca-certificates && apt-get update -qq && \
    apt-get install -qq -y --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
END
    DOCKER_BUILDKIT=0 docker build --quiet --tag fanfold-test/builder:latest "$context" 2>&1
}

[ "${1:-}" != --rebuild ] || docker image rm -f fanfold-test/builder >/dev/null 2>&1 || true
if ! docker image inspect fanfold-test/builder:latest >/dev/null 2>&1; then
    if ! output=$(builder); then
        say "fanfold-test/builder could not be built:" >&2
        echo "$output" >&2
        exit 1
    fi
    say "fanfold-test/builder is built"
fi
"${PYTHON:-python3}" images.py build --base fanfold-test/base:latest --builder fanfold-test/builder:latest \
    --prefix fanfold-test --tag latest
