#!/usr/bin/env bash
# A first run on this machine: train, look at the run, list it. All that gofer keeps goes to .demo/ in this folder.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
export GOFER_HOME=$PWD/.demo PATH=$PWD/.venv/bin:$PATH

show() { # the command as one would type it, then what it says
    printf '\n$ %s\n' "$*"
    "$@"
}

echo 'A small training script, run through gofer on this machine. gofer keeps this demo under .demo/ and leaves your home alone.'
show cd examples/train_spiral
show gofer submit -f python train.py
show gofer q last
show gofer list runs

cat <<'TEXT'

That was a real run: its code, log and outputs are kept under .demo/. To go on with it, type:

    source .venv/bin/activate
    export GOFER_HOME=$PWD/.demo
    cd examples/train_spiral

    gofer logs last --tail 5                                    # the end of the log
    gofer extract last out                                      # code, logs and outputs of the run, in out/
    gofer submit --each lr=0.03,0.003 python train.py --lr {lr} # two more, with other learning rates
    gofer list runs --filter state=succeeded                    # and a table of them
    gofer --help

Without GOFER_HOME, gofer keeps its runs in your home. `make clean` removes the demo.
TEXT
