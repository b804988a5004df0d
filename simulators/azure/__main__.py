"""`python -m simulators.azure --folder DIR --blobs URL --accounts FILE`: the simulator as a program.

When it serves, `DIR/sim.json` says where. It ends with SIGTERM or SIGINT; jobs that run then are ended too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

from simulators.azure.admin import describe
from simulators.azure.app import Simulator, SimulatorOptions
from simulators.azure.attempt import Habits
from simulators.azure.certificates import make_certificates

_LOOK_S = 0.2


def main() -> int:
    given = _arguments()
    folder: Path = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # The state holds what datastores were given to open their containers.
    folder.chmod(0o700)
    habits = Habits(given.grace, given.peer_grace)
    accounts = json.loads(given.accounts.read_text())
    options = SimulatorOptions(
        folder, given.blobs.rstrip("/"), accounts, make_certificates(folder), given.port, given.page, habits
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    simulator = Simulator(options)
    simulator.start()
    is_told = describe(simulator.base, simulator.plain, options.blobs, simulator.admin_token)
    _write(folder / "sim.json", is_told)
    print(simulator.base, flush=True)
    # A thread that forks as the signal comes may take it: this one runs the handler when it wakes next.
    while not ended.wait(_LOOK_S):
        pass
    simulator.stop()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulators.azure", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, required=True, help="where its state, certificates and jobs are kept"
    )
    parser.add_argument("--blobs", required=True, help="Azurite's address, as https://127.0.0.1:10000")
    parser.add_argument(
        "--accounts", type=Path, required=True, help="JSON file: storage account names and their keys"
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--page", type=int, default=100, help="jobs in one page of a list")
    parser.add_argument("--grace", type=float, default=30.0, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument(
        "--peer-grace", type=float, default=10.0, help="seconds for the others when a process fails"
    )
    return parser.parse_args()


def _write(path: Path, document: dict[str, object]) -> None:
    partial = path.with_suffix(".tmp")
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(document, indent=2) + "\n")
    os.replace(partial, path)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as failure:
        sys.exit(f"error: {failure}\nhint: `apt-get install openssl`")
