"""`make azure-sim` brings the simulator up, says how to use it, and `make azure-sim-down` ends it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-sim-script")]
ROOT = Path(__file__).resolve().parents[3]


def script(action: str, folder: Path) -> str:
    argv = ["bash", str(ROOT / "scripts/azure-sim.sh"), action, str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_up_twice_and_down(tmp_path: Path) -> None:
    folder = tmp_path / "azure"
    try:
        said = script("up", folder)
        assert script("up", folder) == said
        pids = [int((folder / f"{name}.pid").read_text()) for name in ("sim", "azurite")]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        told = json.loads((folder / "sim.json").read_text())
        assert said.startswith(f". {folder}/exports.sh\ncd {folder}/project ")
        exports = (folder / "exports.sh").read_text()
        env = dict(shlex.split(line)[1].split("=", 1) for line in exports.splitlines())
        assert env["ARM_CLOUD_METADATA_URL"].startswith(told["base"])
        assert Path(env["SSL_CERT_FILE"]).exists()
        targets = yaml.safe_load((folder / "project/gofer.yaml").read_text())["targets"]
        assert [targets[name].get("platform", "aml") for name in targets] == ["aml", "itp", "singularity"]
        asked = ["curl", "-sf", "--cacert", env["SSL_CERT_FILE"], env["ARM_CLOUD_METADATA_URL"]]
        done = subprocess.run(asked, capture_output=True, timeout=60, check=True)
        assert json.loads(done.stdout)[0]["resourceManager"] == told["base"] + "/"
    finally:
        script("down", folder)
    assert not any(_runs(pid) for pid in pids)
    script("down", folder)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
