"""`gofer --debug` tells each request to the service, and nothing that opens anything."""

from __future__ import annotations

import json

import pytest
from azureml.backend.desk import Desk
from services.azure import Azure

from simulators.azure.tokens import SECRET

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.xdist_group("azure-request-log")]


def secrets_of(desk: Desk) -> list[str]:
    """What the person and the node were given: tokens that are kept, the account's key, signatures."""
    kept = [json.loads(path.read_text()) for path in desk.path.rglob("tokens/*.json")]
    tokens = [str(value) for one in kept for value in one.values() if len(str(value)) > 40]
    assert tokens, "no token was kept"
    return [*tokens, desk.environ["DUMMY_KEY"], SECRET, "sig=", "Bearer e"]


def test_requests_are_told_without_what_is_private(desk: Desk, azure: Azure) -> None:
    run = json.loads(desk.gofer("submit", "--json", "echo", "hello").out)["id"]
    said = desk.gofer("--debug", "submit", "echo", "again").err
    assert "Request method: 'PUT'" in said and f"{azure.base}/subscriptions/" in said
    azure.wait(run)
    for words in (["--debug", "q", run], ["q", run, "--debug"], ["list", "jobs", "--server", "--debug"]):
        told = desk.gofer(*words).err
        said += told
    assert "/details" in said and "REDACTED" in said
    for secret in secrets_of(desk):
        assert secret not in said


def test_each_request_is_told_once(desk: Desk) -> None:
    once = desk.gofer("--debug", "list", "jobs", "--server").err
    again = desk.gofer("--debug", "list", "jobs", "--server", env={"GOFER_DEBUG": "1"}).err
    assert again.count("Request URL") == once.count("Request URL") > 0


def test_nobody_is_told_unasked(desk: Desk) -> None:
    assert "Request URL" not in desk.gofer("list", "jobs", "--server").err
