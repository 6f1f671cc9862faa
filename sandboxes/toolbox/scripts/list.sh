# WORD: the entries of a folder as records of stat, first as they are, after a lone ///, links as what they lead to.
path "$1"
look "$p" || exit 0
[ -d "$p" ] || { echo 'E plain'; exit 0; }
[ -r "$p" ] && [ -x "$p" ] || { os ': Permission denied'; exit 0; }
echo ok
find "${p%/}/." -mindepth 1 -maxdepth 1 -exec stat -c '%f %s %Y %n///' -- {} + 2>/dev/null
echo '///'
find "${p%/}/." -mindepth 1 -maxdepth 1 -type l -exec stat -L -c '%f %s %Y %n///' -- {} + 2>/dev/null
