# Ends a sandbox without Python: `sh ward.sh LIFETIME IDLE`, seconds, IDLE 0 for never. From then on `run.sh` runs nothing.
own=$(cd "$(dirname "$0")" && pwd) lifetime=$1 idle=$2
state=$own/state
end=$(($(date +%s) + lifetime))
while :; do
    now=$(date +%s)
    left=$((end - now))
    [ "$left" -gt 0 ] || break
    if [ "$idle" -gt 0 ]; then
        for one in "$state"/sh/running/*; do
            [ -e "$one" ] && : >"$state/sh/active"
            break
        done
        [ $((now - $(stat -c %Y "$state/sh/active"))) -le "$idle" ] || break
        left=1
    fi
    sleep "$left"
done
: >"$own/ended"
for round in 1 2 3 4 5; do
    for place in /proc/[0-9]*; do
        if tr '\0' '\n' <"$place/environ" 2>/dev/null | grep -q '^FANFOLD_CALL='; then kill -9 "${place#/proc/}" 2>/dev/null; fi
    done
done
