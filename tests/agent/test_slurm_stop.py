"""Stopping Slurm jobs that end by themselves at that moment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gofer.node.slurm import handoff
from gofer.node.slurm.calls import SlurmError
from gofer.remote.slurm.stop import cancel


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run that Slurm has, and a `scancel` that exits with the number in the file `status`."""
    place = Path(handoff.path_of(str(tmp_path), "r1"))
    place.mkdir(parents=True)
    (place / handoff.JOB).write_text("7")
    program = tmp_path / "bin" / "scancel"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexit $(cat {tmp_path}/status)\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize("status", [0, 225, 229])
def test_a_job_that_ends_meanwhile_is_skipped(site: Path, status: int) -> None:
    (site / "status").write_text(str(status))
    cancel(str(site), {"r1": None}, None)
    assert handoff.Handoff(handoff.path_of(str(site), "r1")).stop_order(None) == {"grace_s": None}


def test_any_other_silence_is_an_error(site: Path) -> None:
    (site / "status").write_text("3")
    with pytest.raises(SlurmError, match="it exited with 3"):
        cancel(str(site), {"r1": None}, None)
