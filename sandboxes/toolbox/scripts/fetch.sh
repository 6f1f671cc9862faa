# LENGTH LIMIT: the files whose words are on stdin, one in each line: an error, or a line, the bytes, and a line with Z.
# A file of more than LIMIT bytes is only described.
F="$S/tmp/$$"
trap 'rm -f "$F"' EXIT
head -c "$1" >"$F"
# Not as our stdin: a link to /dev/stdin would lead to it.
while read -r word <&8; do
    path "$word"
    regular "$p" || continue
    size=${found#* }
    size=${size%% *}
    printf 'F %s\n' "$found"
    [ "$size" -gt "$2" ] || head -c "$size" <"$p"
    printf '\nZ\n'
done 8<"$F"
