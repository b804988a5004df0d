#!/usr/bin/env bash
# Writes requirements/*.txt from pyproject.toml: exact versions for every platform, every file's hash, and no address.
# Versions already locked stay unless UPGRADE=1. Needs the package registry; uv comes from its own lock.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
. scripts/steps.sh

uv=.venv-lock/bin/uv

install_uv() {
    rm -rf .venv-lock
    "${PYTHON:-python3}" -I -m venv .venv-lock
    .venv-lock/bin/python -I -m pip install --disable-pip-version-check --require-hashes -r requirements/lock.txt
}

lock() { # lock FILE OPTION...
    local file=requirements/$1
    shift
    "$uv" pip compile --no-config --universal --python-version 3.11 --generate-hashes --no-annotate \
        --no-emit-index-url --no-emit-find-links --no-header ${UPGRADE:+--upgrade} --output-file "$file" "$@"
    # uv keeps the comments it finds at the top, so ours is taken off and put back.
    { echo '# Made by `make lock` from pyproject.toml; install with `pip install --require-hashes -r`.'; grep -v "^#" "$file"; } >"$file.new"
    mv "$file.new" "$file"
}

[ -x "$uv" ] || step 'install uv' install_uv
step 'lock requirements/dev.txt' lock dev.txt pyproject.toml --group dev
step 'lock requirements/run.txt' lock run.txt pyproject.toml --group build --constraint requirements/dev.txt
step 'lock requirements/docs.txt' lock docs.txt --group docs
step 'lock requirements/lock.txt' lock lock.txt --group lock
# Without PyTorch and its GPU libraries: a machine may offer a build for CPUs.
step 'lock requirements/torch.txt' lock torch.txt --group torch --override <(echo "torch; python_version < '3'")
