# NAME EARLY: kills a command and everything that it started. What has ended is no error, and neither is what never was: with
# EARLY 1 it will never be, else its start, which may be under way, is not waited for.
d="$S/calls/$1"
if [ "$2" = 1 ] && mkdir "$d" 2>/dev/null; then
    echo 0 >"$d/pid"
    echo '137 0 0 0 0' >"$d/end"
fi
tries=0
while [ "$2" = 1 ] && [ ! -s "$d/pid" ] && [ "$tries" -lt 500 ]; do
    tries=$((tries + 1))
    pause
done
if [ -d "$d" ] && [ ! -e "$d/end" ] && read -r leader 2>/dev/null <"$d/pid"; then
    kill_tree "$leader" "$1"
fi
echo ok
