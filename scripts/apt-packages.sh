#!/usr/bin/env bash
# Sees to it that the commands named in apt-packages.txt are there: installs them as root, else says what to install.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
. scripts/steps.sh

missing=()
while read -r package command _; do
    case $package in '' | '#'*) continue ;; esac
    command -v "$command" >/dev/null || missing+=("$package")
done <scripts/apt-packages.txt

if [ ${#missing[@]} = 0 ]; then
    exit 0
elif can_install; then
    step "install ${missing[*]}" apt_install "${missing[@]}"
else
    fail "the tests need ${missing[*]}" "as root: \`apt-get install ${missing[*]}\`; \`make test-unit\` needs no root"
fi
