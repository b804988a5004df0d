"""The program of one node of an Azure ML job: `python3 agent.zip FOLDER [--row N] [name=path …]`.

FOLDER is the folder with request.json and private.json, which the service downloaded. `name=path` says where
the service mounted the folder of that name. The program has no supervisor: it makes the attempts of the run
itself, writes the outcome into the run's folder in the store, and exits as the command did.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Dict, List, NamedTuple, Optional

from gofer.core import files, node_request, private_folder, processes
from gofer.core.node_request import NodeRequest
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.node.azure.share import own_environment, read_share
from gofer.node.rendezvous.peer_messages import OVER, PRIVATE
from gofer.node.service.attempt_loop import AttemptLoop
from gofer.node.service.attempt_runner import NodeContext
from gofer.node.service.service_mpi import part
from gofer.node.service.share import NodeShare
from gofer.node.watch import REQUESTS

REQUEST = "request.json"


class ProgramArguments(NamedTuple):
    """The arguments of the program."""

    handoff: str
    row: Optional[int]
    folders: Dict[str, str]


def read_arguments(argv: List[str]) -> ProgramArguments:
    """Parse the arguments; ValueError when they are malformed. The name of a folder has no `=`, but its path
    may.
    """
    handoff, rest = argv[0], argv[1:]
    row = None
    if rest[:1] == ["--row"]:
        row, rest = int(rest[1]), rest[2:]
    pairs = [word.partition("=") for word in rest]
    if not all(mark for _, mark, _ in pairs):
        raise ValueError("a folder is given as `name=path`")
    return ProgramArguments(handoff, row, {name: path for name, _, path in pairs})


def main(argv: List[str]) -> int:
    """Run this node's part of the job. Blocks. The exit status: 0 when the run succeeded, else that of its
    command.
    """
    # A request to stop waits until its handlers are installed.
    signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS)
    arguments = read_arguments(argv)
    found = files.read_json(os.path.join(arguments.handoff, REQUEST))
    if found is None:
        print(f"gofer: the service downloaded no {REQUEST} to {arguments.handoff}", file=sys.stderr)
        return 1
    request = node_request.decode(found)
    share = read_share(os.environ, request, arguments.row)
    if share.local is not None:
        part(share)
    processes.adopt_orphans()
    return _run_attempts(arguments, request, share)


def _run_attempts(arguments: ProgramArguments, request: NodeRequest, share: NodeShare) -> int:
    private = _private(arguments.handoff, request)
    over = files.read_json(os.path.join(arguments.handoff, OVER))
    if private.store is None and over is not None:
        # The service took the node away while the agent was ending, and starts the job once more.
        print(f"gofer: {share.run_id} has already ended; nothing is started", flush=True)
        return int(over["status"])
    if private.store is None:
        print("gofer: the credentials of the run's store were not sent with it", file=sys.stderr)
        return 1
    queue_home = private_folder.own_folder([os.environ.get("TMPDIR", "")])
    _sweep(share)
    return AttemptLoop(request, private, share, NodeContext(queue_home, arguments.folders)).run()


def _private(handoff: str, request: NodeRequest) -> RunSecrets:
    """The private values of the run. Their environment is that of the service, then the job's, then the
    private one.
    """
    known = files.read_json(os.path.join(handoff, PRIVATE)) or {}
    own = own_environment(os.environ)
    environment = {**own, **request.env, **known.get("environment", {})}
    secrets = known.get("secrets") or ()
    return RunSecrets(
        environment, known.get("store"), known.get("folders") or {}, secrets, known.get("files")
    )


def _sweep(share: NodeShare) -> None:
    """End processes that an earlier, killed agent left running on this node."""
    run, node = f"GOFER_RUN_ID={share.run_id}", f"GOFER_NODE_RANK={share.node}"

    def left(table: Dict[int, processes.Stat]) -> set[int]:
        return processes.having_environment(node, processes.having_environment(run, table))

    processes.kill_until_gone(left)
