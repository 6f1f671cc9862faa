# Makes a Daytona sandbox one of ours: `sh boot.sh WORKDIR LIFETIME IDLE PIDS SYSTEM FRESH`, seconds, IDLE and PIDS 0 for none.
# It prints one line, the transport: `helper` when the resident helper answers on its socket, `sh` when this image has no Python
# for it, else `failed: ` and why. SYSTEM is `read-only` or `overlay`: with the latter root stays root. FRESH is 1 when these files
# are a copy of another sandbox's, whose /tmp is none of ours.
set -u
workdir=$1 lifetime=$2 idle=$3 pids=$4 system=$5 fresh=$6
own=$(cd "$(dirname "$0")" && pwd)
state=$own/state user=1000:1000 pid=

failed() {
    echo "failed: $*"
    exit 70
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@" 2>/dev/null; fi
}

[ "$fresh" = 0 ] || find /tmp -mindepth 1 -maxdepth 1 ! -path "$own" -exec rm -rf {} + 2>/dev/null
mkdir -p "$workdir" 2>/dev/null || as_root mkdir -p "$workdir" || failed "$workdir cannot be made by $(id -un)"
chmod 755 "$own" && chmod 444 "$own"/toolbox.pyz && mkdir -p "$state" "$own/home" "$own/run" || failed "$own cannot be written"
chmod 700 "$own/run" "$state"
if [ "$(id -u)" != 0 ] || [ "$system" = overlay ]; then user=; fi
if [ "$system" = overlay ] && [ "$(id -u)" != 0 ]; then failed "system: overlay needs root, and this sandbox runs as $(id -un)"; fi
if [ -n "$user" ]; then
    chown -R "$user" "$state" "$own/home" || failed "$state cannot be given to $user"
    [ "$fresh" = 1 ] || chown "$user" "$workdir" || failed "$workdir cannot be given to $user"
elif [ ! -w "$workdir" ]; then
    as_root chown "$(id -u):$(id -g)" "$workdir" || failed "$workdir cannot be written by $(id -un)"
fi
export HOME="$own/home"

if command -v python3 >/dev/null 2>&1; then
    [ "$pids" = 0 ] || pids="--limit NPROC=$pids"
    [ "$pids" != 0 ] || pids=
    # shellcheck disable=SC2086 - the limit is two words, or none
    setsid python3 -I -S "$own/toolbox.pyz" serve --ward ${user:+--user $user} --socket "$state/toolbox.sock" --state "$state" \
        --workdir "$workdir" --lifetime "$lifetime" --idle "$idle" $pids </dev/null >"$own/helper.log" 2>&1 &
    pid=$!
    tries=0
    until [ -S "$state/toolbox.sock" ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 1500 ] || ! kill -0 "$pid" 2>/dev/null; then break; fi
        sleep 0.02 2>/dev/null || sleep 1
    done
    if [ -S "$state/toolbox.sock" ]; then
        echo helper >"$own/transport"
        echo helper
        exit 0
    fi
    failed "the helper does not start: $(tail -c 500 "$own/helper.log" | tr '\n' ' ')"
fi

# Without Python each command comes by itself. What it may not do has to be taken from it by a program of the image.
drop="setpriv --no-new-privs"
[ -z "$user" ] || drop="$drop --reuid=1000 --regid=1000 --clear-groups --bounding-set=-all --inh-caps=-all"
if ! $drop true >/dev/null 2>&1; then
    if [ -n "$user" ] || { [ "$system" = read-only ] && as_root true; }; then
        failed "this image has neither python3 nor setpriv of util-linux: its commands would be root's. Use another, or system: overlay"
    fi
    drop=
fi
# Its commands do not descend from this script: what they are to know is kept for them, readable by this user alone.
(umask 077 && export -p >"$own/env")
printf '%s\n' "$drop" >"$own/drop"
printf '%s\n' "$pids" >"$own/pids"
mkdir -p "$state/sh/running" "$state/sh/calls" && : >"$state/sh/active"
[ -z "$user" ] || chown -R "$user" "$state"
setsid /bin/sh "$own/ward.sh" "$lifetime" "$idle" </dev/null >/dev/null 2>&1 &
echo sh >"$own/transport"
echo sh
