"""Runs on Slurm whose store is an object store: the nodes carry what they write there."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from home import until
from services.azurite import Azurite
from services.fixtures import azurite as azurite
from slurm.slurm_home import SlurmHome

from gofer.core import run_layout

pytestmark = [*ON_SLURM, pytest.mark.net]


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm, azurite: Azurite) -> SlurmHome:
    account = azurite.one
    values = {"url": f"az://{account.new_container()}/pre", "account": account.name}
    values |= {"key": "${env:DUMMY_KEY}", "endpoint": account.endpoint}
    store = "{" + ", ".join(f"{name}: '{value}'" for name, value in values.items()) + "}"
    home = SlurmHome(tmp_path, slurm, store=store)
    home.environ["DUMMY_KEY"] = account.key
    return home


def test_logs_outputs_and_the_end_are_in_the_store(home: SlurmHome) -> None:
    (home.folder / "code.txt").write_text("sent\n")
    script = 'cat code.txt; echo "$RANK" > "$GOFER_OUTPUT_DIR/rank-$RANK"; exit $NODE_RANK'
    done = home.gofer("submit", "-Q", "--nodes", "2", "sh", "-c", script)
    run = done.out.strip()
    (seen,) = home.wait(run)
    assert (seen["state"], seen["exit_code"], seen["first_failure"]["node"]) == ("failed", 1, 1)
    assert home.log(run, "--rank", "1") == "sent\n"
    store = home.session().store("fs")
    keys = [info.key for info in store.list(run_layout.run_key(run))]
    assert not [key for key in keys if ".parts/" in key]
    assert store.get(f"{run_layout.outputs_key(run)}/rank-1") == b"1\n"
    assert f"{run_layout.run_key(run)}/ends.jsonl" in keys


def test_a_log_is_in_the_store_while_the_run_runs(home: SlurmHome) -> None:
    run = home.submit("sh", "-c", "echo up; sleep 300")
    until(lambda: "up" in home.log(run) if home.view(run)["state"] == "running" else "", "the log")
    home.gofer("abort", run)
    assert (home.view(run)["state"], home.log(run)) == ("cancelled", "up\n")


def test_rows_that_end_at_once_all_tell_their_end(home: SlurmHome) -> None:
    run = home.submit("--each", "x=0,1,2,3", "sh", "-c", "exit {x}")
    (group,) = home.wait(run)
    assert group["counts"] == {"succeeded": 1, "failed": 3}
    codes = [home.view(f"{run}-{row}")["exit_code"] for row in range(4)]
    assert codes == [0, 1, 2, 3]


def test_a_requeued_run_finds_its_outputs(home: SlurmHome) -> None:
    """Each attempt has its own folder on its node; the first attempt was stopped and uploaded its folder."""
    script = """
cd "$GOFER_OUTPUT_DIR"
echo "attempt $GOFER_ATTEMPT at $(cat last.ckpt 2>/dev/null || echo 0)"
test -e last.ckpt && exit 0
mkdir deep; echo more > deep/x; echo 7 > last.ckpt
sleep 300
"""
    run = home.submit("sh", "-c", script)
    home.until_view(run, state="running")
    until(lambda: list(home.root.rglob(f"spool/runs/{run}/outputs/last.ckpt")), "the file on the node")
    home.slurm.call("scontrol", "requeue", home.job(run))
    (done,) = home.wait(run)
    assert (done["state"], len(done["attempts"])) == ("succeeded", 2)
    assert home.log(run, "--attempt", "2") == "attempt 2 at 7\n"
    store = home.session().store("fs")
    words = store.get(f"{run_layout.node_key(run, 2, 0)}/{run_layout.SETUP_LOG}").decode()
    assert "restored 2 files of the outputs, 7 bytes" in words
    assert store.head(f"{run_layout.node_key(run, 1, 0)}/{run_layout.SETUP_LOG}") is None
