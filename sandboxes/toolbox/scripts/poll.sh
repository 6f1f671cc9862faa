# NAME OUT ERR WINDOW FOR SECONDS: `P CODE TIMED_OUT LOST OUT ERR LENGTH LENGTH` and at most WINDOW bytes of each stream from
# these offsets. CODE is - while the command runs. Waits about SECONDS at most: for something new if FOR is `news`, else for
# the end.
d="$S/calls/$1"
[ -d "$d" ] || { echo 'E unknown'; exit 0; }
sizes() {
    if [ -e "$d/end" ]; then
        read -r code late lost out err <"$d/end"
    else
        code=- late=0 lost=0
        out=$(stat -c %s "$d/out.out" 2>/dev/null) || out=0
        err=$(stat -c %s "$d/err.out" 2>/dev/null) || err=0
    fi
}
window() {
    length=$(($1 - $2))
    [ "$length" -gt 0 ] || length=0
    [ "$length" -lt "$3" ] || length=$3
}
sizes
waits=0
while [ "$code" = - ] && [ "$waits" -lt $(($6 * 10)) ]; do
    if [ "$5" = news ] && { [ "$out" -gt "$2" ] || [ "$err" -gt "$3" ]; }; then break; fi
    # Quick at first, then ten times a second.
    if [ "$waits" -lt 10 ]; then pause; else sleep 0.1 2>/dev/null || sleep 1; fi
    waits=$((waits + 1))
    if [ "$5" = news ] || [ -e "$d/end" ]; then sizes; fi
done
[ "$code" != - ] || sizes
window "$out" "$2" "$4"
first=$length
window "$err" "$3" "$4"
printf 'P %s %s %s %s %s %s %s\n' "$code" "$late" "$lost" "$out" "$err" "$first" "$length"
[ "$first" -eq 0 ] || tail -c "+$(($2 + 1))" "$d/out.out" | head -c "$first"
[ "$length" -eq 0 ] || tail -c "+$(($3 + 1))" "$d/err.out" | head -c "$length"
