# The first process of a sandbox, as root: `sh -c BOOT fanfold OWN WORKDIR IDLE USER PIDS CAPS INHERITED HOME CLAIM`.
# It gives the folders their owner, waits for the toolbox, and keeps the helper running as USER, who can gain nothing. What it
# found out is one line in OWN/transport: `helper`, `sh` when this image has no Python, or `failed: WHY`. It ends with the
# helper's idle limit (IDLE seconds, 0 for never), or when nobody brings the toolbox within CLAIM seconds.
set -u
own=$1 workdir=$2 idle=$3 user=$4 pids=$5 caps=$6 inherited=$7 home=$8 claim=$9
state=$own/state log=$own/helper.log
theirs=$PATH
# What runs as root is never found where the sandbox can write.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022

pause() { sleep 0.02 2>/dev/null || sleep 1; }

say() {
    printf '%s\n' "$1" >"$own/transport.new"
    mv "$own/transport.new" "$own/transport"
}

fail() {
    say "failed: $1"
    sleep 5
    exit 70
}

# empty FOLDER: removes what is in it, unless the working directory is there.
empty() {
    case $workdir/ in "$1"/*) return ;; esac
    [ -d "$1" ] && find "$1" -mindepth 1 -maxdepth 1 -exec rm -rf {} +
}

# end_all: kills what the sandbox's user still runs, and what that starts meanwhile. Root's cannot be told from our own.
end_all() {
    [ "$numeric" != 0 ] || return
    for _ in 1 2 3 4 5 6 7 8 9; do
        found=
        for process in /proc/[0-9]*; do
            [ "$(stat -c %u "$process" 2>/dev/null)" = "$numeric" ] && kill -9 "${process#/proc/}" 2>/dev/null && found=1
        done
        [ "$found" ] || return
    done
}

mkdir -p "$own"
for other in "${own%/*}"/*; do
    [ "$other" = "$own" ] || rm -rf "$other"
done
if [ "$inherited" = 1 ]; then
    for place in /tmp /var/tmp "$home"; do empty "$place"; done
fi

case $user in
    *:*) uid=${user%%:*} gid=${user#*:} ;;
    *) uid=$user gid=$(id -g "$user" 2>/dev/null || echo "$user") ;;
esac
setpriv=$(command -v setpriv) || fail "the image has no setpriv (util-linux), with which the sandbox's user is made harmless"
mkdir -p "$workdir" "$home" "$state/sh/running" "$state/sh/calls" || fail "$workdir cannot be made"
chown -R "$uid:$gid" "$state" 2>"$log" && chown -h "$uid:$gid" "$workdir" "$home" 2>"$log" || fail "$(cat "$log")"
chmod 700 "$state"
numeric=$(stat -c %u "$state")

{
    echo '#!/bin/sh'
    [ "$pids" = 0 ] || echo "(ulimit -u $pids) 2>/dev/null && ulimit -u $pids || ulimit -p $pids || exit 71"
    echo "exec $setpriv --reuid=$uid --regid=$gid --clear-groups --inh-caps=-all --bounding-set=$caps --no-new-privs \"\$@\""
} >"$own/as"
chmod 555 "$own/as"
"$own/as" true 2>"$log" || fail "a process as user $user cannot be made harmless: $(cat "$log")"

end=$(($(date +%s) + claim))
until [ -e "$own/toolbox.pyz" ]; do
    [ "$(date +%s)" -le "$end" ] || exit 0
    pause
done

if python=$(command -v python3); then
    ln -sf "$python" "$own/python3"
    starts=0
    while [ "$starts" -lt 100 ]; do
        starts=$((starts + 1))
        PATH=$theirs "$own/as" "$own/python3" -I -S "$own/toolbox.pyz" serve --socket "$state/toolbox.sock" --state "$state" \
            --workdir "$workdir" --idle "$idle" 2>"$log" &
        helper=$!
        until [ -S "$state/toolbox.sock" ] || ! kill -0 "$helper" 2>/dev/null; do pause; done
        [ -S "$state/toolbox.sock" ] || [ "$starts" -gt 1 ] || break
        [ "$starts" -gt 1 ] || say helper
        wait "$helper" && [ "$idle" != 0 ] && exit 0
        # Somebody has killed it. What it had started is of no use without it.
        end_all
        rm -f "$state/toolbox.sock"
        pause
    done
    [ "$starts" -lt 100 ] || exit 71
fi

: >"$state/sh/active"
chown "$uid:$gid" "$state/sh/active"
say sh
# Who kills all that is the sandbox's ends the sandbox: what ran is not known any more, and would be waited for for ever.
"$own/as" sleep 90000 &
keeper=$!
[ "$idle" != 0 ] || wait "$keeper"
while kill -0 "$keeper" 2>/dev/null; do
    for one in "$state"/sh/running/*; do
        # As the user: root would follow a link that was put there.
        [ -e "$one" ] && "$own/as" /bin/sh -c ': >"$1"' sh "$state/sh/active"
        break
    done
    [ $(($(date +%s) - $(stat -c %Y "$state/sh/active"))) -le "$idle" ] || exit 0
    sleep 1
done
exit 72
