"""The Kubernetes client against an HTTPS server: credentials, trust, retries and errors."""

from __future__ import annotations

import base64
import json
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from authority import Authority
from tls_server import TlsServer

from gofer.errors import CredentialError, Unreachable
from gofer.text import format_time
from gofer.transport.kubernetes.client import KubeApiError, KubeClient, WriteConflict
from gofer.transport.kubernetes.kubeconfig import ExecPlugin, KubeCluster, KubeContext, KubeUser

JOBS = "/apis/batch/v1/namespaces/research/jobs"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def server(authority: Authority, tmp_path: Path) -> Iterator[TlsServer]:
    server = TlsServer(authority, tmp_path)
    yield server
    server.close()


def client(
    server: TlsServer,
    authority: Authority,
    user: KubeUser,
    *,
    kept: Path | None = None,
    cluster: KubeCluster | None = None,
) -> KubeClient:
    cluster = cluster or KubeCluster(server.url, authority.pem)
    return KubeClient(KubeContext("lab", cluster, user, "research"), kept=kept)


def plugin(folder: Path, text: str) -> ExecPlugin:
    """A program that counts its calls in `calls` and prints what the Python expression `text` makes."""
    program = folder / "login"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        f"path = {str(folder / 'calls')!r}\n"
        "with open(path, 'a') as calls: calls.write(os.environ['KUBERNETES_EXEC_INFO'] + chr(10))\n"
        "number = len(open(path).readlines())\n"
        f"print(json.dumps({text}))\n"
    )
    program.chmod(0o755)
    return ExecPlugin(
        str(program), (), (), "client.authentication.k8s.io/v1", "Never", True, "install it", "kubeconfig"
    )


