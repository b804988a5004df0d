"""The program of one node of a Slurm job: `python -m gofer.node.slurm.node ROOM`, started by `srun`.

It does the work of an agent, without a supervisor. Its exit record is in the run's folder in the store, and
in the handoff folder that all nodes of the job share, where `gofer.node.slurm.end` reads it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time

from gofer.core import files, private_folder, processes, run_layout
from gofer.core.code import trees
from gofer.core.node_request import NodeRequest
from gofer.core.outcome import Outcome
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.core.states import Reason, State
from gofer.node.code import work_folders
from gofer.node.code.stage import stage
from gofer.node.folders.mapped import FolderContext, MappedFolders
from gofer.node.kept.keeper import KEPT, KEPT_BYTES
from gofer.node.kept.limit import Keeping
from gofer.node.kept.tally import FileTally
from gofer.node.packages.cache import folder_in
from gofer.node.rendezvous.base import EXIT
from gofer.node.runner import Node
from gofer.node.slurm.handoff import PRIVATE, Handoff
from gofer.node.slurm.rendezvous import SlurmRendezvous
from gofer.node.slurm.share import SlurmShare, own_environment, read_share, row_values
from gofer.node.slurm.termination import SlurmTermination
from gofer.node.task import Task
from gofer.node.uploader.node_uploader import NodeUploader
from gofer.node.uploader.restore import EarlierOutputs
from gofer.node.watch import REQUESTS, ProcessEnd, Watch, WatchResult


class SlurmNode(Node):
    """A node in a Slurm job. When Slurm ends it, another attempt follows, or Slurm says why the job ended."""

    def _judge(self, watched: WatchResult) -> Outcome:
        found = super()._judge(watched)
        if watched.cause != "shutdown":
            return found
        words = "Slurm ended this node: preempted, requeued, cancelled or out of time"
        return Outcome(State.LOST, Reason.PREEMPTED, words)

    def _start_ranks(self) -> tuple[dict[int, int], ProcessEnd | None]:
        """Start the ranks.

        A batch script that asked for a signal before its time limit gets it from here. Slurm itself signals
        the script's steps.
        """
        if not self.task.request.passes_signals:
            for passed in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
                signal.signal(passed, signal.SIG_IGN)
        pids, failed = super()._start_ranks()
        wanted = self.task.request.batch_signal
        if wanted is not None and pids:
            number = getattr(signal, f"SIG{wanted[0]}", None) or int(wanted[0])
            timer = threading.Timer(float(wanted[1]), _send, (next(iter(pids)), number))
            timer.daemon = True
            timer.start()
        return pids, failed


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def main() -> int:
    # A request to stop waits until its handlers are installed.
    signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS)
    handoff = Handoff(sys.argv[1])
    request = handoff.request()
    share = read_share(os.environ, request)
    if not handoff.claim(share.job):
        print(f"gofer: job {share.job} is a duplicate for {share.run_id} and starts nothing", file=sys.stderr)
        return 0
    if share.attempt > 1 and handoff.has_succeeded(share.row, share.attempt - 1, share.nodes):
        return 0  # the run succeeded; only its last line was lost, with the node that should have written it
    processes.adopt_orphans()
    return _Agent(handoff, request, share).run()


class _Agent:
    def __init__(self, handoff: Handoff, request: NodeRequest, share: SlurmShare) -> None:
        self.handoff = handoff
        self.request = request
        self.share = share
        self.rendezvous = SlurmRendezvous(handoff, share)
        self.queue_home = _scratch_folder(request.scratch)
        name = f"{share.run_id}.{share.attempt}.{share.node}"
        self.work = os.path.join(self.queue_home, "work", name)
        code_name = work_folders.copy_name(request.code)
        self.copy = self._copy(code_name)
        self.code = os.path.join(self.copy, code_name)
        self.private = self._private()
        self.store = request.store or os.path.join(self.work, "spool")

    def _copy(self, code_name: str) -> str:
        """The folder that holds the working copy. A command that starts only on the first node reaches the
        others by `srun`, which starts tasks in the same folder. So its working copy is in the handoff folder,
        which all nodes see.
        """
        if self.share.node > 0 or not self.request.layout.first_node_only:
            return work_folders.node_folder(self.queue_home, os.path.basename(self.work), code_name)
        row = "" if self.share.row is None else f"{self.share.row}."
        return self.handoff.at(f"c{row}{self.share.attempt}")

    def _private(self) -> RunSecrets:
        """The private values. Their environment is that of the site, then the job's, then the private one.

        SLURM_SUBMIT_DIR is the copy of the folder that `gofer submit` was typed in, as batch scripts expect.
        """
        known = files.read_json(self.handoff.at(PRIVATE)) or {"environment": {}, "store": None, "folders": {}}
        submit_dir = os.path.normpath(os.path.join(self.code, self.request.workdir))
        has_steps = self.request.sbatch is not None or self.request.command_launcher == "srun"
        site = {**own_environment(os.environ, is_batch=has_steps), "SLURM_SUBMIT_DIR": submit_dir}
        if self.request.sbatch is not None:
            site["SLURM_JOB_NAME"] = self.request.name
        environment = {**site, **self.request.env, **known["environment"]}
        secrets = known.get("secrets") or ()
        return RunSecrets(environment, known["store"], known["folders"], secrets, known.get("files"))

    def run(self) -> int:
        """Run this node's share. Blocks. 0 when the exit record is written and the store has all files."""
        for path in {self.work, self.copy}:
            trees.remove_tree(path)
            os.makedirs(path, mode=0o700)
        uploader = None if self.request.store else self._start_uploader()
        watch = Watch(-1, lambda: None)
        watch.begin()
        SlurmTermination(
            self.handoff, self.share.row, self.rendezvous, float(self.request.kill_wait_s)
        ).check()
        self.handoff.publish(self.share.row, self.share.attempt, "begun", {"at": time.time()})
        with work_folders.held(self.copy):
            self._node(watch, set() if uploader is None else {uploader.pid}).run()
        os.chdir("/")
        record = self._exit_record()
        is_success = record is not None and record["state"] == State.SUCCEEDED
        if not is_success:
            self._publish_end(record)
        is_sent = uploader is None or uploader.finish()
        if not is_sent:
            self._keep_unsent()
        if is_success:  # a success counts only after its files are in the store
            self._publish_end(record)
        self.rendezvous.leave()
        for path in {self.work, self.copy}:
            trees.remove_tree(path)
        return 0 if is_sent else 1

    def _start_uploader(self) -> NodeUploader:
        if self.private.store is None:
            raise ValueError("the credentials of the store are missing")
        return NodeUploader(self.store, self.private, self.share.run_id, self.request.sync)

    def _node(self, watch: Watch, spared: set[int]) -> Node:
        at = self.share.place(self.request)
        request = self.request._replace(store=self.store)
        task = Task(request, at, row_values(self.request, self.share.row), self.code, self.private)
        folder_context = FolderContext(self.queue_home, watch, spared, self.private.environment)
        folders = MappedFolders(request, self.private.folders, at, self.code, folder_context)
        folders.views_folder = self.work
        node = SlurmNode(
            task, watch=watch, cgroup=None, stage=stage, folders=folders, report=lambda _: None, spared=spared
        )
        node.rendezvous = self.rendezvous
        shared = os.path.join(os.path.dirname(self.handoff.path), KEPT)
        tally = None if self.share.row is None else FileTally(self.handoff.at(KEPT_BYTES))
        node.keeping = Keeping((shared, *work_folders.kept_folders(self.queue_home, self.code)), tally)
        # The cache is in the folder that the nodes share, so packages are built once for the site.
        node.package_cache = folder_in(os.path.dirname(os.path.dirname(self.handoff.path)))
        if self.private.store is not None and self.share.attempt > 1:
            is_ours = self.share.nodes == 1
            run_id, attempt = self.share.run_id, self.share.attempt
            node.earlier_outputs = EarlierOutputs(
                self.private.store, self.store, run_id, is_ours, self.share.node, attempt
            )
        return node

    def _exit_record(self) -> dict[str, object] | None:
        share = self.share
        key = f"{run_layout.node_key(share.run_id, share.attempt, share.node)}/{run_layout.EXIT}"
        return files.read_json(os.path.join(self.store, key))

    def _publish_end(self, record: dict[str, object] | None) -> None:
        if record is not None:
            self.rendezvous.publish(EXIT, record)

    def _keep_unsent(self) -> None:
        """Copy files that the store did not take to the shared file system, so that they are not lost with
        the node.
        """
        kept = os.path.join(os.path.dirname(self.handoff.path), "unsent", os.path.basename(self.work))
        try:
            shutil.copytree(os.path.join(self.store, run_layout.run_key(self.share.run_id)), kept)
            print(f"gofer: files that the store did not take are in {kept}", file=sys.stderr, flush=True)
        except OSError as error:
            print(f"gofer: files that the store did not take could not be kept: {error}", file=sys.stderr)


def _scratch_folder(wanted: str | None) -> str:
    """gofer's folder on this node, for working copies and copies of folders."""
    places = [os.path.expandvars(wanted)] if wanted else []
    return private_folder.own_folder(
        [*places, *(os.environ.get(name, "") for name in ("SLURM_TMPDIR", "TMPDIR"))]
    )


if __name__ == "__main__":
    sys.exit(main())
