# WORD EXCLUDED...: files and links below a folder. Of a file `MODE:SIZE SHA1  -`, newline, its name, ///, newline; of a
# link `L SIZE NAME///`, newline, its target, newline. The last record is find's exit code.
path "$1"
shift
root=$p
look "$root" || exit 0
[ -d "$root" ] || { echo 'E plain'; exit 0; }
echo ok
count=$#
set -- "$@" "${root%/}/." -mindepth 1
while [ "$count" -gt 0 ]; do
    path "$1"
    shift
    set -- "$@" -name "$p" -prune -o
    count=$((count - 1))
done
find "$@" -type f -exec sh -c '
    stats=$(stat -c "%f:%s" -- "$@") || exit 1
    for one in $stats; do
        [ -r "$1" ] || exit 1
        printf "%s " "$one"
        { printf "blob %s\\0" "${one#*:}"; cat -- "$1"; } | sha1sum
        printf "%s///\n" "$1"
        shift
    done' sh {} + -o -type l -exec sh -c '
    for one; do
        stat -c "L %s %n///" -- "$one"
        readlink -n -- "$one"
        echo
    done' sh {} + 2>/dev/null
# No parentheses around -exec: busybox forgets those at the end.
printf '%s///\n' "$?"
