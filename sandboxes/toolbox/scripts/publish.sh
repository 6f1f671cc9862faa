# WORD TOKEN SIZE MODE KEY: publishes the pieces, of SIZE bytes together. SIZE - throws them away.
path "$1"
begin "$5" || {
    target "$p" >/dev/null && rm -f -- "$folder/.fanfold-$2.tmp"
    exit 0
}
finish "$(
    target "$p" || exit 0
    new="$folder/.fanfold-$2.tmp"
    if [ "$(stat -c %s -- "$new" 2>/dev/null)" != "$3" ]; then
        rm -f -- "$new"
        os ': Input/output error'
        exit 0
    fi
    publish "$new" "$4" 0 && echo ok
)"
