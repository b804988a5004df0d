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

# Other versions of Python: what runs on nodes works from Python 3.8 on. Those under pyenv or on the path are used as
# they are. uv downloads the others from a host that some networks do not reach; their tests fail then.
install_pythons() {
    local version
    for version in 3.8 3.9 3.10 3.12 3.13; do
        has_python "$version" ||
            (step "install Python $version for the tests" "$folder/programs/bin/uv" python install --no-bin \
                --install-dir "$folder/pythons" "$version") ||
            echo "the tests that need Python $version will fail: install it with pyenv, or put it on the path" >&2
    done
    has_python 3.7 || has_python 3.6 ||
        echo 'the tests of a Python that is too old will fail: `pyenv install 3.7` brings one' >&2
}

has_python() { # has_python VERSION
    local found
    compgen -G "${PYENV_ROOT:-/nonexistent}/versions/$1.*/bin/python3" >/dev/null && return
    compgen -G "$folder/pythons/cpython-$1.*/bin/python3" >/dev/null && return
    found=$(command -v "python$1") && [[ $found != */shims/* ]]
}

cmp -s "$lock" "$folder/lock" || install_servers
cmp -s "$programs" "$folder/programs.lock" || install_programs
install_pythons
