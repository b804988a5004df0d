#!/usr/bin/env bash
# Sets up .venv-torch with PyTorch for `make test-torch`, once. A CPU build is enough, and is taken where pip is offered one.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
. scripts/steps.sh

wanted="torch==2.13.0 numpy"
stamp=.venv-torch/stamp
lock=requirements/torch.txt
known="$PWD $wanted $(cksum <"$lock")"
if [ -x .venv-torch/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$known" ]; then
    exit 0
fi
rm -rf .venv-torch
step 'make .venv-torch' .venv/bin/python -m venv .venv-torch
# shellcheck disable=SC2086  (several words)
step 'install PyTorch, about 1 GB' .venv-torch/bin/python -m pip install --disable-pip-version-check --quiet $wanted
step 'install accelerate and Lightning' .venv-torch/bin/python -m pip install --disable-pip-version-check --quiet \
    --no-deps --require-hashes -r "$lock"
printf '%s' "$known" >"$stamp"
