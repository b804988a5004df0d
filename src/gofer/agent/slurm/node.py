"""The program of one node of a Slurm job: `python -m gofer.agent.slurm.node ROOM`, started by `srun`.

It does what an agent does anywhere. Nobody supervises it: how it ended is in the run's folder in the store,
and in the room that all nodes of the job share, where `gofer.agent.slurm.end` finds it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import Any

from gofer.agent import files, folder, processes, scratch
from gofer.agent.ferry import Ferry
from gofer.agent.mapped import Around, MappedFolders
from gofer.agent.node import Node
from gofer.agent.past import Past
from gofer.agent.sealed import Private
from gofer.agent.slurm.orders import Orders
from gofer.agent.slurm.room import PRIVATE, Room
from gofer.agent.slurm.share import Share, own_environment, read_share, row_values
from gofer.agent.staging import stage
from gofer.agent.states import Reason, State
from gofer.agent.task import Task
from gofer.agent.verdict import Verdict
from gofer.agent.watch import REQUESTS, Outcome, Watch


class SlurmNode(Node):
    """A node whose Slurm may tell it to end: another attempt follows, or Slurm says why not."""

    def _judge(self, outcome: Outcome) -> Verdict:
        found = super()._judge(outcome)
        if outcome.cause != "shutdown":
            return found
        words = "Slurm told it to end: preempted, requeued, cancelled or out of time"
        return Verdict(State.LOST, Reason.PREEMPTED, words)


def main() -> int:
    # What is told before it can be understood must wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS)
    place = Room(sys.argv[1])
    request = place.request()
    share = read_share(os.environ, request)
    if not place.claim(share.job):
        print(f"gofer: job {share.job} is a double of {share.run_id} and starts nothing", file=sys.stderr)
        return 0
    if share.attempt > 1 and place.has_succeeded(share.row, share.attempt - 1, share.nodes):
        return 0  # only its last word was lost, with the node that should have written it
    processes.adopt_orphans()
    return _Agent(place, request, share).run()


class _Agent:
    def __init__(self, place: Room, request: dict[str, Any], share: Share) -> None:
        self.room = place
        self.request = request
        self.share = share
        self.private = self._private()
        self.engine = _engine(request["scratch"])
        name = f"{share.run_id}.{share.attempt}.{share.node}"
        self.work = os.path.join(self.engine, "work", name)
        self.store = request["store"] or os.path.join(self.work, "spool")

    def _private(self) -> Private:
        """The site's own environment, then the job's, then what only the run may know."""
        known = files.read_json(self.room.at(PRIVATE)) or {"environment": {}, "store": None, "folders": {}}
        environment = {**own_environment(os.environ), **self.request["env"], **known["environment"]}
        return Private(environment, known["store"], known["folders"])

    def run(self) -> int:
        """0 when how it ended is written down and the store has it."""
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work, mode=0o700)
        ferry = None if self.request["store"] else self._ferry()
        watch = Watch(-1, lambda: None)
        watch.begin()
        Orders(self.room, self.share, float(self.request["kill_wait_s"])).check()
        self.room.tell(self.share.row, self.share.attempt, "begun", {"at": time.time()})
        self._node(watch, set() if ferry is None else {ferry.pid}).run()
        os.chdir("/")
        record = self._exit_record()
        is_success = record is not None and record["state"] == State.SUCCEEDED
        if not is_success:
            self._tell_end(record)
        is_sent = ferry is None or ferry.finish()
        if not is_sent:
            self._keep_unsent()
        if is_success:  # which it is when what came of it is in the store too
            self._tell_end(record)
        shutil.rmtree(self.work, ignore_errors=True)
        return 0 if is_sent else 1

    def _ferry(self) -> Ferry:
        if self.private.store is None:
            raise ValueError("what opens the store was lost")
        return Ferry(self.store, self.private.store, self.share.run_id, self.request["sync"])

    def _node(self, watch: Watch, spared: set[int]) -> Node:
        at = self.share.place(self.request)
        code = os.path.join(self.work, "code")
        request = {**self.request, "store": self.store}
        task = Task(request, at, row_values(self.request, self.share.row), code, self.private)
        around = Around(self.engine, watch, spared, self.private.environment)
        folders = MappedFolders(request, self.private.folders, at, code, around)
        node = SlurmNode(
            task, watch=watch, cgroup=None, stage=stage, folders=folders, tell=lambda _: None, spared=spared
        )
        if self.private.store is not None and self.share.attempt > 1:
            node.past = Past(self.private.store, self.store, self.share.run_id, self.share.nodes == 1)
        return node

    def _exit_record(self) -> dict[str, Any] | None:
        share = self.share
        key = f"{folder.node_key(share.run_id, share.attempt, share.node)}/{folder.EXIT}"
        return files.read_json(os.path.join(self.store, key))

    def _tell_end(self, record: dict[str, Any] | None) -> None:
        """Into the room; a failure also ends the other nodes of the attempt."""
        share = self.share
        if record is None:
            return
        self.room.tell(share.row, share.attempt, f"exit-{share.node}", record)
        if share.nodes > 1 and record["state"] == State.FAILED:
            from gofer.agent.slurm.calls import SlurmError, call

            self.room.tell(share.row, share.attempt, "failed", {"node": share.node})
            try:
                call(["scancel", "--signal=TERM", f"{share.raw}.{share.step}"])
            except (SlurmError, OSError) as error:
                print(f"gofer: the other nodes could not be told: {error}", file=sys.stderr, flush=True)

    def _keep_unsent(self) -> None:
        """What the store did not take is worth more than the shared file system's space."""
        kept = os.path.join(os.path.dirname(self.room.path), "unsent", os.path.basename(self.work))
        try:
            shutil.copytree(os.path.join(self.store, folder.run_key(self.share.run_id)), kept)
            print(f"gofer: what the store did not take is kept in {kept}", file=sys.stderr, flush=True)
        except OSError as error:
            print(f"gofer: what the store did not take could not be kept: {error}", file=sys.stderr)


def _engine(wanted: str | None) -> str:
    """A folder of this user's on this node, for working copies and copies of folders."""
    places = [os.path.expandvars(wanted)] if wanted else []
    return scratch.engine([*places, *(os.environ.get(name, "") for name in ("SLURM_TMPDIR", "TMPDIR"))])


if __name__ == "__main__":
    sys.exit(main())
