#!/bin/sh
# Installs and starts what the tests need, as far as it is missing and may be installed. Safe to run again.
# What cannot be had is said; its tests skip on a laptop, and with CI=true that is an error.
set -eu
cd "$(dirname "$0")"

give_up() {
    echo "prepare-tests: $1" >&2
    [ "${CI:-}" != true ] || exit 1
}

if sh ensure-docker.sh; then
    sh test-images.sh || give_up "the test images could not be built: the Docker tests will be skipped"
    sh fanfold-images.sh || give_up "Fanfold's own images could not be built: their tests, and those of the chart's pods, will be skipped"
    sh service-images.sh || give_up "without their images, the tests with servers in containers will be skipped"
else
    give_up "without an engine the Docker tests will be skipped"
fi
sh ensure-compose.sh || give_up "without both versions of Compose the tests of infra/compose.yaml will be skipped"
sh ensure-program.sh redis-server redis-server || give_up "without redis-server the tests that use one will be skipped"
sh ensure-program.sh rg ripgrep || give_up "without ripgrep the tests that compare with it will be skipped"
sh ensure-program.sh curl curl || give_up "without curl the tests of the docs will be skipped"
sh ensure-postgres.sh || give_up "without PostgreSQL the tests that use one will be skipped"
sh ensure-chart-tools.sh || give_up "without promtool and Helm 3 the tests of rules and chart will be skipped"
