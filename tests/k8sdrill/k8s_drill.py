"""`K8sDrill`: the drill on the test cluster, with faults of its API and of the cluster itself."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from clusters.k8s.cluster import Kubernetes
from clusters.k8s.site import ADMINS, issue
from k8s.k8s_home import K8sHome
from linedrill.line_drill import DrillSetup, LineDrill, Tally
from services.proxy import Proxy, Tls, proxied

from k8sdrill.api_faults import ApiFaults
from k8sdrill.cluster_faults import ClusterFaults

_LOOKS = (
    ("list", "runs"),
    ("list", "jobs", "--server", "-t", "lab", "--max", "50"),
    ("q", "last"),
    ("q", "last", "--debug"),
    ("logs", "last"),
    ("why", "last"),
)
_SUBMIT_S = 240.0
_OWN = "app.kubernetes.io/managed-by=gofer"


class _BothFaults:
    """Faults of the API, and as many of the cluster in proportion."""

    def __init__(self, api: ApiFaults, cluster: ClusterFaults) -> None:
        self.api, self.cluster = api, cluster
        self.wanted, self.wanted_real = 1, 0

    def make(self, rng: Random) -> None:
        done, done_real = self.api.met_by_clients().total(), self.cluster.met.total()
        # The faults of the cluster keep ahead, so that all of them are done when those of the API are.
        is_behind = done_real < self.wanted_real and done_real * self.wanted <= done * self.wanted_real
        (self.cluster if is_behind or (done >= self.wanted and self._is_short()) else self.api).make(rng)

    def met_by_clients(self) -> Counter[str]:
        """Those of the API; one fewer than wanted while the cluster has not lost enough."""
        met = self.api.met_by_clients()
        if self._is_short() and met.total() >= self.wanted:
            return Counter({"enough, and the cluster has not lost enough": self.wanted - 1})
        return met

    def clear(self) -> None:
        self.api.clear()
        self.cluster.clear()

    def _is_short(self) -> bool:
        return self.cluster.met.total() < self.wanted_real


@dataclass
class K8sDrill:
    """A drill that is set up."""

    line_drill: LineDrill
    both: _BothFaults

    def run(self, faults: int, real: int, *, submitters: int = 3) -> Tally:
        """Until that many requests have failed, and the cluster has lost `real` pods, nodes or servers."""
        self.both.wanted, self.both.wanted_real = faults, real
        tally = self.line_drill.run(faults, submitters=submitters)
        lost = self.both.cluster.met.total()
        if lost < real:
            tally.wrong.append(f"the cluster lost {lost} times, and {real} were to be")
        return tally

    def render(self, tally: Tally) -> str:
        cluster, api = self.both.cluster, self.both.api
        return (
            f"{tally.render()}\n"
            f"requests {len(api.proxy.requests)}, clients killed at one {api.calls.total()} "
            f"({_summary(api.calls)})\n"
            f"faults of the real cluster {cluster.met.total()} ({_summary(cluster.met)}): lost "
            f"{cluster.pods} pods, {cluster.nodes} nodes with their kubelets, "
            f"{cluster.parts} servers of the control plane"
        )


def _summary(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())) or "none"


@contextmanager
def k8s_drill(folder: Path, k8s: Kubernetes, seed: int) -> Iterator[K8sDrill]:
    """A user's home in `folder/person`, in front of the cluster a proxy that fails."""
    with before_api(k8s, folder) as (proxy, kubeconfig):
        marks = folder / "person" / "marks"
        pod = {
            "spec": {
                "volumes": [{"name": "marks", "hostPath": {"path": str(marks)}}],
                "containers": [
                    {"name": "gofer", "volumeMounts": [{"name": "marks", "mountPath": str(marks)}]}
                ],
            }
        }
        home = K8sHome(folder / "person", k8s, options=f"pod: {json.dumps(pod)}, security: image")
        settings = home.folder / "gofer.yaml"
        settings.write_text(settings.read_text().replace(str(k8s.site.kubeconfig), str(kubeconfig)))
        both = _BothFaults(ApiFaults(proxy), ClusterFaults(k8s))

        def checks(runs: dict[str, dict[str, object]]) -> Iterable[str]:
            home.gofer("prune", "--yes", "--older-than", "0s", "-c", "lab", status=None)
            yield from job_errors(k8s, runs)

        setup = DrillSetup(
            home, both, words, questions=_LOOKS, tail="sleep 2", submit_s=_SUBMIT_S, checks=checks
        )
        yield K8sDrill(LineDrill(setup, seed=seed), both)
        home.close()


def words(rng: Random) -> list[str]:
    """The options of one submission."""
    found = ["-t", "lab", "--no-code"]
    if rng.random() < 0.15:
        found += ["-N", "2"]
    elif rng.random() < 0.15:
        found += ["--each", f"k=1..{rng.randint(2, 3)}"]
    if rng.random() < 0.2:
        found += ["-e", f"NUMBER={rng.randint(1, 9)}"]
    return found


def job_errors(k8s: Kubernetes, runs: dict[str, dict[str, object]]) -> Iterator[str]:
    """The cluster has one Job for each submission and nothing of a run that no ledger knows."""
    sent = {str(run["group"] or run_id) for run_id, run in runs.items()}
    jobs = _names(k8s, "jobs")
    for name in sorted(set(jobs) - sent):
        yield f"the cluster has the Job {name}, and no ledger knows it"
    for name in sorted(sent - set(jobs)):
        yield f"the run {name} has no Job"
    for name in sorted(set(_names(k8s, "secrets")) - set(jobs)):
        yield f"the Secret {name} is left without a Job after `gofer prune`"
    pods = json.loads(k8s.kubectl("get", "pods", "--selector", _OWN, "-o", "json"))["items"]
    for pod in pods:
        if pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]:
            yield f"the pod {pod['metadata']['name']} is {pod['status']['phase']} after all runs have ended"


def _names(k8s: Kubernetes, kind: str) -> list[str]:
    listed = json.loads(k8s.kubectl("get", kind, "--selector", _OWN, "-o", "json"))["items"]
    return [str(one["metadata"]["name"]) for one in listed]


@contextmanager
def before_api(k8s: Kubernetes, folder: Path) -> Iterator[tuple[Proxy, Path]]:
    """A proxy in front of the API server, and a kubeconfig that leads there. The proxy has the certificate of
    an admin, so its clients need no credential.
    """
    line, kubeconfig = k8s.open_line("drill")
    pair = issue(k8s.site, "drill", ADMINS, names=["127.0.0.1"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "proxy.pem"
    path.touch(mode=0o600)
    path.write_text(f"{pair.certificate}\n{pair.key}\n")
    tls = Tls.of(path, path, k8s.site.authority)
    tls.server.load_cert_chain(path)
    with proxied(line.port, tls=tls) as proxy:
        text = kubeconfig.read_text().replace(f":{line.port}", f":{proxy.port}")
        kubeconfig.write_text(text)
        yield proxy, kubeconfig
    os.unlink(path)
