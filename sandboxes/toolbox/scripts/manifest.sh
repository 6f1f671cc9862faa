# WORD FOLDERS EXCLUDED...: files and links below a folder. Of a file `MODE:SIZE SHA1  -`, newline, its name, ///, newline; of
# a link `L SIZE NAME///`, newline, its target, newline; with FOLDERS 1 of a folder `D NAME///`, newline. The last record is
# find's exit code. What is left out is `-name=PATTERN`, or `-path=PATTERN` below the folder.
path "$1"
folders=$2
shift 2
root=$p
look "$root" || exit 0
[ -d "$root" ] || { echo 'E plain'; exit 0; }
echo ok
count=$#
set -- "$@" "${root%/}/." -mindepth 1
while [ "$count" -gt 0 ]; do
    path "$1"
    shift
    case $p in
        -name=*) set -- "$@" -name "${p#-name=}" -prune -o ;;
        *) set -- "$@" -path "${root%/}/./${p#-path=}" -prune -o ;;
    esac
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
    done' sh {} + -o -type d -exec sh -c '
    [ "$0" = 1 ] || exit 0
    for one; do printf "D %s///\n" "$one"; done' "$folders" {} + 2>/dev/null
# No parentheses around -exec: busybox forgets those at the end.
printf '%s///\n' "$?"
