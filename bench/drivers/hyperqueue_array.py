"""`hyperqueue_array.py COUNT FOLDER (discard|files)`: `true` COUNT times through HyperQueue on a 2-core
worker.

The package on PyPI (0.27.0) has no `hq` program: the server and the worker live in this process. Its own
wait polls once a second, too coarse for a job of two seconds, so this driver polls every 5 ms. The
clock starts when the submission has returned: the first task starts at about that moment and HyperQueue's
times per task are not to be had from Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any

from hyperqueue import Job, LocalCluster  # type: ignore[import-not-found, unused-ignore]
from hyperqueue.cluster import WorkerConfig  # type: ignore[import-not-found, unused-ignore]


class Seen(Exception):
    """Breaks out of HyperQueue's wait after its first answer."""


def progress(client: Any, job_id: int) -> dict[str, Any]:
    """Counts of a job now; empty when HyperQueue answered without calling back."""
    seen: dict[str, Any] = {}

    def note(jobs: dict[int, dict[str, Any]]) -> None:
        seen.update(jobs[job_id])
        raise Seen

    with contextlib.suppress(Seen):
        client.connection.wait_for_jobs([job_id], note)
    return seen


def described(count: int, output: str) -> Any:
    job = Job()
    for _ in range(count):
        if output == "files":
            job.program(["true"])
        else:
            job.program(["true"], stdout=None, stderr=None)
    return job


def main(count: int, folder: str, output: str) -> None:
    os.chdir(folder)
    with LocalCluster(server_dir=folder, worker_config=WorkerConfig(cores=2)) as cluster:
        client = cluster.client()
        job = described(count, output)
        asked = time.perf_counter()
        submitted = client.submit(job)
        started = time.perf_counter()
        while True:
            seen = progress(client, submitted.id)
            if seen.get("completed"):
                break
            time.sleep(0.005)
        ended = time.perf_counter()
    if seen["finished"] != count:
        raise SystemExit(f"{seen['finished']} of {count} tasks finished, {seen['failed']} failed")
    print(json.dumps({"run_s": ended - started, "whole_s": ended - asked, "count": count}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
