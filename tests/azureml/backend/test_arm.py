"""The ARM client over real TLS: connections, waits, redirects, errors. Each client is a process of its own,
since what is trusted is read once in each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azureml.backend.server import Reply, Tls, tls_server

TOKEN = "dummy-token-of-a-test"
_HEAD = """
import json, os, sys, time
from gofer.errors import GoferError
from gofer.transport.azure.arm import Arm, ServicePatience
from gofer.transport.azure.cloud import Cloud
from gofer.transport.azure.credential import AzureCredential
base = os.environ["BASE"]
cloud = Cloud("test", base, base, "core.windows.net", base)
credential = AzureCredential(os.environ["FOLDER"], authority=base)
arm = Arm(cloud, credential, patience=ServicePatience(tries=3, first_s=0.01, most_s=0.05, silence_s=30.0))
def tell(act):
    try:
        return act()
    except GoferError as error:
        return [type(error).__name__, error.message, error.hint]
"""
_AZ = """#!{python}
import json, os, time
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "asked")
asked = int(open(path).read()) + 1 if os.path.exists(path) else 1
open(path, "w").write(str(asked))
print(json.dumps({{"accessToken": f"{token}-{{asked}}", "expires_on": int(time.time()) + 3600}}))
"""


class Client:
    """A process that asks the server, signed in by an `az` of the test's own."""

    def __init__(self, folder: Path, server: Tls) -> None:
        self.server = server
        self.said = ""
        self.bin = folder / "bin"
        self.bin.mkdir()
        az = self.bin / "az"
        az.write_text(_AZ.format(python=sys.executable, token=TOKEN))
        az.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AZURE_", "ARM_"))}
        self.environ = {
            **kept,
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "BASE": server.url,
            "FOLDER": str(folder / "azure"),
            "SSL_CERT_FILE": str(server.ca),
        }

    def run(self, code: str, **env: str) -> Any:
        """What the code makes; its token is in nothing that it says."""
        argv = [sys.executable, "-c", f"{_HEAD}\nprint(json.dumps({code}))"]
        done = subprocess.run(
            argv, env={**self.environ, **env}, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, done.stderr
        assert TOKEN not in done.stdout + done.stderr
        self.said = done.stderr
        return json.loads(done.stdout)

    @property
    def asked_az(self) -> int:
        return int((self.bin / "asked").read_text())

    def tokens(self) -> list[str]:
        return [one.headers.get("Authorization", "") for one in self.server.requests]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tls]:
    with tls_server(tmp_path / "server") as running:
        yield running


@pytest.fixture
def client(tmp_path: Path, server: Tls) -> Client:
    return Client(tmp_path, server)


def test_connections_are_kept(client: Client) -> None:
    client.server.replies = [Reply(body={"a": 1})]
    assert client.run("[arm.get('/x', '1')['a'] for _ in range(5)]") == [1] * 5
    assert len({one.line for one in client.server.requests}) == 1
    assert {one.path for one in client.server.requests} == {"/x?api-version=1"}
    assert {one.headers["User-Agent"].split("/")[0] for one in client.server.requests} == {"gofer"}


def test_a_token_is_requested_once_and_kept_between_commands(client: Client) -> None:
    for _ in range(3):
        client.run("arm.get('/x')")
    assert client.asked_az == 1
    assert set(client.tokens()) == {f"Bearer {TOKEN}-1"}


def test_a_server_that_asks_to_wait_is_waited_for(client: Client) -> None:
    client.server.replies = [Reply(429, headers={"Retry-After": "1"}), Reply(503), Reply(body={"a": 1})]
    took = client.run("(lambda began: [arm.get('/x')['a'], time.monotonic() - began])(time.monotonic())")
    assert took[0] == 1 and took[1] >= 1.0
    assert len(client.server.requests) == 3


def test_a_server_that_asks_for_an_hour_is_not(client: Client) -> None:
    client.server.replies = [Reply(429, headers={"Retry-After": "3600"})]
    kind, message, _ = client.run("tell(lambda: arm.get('/x'))")
    assert kind == "Unreachable" and "asks to wait for 3600 s" in message
    assert len(client.server.requests) == 1


def test_tries_are_bounded(client: Client) -> None:
    client.server.replies = [Reply(500)]
    assert client.run("tell(lambda: arm.post('/x'))")[0] == "Unreachable"
    assert len(client.server.requests) == 4


def test_a_put_whose_answer_is_lost_is_sent_again(client: Client) -> None:
    client.server.replies = [Reply(body={"a": "x" * 100}, cut=True), Reply(body={"a": 1})]
    assert client.run("arm.put('/x', '1', {'b': 2})") == {"a": 1}
    assert [one.method for one in client.server.requests] == ["PUT", "PUT"]


def test_a_silent_server_is_given_up(client: Client) -> None:
    client.server.replies = [Reply(hang_s=30.0)]
    kind, message, hint = client.run(
        "tell(lambda: Arm(cloud, credential, patience=ServicePatience(0, silence_s=1.0)).get('/x'))"
    )
    assert kind == "Unreachable" and "GET /x" in message and hint


def test_an_authority_that_nobody_trusts(client: Client, tmp_path: Path) -> None:
    with tls_server(tmp_path / "other") as other:
        kind, message, hint = client.run("tell(lambda: arm.get('/x'))", BASE=other.url)
        assert other.requests == []
    assert kind == "Unreachable" and "is not trusted" in message and "SSL_CERT_FILE" in hint


