#!/usr/bin/env bash
# Installs the servers that the tests talk to and that pip cannot bring, from tests/services/package-lock.json into
# .test-services/. Does nothing when they are there already.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
. scripts/steps.sh

lock=tests/services/package-lock.json
folder=.test-services

if cmp -s "$lock" "$folder/lock"; then exit 0; fi
command -v npm >/dev/null || fail 'the tests need Azurite, which npm installs, and there is no npm' \
    'install Node.js 20 or newer with npm'
rm -rf "$folder"
mkdir "$folder"
echo '*' >"$folder/.gitignore"
cp tests/services/package.json "$lock" "$folder"
step 'install Azurite for the tests' npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund
cp "$lock" "$folder/lock"
