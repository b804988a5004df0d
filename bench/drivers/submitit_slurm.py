"""`submitit_slurm.py map|submit COUNT FOLDER`: `true` COUNT times, as one array or one by one, held.
`submitit_slurm.py state FOLDER`: what state those jobs are in, asked by a process that did not submit them.
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
from pathlib import Path

import submitit  # type: ignore[import-not-found, unused-ignore]


def send(verb: str, count: int, folder: str) -> None:
    executor = submitit.SlurmExecutor(folder)
    executor.update_parameters(time=60, array_parallelism=count, additional_parameters={"hold": True})
    if verb == "map":
        jobs = executor.map_array(subprocess.call, [["true"]] * count)
    else:
        jobs = [executor.submit(subprocess.call, ["true"]) for _ in range(count)]
    Path(folder, "ids").write_text("\n".join(job.job_id for job in jobs), encoding="ascii")


def state(folder: str) -> None:
    """All jobs are registered before the first query: submitit then asks Slurm about all of them at once."""
    ids = Path(folder, "ids").read_text(encoding="ascii").split()
    jobs = [submitit.SlurmJob(folder, job_id) for job_id in ids]
    print(json.dumps(collections.Counter(job.state for job in jobs)))


if __name__ == "__main__":
    if sys.argv[1] == "state":
        state(sys.argv[2])
    else:
        send(sys.argv[1], int(sys.argv[2]), sys.argv[3])
