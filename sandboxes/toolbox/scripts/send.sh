# NAME OFFSET LENGTH EOF: writes LENGTH bytes of our stdin to a command's stdin, but not what it was given before (OFFSET
# counts from its first byte); then ends its input if EOF is 1.
d="$S/calls/$1"
[ -d "$d" ] || { echo 'E unknown'; exit 0; }
F="$S/tmp/$$"
trap 'rm -f "$F"' EXIT
head -c "$3" >"$F"
if [ ! -p "$d/in" ] || [ -e "$d/end" ] || [ -e "$d/eof" ]; then
    echo 'E closed'
    exit 0
fi
taken=0
[ ! -e "$d/taken" ] || read -r taken <"$d/taken"
skip=$((taken - $2))
[ "$skip" -gt 0 ] || skip=0
if [ "$3" -gt "$skip" ]; then
    # Opened for both first: opening for writing alone would wait for a reader that may have gone.
    exec 6<>"$d/in"
    exec 7>"$d/in"
    exec 6<&-
    tail -c "+$((skip + 1))" "$F" >&7 2>/dev/null || { echo 'E closed'; exit 0; }
    exec 7>&-
    echo "$(($2 + $3))" >"$d/taken"
fi
if [ "$4" = 1 ]; then
    : >"$d/eof"
    read -r pid <"$d/holder"
    rm "$d/holder"
    kill -KILL "$pid" 2>/dev/null
fi
echo ok
