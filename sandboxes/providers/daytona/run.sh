# Runs one script in a sandbox without Python: `sh /PATH/run.sh CAP SCRIPT STDIN`. All words are plain, so that no parser on the way
# changes them: SCRIPT is in base64, STDIN too, or `-` for none, or `@PATH` of a file, which is removed. It prints the exit code, a
# `.`, the beginning of stderr in base64, a `.`, and at most CAP + 1 bytes of stdout in base64; or `ended`.
own=${0%/*}
. "$own/env"
part=$own/run/$$ script=$(printf %s "$2" | base64 -d)
read -r drop <"$own/drop"
read -r FANFOLD_PIDS <"$own/pids"
HOME=$own/home
export HOME FANFOLD_PIDS
case $3 in
-) given() { :; } ;;
@*) given() { cat "${3#@}"; } ;;
*) given() { printf %s "$3" | base64 -d; } ;;
esac
[ -e "$own/ended" ] || {
    given "$@" | $drop /bin/sh -c "$script" 2>"$part.err"
    echo $? >"$part.code"
} | head -c $(($1 + 1)) | base64 >"$part.out"
if [ -e "$own/ended" ]; then
    echo ended
else
    read -r code <"$part.code"
    echo "$code"
    echo .
    [ ! -s "$part.err" ] || head -c 300 "$part.err" | base64
    echo .
    cat "$part.out"
fi
case $3 in @*) rm -f "${3#@}" ;; esac
rm -f "$part.err" "$part.code" "$part.out"
