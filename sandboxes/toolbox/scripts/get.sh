# WORD OFFSET LENGTH [KEY]: a line about a file and a range of its bytes; with KEY the answer of a finished call instead.
known "${4:--}" && exit 0
path "$1"
regular "$p" || exit 0
printf 'F %s\n' "$found"
if [ "$2" -eq 0 ]; then
    head -c "$3" <"$p"
else
    tail -c "+$(($2 + 1))" <"$p" | head -c "$3"
fi
