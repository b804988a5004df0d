"""The attempts of one node: each made with what the service and the run gave, all carried to the store."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Dict, NamedTuple, Optional, Set

from gofer.agent import folder
from gofer.agent.azure.echo import Echo
from gofer.agent.azure.herald import Herald
from gofer.agent.azure.meeting import Plan, ToldToEnd, patiently
from gofer.agent.azure.orders import Orders
from gofer.agent.azure.running import AzureNode
from gofer.agent.azure.share import Share, row_values
from gofer.agent.azure.standing_in import ServiceMpirun
from gofer.agent.azure.told import Told
from gofer.agent.ferry import Ferry
from gofer.agent.launch import Place
from gofer.agent.mapped import Around, MappedFolders
from gofer.agent.objects.facts import ObjectsError
from gofer.agent.past import Past
from gofer.agent.sealed import Private
from gofer.agent.staging import stage
from gofer.agent.task import Task
from gofer.agent.watch import Watch


class Surroundings(NamedTuple):
    """The folder of this user's on the node, and where the service has folders of the run, by their names."""

    engine: str
    folders: Dict[str, str]


class Setting(NamedTuple):
    """What all attempts of a node have in common."""

    request: Dict[str, Any]
    private: Private
    share: Share
    at: Surroundings


class Trials:
    """Main thread only: `make` as often as need be, `send` when no more follows, `finish` last."""

    def __init__(self, setting: Setting, watch: Watch, orders: Orders, told: Told) -> None:
        self._setting = setting
        self._share = setting.share
        self._watch = watch
        self._orders = orders
        self._told = told
        self._work = ""
        self._node: Optional[AzureNode] = None
        self._ferry: Optional[Ferry] = None
        self._past: Optional[Past] = None
        self._is_sent = True
        self._mpirun: Optional[ServiceMpirun] = None
        if self._share.local is not None:
            place = self._place(Plan("", 0, ["localhost"], 0, {}))
            self._mpirun = ServiceMpirun(place, setting.private.environment)

    def make(self, plan: Plan) -> Dict[str, Any]:
        """The exit record of this node's share of the attempt, which the others have been told too."""
        if self._ferry is None:
            self._begin(plan)
        code = os.path.join(self._work, f"code-{plan.attempt}")
        self._watch.begin()
        children: Set[int] = {self._ferry.pid} if self._ferry else set()
        node = self._node = self._make_node(plan, code, children)
        if self._orders.is_told:
            node.note_told()
        else:
            self._run(node, plan, children)
        record = node.record()
        if self._has_peers:
            self._tell(f"exit.{plan.attempt}.{self._share.node}", record)
        shutil.rmtree(code, ignore_errors=True)
        return record

    def on_told(self) -> None:
        """The service wants this node to end: say so now, while there is time. In a handler of signals."""
        if self._node is not None:
            self._node.note_told()
        if self._ferry is not None:
            self._ferry.hurry()

    def send(self) -> bool:
        """Bring everything that was written to the store; whether it took all of it. Idempotent."""
        if self._ferry is not None:
            ferry, self._ferry = self._ferry, None
            beat = Herald(self._told, None, self._share.node, self._share.nodes) if self._has_peers else None
            self._is_sent = ferry.finish()
            if beat is not None:
                beat.end()
        return self._is_sent

    def finish(self, status: int) -> None:
        """Send what is left, remove what is on the node, and let mpirun's processes end with this status."""
        os.chdir("/")
        self.send()
        if self._work:
            shutil.rmtree(self._work, ignore_errors=True)
        if self._mpirun is not None:
            self._mpirun.dismiss(status, lambda fd: self._watch.wait(fd, 0.1))

    @property
    def _has_peers(self) -> bool:
        return self._share.nodes > 1

    def _begin(self, plan: Plan) -> None:
        share = self._share
        name = f"{share.run_id}.{plan.attempt}.{share.node}"
        self._work = os.path.join(self._setting.at.engine, "work", name)
        shutil.rmtree(self._work, ignore_errors=True)
        os.makedirs(self._work, mode=0o700)
        store, sync = self._setting.private.store or {}, self._setting.request["sync"]
        self._ferry = Ferry(self._spool, store, share.run_id, sync)
        if plan.attempt > 1:  # of which this process has made none
            self._past = Past(store, self._spool, share.run_id, share.nodes == 1)

    @property
    def _spool(self) -> str:
        return os.path.join(self._work, "spool")

    def _run(self, node: AzureNode, plan: Plan, children: Set[int]) -> None:
        logs = [folder.SETUP_LOG, folder.rank_log(node.place.ranks[0])]
        _introduce(node.place)
        echo = Echo([os.path.join(node.folder, name) for name in logs])
        herald = Herald(self._told, plan, self._share.node, self._share.nodes) if self._has_peers else None
        children.update(one.pid for one in (echo, herald) if one is not None)
        try:
            node.run()
        finally:
            os.chdir("/")
            echo.end()
            if herald is not None:
                herald.end()

    def _make_node(self, plan: Plan, code: str, children: Set[int]) -> AzureNode:
        setting, place = self._setting, self._place(plan)
        request = {**setting.request, "store": self._spool}
        task = Task(request, place, row_values(request, self._share.row), code, setting.private)
        around = Around(setting.at.engine, self._watch, children, setting.private.environment)
        folders = MappedFolders(
            request, setting.private.folders, place, code, around, given=setting.at.folders
        )
        node = AzureNode(
            task,
            watch=self._watch,
            cgroup=None,
            stage=stage,
            folders=folders,
            tell=lambda _: None,
            spared=children,
        )
        node.orders = self._orders
        node.past = self._past
        node.service_mpirun = self._mpirun
        return node

    def _place(self, plan: Plan) -> Place:
        share = self._share
        return Place(
            run_id=share.run_id,
            attempt=plan.attempt,
            node=share.node,
            nodes=share.nodes,
            procs=share.procs,
            gpus=share.gpus,
            hosts=plan.hosts,
            port=plan.port,
        )

    def _tell(self, name: str, record: Dict[str, Any]) -> None:
        """One that is told to end has no time to wait for the store."""

        def wait(seconds: float) -> bool:
            self._watch.wait(-1, seconds)
            return not self._orders.is_told

        try:
            patiently(lambda: self._told.tell(name, record), wait)
        except (ObjectsError, ToldToEnd) as error:
            print(f"gofer: how it ended could not be told: {error}", file=sys.stderr, flush=True)


def _introduce(place: Place) -> None:
    first = place.ranks[0]
    words = f"gofer: {place.run_id}, attempt {place.attempt}"
    if place.nodes * place.procs > 1:
        where = folder.node_key(place.run_id, place.attempt, place.node)
        words += f", node {place.node} of {place.nodes}: what follows is rank {first}'s; "
        words += f"each rank's log is in {where}/ of the store (`gofer logs {place.run_id} --rank N`)"
    print(words, flush=True)
