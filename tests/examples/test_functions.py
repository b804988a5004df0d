"""The example of functions as jobs, as a user starts it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from home import Home

EXAMPLE = Path(__file__).parents[2] / "examples" / "functions"


def test_pi_is_estimated_by_a_group_of_runs(home: Home) -> None:
    shutil.copytree(EXAMPLE, home.folder, dirs_exist_ok=True)
    done = subprocess.run(
        [sys.executable, "estimate_pi.py", "--runs", "3"],
        cwd=home.folder,
        env=home.environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("pi is about 3.1")
    listed = home.gofer("list", "runs", "--rows", "--filter", "name=darts", "--columns", "arg.seed,state").out
    assert [line.split() for line in listed.splitlines()[1:]][-3:] == [
        [str(n), "succeeded"] for n in range(3)
    ]
