"""`gofer --debug` tells each request to the service, and nothing that opens anything."""

from __future__ import annotations

import json

import pytest
from azureml.backend.azure_home import AzureHome
from services.azure import Azure

from simulators.azure.tokens import SECRET

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.xdist_group("azure-request-log")]


def secrets_of(home: AzureHome) -> list[str]:
    """What the person and the node were given: tokens that are kept, the account's key, signatures."""
    kept = [json.loads(path.read_text()) for path in home.path.rglob("tokens/*.json")]
    tokens = [str(value) for one in kept for value in one.values() if len(str(value)) > 40]
    assert tokens, "no token was kept"
    return [*tokens, home.environ["DUMMY_KEY"], SECRET, "sig=", "Bearer e"]


def test_logged_requests_have_no_private_values(home: AzureHome, azure: Azure) -> None:
    run = json.loads(home.gofer("submit", "--json", "echo", "hello").out)["id"]
    message = home.gofer("--debug", "submit", "echo", "again").err
    assert "Request method: 'PUT'" in message and f"{azure.base}/subscriptions/" in message
    azure.wait(run)
    for words in (["--debug", "q", run], ["q", run, "--debug"], ["list", "jobs", "--server", "--debug"]):
        text = home.gofer(*words).err
        message += text
    assert "/details" in message and "REDACTED" in message
    for secret in secrets_of(home):
        assert secret not in message


def test_each_request_is_logged_once(home: AzureHome) -> None:
    once = home.gofer("--debug", "list", "jobs", "--server").err
    again = home.gofer("--debug", "list", "jobs", "--server", env={"GOFER_DEBUG": "1"}).err
    assert again.count("Request URL") == once.count("Request URL") > 0


def test_requests_are_not_logged_by_default(home: AzureHome) -> None:
    assert "Request URL" not in home.gofer("list", "jobs", "--server").err
