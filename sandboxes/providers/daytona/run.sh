# Runs one script in a sandbox without Python: `sh run.sh CAP SCRIPT STDIN`. All words are plain, so that no parser on the way
# changes them: SCRIPT is in base64, STDIN too, or `-` for none, or `@PATH` of a file, which is removed. It prints three lines:
# at most CAP + 1 bytes of stdout in base64, the beginning of stderr in base64, and the exit code.
own=$(cd "$(dirname "$0")" && pwd) cap=$1
[ ! -e "$own/ended" ] || { echo ended; exit 0; }
read -r drop <"$own/drop"
read -r pids <"$own/pids"
[ "$pids" = 0 ] || ulimit -u "$pids" 2>/dev/null || ulimit -p "$pids" 2>/dev/null
part=$own/run/$$ script=$(printf %s "$2" | base64 -d)
case $3 in
-) : >"$part.in" ;;
@*) mv "${3#@}" "$part.in" ;;
*) printf %s "$3" | base64 -d >"$part.in" ;;
esac
export HOME="$own/home"
{
    $drop /bin/sh -c "$script" <"$part.in" 2>"$part.err"
    echo $? >"$part.code"
} | head -c $((cap + 1)) | base64 | tr -d '\n'
echo
head -c 300 "$part.err" | base64 | tr -d '\n'
echo
cat "$part.code"
rm -f "$part".*
