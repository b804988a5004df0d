"""A transfer in a process of its own, to be killed: `python worker.py` with a JSON object as its argument.

Prints `begun` before the first byte moves, and at the end the result and the most memory it used, in MiB.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from gofer.config.stores import StoreOptions
from gofer.storage.open import open_store
from gofer.transfer import End, LocalEnd, StoreEnd, TransferOptions, plan, run


def start(job: dict[str, Any]) -> subprocess.Popen[str]:
    """The process; it dies with the test."""
    argv = ["setpriv", "--pdeathsig", "KILL", sys.executable, __file__, json.dumps(job)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], *, timeout_s: float = 300) -> dict[str, Any]:
    """What it printed in the end; AssertionError when it failed."""
    out, _ = process.communicate(timeout=timeout_s)
    assert process.returncode == 0, out
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def peak_mib() -> int:
    """The most memory this process held; `ru_maxrss` would include the memory of its parent."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) >> 10


def _main(job: dict[str, Any]) -> None:
    url, options = job["store"]
    far = StoreEnd(open_store(url, StoreOptions(**options), create=True), job["prefix"])
    near = LocalEnd(Path(job["folder"]))
    ends: tuple[End, End] = (near, far) if job["verb"] == "up" else (far, near)
    planned = plan(*ends, TransferOptions(jobs=job.get("jobs", 0)))
    print("begun", flush=True)
    result = run(planned, state=Path(job["state"]) if job.get("state") else None)
    failed = [*result.failed, *result.changed]
    print(json.dumps({"files": result.files, "failed": failed, "peak_mib": peak_mib()}), flush=True)


if __name__ == "__main__":
    try:
        _main(json.loads(sys.argv[1]))
    except KeyboardInterrupt:
        sys.stdout.flush()
        os._exit(130)
