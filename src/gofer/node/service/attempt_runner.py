"""The attempts of one node of a service: prepare each attempt, run it, and send its files to the store."""

from __future__ import annotations

import os
import sys
from typing import Dict, NamedTuple, Optional, Set

from gofer.core import run_layout
from gofer.core.code import trees
from gofer.core.launch import NodePlace
from gofer.core.node_request import NodeRequest
from gofer.core.outcome import ExitFields
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.node.code import work_folders
from gofer.node.code.stage import stage
from gofer.node.folders.mapped import FolderContext, MappedFolders
from gofer.node.kept.keeper import KEPT_BYTES
from gofer.node.kept.limit import Keeping
from gofer.node.kept.tally import StoreTally
from gofer.node.packages.cache import folder_in
from gofer.node.rendezvous.base import EXIT, Membership
from gofer.node.rendezvous.objects import ObjectRendezvous
from gofer.node.rendezvous.peer_messages import MESSAGES_FOLDER, Terminated
from gofer.node.rendezvous.peer_monitor import PeerMonitor
from gofer.node.service.holder import NodeHolder
from gofer.node.service.log_forwarder import LogForwarder
from gofer.node.service.runner import ServiceNode
from gofer.node.service.service_mpi import ServiceMpirun
from gofer.node.service.share import NodeShare, row_values
from gofer.node.service.termination import Termination
from gofer.node.task import Task
from gofer.node.uploader.node_uploader import NodeUploader
from gofer.node.uploader.restore import EarlierOutputs
from gofer.node.watch import Watch
from gofer.objects.facts import ObjectsError


class NodeContext(NamedTuple):
    """gofer's folder on the node, and the paths of folders that the service mounted for the run, by name."""

    queue_home: str
    folders: Dict[str, str]


class AttemptContext(NamedTuple):
    """What all attempts of a node share. `holder` is None where no other process can take this node over."""

    request: NodeRequest
    private: RunSecrets
    share: NodeShare
    at: NodeContext
    holder: Optional[NodeHolder] = None


