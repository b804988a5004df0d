"""Tokens of the simulator: how they are got, and where they are refused."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from services.azure import Azure

from simulators.azure.tokens import CLIENT, SECRET, TENANT

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-sim-login")]
ARM = "https://management.azure.com"
# gofer's own client, which lists jobs at each line.
ASKS = """
import os, sys
from gofer.transport.azure.arm import Arm
from gofer.transport.azure.cloud import Cloud
from gofer.transport.azure.credential import AzureCredential
base = os.environ["BASE"]
cloud = Cloud("sim", base, base, "core.windows.net", base)
credential = AzureCredential(os.environ["FOLDER"], authority=base)
arm = Arm(cloud, credential)
for _ in sys.stdin:
    print(arm.get(os.environ["WORKSPACE"] + "/jobs", "2025-01-01-preview")["value"], flush=True)
"""


@contextmanager
def turned(azure: Azure, skew_s: float) -> Iterator[None]:
    """The service's clock is wrong for a while."""
    azure.admin("POST", "/clock", {"skew_s": skew_s})
    try:
        yield
    finally:
        azure.admin("POST", "/clock", {"skew_s": 0})


def post(azure: Azure, path: str, **form: str) -> tuple[int, Any]:
    data = urllib.parse.urlencode(form).encode()
    return fetch(azure, urllib.request.Request(f"{azure.base}/{TENANT}/oauth2/v2.0/{path}", data))


def fetch(azure: Azure, request: urllib.request.Request) -> tuple[int, Any]:
    context = (
        ssl.create_default_context(cafile=str(azure.ca)) if request.full_url.startswith("https") else None
    )
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def test_a_wrong_secret_gets_no_token(azure: Azure) -> None:
    scope = f"{ARM}/.default"
    grant = {"grant_type": "client_credentials", "client_id": CLIENT, "scope": scope}
    assert post(azure, "token", **grant, client_secret=SECRET)[1]["token_type"] == "Bearer"
    status, answer = post(azure, "token", **grant, client_secret="other")
    assert (status, answer["error"]) == (401, "invalid_client")


def test_arm_refuses_what_is_no_token_for_it(azure: Azure) -> None:
    path = f"{azure.workspace}/jobs"
    assert azure.ask("GET", path)[0] == 200
    for token in ("", "nonsense", azure.token("https://storage.azure.com")):
        assert azure.ask("GET", path, token=token)[0] == 401
    _, answer = azure.ask("GET", path, token=azure.token("https://storage.azure.com"))
    assert answer["error"]["code"] == "InvalidAuthenticationTokenAudience"


def test_tokens_end_when_their_time_or_a_test_says_so(azure: Azure) -> None:
    path = f"{azure.workspace}/jobs"
    azure.admin("POST", "/clock", {"token_lifetime_s": 100})
    short = azure.token()
    azure.admin("POST", "/clock", {"token_lifetime_s": 3600})
    long = azure.token()
    assert azure.ask("GET", path, token=short)[0] == 200
    azure.admin("POST", "/clock", {"skew_s": 200})
    assert azure.ask("GET", path, token=short)[0] == 401
    assert azure.ask("GET", path, token=long)[0] == 200
    azure.admin("POST", "/clock", {"skew_s": 0})
    azure.admin("POST", "/tokens/expire")
    status, answer = azure.ask("GET", path, token=long)
    assert (status, answer["error"]["code"]) == (401, "ExpiredAuthenticationToken")
    assert azure.ask("GET", path, token=azure.token())[0] == 200


def test_a_token_of_a_clock_that_was_ahead_is_not_valid_yet(azure: Azure) -> None:
    path = f"{azure.workspace}/jobs"
    with turned(azure, 7200):
        far = azure.token()
        assert azure.ask("GET", path, token=far)[0] == 200
    with turned(azure, 240):
        near = azure.token()
    status, answer = azure.ask("GET", path, token=far)
    assert (status, answer["error"]["code"]) == (401, "InvalidAuthenticationToken")
    # A few minutes are within what services forgive.
    assert azure.ask("GET", path, token=near)[0] == 200
    azure.admin("POST", "/tokens/expire")
    assert azure.ask("GET", path, token=near)[0] == 401
    with turned(azure, 7200):
        assert azure.ask("GET", path, token=far)[0] == 401
        assert azure.ask("GET", path, token=azure.token())[0] == 200


