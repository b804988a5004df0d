"""The Kubernetes client against a real API server: objects, watches, and every kind of credential."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from clusters.errors import ClusterError
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s.cluster import Kubernetes
from clusters.k8s.site import issue, write_kubeconfig
from k8s import pods

from gofer.errors import CredentialError, Unreachable
from gofer.transport.kubernetes import kubeconfig
from gofer.transport.kubernetes.client import KubeApiError, KubeClient
from gofer.transport.kubernetes.kubeconfig import ExecPlugin, KubeContext, KubeUser

pytestmark = ON_K8S

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"


def context(k8s: Kubernetes) -> KubeContext:
    """The context of an admin, read from the file that `up` wrote."""
    return kubeconfig.load(file=str(k8s.site.kubeconfig))


def client(k8s: Kubernetes, user: KubeUser | None = None, *, kept: Path | None = None) -> KubeClient:
    admin = context(k8s)
    return KubeClient(admin if user is None else admin._replace(user=user), kept=kept)


def job(name: str) -> dict[str, Any]:
    """A job that no node runs, since its scheduler does not exist."""
    container = {"name": "main", "image": "none", "command": ["true"]}
    pod = {"restartPolicy": "Never", "schedulerName": "nobody", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"run": name}},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }


def names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def may_read_pods(k8s: Kubernetes, *who: str) -> None:
    k8s.kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    k8s.kubectl("create", "rolebinding", "reader", "--role=reader", *who)


@pytest.fixture
def alice(k8s: Kubernetes) -> Any:
    """A user with the right to read pods, and no other."""
    may_read_pods(k8s, "--user=alice")
    yield "alice"
    k8s.kubectl("delete", "role/reader", "rolebinding/reader")


def test_a_job_is_created_once_listed_changed_and_deleted(k8s: Kubernetes) -> None:
    one = client(k8s)
    made = one.create(JOBS, job("created"))
    assert made["spec"]["parallelism"] == 1  # the default of the server
    with pytest.raises(KubeApiError) as caught:
        one.create(JOBS, job("created"))
    assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")
    assert names(one.get(JOBS, {"labelSelector": "run=created"})) == ["created"]
    changed = one.patch(f"{JOBS}/created", {"spec": {"suspend": True}, "metadata": {"labels": {"run": None}}})
    assert changed["spec"]["suspend"] is True
    assert "run" not in changed["metadata"]["labels"]
    assert one.delete(f"{JOBS}/created")
    k8s.until(lambda: names(one.get(JOBS)) == [], "the end of the job")
    assert not one.delete(f"{JOBS}/created")


def test_a_dry_run_checks_and_keeps_nothing(k8s: Kubernetes) -> None:
    one = client(k8s)
    assert one.create(JOBS, job("tried"), dry_run=True)["metadata"]["uid"]
    assert names(one.get(JOBS)) == []
    wrong = job("wrong")
    wrong["spec"]["backofLimit"] = 3
    with pytest.raises(KubeApiError, match=r"unknown field .*backofLimit") as caught:
        one.create(JOBS, wrong, dry_run=True)
    assert (caught.value.status, caught.value.reason) == (400, "BadRequest")
    wrong = job("No Name")
    with pytest.raises(KubeApiError, match=r"metadata\.name: Invalid value") as caught:
        one.create(JOBS, wrong, dry_run=True)
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")


def test_a_watch_shows_what_happens_after_a_list(k8s: Kubernetes) -> None:
    one = client(k8s)
    version = one.get(JOBS)["metadata"]["resourceVersion"]
    one.create(JOBS, job("watched"))
    one.delete(f"{JOBS}/watched")
    seen = []
    for event in one.watch(JOBS, version):
        assert int(event.version) > int(version)
        seen.append(event.change)
        if event.change == "DELETED":
            break
    assert seen[0] == "ADDED" and set(seen[1:-1]) <= {"MODIFIED", "BOOKMARK"}


def test_a_watch_from_before_the_memory_of_the_server_says_to_list_again(k8s: Kubernetes) -> None:
    one = client(k8s)
    version = one.get(JOBS)["metadata"]["resourceVersion"]
    one.create(JOBS, job("later"))
    k8s.kill_part("kube-apiserver")
    k8s.start_part("kube-apiserver")
    with pytest.raises(KubeApiError) as caught:
        for _ in one.watch(JOBS, version):
            pass
    assert (caught.value.status, caught.value.reason) == (410, "Expired")


def test_a_certificate_has_the_rights_of_its_user(k8s: Kubernetes, alice: str, tmp_path: Path) -> None:
    file = write_kubeconfig(k8s.site, tmp_path / "config", issue(k8s.site, alice))
    one = KubeClient(kubeconfig.load(environ={"KUBECONFIG": str(file)}))
    assert names(one.get(PODS)) == []
    with pytest.raises(KubeApiError, match='User "alice" cannot create resource "jobs"') as caught:
        one.create(JOBS, job("hers"))
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")


def test_an_admin_can_ask_in_the_name_of_somebody(k8s: Kubernetes, alice: str) -> None:
    user = context(k8s).user._replace(impersonation=(("Impersonate-User", alice),))
    assert names(client(k8s, user).get(PODS)) == []
    with pytest.raises(KubeApiError, match='User "alice" cannot list resource "jobs"'):
        client(k8s, user).get(JOBS)


def test_the_token_of_a_service_account(k8s: Kubernetes, tmp_path: Path) -> None:
    may_read_pods(k8s, "--serviceaccount=default:default")
    token = k8s.kubectl("create", "token", "default").strip()
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    for user in (KubeUser(token=token), KubeUser(token_file=str(file))):
        assert names(client(k8s, user).get(PODS)) == []
        with pytest.raises(KubeApiError, match="system:serviceaccount:default:default"):
            client(k8s, user).get(JOBS)
    k8s.kubectl("delete", "role/reader", "rolebinding/reader")


def test_a_token_that_the_server_does_not_know(k8s: Kubernetes) -> None:
    with pytest.raises(CredentialError, match="does not accept the credential of the context `lab`"):
        client(k8s, KubeUser(token="dummy")).get(PODS)


def test_a_program_gives_a_token_or_a_certificate(k8s: Kubernetes, alice: str, tmp_path: Path) -> None:
    token = k8s.kubectl("create", "token", "default").strip()
    pair = issue(k8s.site, alice)
    with pytest.raises(KubeApiError, match="system:serviceaccount:default:default"):
        client(k8s, KubeUser(plugin=plugin(tmp_path / "one", {"token": token}))).get(PODS)
    status = {"clientCertificateData": pair.certificate, "clientKeyData": pair.key}
    user = KubeUser(plugin=plugin(tmp_path / "two", status))
    assert names(client(k8s, user, kept=tmp_path / "kept").get(PODS)) == []


def test_another_authority_is_not_trusted(k8s: Kubernetes) -> None:
    admin = context(k8s)
    stranger = admin._replace(cluster=admin.cluster._replace(ca=Authority().pem))
    with pytest.raises(Unreachable, match="certificate is not trusted"):
        KubeClient(stranger).get("/version")


@pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
def test_a_call_outlives_the_restart_of_a_part(k8s: Kubernetes, part: str) -> None:
    one = client(k8s)
    one.create(JOBS, job(f"before-{part}"))
    k8s.kill_part(part)
    k8s.start_part(part)
    assert names(one.get(JOBS)) == [f"before-{part}"]


def test_the_log_of_a_pod_is_followed_to_its_end(k8s: Kubernetes) -> None:
    one = client(k8s)
    one.create(JOBS, pods.job("counting", "import time\nfor at in range(3): print(at); time.sleep(0.2)"))
    k8s.until(lambda: {"ready", "succeeded"} & started(pods.status(k8s, "counting")), "a container")
    (pod,) = names(one.get(PODS, {"labelSelector": "job-name=counting"}))
    assert b"".join(one.log("default", pod, {"follow": "true"})) == b"0\n1\n2\n"
    assert pods.until_ended(k8s, "counting") == "Complete"
    assert b"".join(one.log("default", pod, {"tailLines": "1"})) == b"2\n"
    with pytest.raises(KubeApiError, match="container other is not valid") as caught:
        list(one.log("default", pod, {"container": "other"}))
    assert (caught.value.status, caught.value.reason) == (400, "BadRequest")


def test_the_requests_of_a_client_are_counted(k8s: Kubernetes) -> None:
    one, before = client(k8s), len(k8s.requests())
    one.create(JOBS, job("counted"))
    with pytest.raises(KubeApiError):
        one.create(JOBS, job("counted"))
    one.get(JOBS)
    one.delete(f"{JOBS}/counted")
    k8s.until(lambda: len(k8s.requests()) == before + 4, "four requests")
    seen = [(request.verb, request.path, request.status) for request in k8s.requests()[before:]]
    last = ("delete", f"{JOBS}/counted", 200)
    assert seen == [("create", JOBS, 201), ("create", JOBS, 409), ("list", JOBS, 200), last]
    assert [request.is_write for request in k8s.requests()[before:]] == [True, True, False, True]


def test_kubectl_agrees(k8s: Kubernetes) -> None:
    client(k8s).create(JOBS, job("agreed"))
    said = json.loads(k8s.kubectl("get", "job", "agreed", "-o", "json", "--show-managed-fields"))
    assert said["metadata"]["uid"] == client(k8s).get(f"{JOBS}/agreed")["metadata"]["uid"]
    assert said["metadata"]["managedFields"][0]["manager"] == "gofer"
    with pytest.raises(ClusterError, match="NotFound"):
        k8s.kubectl("get", "job", "nothing")


def started(status: dict[str, Any]) -> set[str]:
    """What of a job's pods is more than none. A short pod may end before anybody sees it run."""
    return {name for name, count in status.items() if count}


def plugin(folder: Path, status: dict[str, str]) -> ExecPlugin:
    """A program that prints this credential."""
    folder.mkdir()
    program = folder / "login"
    text = json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "status": status})
    program.write_text(f"#!{sys.executable}\nprint({text!r})\n")
    program.chmod(0o755)
    return ExecPlugin(
        str(program), (), (), "client.authentication.k8s.io/v1", "Never", False, "", "kubeconfig"
    )
