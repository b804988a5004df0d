#!/usr/bin/env bash
# Installs what the tests talk to and what no other list brings, into .test-services/: servers from
# tests/services/package-lock.json and programs from tests/services/programs.txt. Does nothing when they are there.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
. scripts/steps.sh

lock=tests/services/package-lock.json
programs=tests/services/programs.txt
folder=.test-services

install_servers() {
    command -v npm >/dev/null || fail 'the tests need Azurite, which npm installs, and there is no npm' \
        'install Node.js 20 or newer with npm'
    rm -rf "$folder"
    mkdir "$folder"
    echo '*' >"$folder/.gitignore"
    cp tests/services/package.json "$lock" "$folder"
    step 'install Azurite for the tests' npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund
    cp "$lock" "$folder/lock"
}

install_programs() {
    rm -rf "$folder/programs"
    step 'install rclone and uv for the tests' .venv/bin/python -I -m pip install --disable-pip-version-check --no-input \
        --require-hashes --only-binary :all: --target "$folder/programs" -r "$programs"
    cp "$programs" "$folder/programs.lock"
}

cmp -s "$lock" "$folder/lock" || install_servers
cmp -s "$programs" "$folder/programs.lock" || install_programs
