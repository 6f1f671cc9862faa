# LENGTH HEAD: writes files. On stdin, LENGTH bytes: HEAD bytes of lines, then the contents. A line is
# WORD OFFSET SIZE MODE EXCLUSIVE KEY EXPECTED ANSWER: EXPECTED is - or the id that the file must still have.
F="$S/tmp/$$"
trap 'rm -f "$F"' EXIT
m=$({ head -c "$1" >"$F"; } 2>&1) || { printf 'A'; os "$m"; exit 0; }
[ "$(stat -c %s "$F")" = "$1" ] || { printf 'A'; os ': Input/output error'; exit 0; }

put() {
    if [ "$5" = 1 ]; then vacant "$1" || return 0; fi
    target "$1" || return 0
    if [ "$6" != - ] && [ "$(stat -L -c '%i:%s:%Y:%Z' -- "$t" 2>/dev/null)" != "$6" ]; then
        echo 'E changed'
        return 0
    fi
    new="$folder/.fanfold-$$-$2.tmp"
    m=$({ tail -c "+$(($2 + 1))" "$F" | head -c "$3" >"$new"; } 2>&1) || { os "$m"; rm -f -- "$new"; return 0; }
    publish "$new" "$4" "$5" && echo "ok $7"
}

head -c "$2" "$F" | while read -r word offset size mode exclusive key expected answer; do
    begin "$key" || continue
    path "$word"
    finish "$(put "$p" "$offset" "$size" "$mode" "$exclusive" "$expected" "$answer")"
done
