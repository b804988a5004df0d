#!/usr/bin/env bash
# azure-sim.sh up|down [FOLDER]: the simulator of Azure Machine Learning and the Azurite it keeps its blobs in, as
# background processes of this machine, on loopback alone. Starting what runs already only prints how to use it.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
. scripts/steps.sh

action=${1:-up}
folder=${2:-.clusters/azure}
python=.venv/bin/python
azurite=.test-services/node_modules/azurite/dist/src/blob/main.js

running() { # running NAME: whether the process whose number the file holds is there, and is ours
    [ -s "$folder/$1.pid" ] && grep -qsa -e azurite -e simulators.azure "/proc/$(<"$folder/$1.pid")/cmdline"
}

stop() { # stop NAME: it has ten seconds to end by itself
    local number
    for number in TERM KILL; do
        running "$1" || break
        kill -s "$number" "$(<"$folder/$1.pid")" 2>/dev/null || :
        for _ in $(seq 100); do running "$1" || break; sleep 0.1; done
    done
    rm -f "$folder/$1.pid"
}

aged() { # whether the certificates end within a day: then what runs with them must start with others
    [ -s "$folder/chain.pem" ] && ! openssl x509 -checkend 86400 -noout -in "$folder/chain.pem" >/dev/null
}

free_port() {
    "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

start_azurite() {
    "$python" - "$folder" <<'PYTHON'
import base64, json, pathlib, sys
from simulators.azure.certificates import make_certificates
folder = pathlib.Path(sys.argv[1])
make_certificates(folder)
names = ("dummyone", "dummytwo")
keys = {name: base64.b64encode(name.encode() * 8).decode() for name in names}
(folder / "accounts.json").write_text(json.dumps(keys))
(folder / "accounts.env").write_text(";".join(f"{name}:{key}" for name, key in keys.items()))
PYTHON
    [ -s "$folder/blob-port" ] || free_port >"$folder/blob-port"
    AZURITE_ACCOUNTS=$(<"$folder/accounts.env") setsid node "$azurite" --silent --disableTelemetry \
        --skipApiVersionCheck --oauth basic --blobHost 127.0.0.1 --blobPort "$(<"$folder/blob-port")" \
        --cert "$folder/chain.pem" --key "$folder/leaf.key" -l "$folder/azurite" \
        >>"$folder/azurite.log" 2>&1 </dev/null &
    echo $! >"$folder/azurite.pid"
    for _ in $(seq 300); do
        (exec 3<>"/dev/tcp/127.0.0.1/$(<"$folder/blob-port")") 2>/dev/null && return
        sleep 0.1
    done
    fail 'Azurite did not start' "see $folder/azurite.log"
}

start_simulator() {
    [ -s "$folder/sim-port" ] || free_port >"$folder/sim-port"
    rm -f "$folder/sim.json"
    setsid "$python" -m simulators.azure --folder "$folder" --port "$(<"$folder/sim-port")" \
        --blobs "https://127.0.0.1:$(<"$folder/blob-port")" --accounts "$folder/accounts.json" \
        >>"$folder/sim.log" 2>&1 </dev/null &
    echo $! >"$folder/sim.pid"
    for _ in $(seq 300); do
        [ -s "$folder/sim.json" ] && return
        sleep 0.1
    done
    fail 'the simulator did not start' "see $folder/sim.log"
}

case $action in
up)
    mkdir -p "$folder"
    if aged; then stop sim; stop azurite; fi
    running azurite || start_azurite
    running sim || start_simulator
    "$python" -m simulators.azure.usage "$folder"
    ;;
down)
    if running sim || running azurite; then
        stop sim
        stop azurite
        echo "# ended the simulator; its files stay in $folder for the next \`make azure-sim\`"
    else
        stop sim
        stop azurite
        echo "# nothing runs in $folder"
    fi
    ;;
*) fail "azure-sim.sh takes up or down, not $action" '`make azure-sim`' ;;
esac
