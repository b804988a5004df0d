"""`gofer prune` in the store of an Azure ML target: rooms, and agents of other versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azureml.backend.azure_home import AzureHome
from services.azure import Azure

from gofer.transport.bundle import mark

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.xdist_group("azure-runs")]
NOW = ("--older-than", "0s")
# Removes as one would two days from now: the service gives objects their times.
LATER = """
from gofer.ops.runs.observe import refresh
from gofer.ops.prune.prune import PruneRequest, remove, survey
refresh(session)
found = survey(session, PruneRequest(older_than_s=0.0, target="aml", code=True), now=time.time() + 2 * 86400)
assert not found.silent, found.silent
say(sorted([one.kind, one.name] for one in remove(found).removed))
"""


def pruned(home: AzureHome, *words: str) -> list[tuple[str, str]]:
    answer: dict[str, Any] = json.loads(home.gofer("prune", "--json", "-y", *words).out)
    return [(one["kind"], one["name"]) for one in answer["items"] if one["removed"]]


def put(home: AzureHome, name: str, data: bytes) -> None:
    client = home.azure.blob_client().get_container_client(home.container)
    client.upload_blob(f"me/gofer/{name}", data, overwrite=True)


def run_of(home: AzureHome, *words: str) -> str:
    run = home.submit(*words)
    home.gofer("wait", run, "--timeout", "280", status=None)
    return run


def test_the_handoff_objects_of_a_run_are_removed_some_time_after_its_end(
    home: AzureHome, azure: Azure
) -> None:
    over = run_of(home, "echo", "hello")
    azure.admin("POST", "/hold", {"held": True})
    going = home.submit("true")
    try:
        assert pruned(home) == []
        assert pruned(home, *NOW) == [("room", over)]
        assert home.blobs(f"rooms/{over}") == [] and home.blobs(f"rooms/{going}")
        assert f"me/gofer/agents/{mark()}.zip" in home.blobs("agents")
    finally:
        azure.admin("POST", "/hold", {"held": False})
    home.gofer("wait", going, "--timeout", "280")
    assert "hello" in home.gofer("logs", over).out


def test_handoff_objects_of_unknown_runs_stay_unless_the_record_has_their_end(home: AzureHome) -> None:
    over = run_of(home, "true")
    put(home, "rooms/r260101-000000-bbbbbb/request.json", b"{}")
    (home.path / "ledger.db").unlink()
    for ending in ("-wal", "-shm"):
        (home.path / f"ledger.db{ending}").unlink(missing_ok=True)
    assert pruned(home, *NOW) == [("room", over)]
    assert home.blobs("rooms/r260101-000000-bbbbbb")


def test_agents_of_other_versions_go_unless_a_run_needs_them(home: AzureHome) -> None:
    run_of(home, "true")
    for name in ("named", "unknown", "free"):
        put(home, f"agents/{name}.zip", b"not a real agent")
    assert pruned(home, *NOW)[0][0] == "room"  # the agents are young
    put(home, "rooms/r260101-000000-bbbbbb/request.json", b'{"agent": "named"}')
    assert home.python(LATER) == [["agent", "free"], ["agent", "unknown"]]
    # A run of an older gofer does not say which it needs.
    put(home, "agents/free.zip", b"not a real agent")
    put(home, "rooms/r260101-000001-bbbbbb/request.json", b"{}")
    assert home.python(LATER) == []
    assert f"me/gofer/agents/{mark()}.zip" in home.blobs("agents")


def test_code_that_no_run_has_goes_and_the_next_run_sends_it_again(home: AzureHome) -> None:
    home.gofer("init")  # what all of them share has a pack of its own
    (home.folder / "train.py").write_text("print('one')")
    first = run_of(home, "python3", "train.py")
    (home.folder / "train.py").write_text("print('two')")
    second = run_of(home, "python3", "train.py")
    home.gofer("prune", "-y", *NOW, "--runs", "--filter", f"id={first}")
    assert home.blobs(f"runs/{first}") == []
    assert {kind for kind, _ in home.python(LATER)} >= {"pack", "snapshot"}
    home.gofer("extract", second, "there")
    assert (home.folder / "there/code/train.py").read_text() == "print('two')"
    (home.folder / "train.py").write_text("print('one')")
    assert "one\n" in home.gofer("logs", run_of(home, "python3", "train.py")).out


def test_copies_of_the_service_s_logs_go_while_the_service_has_them(home: AzureHome) -> None:
    run = run_of(home, "echo", "hello")
    home.gofer("q", run)
    copies = [path for path in (home.folder / "assets" / run).rglob("*") if path.is_file()]
    assert any("std_log" in path.name for path in copies)
    assert ("log copies", run) in pruned(home, *NOW)
    assert not (home.folder / "assets" / run).exists()
    assert "hello" in home.gofer("q", run).out
