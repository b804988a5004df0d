"""The objects of a run in the cluster: the Job, the Secret with its request, the ConfigMap with the agent.

Pure. A run is one Indexed Job that has the run's id as its name. Pod i is node i of the run; of an array, it
is node i % nodes of row i // nodes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.options import KubernetesOptions
from gofer.errors import CheckFailed
from gofer.model.job import Resources
from gofer.model.layout import Layout
from gofer.model.run import RunRecord
from gofer.node.kubernetes import places, python_copy
from gofer.text import parse_size, quote_command

Json = dict[str, Any]

# The user of a pod under `security: restricted`, where the image names none by number.
_USER = 65532
# The agent needs this time after the grace of the command, to send the last files and the record of the end.
SEND_S = 15
# Added to gofer's own time limit: the pod also needs time to fetch the code before the command starts.
_MARGIN_S = 600.0
# Pods that may be lost one after the other before Kubernetes gives the Job up; facts in docs/kubernetes.md.
_MOST_LOSSES = {"safe": 20, "fast": 1000}
# How soon the pods of a dead node go, where nobody needs to confirm that they are gone.
_FAST_TOLERATION_S = 30
_MOST_COMMAND = 1000
_PART_OF_GOFER = ("command", "args", "image", "workingDir")


class GpuNodes(NamedTuple):
    """A node label, and its values on the nodes that have GPUs of the wanted type."""

    label: str
    values: tuple[str, ...]


class PodNeeds(NamedTuple):
    """What each pod of a job needs. `gpu_nodes` are the nodes with GPUs of the type that the job asks for."""

    resources: Resources
    layout: Layout
    grace_s: float
    time_limit_s: float | None
    gpu_nodes: GpuNodes | None = None


def job(record: RunRecord, needs: PodNeeds, options: KubernetesOptions, *, agent: str) -> Json:
    """The Job. `agent` is the mark of the agent."""
    rows = 1 if record.array is None else len(record.array.rows)
    pods = record.layout.nodes * rows
    at_once = record.layout.nodes * min(rows, options.array_limit)
    spec: Json = {
        "completionMode": "Indexed",
        "completions": pods,
        "parallelism": at_once,
        "backoffLimit": _MOST_LOSSES[options.recovery] * record.layout.nodes,
        "ttlSecondsAfterFinished": math.ceil(options.ttl),
        "template": template(record.id, needs, options, agent=agent),
    }
    if record.array is not None:
        del spec["backoffLimit"]
        spec["backoffLimitPerIndex"] = _MOST_LOSSES[options.recovery]
        spec["maxFailedIndexes"] = pods
    if options.recovery == "safe":
        spec["podReplacementPolicy"] = "Failed"
        spec["podFailurePolicy"] = {"rules": _failure_rules(record)}
    own = {**labels(record.id, record.submitted_by, record.target), **_queue_labels(options)}
    notes = _annotations(record)
    metadata = {"name": record.id, "labels": own, "annotations": notes}
    body: Json = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    spec["template"]["metadata"]["labels"].update(labels(record.id, record.submitted_by, record.target))
    notes[names.PLAN_NOTE] = digest(body)
    return body


def template(run_id: str, needs: PodNeeds, options: KubernetesOptions, *, agent: str) -> Json:
    """The template of the pods. UsageError for a `pod:` that changes what is gofer's."""
    spec: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": options.service_account is not None,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(needs.grace_s) + SEND_S,
        "tolerations": _tolerations(needs, options),
        "containers": [_container(needs, options)],
        "volumes": _volumes(run_id, needs, options, agent),
    }
    if needs.time_limit_s is not None:
        spec["activeDeadlineSeconds"] = math.ceil(needs.time_limit_s + needs.grace_s + _MARGIN_S)
    if options.security == "restricted":
        spec["securityContext"] = {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    spec.update(_choices(needs, options))
    annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    if options.topology:
        annotations["kueue.x-k8s.io/podset-required-topology"] = options.topology
    made: Json = {"metadata": {"labels": {}, "annotations": annotations}, "spec": spec}
    return merged(made, _checked_patch(options.pod)) if options.pod else made


def secret(record: RunRecord, files: Mapping[str, bytes]) -> Json:
    """The Secret that each pod mounts: the request of the run, and its private values."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": record.id,
            "labels": labels(record.id, record.submitted_by, record.target),
        },
        "type": "Opaque",
        "immutable": True,
        "data": {name: base64.b64encode(data).decode("ascii") for name, data in files.items()},
    }


def agent_map(mark: str, data: bytes) -> Json:
    """The ConfigMap with the agent, which all runs of a namespace share."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.agent_name(mark), "labels": {names.MANAGED_BY: names.GOFER}},
        "immutable": True,
        "binaryData": {places.AGENT_FILE: base64.b64encode(data).decode("ascii")},
    }