def questions(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


def test_a_token_a_password_and_impersonation_are_sent(server: TlsServer, authority: Authority) -> None:
    groups = (("Impersonate-User", "alice"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    client(server, authority, KubeUser(token="dummy", impersonation=groups)).get("/version")
    client(server, authority, KubeUser(username="me", password="dummy")).get("/version")
    first, second = (seen.headers for seen in server.seen)
    assert ("Authorization", "Bearer dummy") in first
    assert [value for name, value in first if name == "Impersonate-Group"] == ["a", "b"]
    assert ("Authorization", "Basic " + base64.b64encode(b"me:dummy").decode()) in second


def test_a_client_certificate_names_who_asks(server: TlsServer, authority: Authority) -> None:
    pair = authority.pair("me")
    client(server, authority, KubeUser(certificate=pair.certificate, key=pair.key)).get("/version")
    assert [seen.client for seen in server.seen] == ["me"]


def test_only_the_authority_of_the_cluster_is_trusted(server: TlsServer, authority: Authority) -> None:
    with pytest.raises(Unreachable, match="certificate is not trusted"):
        client(server, Authority(), KubeUser()).get("/version")
    assert not server.seen
    blind = KubeCluster(server.url, skips_verification=True)
    client(server, authority, KubeUser(), cluster=blind).get("/version")
    assert len(server.seen) == 1


def test_the_name_of_the_certificate_can_differ_from_the_address(
    authority: Authority, tmp_path: Path
) -> None:
    server = TlsServer(authority, tmp_path, "kubernetes.default")
    try:
        with pytest.raises(Unreachable, match="certificate is not trusted"):
            client(server, authority, KubeUser()).get("/version")
        named = KubeCluster(server.url, authority.pem, server_name="kubernetes.default")
        client(server, authority, KubeUser(), cluster=named).get("/version")
    finally:
        server.close()


def test_an_address_with_a_path_keeps_it(server: TlsServer, authority: Authority) -> None:
    behind = KubeCluster(f"{server.url}/k8s/clusters/c1", authority.pem)
    client(server, authority, KubeUser(), cluster=behind).get("/version", {"limit": "1"})
    assert [seen.target for seen in server.seen] == ["/k8s/clusters/c1/version?limit=1"]


def test_a_program_gives_the_token_once_until_it_expires(
    server: TlsServer, authority: Authority, tmp_path: Path
) -> None:
    later = format_time(time.time() + 3600)
    status = f"{{'status': {{'token': 'dummy-%d' % number, 'expirationTimestamp': {later!r}}}}}"
    user = KubeUser(plugin=plugin(tmp_path, status))
    kept = tmp_path / "kept"
    for _ in range(2):  # the second client is another command of gofer
        one = client(server, authority, user, kept=kept)
        one.get("/version")
        one.get("/version")
    assert {value for seen in server.seen for name, value in seen.headers if name == "Authorization"} == {
        "Bearer dummy-1"
    }
    (question,) = questions(tmp_path)
    assert question["kind"] == "ExecCredential"
    spec = question["spec"]
    assert isinstance(spec, dict)
    assert (spec["interactive"], spec["cluster"]["server"]) == (False, server.url)
    assert [stat.S_IMODE(path.stat().st_mode) for path in kept.iterdir()] == [0o600]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700


def test_a_refused_token_is_asked_for_again_once(
    server: TlsServer, authority: Authority, tmp_path: Path
) -> None:
    server.answers["/version"] = [(401, {}), (200, {"major": "1"}), (401, {})]
    user = KubeUser(plugin=plugin(tmp_path, "{'status': {'token': 'dummy-%d' % number}}"))
    one = client(server, authority, user)
    assert one.get("/version") == {"major": "1"}
    assert len(questions(tmp_path)) == 2
    with pytest.raises(CredentialError, match="does not accept the credential of the context `lab`"):
        one.get("/version")
    assert len(questions(tmp_path)) == 3


def test_a_program_can_give_a_certificate(server: TlsServer, authority: Authority, tmp_path: Path) -> None:
    pair = authority.pair("from a program")
    status = {"clientCertificateData": pair.certificate, "clientKeyData": pair.key}
    client(server, authority, KubeUser(plugin=plugin(tmp_path, repr({"status": status})))).get("/version")
    assert [seen.client for seen in server.seen] == ["from a program"]


def test_a_program_that_is_missing_or_prints_nonsense_is_named(
    server: TlsServer, authority: Authority, tmp_path: Path
) -> None:
    missing = plugin(tmp_path, "{}")._replace(command="no-such-login")
    with pytest.raises(CredentialError, match="there is no program `no-such-login`") as caught:
        client(server, authority, KubeUser(plugin=missing)).get("/version")
    assert caught.value.hint == "install it"
    with pytest.raises(CredentialError, match="prints no credential"):
        client(server, authority, KubeUser(plugin=plugin(tmp_path, "[]"))).get("/version")
    failing = plugin(tmp_path, "sys.exit('expired: log in again')")
    with pytest.raises(CredentialError, match="status 1: expired: log in again"):
        client(server, authority, KubeUser(plugin=failing)).get("/version")
    asking = missing._replace(interactive="Always")
    with pytest.raises(CredentialError, match="asks for a login"):
        client(server, authority, KubeUser(plugin=asking)).get("/version")


def test_the_token_of_a_pod_is_read_again_after_it_was_refused(
    server: TlsServer, authority: Authority, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("dummy-old\n")
    one = client(server, authority, KubeUser(token_file=str(file)))
    one.get("/version")
    file.write_text("dummy-new\n")
    server.answers["/version"] = [(401, {}), (200, {})]
    one.get("/version")
    tokens = [value for seen in server.seen for name, value in seen.headers if name == "Authorization"]
    assert tokens == ["Bearer dummy-old", "Bearer dummy-old", "Bearer dummy-new"]


def test_a_busy_server_is_asked_again_and_a_refusal_is_told(server: TlsServer, authority: Authority) -> None:
    exists = {"kind": "Status", "reason": "AlreadyExists", "message": 'jobs.batch "r1" already exists'}
    server.answers[JOBS] = [(429, {}), (503, {}), (409, exists)]
    one = client(server, authority, KubeUser(token="dummy"))
    with pytest.raises(KubeApiError, match="already exists") as caught:
        one.create(JOBS, {"kind": "Job"}, dry_run=True)
    assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")
    assert len(server.seen) == 3
    last = server.seen[-1]
    assert (last.method, json.loads(last.body)) == ("POST", {"kind": "Job"})
    assert "dryRun=All" in last.target and "fieldValidation=Strict" in last.target


def test_deleting_what_is_gone_is_no_error(server: TlsServer, authority: Authority) -> None:
    server.answers[f"{JOBS}/r1"] = [(200, {}), (404, {"reason": "NotFound"})]
    one = client(server, authority, KubeUser(token="dummy"))
    assert one.delete(f"{JOBS}/r1", grace_s=0)
    assert not one.delete(f"{JOBS}/r1")
    assert json.loads(server.seen[0].body) == {"propagationPolicy": "Background", "gracePeriodSeconds": 0}


def test_a_server_that_is_not_there_is_named(authority: Authority, tmp_path: Path) -> None:
    server = TlsServer(authority, tmp_path)
    server.close()
    with pytest.raises(Unreachable, match=f"cluster at {server.url} cannot be reached"):
        client(server, authority, KubeUser()).get("/version")


def test_a_write_is_sent_again_when_another_one_came_between(server: TlsServer, authority: Authority) -> None:
    conflict = {"reason": "Conflict", "message": "Operation cannot be fulfilled on resourcequotas"}
    server.answers[JOBS] = [(409, conflict), (409, conflict), (201, {"kind": "Job"})]
    assert client(server, authority, KubeUser()).create(JOBS, {})["kind"] == "Job"
    assert len(server.seen) == 3
    server.answers[JOBS] = [(409, {"reason": "AlreadyExists"})]
    with pytest.raises(KubeApiError) as caught:
        client(server, authority, KubeUser()).create(JOBS, {})
    assert caught.value.reason == "AlreadyExists" and not isinstance(caught.value, WriteConflict)
    assert len(server.seen) == 4
