"""`make azure-sim` brings the simulator up, says how to use it, and `make azure-sim-down` ends it."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from services.azure_jobs import alive

from simulators.azure.certificates import make_certificates

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-sim-script")]
ROOT = Path(__file__).resolve().parents[3]


def script(action: str, folder: Path) -> str:
    argv = ["bash", str(ROOT / "scripts/azure-sim.sh"), action, str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_up_twice_and_down(tmp_path: Path) -> None:
    folder = tmp_path / "azure"
    try:
        wait_for_output = script("up", folder)
        assert script("up", folder) == wait_for_output
        pids = [int((folder / f"{name}.pid").read_text()) for name in ("sim", "azurite")]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        output = json.loads((folder / "sim.json").read_text())
        assert wait_for_output.startswith(f". {folder}/exports.sh\ncd {folder}/project ")
        exports = (folder / "exports.sh").read_text()
        env = dict(shlex.split(line)[1].split("=", 1) for line in exports.splitlines())
        assert env["ARM_CLOUD_METADATA_URL"].startswith(output["base"])
        assert Path(env["SSL_CERT_FILE"]).exists()
        targets = yaml.safe_load((folder / "project/gofer.yaml").read_text())["targets"]
        assert [targets[name].get("platform", "aml") for name in targets] == ["aml", "itp", "singularity"]
        asked = ["curl", "-sf", "--cacert", env["SSL_CERT_FILE"], env["ARM_CLOUD_METADATA_URL"]]
        done = subprocess.run(asked, capture_output=True, timeout=60, check=True)
        assert json.loads(done.stdout)[0]["resourceManager"] == output["base"] + "/"
        # What is about to end is renewed, and what runs with it started again.
        for name in ("ca.pem", "chain.pem"):
            (folder / name).unlink()
        make_certificates(folder, days=1)
        assert script("up", folder) == wait_for_output
        assert not any(alive(pid) for pid in pids)
        pids = [int((folder / f"{name}.pid").read_text()) for name in ("sim", "azurite")]
        subprocess.run(asked, capture_output=True, timeout=60, check=True)
    finally:
        ended = script("down", folder)
    assert ended == f"# ended the simulator; its files stay in {folder} for the next `make azure-sim`\n"
    assert not any(alive(pid) for pid in pids)
    assert script("down", folder) == f"# nothing runs in {folder}\n"


@pytest.mark.slow
def test_down_ends_what_does_not_listen(tmp_path: Path) -> None:
    argv = ["bash", "-c", "trap '' TERM; echo up; while :; do sleep 1; done", "simulators.azure"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as deaf:
        assert deaf.stdout and deaf.stdout.readline() == b"up\n"
        (tmp_path / "sim.pid").write_text(f"{deaf.pid}\n")
        script("down", tmp_path)
        assert deaf.wait(60) == -signal.SIGKILL
    assert not (tmp_path / "sim.pid").exists()


def test_certificates_are_renewed_a_day_before_their_end(tmp_path: Path) -> None:
    short = make_certificates(tmp_path, days=1).authority.read_bytes()
    made = make_certificates(tmp_path)
    fresh = made.authority.read_bytes()
    assert fresh != short
    assert make_certificates(tmp_path).authority.read_bytes() == fresh
    verify = ["openssl", "verify", "-CAfile", str(made.authority), str(made.chain)]
    subprocess.run(verify, check=True, capture_output=True, timeout=60)
