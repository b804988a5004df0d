"""One run: `gofer submit` beside `kubectl create`, torchx and Kubeflow's SDK. No run starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.figures import Bar, Figure, at_most, count_at_most
from bench.k8s.cluster import BenchKubernetes, Calls
from bench.measure import Sample
from bench.peers import TORCHX_K8S
from bench.report import Table, pair
from bench.rounds import Competitor, Outcome, interleave

GOFER, KUBECTL = "`gofer submit true`", "`kubectl create -f job.json`"
TORCHX, KUBEFLOW = "torchx `runner.schedule`", "Kubeflow `TrainerClient.train`"
MOST_CPU, MOST_WRITES = 2.0, 3
_LEAST_BEFORE_PYTHON = 5.0


@dataclass
class Submissions:
    """The samples, and the requests of the last round of each."""

    outcome: Outcome[Sample] = field(default_factory=Outcome)
    calls: dict[str, Calls] = field(default_factory=dict)

    def table(self) -> Table:
        rows = []
        for name, samples in self.outcome.samples.items():
            wall = Figure.of([one.wall_s for one in samples])
            cpu = Figure.of([one.cpu_s for one in samples])
            rows.append((name, *pair(wall, 1000), *pair(cpu, 1000), str(self.calls[name])))
        columns = ("", "wall min ms", "wall median ms", "CPU min ms", "CPU median ms", "requests")
        return Table(columns, tuple(rows), "One run")

    def bars(self) -> list[Bar]:
        def cpu(name: str) -> Figure | None:
            return self.outcome.figure(name, lambda one: one.cpu_s)

        calls = self.calls.get(GOFER)
        writes = None if calls is None else calls.writes
        return [
            at_most(f"one run: CPU ≤ {MOST_CPU:g} x `kubectl create`", MOST_CPU, cpu(GOFER), cpu(KUBECTL)),
            count_at_most(f"one run: ≤ {MOST_WRITES} writes", MOST_WRITES, writes, "writes"),
            *(
                at_most(f"one run: CPU ≤ 1/5 of {name}", 1 / _LEAST_BEFORE_PYTHON, cpu(GOFER), cpu(name))
                for name in (TORCHX, KUBEFLOW)
            ),
        ]


def measure(cluster: BenchKubernetes) -> Submissions:
    """Blocks for `submit_rounds` rounds in turn. The first, which sends gofer's agent too, is thrown away."""
    found = Submissions()
    user = cluster.new_user("held")
    numbers = iter(range(10_000))

    def counted(name: str, agent: str, act: Callable[[], Sample]) -> Callable[[], Sample]:
        def attempt() -> Sample:
            before = cluster.counts(agent)
            sample = act()
            found.calls[name] = cluster.counts(agent).since(before)
            cluster.empty()
            return sample

        return attempt

    def kubectl() -> Sample:
        file = cluster.file(cluster.job(f"bench-{next(numbers)}", "true", is_held=True))
        return cluster.kubectl("create", "-f", file)

    prepare_peers(cluster)
    found.outcome = interleave(
        [
            Competitor(KUBECTL, counted(KUBECTL, "kubectl", kubectl)),
            Competitor(GOFER, counted(GOFER, "gofer", lambda: user.gofer("submit", "--no-code", "true"))),
            Competitor(
                TORCHX, counted(TORCHX, "python", lambda: cluster.python(TORCHX_K8S, "torchx_k8s.py"))
            ),
            Competitor(
                KUBEFLOW, counted(KUBEFLOW, "python", lambda: cluster.python("kubeflow", "kubeflow_train.py"))
            ),
        ],
        cluster.plan.submit_rounds,
        warm_ups=1,
    )
    return found


def prepare_peers(cluster: BenchKubernetes) -> None:
    """What the Python clients ask of a cluster: kinds of objects without anybody who works on them."""
    for group, version, plural, kind, is_namespaced in _KINDS:
        scope = "Namespaced" if is_namespaced else "Cluster"
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        names = {"plural": plural, "singular": kind.lower(), "kind": kind}
        one = {"name": version, "served": True, "storage": True, "schema": schema}
        document = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "names": names, "scope": scope, "versions": [one]},
        }
        cluster.kubectl("apply", "-f", cluster.file(document))
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{plural}.{group}", "--timeout=60s")
    cluster.kubectl("apply", "-f", cluster.file(_RUNTIME))


_KINDS = (
    ("batch.volcano.sh", "v1alpha1", "jobs", "Job", True),
    ("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", True),
    ("trainer.kubeflow.org", "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", False),
)
_NODE = {
    "name": "node",
    "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "localhost/python:3"}]}}},
    },
}
_RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "torch-distributed", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
        "template": {"spec": {"replicatedJobs": [_NODE]}},
    },
}
