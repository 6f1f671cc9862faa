# NAME TIMEOUT STDIN MERGE BLOCKS LENGTH SUPERVISOR ...: starts the command whose launcher is on stdin, unless NAME is
# known; leaves the arguments after SUPERVISOR. Its last lines are those of `poll`.
d="$S/calls/$1"
if mkdir "$d" 2>/dev/null; then
    m=$({ head -c "$6" >"$d/launch"; } 2>&1) || { rm -rf "$d"; os "$m"; exit 0; }
    : >"$S/running/$1"
    # What is started with & ignores interrupts, and so would the command. A shell that is killed does not wait either.
    supervisor=$7
    # The launcher takes back the sandbox's own PATH and locale.
    FANFOLD_PATH=$their_path FANFOLD_LOCALE=$their_locale \
        /bin/sh -c 'setsid /bin/sh -c "$@" </dev/null >/dev/null 2>&1 | kill -KILL $$' sh \
        "$supervisor" sh "$d" "$1" "$2" "$3" "$4" "$5" 2>/dev/null
fi
name=$1
tries=0
until [ -e "$d/pid" ] || [ "$tries" -gt 1500 ]; do
    tries=$((tries + 1))
    pause
done
[ -e "$d/pid" ] || { echo 'E stuck'; exit 0; }
shift 7
set -- "$name" "$@"
