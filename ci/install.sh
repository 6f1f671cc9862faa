#!/bin/sh
# Installs Fanfold of this checkout for the steps that follow, in an environment of its own: install.sh FOLDER [EXTRAS]
# EXTRAS are those of pyproject.toml, separated by commas. On GitHub the later steps find `fanfold` by GITHUB_PATH.
set -eu
environment=$1/fanfold extras=${2:-}
checkout=$(cd "$(dirname "$0")/.." && pwd)

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "install: Fanfold needs Python 3.11 or later as python3, and this is $(python3 --version)" >&2
    exit 2
}
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet "$checkout${extras:+[$extras]}"
[ -z "${GITHUB_PATH:-}" ] || echo "$environment/bin" >>"$GITHUB_PATH"
"$environment/bin/fanfold" --version
