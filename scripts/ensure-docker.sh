#!/bin/sh
# Makes sure that a Docker engine answers: installs Debian's and starts it in the background when that is allowed here.
# Says what it did, or what to do. Exit 0: an engine answers. Exit 1: none does.
set -eu

START_SECONDS=60
LOG=${XDG_STATE_HOME:-$HOME/.local/state}/fanfold/dockerd.log

answers() { command -v docker >/dev/null && docker version >/dev/null 2>&1; }

if answers; then
    echo "ensure-docker: an engine answers"
    exit 0
fi
if [ -n "${DOCKER_HOST:-}" ]; then
    echo "ensure-docker: no engine answers at DOCKER_HOST; start it there, or unset DOCKER_HOST" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "ensure-docker: no engine answers and this is not root: install and start Docker, or join the 'docker' group" >&2
    exit 1
fi
if ! command -v dockerd >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        echo "ensure-docker: no dockerd and no apt-get here: install Docker by your system's own means" >&2
        exit 1
    fi
    echo "ensure-docker: installing Debian's docker.io and iptables"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends docker.io iptables >/dev/null
fi
if ! answers; then
    mkdir -p "$(dirname "$LOG")"
    echo "ensure-docker: starting dockerd in the background (log: $LOG)"
    nohup setsid dockerd >>"$LOG" 2>&1 </dev/null &
fi
waited=0
until answers; do
    if [ "$waited" -ge "$START_SECONDS" ]; then
        echo "ensure-docker: the engine did not answer within $START_SECONDS s; see $LOG" >&2
        exit 1
    fi
    sleep 1
    waited=$((waited + 1))
done
echo "ensure-docker: an engine answers now"
