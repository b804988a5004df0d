"""The agent of a queue as the agent of one node of an elastic run: what `gofer.node.elastic` needs of it."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, Set

from gofer.core import processes, run_layout
from gofer.core.launch import NodePlace
from gofer.core.node_request import NodeRequest
from gofer.core.secrets.run_secrets import ELASTIC_KEY
from gofer.node.elastic.agent import ElasticAgent, ElasticContext
from gofer.node.elastic.checkpoints import USUAL
from gofer.node.elastic.generation_process import MEMBER_VARIABLE
from gofer.node.elastic.lease_store import FolderLease
from gofer.node.elastic.rules import ElasticRules
from gofer.node.rendezvous.base import own_address
from gofer.node.runner import Node
from gofer.node.task import Task
from gofer.node.watch import Watch

# Makes the node of a task that is run with this watch, in a child of the agent.
MakeTaskNode = Callable[[Task, Watch], Node]


def rules_of(task: Task) -> ElasticRules:
    """The rules in the request. KeyError without the numbers of nodes."""
    request = task.request
    given: Mapping[str, Any] = request.elastic or {}
    known = {name: given[name] for name in ElasticRules._fields if given.get(name) is not None}
    if "join_patience_s" in given:
        known["join_patience_s"] = given["join_patience_s"]
    return ElasticRules(
        **{
            **known,
            "leave_grace_s": min(float(request.grace_s), 5.0),
            "retries": request.retries,
            "retry_on": tuple(request.retry_on),
        }
    )


def lease_folder(request: NodeRequest, run_id: str) -> str:
    """Where the lease of a run is: in the run's folder, unless that is only the copy that an uploader sends.
    Each version of a lease is a file, and nobody needs them in an object store.
    """
    store = str(request.store)
    if request.remote:
        return os.path.join(store, "elastic", run_id)
    return os.path.join(store, run_layout.elastic_key(run_id))


def run_share(
    task: Task, make_node: MakeTaskNode, watch: Watch, spared: Set[int], report: Callable[[str], None]
) -> int:
    """Be an agent of the run until it is over. Blocks. The status of the run."""
    environment = dict(task.private.environment)
    key = bytes.fromhex(environment.pop(ELASTIC_KEY, ""))
    if not key:
        raise ValueError(f"the elastic run {task.place.run_id} came without its key")
    task = task._replace(private=task.private._replace(environment=environment))
    checkpoints: List[str] = list((task.request.elastic or {}).get("checkpoint") or USUAL)
    context = ElasticContext(
        run_id=task.place.run_id,
        slot=task.place.node,
        procs=task.place.procs,
        gpus=task.place.gpus,
        store=task.store,
        outputs=os.path.join(task.store, run_layout.outputs_key(task.place.run_id)),
        requests=f"{os.path.dirname(task.code)}.requests",
        key=key,
        address=own_address() if task.spans else "127.0.0.1",
        rules=rules_of(task),
        checkpoints=checkpoints,
        lease_store=FolderLease(lease_folder(task.request, task.place.run_id)),
        make_node=lambda place, own_watch, more: make_node(_of_generation(task, place, more), own_watch),
        report=report,
    )
    me = processes.identify(os.getpid())
    return ElasticAgent(context, watch, spared, name=str(me)).run()


def _of_generation(task: Task, place: NodePlace, more: Mapping[str, str]) -> Task:
    """The share of one generation, with a working copy of its own."""
    copy, name = os.path.split(task.code)
    code = os.path.join(os.path.dirname(copy), f"{place.attempt}-{task.place.node}", name)
    environment: Dict[str, str] = {**task.private.environment, **more}
    grace_s = min(float(task.request.grace_s), 5.0)
    return task._replace(
        place=place,
        code=code,
        private=task.private._replace(environment=environment),
        request=task.request._replace(grace_s=grace_s, span=None),
    )


def mark_of(who: processes.ProcessIdentity) -> str:
    """What all processes of the ranks of an agent have in their environment."""
    return f"{MEMBER_VARIABLE}={who}"
