"""`submitit_array.py COUNT WINDOW FOLDER`: `true` COUNT times through submitit's LocalExecutor.

Its map_array starts all jobs at once (two interpreters each): a thousand of them need more memory than most
machines have. So WINDOW are kept going, which is also faster. A job counts as ended when its result file is
there, before its controller has noticed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import submitit  # type: ignore[import-not-found, unused-ignore]


def main(count: int, window: int, folder: str) -> None:
    executor = submitit.LocalExecutor(folder)
    executor.update_parameters(timeout_min=60)
    asked = time.perf_counter()
    live: list[Any] = [executor.submit(subprocess.call, ["true"])]
    started = time.perf_counter()
    left = count - 1
    while left or live:
        while left and len(live) < window:
            live.append(executor.submit(subprocess.call, ["true"]))
            left -= 1
        time.sleep(0.002)
        live = [job for job in live if not job.paths.result_pickle.exists()]
    ended = time.perf_counter()
    print(json.dumps({"run_s": ended - started, "whole_s": ended - asked, "count": count}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