def test_the_bundle_of_requests_is_trusted_too(client: Client) -> None:
    client.environ.pop("SSL_CERT_FILE")
    assert client.run("arm.get('/x')", REQUESTS_CA_BUNDLE=str(client.server.ca)) == {}


def test_a_redirect_does_not_take_the_token_to_another_host(client: Client, tmp_path: Path) -> None:
    with tls_server(tmp_path / "other", client.server.certificates) as other:
        other.replies = [Reply(body={"a": 1})]
        client.server.replies = [Reply(307, headers={"Location": f"{other.url}/y"})]
        found = client.run("arm.put('/x', '1', {}, headers={'x-azureml-token': 'dummy'})")
        assert found == {"a": 1}
        assert [one.path for one in other.requests] == ["/y"]
        assert not {"Authorization", "x-azureml-token"} & set(other.requests[0].headers)
    assert client.server.requests[0].headers["Authorization"].startswith("Bearer ")


def test_a_listing_does_not_follow_a_link_to_another_address(client: Client, tmp_path: Path) -> None:
    client.server.replies = [Reply(body={"value": [{}], "nextLink": "https://127.0.0.1:1/steal"})]
    kind, message, _ = client.run("tell(lambda: list(arm.pages('/x')))")
    assert kind == "Unreachable" and "on another host" in message


def test_pages(client: Client) -> None:
    following = f"{client.server.url}/x?page=2"
    client.server.replies = [Reply(body={"value": [1, 2], "nextLink": following}), Reply(body={"value": [3]})]
    assert client.run("list(arm.pages('/x', '1', tag='a b'))") == [[1, 2], [3]]
    assert [one.path for one in client.server.requests] == ["/x?api-version=1&tag=a%20b", "/x?page=2"]


def test_a_page_that_is_cut_short_is_no_page(client: Client) -> None:
    client.server.replies = [Reply(body=b'{"value": [1, 2')]
    kind, message, _ = client.run("tell(lambda: list(arm.pages('/x')))")
    assert kind == "Unreachable" and "the answer is incomplete" in message


def test_a_refused_token_is_replaced_once(client: Client) -> None:
    client.server.replies = [Reply(401), Reply(body={"a": 1})]
    assert client.run("arm.get('/x')") == {"a": 1}
    assert client.tokens() == [f"Bearer {TOKEN}-1", f"Bearer {TOKEN}-2"]
    client.server.replies = [Reply(401)]
    assert client.run("tell(lambda: arm.get('/x'))")[0] == "CredentialError"


def test_claims_of_the_service_are_requested(client: Client) -> None:
    challenge = 'Bearer authorization_uri="https://x", error="insufficient_claims", claims="eyJhIjoxfQ=="'
    client.server.replies = [Reply(401, headers={"WWW-Authenticate": challenge}), Reply(body={"a": 1})]
    assert client.run("arm.get('/x')") == {"a": 1}
    assert client.asked_az == 2


def test_what_a_refusal_says(client: Client) -> None:
    words = (
        "The client 'me' with object id '1' does not have authorization to perform action "
        "'Microsoft.MachineLearningServices/workspaces/jobs/write' over scope '/subscriptions/s' or so."
    )
    client.server.replies = [Reply(403, {"error": {"code": "AuthorizationFailed", "message": words}})]
    kind, message, hint = client.run("tell(lambda: arm.put('/x', '1', {}))")
    assert kind == "CredentialError"
    assert (
        "lacks the right `Microsoft.MachineLearningServices/workspaces/jobs/write` on /subscriptions/s"
        in message
    )
    assert "AzureML Data Scientist" in hint
    error = {"code": "UserError", "message": "No such\ncompute.", "innerError": {"code": "ComputeNotFound"}}
    client.server.replies = [Reply(400, {"error": error})]
    path = (
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w/jobs/r1"
    )
    kind, message, _ = client.run(f"tell(lambda: arm.put({path!r}, '1', {{}}))")
    assert (kind, message) == ("RequestRejected", "PUT w/jobs/r1: No such compute (ComputeNotFound)")
    client.server.replies = [Reply(404, {"error": {"code": "NotFound", "message": "no"}})]
    assert client.run("[tell(lambda: arm.get('/x'))[0], arm.find('/x')]") == ["ResourceNotFound", None]


def test_requests_can_be_logged(client: Client) -> None:
    client.run("arm.put('/x', '1', {'a': 1}, headers={'x-azureml-token': 'dummy-second'})", GOFER_DEBUG="1")
    assert "'PUT'" in client.said and "/x?api-version=1" in client.said
    assert "REDACTED" in client.said and "dummy-second" not in client.said


def test_nobody_listens(client: Client) -> None:
    kind, message, _ = client.run("tell(lambda: arm.get('/x'))", BASE="https://127.0.0.1:1")
    assert kind == "Unreachable" and "127.0.0.1:1 does not answer" in message


def test_without_the_extra(client: Client) -> None:
    found = client.run("(sys.modules.update({'azure.core': None}), tell(lambda: arm.get('/x')))[1]")
    assert found[0] == "GoferError" and "gofer[azure]" in found[2]


def test_nobody_is_signed_in(client: Client) -> None:
    (client.bin / "az").write_text("#!/bin/sh\necho 'Please run az login' >&2\nexit 1\n")
    kind, message, hint = client.run("tell(lambda: arm.get('/x'))")
    assert (kind, message) == ("NobodySignedIn", "not signed in to Azure")
    assert "gofer login" in hint
