"""`gofer prune` in the store of an Azure ML target: rooms, and agents of other versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azureml.backend.desk import Desk
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


def pruned(desk: Desk, *words: str) -> list[tuple[str, str]]:
    answer: dict[str, Any] = json.loads(desk.gofer("prune", "--json", "-y", *words).out)
    return [(one["kind"], one["name"]) for one in answer["items"] if one["removed"]]


def put(desk: Desk, name: str, data: bytes) -> None:
    client = desk.azure.blob_client().get_container_client(desk.container)
    client.upload_blob(f"me/gofer/{name}", data, overwrite=True)


def run_of(desk: Desk, *words: str) -> str:
    run = desk.submit(*words)
    desk.gofer("wait", run, "--timeout", "280", status=None)
    return run


def test_the_room_of_a_run_goes_when_it_has_ended_for_so_long(desk: Desk, azure: Azure) -> None:
    over = run_of(desk, "echo", "hello")
    azure.admin("POST", "/hold", {"held": True})
    going = desk.submit("true")
    try:
        assert pruned(desk) == []
        assert pruned(desk, *NOW) == [("room", over)]
        assert desk.blobs(f"rooms/{over}") == [] and desk.blobs(f"rooms/{going}")
        assert f"me/gofer/agents/{mark()}.zip" in desk.blobs("agents")
    finally:
        azure.admin("POST", "/hold", {"held": False})
    desk.gofer("wait", going, "--timeout", "280")
    assert "hello" in desk.gofer("logs", over).out


def test_a_room_that_nobody_here_knows_stays_unless_its_record_says_it_ended(desk: Desk) -> None:
    over = run_of(desk, "true")
    put(desk, "rooms/r260101-000000-bbbbbb/request.json", b"{}")
    (desk.path / "ledger.db").unlink()
    for ending in ("-wal", "-shm"):
        (desk.path / f"ledger.db{ending}").unlink(missing_ok=True)
    assert pruned(desk, *NOW) == [("room", over)]
    assert desk.blobs("rooms/r260101-000000-bbbbbb")


def test_agents_of_other_versions_go_unless_a_run_needs_them(desk: Desk) -> None:
    run_of(desk, "true")
    for name in ("named", "unknown", "free"):
        put(desk, f"agents/{name}.zip", b"not a real agent")
    assert pruned(desk, *NOW)[0][0] == "room"  # the agents are young
    put(desk, "rooms/r260101-000000-bbbbbb/request.json", b'{"agent": "named"}')
    assert desk.python(LATER) == [["agent", "free"], ["agent", "unknown"]]
    # A run of an older gofer does not say which it needs.
    put(desk, "agents/free.zip", b"not a real agent")
    put(desk, "rooms/r260101-000001-bbbbbb/request.json", b"{}")
    assert desk.python(LATER) == []
    assert f"me/gofer/agents/{mark()}.zip" in desk.blobs("agents")


def test_code_that_no_run_has_goes_and_the_next_run_sends_it_again(desk: Desk) -> None:
    desk.gofer("init")  # what all of them share has a pack of its own
    (desk.folder / "train.py").write_text("print('one')")
    first = run_of(desk, "python3", "train.py")
    (desk.folder / "train.py").write_text("print('two')")
    second = run_of(desk, "python3", "train.py")
    desk.gofer("prune", "-y", *NOW, "--runs", "--filter", f"id={first}")
    assert desk.blobs(f"runs/{first}") == []
    assert {kind for kind, _ in desk.python(LATER)} >= {"pack", "snapshot"}
    desk.gofer("extract", second, "there")
    assert (desk.folder / "there/code/train.py").read_text() == "print('two')"
    (desk.folder / "train.py").write_text("print('one')")
    assert "one\n" in desk.gofer("logs", run_of(desk, "python3", "train.py")).out


def test_copies_of_the_service_s_logs_go_while_the_service_has_them(desk: Desk) -> None:
    run = run_of(desk, "echo", "hello")
    desk.gofer("q", run)
    copies = [path for path in (desk.folder / "assets" / run).rglob("*") if path.is_file()]
    assert any("std_log" in path.name for path in copies)
    assert ("log copies", run) in pruned(desk, *NOW)
    assert not (desk.folder / "assets" / run).exists()
    assert "hello" in desk.gofer("q", run).out
