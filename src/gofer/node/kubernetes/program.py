"""The program of one pod: `agent.zip kubernetes --recovery MODE`.

The pod's Secret is a folder with the request and the private values of the run. The program makes the
attempts of the run itself, and writes the outcome into the run's folder in the store and, for the case that
the store is away, into the termination message of the pod. Its exit status tells Kubernetes whether the run
is over: see gofer.node.kubernetes.places.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Dict, List, Mapping, Optional

from gofer.core import files, node_request, private_folder, processes
from gofer.core.launch import RANK_VARIABLES
from gofer.core.node_request import NodeRequest
from gofer.core.outcome import Outcome
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.core.states import State
from gofer.node.kubernetes import places
from gofer.node.rendezvous.peer_messages import HANDOFFS
from gofer.node.service.attempt_loop import AttemptLoop
from gofer.node.service.attempt_runner import NodeContext
from gofer.node.service.share import NodeShare, own_gpus
from gofer.node.watch import REQUESTS
from gofer.objects import open_objects

# Kubernetes keeps this much of a termination message.
_MOST_MESSAGE = 4096
_MOST_DETAIL = 2000


def main(argv: List[str]) -> int:
    """Run this pod's part of the run. Blocks. The exit status for Kubernetes."""
    # A request to stop waits until its handlers are installed.
    signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS)
    private = read_secrets(places.RUN_FOLDER)
    request = read_request(places.RUN_FOLDER, private)
    share = read_share(os.environ, request)
    values = private._replace(environment=_environment(os.environ, request, private))
    _make_folder(places.HOME)
    processes.adopt_orphans()
    queue_home = private_folder.own_folder([places.WORK_FOLDER])
    loop = AttemptLoop(request, values, share, NodeContext(queue_home, {}))
    loop.run()
    if loop.end is not None:
        write_message(places.TERMINATION_LOG, loop.end)
    return exit_status(loop.end, "--recovery" not in argv or "safe" in argv)


def exit_status(end: Optional[Outcome], is_safe: bool) -> int:
    """The status that tells Kubernetes how to go on. Without a failure policy, every status but 0 is a pod to
    replace, so the pods of an ended run exit with 0 however it ended.
    """
    if end is None:
        return places.AGAIN
    return places.FAILED if is_safe and end.state != State.SUCCEEDED else 0


def read_secrets(folder: str) -> RunSecrets:
    """The private values of the run; SystemExit when the Secret has none."""
    known = files.read_json(os.path.join(folder, places.PRIVATE))
    if known is None or not known.get("store"):
        sys.exit("gofer: the credentials of the run's store were not sent with it")
    return RunSecrets(**known)


def read_request(folder: str, private: RunSecrets) -> NodeRequest:
    """The request of the run, from the Secret; a request that is too large for a Secret is in the store."""
    found = files.read_json(os.path.join(folder, places.REQUEST))
    if found is not None and "at" in found:
        data = open_objects(private.store or {}).get(f"{HANDOFFS}/{found['at']}/{places.REQUEST}")
        found = json.loads(data)
    if found is None:
        sys.exit(f"gofer: the Secret of the run has no {places.REQUEST}")
    return node_request.decode(found)


def read_share(environ: Mapping[str, str], request: NodeRequest) -> NodeShare:
    """The part of this pod, by its index in the Job."""
    index, nodes = int(environ.get(places.INDEX) or "0"), request.layout.nodes
    row = index // nodes if request.rows else None
    return NodeShare(
        run_id=request.id if row is None else f"{request.id}-{row}",
        request_id=request.id,
        row=row,
        node=index % nodes,
        nodes=nodes,
        procs=request.layout.procs_per_node,
        local=None,
        master=None,
        port=None,
        hosts=[],
        gpus=own_gpus(environ, request.layout.gpus_per_node),
        replaces_nodes=True,
        keeps_secrets=True,
    )


def write_message(path: str, end: Outcome) -> None:
    """Write the outcome where Kubernetes reads the termination message of the pod. Never raises."""
    fields = end._replace(detail=(end.detail or "")[:_MOST_DETAIL] or None).encode()
    try:
        with open(path, "wb") as file:
            file.write(files.encode(fields)[:_MOST_MESSAGE])
    except OSError:
        pass  # the store has the outcome too


def _environment(environ: Mapping[str, str], request: NodeRequest, private: RunSecrets) -> Dict[str, str]:
    """The environment of the command: that of the image and the pod, then the job's, then the private one."""
    own = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GOFER_") and name not in RANK_VARIABLES
    }
    return {**own, **request.env, **private.environment}


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        sys.exit(f"gofer: the working folder of the pod cannot be made: {error}")
