#!/bin/sh
# Runs examples/fix-the-bug, then shows that its patch mends the original: demo.sh FOLDER-WITH-FANFOLD
set -eu
fanfold=$(cd "$1" && pwd)/fanfold
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

echo "\$ fanfold run examples/fix-the-bug/task.yaml"
"$fanfold" run examples/fix-the-bug/task.yaml --out "$out"

patch=$(find "$out" -name patch.diff)
echo
echo "The patch:"
cat "$patch"
cp -R examples/fix-the-bug/repo "$out/repo"
cd "$out/repo"
git apply "$patch"
echo
echo "The tests of the original, with the patch applied:"
PYTHONDONTWRITEBYTECODE=1 python3 -m unittest
