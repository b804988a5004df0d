"""A short drill of runs on a cluster that fails; `make drill-k8s` holds the whole one."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from random import Random
from threading import Thread

import pytest
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s.cluster import Kubernetes
from k8sdrill.api_faults import API_KINDS, ApiFaults, kill_sender
from k8sdrill.k8s_drill import job_errors, k8s_drill
from services.proxy import Proxy, Request

pytestmark = [*ON_K8S, pytest.mark.timeout(1200)]


@pytest.mark.drill
@pytest.mark.slow
def test_nothing_is_lost_and_nothing_runs_twice(k8s: Kubernetes, tmp_path: Path) -> None:
    with k8s_drill(tmp_path, k8s, seed=11) as site:
        tally = site.run(12, 2, submitters=2)
    assert tally.wrong == [], site.render(tally)
    assert tally.recorded > 0
    assert tally.faults.total() >= 12
    assert site.both.cluster.met.total() >= 2


def test_a_job_that_nobody_sent_is_seen(k8s: Kubernetes) -> None:
    labels = "app.kubernetes.io/managed-by=gofer"
    k8s.kubectl("create", "job", "stray", "--image=none", "--", "true")
    k8s.kubectl("label", "job", "stray", labels)
    k8s.kubectl("create", "secret", "generic", "left")
    k8s.kubectl("label", "secret", "left", labels)
    found = list(job_errors(k8s, {"r1": {"group": None}}))
    k8s.kubectl("delete", "secret", "left")
    assert found[:3] == [
        "the cluster has the Job stray, and no ledger knows it",
        "the run r1 has no Job",
        "the Secret left is left without a Job after `gofer prune`",
    ]


def test_only_a_child_is_killed_and_only_the_one_that_asks() -> None:
    code = (
        "import socket, sys\n"
        "near = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "print(near.getsockname()[1], flush=True); near.recv(1)"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        to_port = server.getsockname()[1]
        argv = [sys.executable, "-c", code, str(to_port)]
        children = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        ports = [int(child.stdout.readline()) for child in children if child.stdout]
        assert not kill_sender(1, to_port)
        assert kill_sender(ports[1], to_port)
        assert children[1].wait(20) == -9
        assert children[0].poll() is None
        children[0].kill()
        for child in children:
            child.wait(20)
            if child.stdout:
                child.stdout.close()


@pytest.mark.parametrize("name", sorted(API_KINDS))
def test_each_kind_of_fault_meets_a_request(name: str) -> None:
    faults = ApiFaults(Proxy(0), {name: API_KINDS[name]})
    requests = [
        Request(0, "POST", "/apis/batch/v1/namespaces/x/jobs?fieldManager=gofer", {}, 0),
        Request(1, "PATCH", "/apis/batch/v1/namespaces/x/jobs/r1", {}, 0),
        Request(2, "GET", "/apis/batch/v1/namespaces/x/jobs?watch=1", {}, 0),
    ]
    thread = Thread(target=faults.make, args=[Random(1)])
    thread.start()
    found = []
    while thread.is_alive():
        found += [faults._decide(request) for request in requests]
    thread.join()
    # Nobody has sent these, so nobody can be killed.
    assert any(found) != API_KINDS[name].kills
    is_counted = not API_KINDS[name].kills and name != "slow"
    assert faults.met_by_clients().total() == (len([one for one in found if one]) if is_counted else 0)
