# WORD LENGTH CAP: names of the files below a folder (or the one file) that may hold the text on stdin; ends like walk.
path "$1"
look "$p" || exit 0
F="$S/tmp/$$"
trap 'rm -f "$F"' EXIT
head -c "$2" >"$F"
if [ ! -d "$p" ]; then
    echo one
    exit 0
fi
echo ok
# To open what has become a pipe would wait for ever: a grep that can skips it, for others it is looked at again just before.
grep -D skip -q x /dev/null 2>/dev/null
[ $? -eq 1 ] && SKIP='-D skip' || SKIP=
export SKIP
{
    if [ "$2" -gt 0 ]; then
        find "${p%/}/." -type f \
            -exec sh -c 'f=$1; shift; for one; do shift; [ -f "$one" ] && [ ! -h "$one" ] && set -- "$@" "$one"; done
                [ $# -eq 0 ] || grep -l -F $SKIP -f "$f" -- "$@" 2>/dev/null; exit 0' sh "$F" {} + 2>/dev/null
    else
        find "${p%/}/." -type f -print 2>/dev/null
    fi
    printf '%s///\n' "$?"
} | head -c "$3"
