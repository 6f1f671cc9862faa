# WORD CAP: files and links below a folder as records of stat, through links; the last record is find's exit code.
path "$1"
look "$p" || exit 0
[ -d "$p" ] || { echo 'E plain'; exit 0; }
echo ok
{
    find "${p%/}/." ! -type d \( -type f -o -type l \) \
        -exec sh -c 'stat -L -c "%f %s %Y %n///" -- "$@" 2>/dev/null; exit 0' sh {} + 2>/dev/null
    printf '%s///\n' "$?"
} | head -c "$2"