@pytest.mark.parametrize("skew_s", [7200, -7200])
def test_gofer_gets_itself_another_token_when_the_clock_is_turned(
    azure: Azure, tmp_path: Path, skew_s: float
) -> None:
    """While the service's clock is wrong, and again when it is right; the process has tokens of before."""
    words = {"BASE": azure.base, "FOLDER": str(tmp_path), "WORKSPACE": azure.workspace}
    argv, env = [sys.executable, "-c", ASKS], {**os.environ, **azure.env(), **words}
    with subprocess.Popen(argv, env=env, text=True, stdin=PIPE, stdout=PIPE) as client:
        assert client.stdin and client.stdout
        for time_s in (0, skew_s, 0):
            azure.admin("POST", "/clock", {"skew_s": time_s})
            client.stdin.write("\n")
            client.stdin.flush()
            assert client.stdout.readline() == "[]\n"
        client.stdin.close()


def test_a_device_code_waits_for_its_user(azure: Azure) -> None:
    _, told = post(azure, "devicecode", client_id=CLIENT, scope=f"{ARM}/.default")
    assert told["user_code"] in told["message"]
    grant = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": told["device_code"]}
    status, answer = post(azure, "token", **grant)
    assert (status, answer["error"]) == (400, "authorization_pending")
    assert azure.admin("POST", "/device/approve", {"user_code": told["user_code"]}) == {"approved": 1}
    status, answer = post(azure, "token", **grant)
    assert status == 200
    assert azure.ask("GET", "/subscriptions?api-version=2022-12-01", token=answer["access_token"])[0] == 200
    assert (
        post(azure, "token", grant_type="refresh_token", refresh_token="x", scope=f"{ARM}/.default")[0] == 200
    )
    azure.admin("POST", "/identity", {"signed_out": True})
    assert post(azure, "token", grant_type="refresh_token", refresh_token="x")[1]["error"] == "invalid_grant"
    azure.admin("POST", "/identity", {"signed_out": False})


@pytest.mark.parametrize(
    ("path", "header"),
    [
        ("/msi/identity?api-version=2019-08-01", "X-IDENTITY-HEADER"),
        ("/msi/token?api-version=2017-09-01", "secret"),
        ("/metadata/identity/oauth2/token?api-version=2018-02-01", "Metadata"),
    ],
)
def test_a_node_gets_tokens_that_the_blob_service_takes(azure: Azure, path: str, header: str) -> None:
    secret = (azure.folder / "node.token").read_text()
    url = f"{azure.plain}{path}&resource=https://storage.azure.com"
    given = "true" if header == "Metadata" else secret
    status, answer = fetch(azure, urllib.request.Request(url, headers={header: given}))
    assert status == 200, answer
    container = azure.container("identity")
    listing = f"{azure.blobs}/dummyone/{container}?restype=container&comp=list"
    words = {"Authorization": f"Bearer {answer['access_token']}", "x-ms-version": "2021-12-02"}
    context = ssl.create_default_context(cafile=str(azure.ca))
    request = urllib.request.Request(listing, headers=words)
    with urllib.request.urlopen(request, context=context, timeout=60) as listed:
        assert b"EnumerationResults" in listed.read()
    assert fetch(azure, urllib.request.Request(url))[0] in (400, 401)


def test_the_admin_api_needs_its_own_word(azure: Azure) -> None:
    assert azure.ask("GET", "/_sim/jobs")[0] == 403
    assert azure.ask("GET", "/_sim/jobs", token="")[0] == 403
    assert azure.admin("GET", "/counters")["requests"]
