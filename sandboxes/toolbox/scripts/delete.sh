# WORD KEY: deletes a file, a link or a tree.
path "$1"
begin "$2" || exit 0
if [ -d "$p" ] && [ ! -L "$p" ]; then
    m=$(rm -r -f -- "$p" 2>&1)
else
    m=$(rm -- "$p" 2>&1)
fi && finish ok || finish "$(os "$m")"
