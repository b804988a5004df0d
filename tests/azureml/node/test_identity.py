"""A store that is opened by the identity of the job: a token from the node's own endpoint, over TLS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from services.az import unsigned_token
from services.azurite import azurite as start_azurite
from services.certificates import Certificates, make_certificates

from gofer.core.store_spec import IdentitySpec
from gofer.objects.azure_auth import Bearer
from gofer.objects.client import HttpRequest
from gofer.objects.facts import ObjectsError
from gofer.objects.identity import token_request, token_source

pytestmark = pytest.mark.xdist_group("azure-identity")


class Identity:
    """An identity endpoint that gives tokens, keeps its requests, and can fail for a while."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.failures: list[int] = []
        self.answer: dict[str, Any] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                outer.asked.append((parts.path, dict(parse_qsl(parts.query)), dict(self.headers)))
                status = outer.failures.pop(0) if outer.failures else 200
                known = {"access_token": unsigned_token(), "expires_on": str(int(time.time()) + 3600)}
                body = {**known, **outer.answer} if status == 200 else {"error": "no_identity"}
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def identity() -> Iterator[Identity]:
    one = Identity()
    yield one
    one.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


def test_a_run_whose_store_opens_by_identity(
    identity: Identity, certificates: Certificates, tmp_path: Path
) -> None:
    environ = {**os.environ, "SSL_CERT_FILE": str(certificates.authority)}
    environ |= {"REQUESTS_CA_BUNDLE": str(certificates.authority), "PYTHONPATH": os.pathsep.join(sys.path)}
    with start_azurite(tmp_path / "blobs", certificates) as running:
        words = [
            str(tmp_path),
            running.one.endpoint,
            running.one.name,
            running.one.key,
            f"{identity.url}/msi",
        ]
        argv = [sys.executable, str(Path(__file__).with_name("by_identity.py")), *words]
        ran = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    done = json.loads(ran.stdout)
    assert (done["status"], done["log"], done["state"]) == (0, "by identity\n", "succeeded"), done["err"]
    path, query, headers = identity.asked[0]
    assert (path, query["clientid"]) == ("/msi", "dummy-client")
    assert query["resource"] == "https://storage.azure.com/"
    assert headers["Secret"] == "dummy-msi-secret"
    assert "dummy-msi-secret" not in done["out"] + done["err"]


WAYS: dict[str, tuple[dict[str, str], IdentitySpec, str, dict[str, str]]] = {
    "app service": (
        {"IDENTITY_ENDPOINT": "{url}/id", "IDENTITY_HEADER": "dummy"},
        {"client_id": "c"},
        "/id?resource=https%3A%2F%2Fstorage.azure.com%2F&api-version=2019-08-01&client_id=c",
        {"X-IDENTITY-HEADER": "dummy"},
    ),
    "azure ml compute": (
        {"MSI_ENDPOINT": "{url}/msi", "MSI_SECRET": "dummy", "DEFAULT_IDENTITY_CLIENT_ID": "d"},
        {},
        "/msi?resource=https%3A%2F%2Fstorage.azure.com%2F&api-version=2017-09-01&clientid=d",
        {"Secret": "dummy"},
    ),
    "virtual machine": (
        {"AZURE_POD_IDENTITY_AUTHORITY_HOST": "{url}"},
        {"resource_id": "/a/b"},
        "/metadata/identity/oauth2/token?resource=https%3A%2F%2Fstorage.azure.com%2F&api-version=2018-02-01"
        "&msi_res_id=%2Fa%2Fb",
        {"Metadata": "true"},
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_identity_request_of_each_kind_of_machine(way: str) -> None:
    environ, meant, target, headers = WAYS[way]
    asked = token_request({name: text.format(url="http://h") for name, text in environ.items()}, meant)
    assert asked == (f"http://h{target}", headers)


def test_the_metadata_service_is_the_default_identity_endpoint() -> None:
    assert token_request({}, {}).url.startswith("http://169.254.169.254/metadata/identity/oauth2/token?")


def test_a_token_is_kept_until_five_minutes_before_its_end(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", identity.url)
    monkeypatch.setenv("IDENTITY_HEADER", "dummy")
    signer = Bearer(token_source({}))
    request = HttpRequest("GET", "/c/k")
    identity.answer = {"expires_on": str(int(time.time()) + 290)}
    signer.sign(request)
    identity.answer = {
        "expires_on": time.strftime("%m/%d/%Y %H:%M:%S +00:00", time.gmtime(time.time() + 900))
    }
    signer.sign(request)
    signer.sign(request)
    assert len(identity.asked) == 2


def test_an_endpoint_that_is_not_ready_is_retried(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", identity.url)
    monkeypatch.setenv("IDENTITY_HEADER", "dummy")
    identity.failures = [410, 503]
    token, ends = token_source({})()
    assert (token.count("."), ends > time.time()) == (2, True)


def test_an_endpoint_that_refuses_is_not_retried_and_its_reason_is_shown(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", identity.url)
    monkeypatch.setenv("IDENTITY_HEADER", "dummy-header-secret")
    identity.failures = [400]
    with pytest.raises(ObjectsError) as caught:
        token_source({})()
    assert str(caught.value) == "the identity of this machine got no token for storage: 400 no_identity"
    assert len(identity.asked) == 1