def owner(run_id: str, uid: str) -> Json:
    """The patch that makes the Job of the run the owner of its Secret, so that both go together."""
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": run_id,
        "uid": uid,
        "blockOwnerDeletion": False,
    }
    return {"metadata": {"ownerReferences": [reference]}}


def labels(run_id: str, user: str, target: str) -> dict[str, str]:
    return {
        names.MANAGED_BY: names.GOFER,
        names.RUN_LABEL: run_id,
        names.USER_LABEL: names.label_value(user.partition("@")[0]),
        names.TARGET_LABEL: names.label_value(target),
    }


def digest(body: Json) -> str:
    """A hash of what is sent, by which a Job of the same name is known as the same or as another."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def merged(base: Any, patch: Any) -> Any:
    """`patch` merged into `base`: objects by key, lists of named objects by name, other lists added."""
    if isinstance(base, dict) and isinstance(patch, Mapping):
        return {**base, **{key: merged(base.get(key), value) for key, value in patch.items()}}
    if isinstance(base, list) and isinstance(patch, Sequence) and not isinstance(patch, str):
        return _merged_list(base, patch)
    return patch


def _merged_list(base: list[Any], patch: Sequence[Any]) -> list[Any]:
    found = list(base)
    at = {one["name"]: number for number, one in enumerate(base) if isinstance(one, dict) and "name" in one}
    for one in patch:
        name = one.get("name") if isinstance(one, Mapping) else None
        if name in at:
            found[at[name]] = merged(found[at[name]], one)
        else:
            found.append(one)
    return found


def _checked_patch(patch: Mapping[str, Any]) -> Mapping[str, Any]:
    """CheckFailed for a patch that changes the command, the name or the volumes of gofer."""
    spec = patch.get("spec")
    if not isinstance(spec, Mapping) or set(patch) - {"spec", "metadata"}:
        raise CheckFailed(
            "`pod:` of the target has other keys than `metadata` and `spec`",
            hint="it is a part of a pod template: `pod: {spec: {affinity: …}}`",
        )
    for container in spec.get("containers") or ():
        if not isinstance(container, Mapping) or container.get("name") != names.CONTAINER:
            continue
        taken = [key for key in _PART_OF_GOFER if key in container]
        if taken:
            raise CheckFailed(
                f"`pod:` of the target changes `{taken[0]}` of the container `{names.CONTAINER}` of gofer",
                hint="use `image:` and `python:` of the target; a container with another name may be added",
            )
    own = {"agent", "run", "work", "shm"}
    for volume in spec.get("volumes") or ():
        if isinstance(volume, Mapping) and volume.get("name") in own:
            raise CheckFailed(
                f"`pod:` of the target changes the volume `{volume['name']}`, which is gofer's",
                hint="give the volume another name",
            )
    return patch


def _failure_rules(record: RunRecord) -> list[Json]:
    """What Kubernetes does when a pod ends: the first rule that matches counts; the others replace it."""
    gofers = {"containerName": names.CONTAINER, "operator": "In"}
    over = "FailIndex" if record.array is not None else "FailJob"
    disruption = {"type": "DisruptionTarget", "status": "True"}
    rules: list[Json] = [
        {"action": over, "onExitCodes": {**gofers, "values": [places.FAILED]}},
        {"action": "Ignore", "onPodConditions": [disruption]},
    ]
    if "out-of-memory" not in record.job.retry_on or not record.job.retries:
        # On cgroup v2 a container that runs out of memory is killed with its agent, which would start again.
        rules.append({"action": over, "onExitCodes": {**gofers, "values": [137]}})
    return rules


def _queue_labels(options: KubernetesOptions) -> dict[str, str]:
    if options.queue is None:
        return {}
    found = {"kueue.x-k8s.io/queue-name": options.queue}
    if options.priority_class:
        found["kueue.x-k8s.io/priority-class"] = options.priority_class
    return found


def _annotations(record: RunRecord) -> dict[str, str]:
    return {
        names.COMMAND_NOTE: quote_command(record.job.command)[:_MOST_COMMAND],
        names.NODES_NOTE: str(record.layout.nodes),
    }


def _container(needs: PodNeeds, options: KubernetesOptions) -> Json:
    container: Json = {
        "name": names.CONTAINER,
        "image": options.image,
        "imagePullPolicy": options.pull_policy,
        "command": _command(options),
        "env": _environment(options),
        "resources": _resources(needs, options),
        "volumeMounts": [
            {"name": "agent", "mountPath": places.AGENT_FOLDER, "readOnly": True},
            {"name": "run", "mountPath": places.RUN_FOLDER, "readOnly": True},
            {"name": "work", "mountPath": places.WORK_FOLDER},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    if options.security == "restricted":
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], **({"add": ["IPC_LOCK"]} if options.rdma else {})},
        }
    return container


def _command(options: KubernetesOptions) -> list[str]:
    agent = f"{places.AGENT_FOLDER}/{places.AGENT_FILE}"
    python = f"{places.PYTHON_FOLDER}/python3" if options.python_image else options.python
    return [python, "-u", agent, places.PROGRAM, "--recovery", options.recovery]


def _environment(options: KubernetesOptions) -> list[Json]:
    def field(name: str, path: str) -> Json:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    found = [
        field(places.POD, "metadata.name"),
        field(places.POD_UID, "metadata.uid"),
        field(places.POD_IP, "status.podIP"),
        field(places.NODE_NAME, "spec.nodeName"),
        field(places.INDEX, f"metadata.labels['{names.INDEX_LABEL}']"),
    ]
    if options.security == "restricted":
        # The user has no entry in the image's /etc/passwd, and getpass and torch look for one without these.
        values = {
            "HOME": places.HOME,
            "USER": "gofer",
            "LOGNAME": "gofer",
            "TORCHINDUCTOR_CACHE_DIR": f"{places.HOME}/.cache/torchinductor",
        }
        found += [{"name": name, "value": value} for name, value in values.items()]
    return found


def _resources(needs: PodNeeds, options: KubernetesOptions) -> Json:
    """Requests and limits. The memory limit equals the request, so that no other pod suffers;
    CPUs are not limited, since throttling costs more than it saves.
    """
    gpus = needs.layout.gpus_per_node
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    if gpus:
        limits[options.gpu_resource] = requests[options.gpu_resource] = str(gpus)
    if options.rdma:
        limits[options.rdma] = requests[options.rdma] = "1"
    memory = memory_mib(needs, options)
    if memory:
        limits["memory"] = requests["memory"] = f"{memory}Mi"
    requests["cpu"] = str(_cpus(needs, options))
    if options.disk:
        requests["ephemeral-storage"] = f"{parse_size(options.disk + 'i') >> 20}Mi"
    return {"requests": requests, **({"limits": limits} if limits else {})}


def memory_mib(needs: PodNeeds, options: KubernetesOptions) -> int:
    """The memory of each pod; 0 where neither the job nor the target says."""
    if needs.resources.memory_mib:
        return needs.resources.memory_mib
    gpus = needs.layout.gpus_per_node
    if gpus and options.mem_per_gpu:
        return gpus * _mib(options.mem_per_gpu)
    return _mib(options.mem_per_node) if options.mem_per_node else 0


def _mib(size: str) -> int:
    """`16G` counts in powers of 1024, as on Slurm."""
    return max(parse_size(f"{size}i" if size[-1].isalpha() else f"{size}Mi") >> 20, 1)


def _cpus(needs: PodNeeds, options: KubernetesOptions) -> int:
    """The CPUs that a pod asks for. Where nobody says how many, one: a node with GPUs may have fewer CPUs
    free than the run has processes, and a pod may use more than it asks for.
    """
    layout = needs.layout
    if needs.resources.cpus is not None:
        return layout.procs_per_node * layout.cpus_per_proc
    if layout.gpus_per_node and options.cpus_per_gpu:
        return layout.gpus_per_node * options.cpus_per_gpu
    if not layout.gpus_per_node and options.cpus_per_node:
        return options.cpus_per_node
    return 1


def _volumes(run_id: str, needs: PodNeeds, options: KubernetesOptions, agent: str) -> list[Json]:
    memory = memory_mib(needs, options)
    shm: Json = {"medium": "Memory"}
    if options.shm or memory:
        shm["sizeLimit"] = f"{_mib(options.shm) if options.shm else max(memory // 2, 1)}Mi"
    return [
        {"name": "agent", "configMap": {"name": names.agent_name(agent)}},
        {"name": "run", "secret": {"secretName": run_id, "defaultMode": 0o400}},
        {"name": "work", "emptyDir": {}},
        {"name": "shm", "emptyDir": shm},
    ]


def _tolerations(needs: PodNeeds, options: KubernetesOptions) -> list[Json]:
    found: list[Json] = []
    if needs.layout.gpus_per_node:
        found.append({"key": options.gpu_resource, "operator": "Exists", "effect": "NoSchedule"})
        # AKS has no admission plug-in that adds a toleration for the resource, and recommends this taint.
        found.append({"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"})
    if options.spot:
        key = "kubernetes.azure.com/scalesetpriority"
        found.append({"key": key, "operator": "Equal", "value": "spot", "effect": "NoSchedule"})
    if options.recovery == "fast":
        for key in ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"):
            found.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _FAST_TOLERATION_S,
                }
            )
    return found + [msgspec.to_builtins(one) for one in options.tolerations]


def _choices(needs: PodNeeds, options: KubernetesOptions) -> Json:
    """The fields of the pod that only some targets set."""
    found: Json = {}
    if options.node_selector:
        found["nodeSelector"] = dict(options.node_selector)
    if needs.gpu_nodes is not None:
        expression = {
            "key": needs.gpu_nodes.label,
            "operator": "In",
            "values": list(needs.gpu_nodes.values),
        }
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        found["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    if options.service_account:
        found["serviceAccountName"] = options.service_account
    if options.pull_secret:
        found["imagePullSecrets"] = [{"name": options.pull_secret}]
    if options.priority_class and options.queue is None:
        found["priorityClassName"] = options.priority_class
    if options.host_network:
        found["hostNetwork"] = True
        found["dnsPolicy"] = "ClusterFirstWithHostNet"
    if options.python_image:
        found["initContainers"] = [_python_copier(options)]
    return found


def _python_copier(options: KubernetesOptions) -> Json:
    """Copies the Python of another image beside the run's image, which has none."""
    agent = f"{places.AGENT_FOLDER}/{places.AGENT_FILE}"
    container: Json = {
        "name": "python",
        "image": options.python_image,
        "imagePullPolicy": options.pull_policy,
        "command": ["python3", "-u", agent, python_copy.PROGRAM, places.PYTHON_FOLDER],
        "volumeMounts": [
            {"name": "agent", "mountPath": places.AGENT_FOLDER, "readOnly": True},
            {"name": "work", "mountPath": places.WORK_FOLDER},
        ],
    }
    if options.security == "restricted":
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    return container
