# The first process of a sandbox (below the engine's init): `sh boot.sh WORKDIR LIFETIME IDLE`, seconds, IDLE 0 for never.
# Its first line of output is the transport: `helper` when the resident helper is there, whose first client has stdin and stdout
# from then on, and others its socket; `sh` when this image has no Python for it. It ends when the lifetime or the idle limit
# is over, and the sandbox with it.
set -u
workdir=$1 lifetime=$2 idle=$3
toolbox=/.fanfold/toolbox state=/.fanfold/state upper=/.fanfold/layer/upper

pause() { sleep 0.02 2>/dev/null || sleep 1; }

# The folders get their owner while this starts.
tries=0
until [ -w "$state" ] && [ -w "$workdir" ] && [ -O "$workdir" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 500 ]; then
        echo "failed: $workdir or $state cannot be written by user $(id -u)"
        exit 70
    fi
    pause
done

if command -v python3 >/dev/null 2>&1; then
    echo helper >"$state/transport"
    [ -d "$upper" ] || upper=
    python3 -I -S "$toolbox/toolbox.pyz" serve --stdio --socket "$state/toolbox.sock" --state "$state" \
        --workdir "$workdir" --upper "$upper" --lifetime "$lifetime" --idle "$idle" 3>&2 2>"$state/helper.log"
    code=$?
    [ -S "$state/toolbox.sock" ] && exit "$code"
fi

mkdir -p "$state/sh/running" "$state/sh/calls"
: >"$state/sh/active"
echo sh >"$state/transport"
echo sh
end=$(($(date +%s) + lifetime))
while :; do
    now=$(date +%s)
    left=$((end - now))
    [ "$left" -gt 0 ] || exit 0
    if [ "$idle" -gt 0 ]; then
        for one in "$state"/sh/running/*; do
            [ -e "$one" ] && : >"$state/sh/active"
            break
        done
        [ $((now - $(stat -c %Y "$state/sh/active"))) -le "$idle" ] || exit 0
        left=1
    fi
    sleep "$left"
done
