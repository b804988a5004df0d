"""Runs on the simulator that write more than `keep` beside their code, or whose node dies."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from azureml.backend.azure_home import AzureHome
from azureml.backend.test_outlive import basic as basic
from home import until
from services.azure import Azure

from gofer.text import format_local_time

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.xdist_group("azure-runs")]
# Three files of 1,000 bytes, each a second newer than the last.
WRITES = "for n in 1 2 3; do head -c 1000 /dev/zero > $n; touch -d 2026-01-01T00:00:0${n}Z $n; done"


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_newest_files_are_fetched_and_every_view_names_the_others(home: AzureHome) -> None:
    home.environ |= {"GOFER_KEEP": "1500", "GOFER_KEEP_MOST": "2500", "GOFER_OUTPUTS": "*.pt"}
    done = home.gofer("submit", "--wait", "sh", "-c", f"{WRITES}; head -c 400 /dev/zero > m.pt")
    name = home.view("last")["short_id"]
    assert done.err.splitlines()[-1] == (
        f"{name} succeeded; 3 files, 2.3 KiB: `gofer extract {name} DIR`; not kept, as it is more than "
        "`keep` allows: 1"
    )
    shown = home.gofer("query", name).out
    assert "left out   1 (more than may be kept)\n" in shown and "durable" not in shown
    home.gofer("extract", name, str(home.root / "out"))
    assert files_of(home.root / "out" / "files") == ["2", "3", "m.pt"]


def test_the_rows_of_a_group_keep_so_much_together(home: AzureHome) -> None:
    """Rows that end at the same moment count one after the other."""
    home.environ |= {"GOFER_KEEP": "3k", "GOFER_KEEP_GROUP": "7k"}
    group = home.gofer("submit", "-Q", "--wait", "--each", "x=1..4", "sh", "-c", WRITES).out.strip()
    home.gofer("extract", group, str(home.root / "out"))
    found = [files_of(home.root / "out" / str(row) / "files") for row in range(4)]
    assert sorted(len(files) for files in found) == [0, 1, 3, 3], found
    assert ["3"] in found  # the newest
    assert len(home.blobs(f"runs/{group}-")) and home.blobs(f"told/{group}/kept-bytes")


def test_the_last_upload_of_a_dead_node_is_reported(basic: AzureHome, azure: Azure) -> None:
    words = ["submit", "-c", "basic", "-n", "1", "--wait", "sh", "-c", "echo 1 > step; sleep 600"]
    with subprocess.Popen(
        basic.argv(*words), cwd=basic.folder, env=basic.environ, stderr=subprocess.PIPE, text=True
    ) as waiting:
        until(lambda: basic.blobs("runs/") and basic.view("last")["state"] == "running", "it runs")
        run = basic.view("last")["id"]
        key = f"me/gofer/runs/{run}/files/step"
        until(lambda: key in basic.blobs(f"runs/{run}/files"), "the file in the store")
        client = azure.blob_client().get_container_client(basic.container)
        at = client.get_blob_client(key).get_blob_properties().last_modified.timestamp()
        so_far = f"the store has what the command wrote as of {format_local_time(at)}"
        assert f"durable    {so_far}\n" in basic.gofer("query", run).out
        assert re.search(f"^  durable +{so_far}$", basic.gofer("why", run).out, re.MULTILINE)
        azure.admin("POST", f"/jobs/{run}/fail-node", {})
        _, err = waiting.communicate(timeout=280)
    lost = f"{so_far}; what it wrote later is lost"
    assert err.splitlines()[-1].endswith(f"; {lost}"), err
    assert json.loads(basic.gofer("why", "--json", run).out)["durable"] == lost
    assert basic.view(run)["came_home"]["last_durable"] == lost
    assert f"durable    {lost}\n" in basic.gofer("query", run).out
