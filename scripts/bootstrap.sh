#!/usr/bin/env bash
# bootstrap.sh [dev|run]: makes .venv: the locked packages, and gofer itself, editable. make calls it when the lock or
# pyproject.toml changed. The packages are installed anew only when the lock has lost or changed one of those they came
# from; packages that are new in the lock are added.
# With `run` they are those that gofer needs to run and no more, until something needs the others.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
. scripts/steps.sh

lock=requirements/${1:-dev}.txt
stamp=.venv/stamp
[ "${1:-dev}" = dev ] || stamp=.venv/$1-stamp
python=

find_python() {
    local name
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            # The interpreter beneath, should $name be that of a virtual environment, perhaps of this very one.
            python=$("$name" -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))')
            return
        fi
    done
    fail "gofer needs Python 3.11 or newer, and \`${PYTHON:-python3}\` is $("${PYTHON:-python3}" -V 2>/dev/null || echo absent)" \
        'install one (Debian 12 and newer: `apt-get install python3 python3-venv`), or name one: `make venv PYTHON=/path/to/python3.11`'
}

need_ensurepip() {
    local package
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then return; fi
    # Debian ships ensurepip apart from Python, one package for each version.
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if can_install; then
        step "install $package" apt_install "$package"
    else
        fail "$python cannot make virtual environments: ensurepip is missing" \
            "as root: \`apt-get install python3-venv\` (or $package)"
    fi
}

packages_are_current() {
    cmp -s "$lock" .venv/lock && [ "$(cat "$stamp" 2>/dev/null)" = "$PWD" ] && .venv/bin/python -c '' 2>/dev/null
}

packages_are_missing_only() { # the lock still has every package that .venv was made from
    [ -s .venv/lock ] && [ "$(cat "$stamp" 2>/dev/null)" = "$PWD" ] && .venv/bin/python -c '' 2>/dev/null &&
        ! grep '^[a-zA-Z]' .venv/lock | grep -qvxFf "$lock"
}

add_packages() {
    step "add to the $(grep -c '^[a-zA-Z]' "$lock") locked packages" \
        .venv/bin/python -I -m pip install --disable-pip-version-check --no-input --require-hashes -r "$lock"
    cp "$lock" .venv/lock
}

install_packages() {
    find_python
    need_ensurepip
    rm -rf .venv
    step "make .venv with $("$python" -V)" "$python" -I -m venv .venv
    step "install the $(grep -c '^[a-zA-Z]' "$lock") locked packages" \
        .venv/bin/python -I -m pip install --disable-pip-version-check --no-input --require-hashes -r "$lock"
    # pip compiles what it installs, but not itself; some packages carry files that no Python 3 can compile.
    .venv/bin/python -I -m compileall -q .venv/lib >/dev/null 2>&1 || true
    cp "$lock" .venv/lock
}

echo 'gofer: setting up .venv' >&2
if packages_are_missing_only; then
    packages_are_current || add_packages
else
    install_packages
fi
rm -f "$stamp"
step 'install gofer, editable' .venv/bin/python -I -m pip install --disable-pip-version-check --no-input \
    --no-build-isolation --no-deps --no-index -e .
printf '%s\n' "$PWD" >"$stamp"