class AttemptRunner:
    """Runs the attempts of one node. Call `make` for each attempt, `send` after the last, then `finish`. Main
    thread only.
    """

    def __init__(
        self,
        context: AttemptContext,
        watch: Watch,
        termination: Termination,
        rendezvous: ObjectRendezvous,
    ) -> None:
        self._context = context
        self._share = context.share
        self._watch = watch
        self._termination = termination
        self._rendezvous = rendezvous
        self._work = self._copies = ""
        self._node: Optional[ServiceNode] = None
        self._uploader: Optional[NodeUploader] = None
        self._earlier_outputs: Optional[EarlierOutputs] = None
        self._is_sent = True
        self._mpirun: Optional[ServiceMpirun] = None
        if self._share.local is not None:
            place = self._place(0, Membership(["localhost"], 0))
            self._mpirun = ServiceMpirun(place, context.private.environment)

    def make(self, attempt: int, membership: Membership) -> ExitFields:
        """Run this node's share of the attempt that the rendezvous has joined. Blocks. Its exit record, which
        is also published to the other nodes.
        """
        if self._uploader is None:
            self._begin(attempt)
        code_name = work_folders.copy_name(self._context.request.code)
        code = os.path.join(self._copies, str(attempt), code_name)
        self._watch.begin()
        children: Set[int] = {self._uploader.pid} if self._uploader else set()
        node = self._node = self._make_node(self._place(attempt, membership), code, children)
        if self._termination.is_terminated:
            node.note_termination()
        else:
            self._run(node, children)
        record = node.record()
        if self._rendezvous.others:
            self._publish_end(record)
        trees.remove_tree(code)
        return record

    def on_termination(self) -> None:
        """Write down at once that the service ends this node: it may be killed soon. Called in a signal
        handler.
        """
        if self._node is not None:
            self._node.note_termination()
        if self._uploader is not None:
            self._uploader.hurry()

    def send(self) -> bool:
        """Send everything that was written to the store. Blocks. False when the store did not take all of it.
        Idempotent.
        """
        if self._uploader is not None:
            uploader, self._uploader = self._uploader, None
            monitor = self._monitor(watches=False)
            self._is_sent = uploader.finish()
            if monitor is not None:
                monitor.end()
        return self._is_sent

    def finish(self, status: int) -> None:
        """Send what is left, remove gofer's files from the node, and let mpirun's processes end with
        `status`.
        """
        os.chdir("/")
        self.send()
        for path in (self._work, self._copies):
            if path:
                trees.remove_tree(path)
        if self._mpirun is not None:
            self._mpirun.dismiss(status, lambda fd: self._watch.wait(fd, 0.1))

    def _monitor(self, *, watches: bool) -> Optional[PeerMonitor]:
        return PeerMonitor(self._rendezvous, watches=watches) if self._rendezvous.others else None

    def _begin(self, attempt: int) -> None:
        share = self._share
        name = f"{share.run_id}.{attempt}.{share.node}"
        self._work = os.path.join(self._context.at.queue_home, "work", name)
        copy = f"99/{work_folders.copy_name(self._context.request.code)}"
        self._copies = work_folders.node_folder(self._context.at.queue_home, name, copy)
        for path in (self._work, self._copies):
            trees.remove_tree(path)
            os.makedirs(path, mode=0o700)
        store, sync = self._context.private.store or {}, self._context.request.sync
        private, holder = self._context.private, self._context.holder
        may_write = (lambda: True) if holder is None else holder.holds
        self._uploader = NodeUploader(self._spool, private, share.run_id, sync, may_write=may_write)
        if attempt > 1:  # earlier attempts ran in other processes, so their files are only in the store
            is_ours = share.nodes == 1
            self._earlier_outputs = EarlierOutputs(
                store, self._spool, share.run_id, is_ours, share.node, attempt
            )

    @property
    def _spool(self) -> str:
        return os.path.join(self._work, "spool")

    def _run(self, node: ServiceNode, children: Set[int]) -> None:
        logs = [run_layout.SETUP_LOG, run_layout.rank_log(node.place.first_rank)]
        _introduce(node.place)
        forwarder = LogForwarder([os.path.join(node.folder, name) for name in logs])
        monitor = self._monitor(watches=True)
        children.update(one.pid for one in (forwarder, monitor) if one is not None)
        try:
            with work_folders.held(self._copies):
                node.run()
        finally:
            os.chdir("/")
            forwarder.end()
            if monitor is not None:
                monitor.end()

    def _make_node(self, place: NodePlace, code: str, children: Set[int]) -> ServiceNode:
        context = self._context
        request = context.request._replace(store=self._spool)
        task = Task(request, place, row_values(request, self._share.row), code, context.private)
        folder_context = FolderContext(
            context.at.queue_home, self._watch, children, context.private.environment
        )
        folders = MappedFolders(
            request, context.private.folders, place, code, folder_context, given=context.at.folders
        )
        folders.views_folder = self._work
        node = ServiceNode(
            task,
            watch=self._watch,
            cgroup=None,
            stage=stage,
            folders=folders,
            report=lambda _: None,
            spared=children,
        )
        node.termination = self._termination
        node.rendezvous = self._rendezvous
        node.earlier_outputs = self._earlier_outputs
        node.package_cache = folder_in(context.at.queue_home)
        node.package_store = context.private.store
        node.service_mpirun = self._mpirun
        node.keeping = Keeping(tally=self._tally())
        return node

    def _tally(self) -> Optional[StoreTally]:
        """The counter for the files that the rows of an array keep together. It is in the store, since each
        row is a job on a node of its own.
        """
        if self._share.row is None:
            return None
        rows = len(self._context.request.rows)
        return StoreTally(
            self._rendezvous.messages.objects,
            f"{MESSAGES_FOLDER}/{self._share.request_id}/{KEPT_BYTES}",
            rows,
        )

    def _place(self, attempt: int, membership: Membership) -> NodePlace:
        share = self._share
        return NodePlace(
            run_id=share.run_id,
            attempt=attempt,
            node=share.node,
            nodes=share.nodes,
            procs=share.procs,
            gpus=share.gpus,
            hosts=membership.hosts,
            port=membership.port,
            first_node_only=self._context.request.layout.first_node_only,
        )

    def _publish_end(self, record: ExitFields) -> None:
        """Send the exit record to the other nodes. A node that the service ends does not wait for the
        store.
        """
        try:
            self._rendezvous.publish(EXIT, record)
        except (ObjectsError, Terminated) as error:
            print(
                f"gofer: the record of its end could not be sent to the other nodes: {error}",
                file=sys.stderr,
                flush=True,
            )


def _introduce(place: NodePlace) -> None:
    first = place.first_rank
    words = f"gofer: {place.run_id}, attempt {place.attempt}"
    if not place.ranks:
        words += f", node {place.node} of {place.nodes}: node 0 runs the command, and this node waits"
    elif place.world_size > 1:
        where = run_layout.node_key(place.run_id, place.attempt, place.node)
        words += f", node {place.node} of {place.nodes}: the lines below are from rank {first}; "
        words += f"each rank's log is in {where}/ of the store (`gofer logs {place.run_id} --rank N`)"
    print(words, flush=True)
