"""`python -m bench.azure.service FOLDER`: the simulated workspace as a child process.

It prints one line of JSON, what leads to it, and then answers each line `[method, path, body]` on stdin, a
request of the simulator's admin API, with one line. It ends with its stdin. It is a process of its own so
that the one which measures stays small.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from services.azure import azure_sim

from simulators.azure.resources import GROUP, SUBSCRIPTION, WORKSPACE


def main(folder: str) -> None:
    with azure_sim(Path(folder)) as azure:
        account = azure.account()
        requests_text = {
            "env": azure.env(),
            "workspace": [SUBSCRIPTION, GROUP, WORKSPACE],
            "container": azure.container("bench"),
            "account": account.name,
            "endpoint": account.endpoint,
            "key": account.key,
        }
        print(json.dumps(requests_text), flush=True)
        for line in sys.stdin:
            print(json.dumps(azure.admin(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
