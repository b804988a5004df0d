#!/usr/bin/env bash
# docs.sh [check]: builds the site of docs/ in .site/, if a file of the site has changed since the last time. MkDocs has
# an environment of its own, .venv-docs, which is made on the first call and when its lock has changed.
# The page docs/cli.md is written from the commands; with `check`, a page that differs from them is an error instead.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
. scripts/steps.sh

lock=requirements/docs.txt
site=.site

install_packages() {
    rm -rf .venv-docs
    .venv/bin/python -I -m venv .venv-docs
    .venv-docs/bin/python -I -m pip install --disable-pip-version-check --no-input --require-hashes -r "$lock"
}

build() {
    # MkDocs must not be told to be quiet: it counts only the warnings that it prints.
    NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build || return
    if grep -rlE --include='*.html' '<(script|link|img|iframe)[^>]+(src|href)="?(https?:)?//' "$site"; then
        echo 'these pages load something from another host'
        return 1
    fi
}

files() { # the contents of the site depend on these
    find docs -type f
    find bench examples -name '*.md'
    ls ./*.md mkdocs.yml scripts/docs.sh scripts/site_files.py "$lock"
}

fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
.venv/bin/python -m gofer.cli.reference >"$fresh"
if ! cmp -s "$fresh" docs/cli.md; then
    [ "${1:-}" != check ] || fail 'docs/cli.md is not what `gofer --help` says' 'make docs'
    cat "$fresh" >docs/cli.md
    echo 'wrote docs/cli.md' >&2
fi

known="$PWD $(cksum <"$lock")"
if [ "$(cat .venv-docs/stamp 2>/dev/null)" != "$known" ]; then
    step "install the $(grep -c '^[a-zA-Z]' "$lock") packages of MkDocs" install_packages
    printf '%s' "$known" >.venv-docs/stamp
fi

sum=$(files | sort | xargs -d '\n' sha256sum | sha256sum)
if [ "$(cat "$site/.stamp" 2>/dev/null)" != "$sum" ]; then
    rm -f "$site/.stamp"
    step 'build the site of docs/' build
    printf '%s' "$sum" >"$site/.stamp"
fi
[ "${1:-}" = check ] || echo "$PWD/$site/index.html"
