# WORD TOKEN LENGTH: adds LENGTH bytes of stdin to the file that will be published at WORD.
path "$1"
target "$p" || exit 0
new="$folder/.fanfold-$2.tmp"
m=$({ head -c "$3" >>"$new"; } 2>&1) || { os "$m"; rm -f -- "$new"; exit 0; }
printf 'ok %s\n' "$(stat -c %s -- "$new")"
