# FOLDER NAME TIMEOUT STDIN MERGE BLOCKS: runs FOLDER/launch in a session of its own, keeps what it prints, and how it
# ended in FOLDER/end: `CODE TIMED_OUT LOST OUT ERR`. In a session of its own too: nobody has to wait for it.
d=$1 name=$2 timeout=$3 stdin=$4 merge=$5 blocks=$6
S=${d%/calls/*}

# until_there FILE: waits for a file that one of ours writes; gives up when it cannot, as on a full disk.
until_there() {
    waits=0
    until [ -s "$1" ]; do
        waits=$((waits + 1))
        [ "$waits" -lt 1000 ] || exit 1
        sleep 0.01 2>/dev/null || sleep 1
    done
}

# stage FILE PROGRAM ...: becomes the program, whose process is noted in FILE.
stage='echo $$ >"$1"; shift; exec "$@"'

# reader STREAM: copies a pipe to a file of at most BLOCKS * 512 bytes, keeps the end of what is longer, counts it all.
reader() {
    mkfifo "$d/$1.rest"
    sh -c "$stage" sh "$d/$1.4" tail -c 65536 <"$d/$1.rest" >"$d/$1.tail" 2>/dev/null 3>&- 4>&- &
    (
        trap '' XFSZ
        ulimit -f "$blocks"
        sh -c "$stage" sh "$d/$1.1" tee "$d/$1.out" 2>/dev/null |
            sh -c "$stage" sh "$d/$1.2" tee "$d/$1.rest" 2>/dev/null |
            sh -c "$stage" sh "$d/$1.3" wc -c >"$d/$1.counted"
        mv "$d/$1.counted" "$d/$1.total"
    ) <"$d/$1.pipe" 3>&- 4>&- &
    for number in 1 2 3 4; do until_there "$d/$1.$number"; done
}

# asleep STREAM: whether every program of its reader waits for input.
asleep() {
    for number in 4 3 2 1; do
        read -r pid <"$d/$1.$number" && read -r line 2>/dev/null <"/proc/$pid/stat" || return 1
        line=${line##*) }
        [ "${line%% *}" = S ] || return 1
    done
}

# drain STREAM: waits until all that the command printed is in the file: its reader is over, or asleep (seen three times)
# before an empty pipe that a background process still holds. Sets kept and lost.
drain() {
    spins=0 quiet=0
    while [ ! -e "$d/$1.total" ] && [ "$quiet" -lt 3 ] && [ "$spins" -lt 50000 ]; do
        spins=$((spins + 1))
        if asleep "$1"; then quiet=$((quiet + 1)); else quiet=0; fi
    done
    kept=$(stat -c %s "$d/$1.out")
    total=$kept
    [ ! -e "$d/$1.total" ] || read -r total <"$d/$1.total"
    lost=$((total - kept))
}

mkfifo "$d/out.pipe" "$d/err.pipe"
exec 3<>"$d/out.pipe" 4<>"$d/err.pipe" 5</dev/null
reader out
if [ "$merge" = 0 ]; then reader err; fi
from=/dev/null
if [ "$stdin" = 1 ]; then
    from="$d/in"
    mkfifo "$from"
    exec 5<>"$from"
    # It holds the writing end open, until it is killed to end the input.
    sh -c 'echo $$ >"$1/holder"; exec sleep 2147483647' sh "$d" >"$from" 3>&- 4>&- 5>&- &
    until_there "$d/holder"
fi
if [ "$timeout" != - ]; then
    (
        sh -c 'echo $$ >"$1/alarm"; exec sleep "$2"' sh "$d" "$timeout" || exit 0
        [ ! -e "$d/end" ] && read -r leader <"$d/pid" || exit 0
        : >"$d/late"
        kill_tree "$leader" "$name"
    ) 3>&- 4>&- 5>&- &
    until_there "$d/alarm"
fi
exec 5<&-
# In the foreground, for the sake of interrupts (see start.sh); in a subshell, or ours would tell its output of signals.
(
    if [ "$merge" = 1 ]; then
        exec setsid /bin/sh "$d/launch" <"$from" >"$d/out.pipe" 2>&1 3>&- 4>&-
    else
        exec setsid /bin/sh "$d/launch" <"$from" >"$d/out.pipe" 2>"$d/err.pipe" 3>&- 4>&-
    fi
)
code=$?
if [ "$timeout" != - ] && [ ! -e "$d/late" ]; then
    read -r pid <"$d/alarm"
    kill -KILL "$pid" 2>/dev/null
fi
exec 3>&- 4>&-
drain out
out=$kept lost_out=$lost kept=0 lost=0
if [ "$merge" = 0 ]; then drain err; fi
late=0
if [ -e "$d/late" ]; then late=1 code=124; fi
echo "$code $late $((lost_out + lost)) $out $kept" >"$d/end.new"
mv "$d/end.new" "$d/end"
rm -f "$S/running/$name"
if [ "$stdin" = 1 ] && read -r pid 2>/dev/null <"$d/holder"; then
    kill -KILL "$pid" 2>/dev/null
fi
