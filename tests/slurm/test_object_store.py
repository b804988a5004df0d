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
from slurm.desk import Desk

from gofer.agent import folder

pytestmark = [*ON_SLURM, pytest.mark.net]


@pytest.fixture
def desk(tmp_path: Path, slurm: Slurm, azurite: Azurite) -> Desk:
    account = azurite.one
    values = {"url": f"az://{account.new_container()}/pre", "account": account.name}
    values |= {"key": "${env:DUMMY_KEY}", "endpoint": account.endpoint}
    store = "{" + ", ".join(f"{name}: '{value}'" for name, value in values.items()) + "}"
    desk = Desk(tmp_path, slurm, store=store)
    desk.environ["DUMMY_KEY"] = account.key
    return desk


def test_logs_outputs_and_the_end_are_in_the_store(desk: Desk) -> None:
    (desk.folder / "code.txt").write_text("sent\n")
    script = 'cat code.txt; echo "$RANK" > "$GOFER_OUTPUT_DIR/rank-$RANK"; exit $NODE_RANK'
    done = desk.gofer("submit", "-Q", "--nodes", "2", "sh", "-c", script)
    run = done.out.strip()
    (seen,) = desk.wait(run)
    assert (seen["state"], seen["exit_code"], seen["first_failure"]["node"]) == ("failed", 1, 1)
    assert desk.log(run, "--rank", "1") == "sent\n"
    store = desk.session().store("fs")
    keys = [info.key for info in store.list(folder.run_key(run))]
    assert not [key for key in keys if ".parts/" in key]
    assert store.get(f"{folder.outputs_key(run)}/rank-1") == b"1\n"
    assert f"{folder.run_key(run)}/ends.jsonl" in keys


def test_a_log_is_in_the_store_while_the_run_runs(desk: Desk) -> None:
    run = desk.submit("sh", "-c", "echo up; sleep 300")
    until(lambda: "up" in desk.log(run) if desk.view(run)["state"] == "running" else "", "the log")
    desk.gofer("abort", run)
    assert (desk.view(run)["state"], desk.log(run)) == ("cancelled", "up\n")


def test_rows_that_end_at_once_all_tell_their_end(desk: Desk) -> None:
    run = desk.submit("--each", "x=0,1,2,3", "sh", "-c", "exit {x}")
    (group,) = desk.wait(run)
    assert group["counts"] == {"succeeded": 1, "failed": 3}
    codes = [desk.view(f"{run}-{row}")["exit_code"] for row in range(4)]
    assert codes == [0, 1, 2, 3]
