"""`submitit_submit.py FOLDER ARGV…`: one command through submitit's LocalExecutor; prints when submit
returned.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence

import submitit  # type: ignore[import-not-found, unused-ignore]


def main(folder: str, argv: Sequence[str]) -> None:
    executor = submitit.LocalExecutor(folder)
    executor.update_parameters(timeout_min=5)
    job = executor.submit(subprocess.call, list(argv))
    print(json.dumps({"returned": time.perf_counter()}), flush=True)
    if job.result() != 0:
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
