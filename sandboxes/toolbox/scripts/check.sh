# Prints the programs that the other scripts need and that are missing here, and makes their folders.
for one in cat chmod date find grep head kill ln mkdir mkfifo mv readlink rm setsid sha1sum sleep stat tail tee wc; do
    command -v "$one" >/dev/null 2>&1 || printf '%s ' "$one"
done
mkdir -p "$S/calls" "$S/journal" "$S/running" "$S/tmp"
echo ok
