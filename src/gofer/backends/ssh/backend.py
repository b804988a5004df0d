"""The ssh backend: the queues of `local` on machines reached over SSH."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import msgspec

from gofer.backends.base import Backend, KeptPlace, NodeFacts, Plan, RunRef, Waiting
from gofer.backends.kind import BackendContext
from gofer.backends.node_needs import are_of_type, gpu_names, needs_of_node
from gofer.backends.queue_client import QueueClient, no_process
from gofer.backends.queue_plan import QueuePlan, make_plan
from gofer.backends.queue_prune import MachinePlace
from gofer.backends.ssh.options import SshOptions, capabilities, login_to
from gofer.core.parallel import parallel_map
from gofer.core.queue_home import spool_folder
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.errors import CheckFailed, Unreachable
from gofer.model.job import Job, Resources, RunDependency
from gofer.model.layout import Layout, lay_out
from gofer.model.run import Observation, RunRecord
from gofer.remote.api import ALL_GPUS, MachineFacts
from gofer.transport.ssh import reach, shell_argv
from gofer.transport.ssh_errors import LoginNeeded, login_command

T = TypeVar("T")


class SshBackend(Backend):
    """One target. Each machine has one queue for each user, shared by all targets of the user.

    The machines of a run are chosen before the run is recorded. Where each machine has a store of its own,
    `only` is the machine that has the run, and None before the choice. A run of several nodes uses several
    machines, which share the store's folder.
    """

    kind = "ssh"

    def __init__(self, options: SshOptions, context: BackendContext, *, only: str | None) -> None:
        self.target = context.target
        self.capabilities = capabilities(options)
        self._options = options
        self._store = context.store_path
        self._store_url = context.store_url
        self._hosts = (only,) if only else options.hosts
        self._facts: dict[str, MachineFacts] = {}
        self._chosen: tuple[str, ...] = tuple(context.placement.split(",")) if context.placement else ()
        self._queues = {host: self._queue(host) for host in self._hosts}

    def _queue(self, host: str) -> QueueClient:
        machine = reach(login_to(self._options, host), self.target)
        return QueueClient(machine, self._queue_home, inherit=True)

    @property
    def _queue_home(self) -> str:
        # `{host}` is expanded on the machine: machines may share a home, and each needs its own queue.
        return f"{self._options.folder}/engine/{{host}}"

    def select_machines(self, job: Job, layout: Layout) -> str:
        """The least busy machines among those that answer and have what the job asks for."""
        facts = self._ask_all(QueueClient.facts)
        able = [host for host, found in facts.items() if self._is_able(found, job.resources, layout)]
        able = self._that_have(able, job.after, layout)
        if len(able) < layout.nodes:
            machines = "a machine" if layout.nodes == 1 else f"{layout.nodes} machines"
            needs = needs_of_node(job.resources, layout)
            with_needs, have = (f" with {needs}", " and have that") if needs else ("", "")
            raise CheckFailed(
                f"the run needs {machines} of `{self.target}`{with_needs}; "
                f"{len(able)} of {len(self._hosts)} answer{have}",
                hint=f"`gofer list nodes -t {self.target}` shows the machines",
            )
        able.sort(key=lambda host: _business(facts[host], self._gpus_of(facts[host])))
        self._chosen = tuple(able[: layout.nodes])
        return ",".join(self._chosen)

    def _that_have(self, able: Sequence[str], after: Sequence[RunDependency], layout: Layout) -> list[str]:
        """The machines whose queues have the runs that the job waits for. CheckFailed for too few."""
        known = [set(one.placement.split(",")) for one in after if one.placement]
        found = [host for host in able if all(host in machines for machines in known)]
        if known and len(found) < layout.nodes:
            machines = "; ".join(", ".join(sorted(one)) for one in known)
            raise CheckFailed(
                f"a run of `{self.target}` waits for others on their own machines ({machines}), and "
                f"{len(found)} of these can take it, which needs {layout.nodes}",
                hint="`gofer wait RUN && gofer submit …` submits it then",
            )
        return found

    def _is_able(self, facts: MachineFacts, asked: Resources, layout: Layout) -> bool:
        if self._gpus_of(facts) < layout.gpus_per_node or facts.memory_mib < asked.memory_mib:
            return False
        if not layout.gpus_per_node or asked.gpu_type is None:
            return True
        # The queue of the machine gives out any of its GPUs.
        return are_of_type(asked.gpu_type, gpu_names(facts.usage))

    def lay_out(self, job: Job) -> Layout:
        if job.launcher not in ("spawn", "mpi", "torchrun"):
            raise CheckFailed(
                f"the target `{self.target}` does not support `launcher: {job.launcher}`",
                hint="leave `launcher` out: gofer starts the processes, with the variables of launchers",
            )
        layout = lay_out(job, gpus_per_node=self._gpus(), target=self.target)
        if layout.nodes > 1 and not (self._options.shared and self._store):
            raise CheckFailed(
                f"a run on {layout.nodes} machines of `{self.target}` needs a folder that the machines share",
                hint="set a store `file:///folder` that is the same on all machines, and `shared: true`",
            )
        if layout.nodes > 1 and job.launcher == "mpi":
            # mpirun starts its placeholders by the paths of the first machine, which others may not have.
            raise CheckFailed(
                f"`launcher: mpi` on `{self.target}` needs all ranks on one machine, and this run has "
                f"{layout.nodes}",
                hint="without `launcher`, begin the command with `mpirun`, which reaches the others by SSH",
            )
        return layout

    def hidden_gpus(self) -> int:
        return self._gpus()

    def _gpus(self) -> int:
        if self._options.gpus_per_node is not None:
            return self._options.gpus_per_node
        if not self._facts:
            self._facts = self._ask_all(QueueClient.facts)
        return max(self._gpus_of(host_facts) for host_facts in self._facts.values())

    def _gpus_of(self, facts: MachineFacts) -> int:
        wanted = self._options.gpus_per_node
        return int(facts.gpus) if wanted is None else wanted

    def plan(self, record: RunRecord, prepared: None) -> SshPlan:
        """The plan of a run. When the store is not a folder on the machine, the run writes into a spool
        folder there, which the uploader sends to the store.
        """
        store = self._store or spool_folder(self._queue_home, record.id)
        remote = None if self._store else self._store_url
        gpus = ALL_GPUS if self._options.gpus_per_node is None else self._options.gpus_per_node
        # Leased: other users' queues on the machine may want the same GPUs.
        plan = make_plan(record, store=store, remote=remote, gpus=gpus, block=max(gpus, 1), leased=True)
        return SshPlan(record=record, parts=_parts(plan, record.placement.split(",")))

    def keep_secrets(self, run_id: str, values: RunSecrets) -> None:
        for host in self._chosen or self._hosts:
            self._queues[host].keep_secrets(run_id, values)

    def drop_abandoned_secrets(self, is_recorded: Callable[[str], bool]) -> None:
        for host in self._chosen or self._hosts:
            self._queues[host].drop_abandoned_secrets(is_recorded)

    def submit(self, plan: Plan) -> None:
        for host, part in cast(SshPlan, plan).parts.items():
            queue = self._queues.get(host) or self._queue(host)
            queue.add(msgspec.to_builtins(part.request), part.runs())

    def observe(self, runs: Sequence[RunRef]) -> dict[str, Observation]:
        """Ask every machine. Unreachable, with the answers of the others, when a machine does not answer."""
        ids = list(dict.fromkeys(run.group or run.id for run in runs))
        found: dict[str, Observation] = {}
        problem: Unreachable | None = None
        for queue in self._queues.values():
            try:
                answers = queue.observe(ids)
            except Unreachable as error:
                problem = error
                continue
            # A run on several machines has ended only when all of them report an end.
            found |= {
                run_id: seen
                for run_id, seen in answers.items()
                if run_id not in found or not seen.state.is_final
            }
        # A machine that does not answer matters only if it may have one of the wanted runs.
        if problem is not None and not {run.id for run in runs} <= found.keys():
            problem.answers = found
            raise problem
        return found

    def cancel(self, runs: Sequence[RunRef], *, grace_s: float | None = None) -> None:
        """Ask every machine. Unreachable when a machine that may have one of the runs does not answer."""
        problem: Unreachable | None = None
        for queue in self._queues.values():
            try:
                queue.cancel([run.id for run in runs], grace_s)
            except Unreachable as error:
                problem = error
        if problem is not None:
            seen = self.observe(runs)
            if not all(run.id in seen or run.size for run in runs):
                raise problem

    def describe(self) -> dict[str, object]:
        facts = self._ask_all(QueueClient.facts)
        return {
            "machines": {
                host: {
                    "gpus": self._gpus_of(host_facts),
                    "gpus_free": max(self._gpus_of(host_facts) - host_facts.gpus_busy, 0),
                    "cpus": host_facts.cpus,
                    "running": _running(host_facts),
                    "queued": host_facts.counts.get("queued", 0),
                }
                for host, host_facts in facts.items()
            },
            "silent": [host for host in self._hosts if host not in facts],
        }

    def nodes(self) -> list[NodeFacts]:
        answers = self._ask_each(QueueClient.facts)
        return [self._node(host, answers[host]) for host in sorted(self._hosts)]

    def _node(self, host: str, facts: MachineFacts | Unreachable) -> NodeFacts:
        if isinstance(facts, LoginNeeded):
            return NodeFacts(host, "down", f"asks for a login: `{login_command(host, self.target)}`")
        if isinstance(facts, Unreachable):
            return NodeFacts(host, "down", "does not answer")
        gpus = self._gpus_of(facts)
        free = max(gpus - facts.gpus_busy, 0)
        state = "free" if not _running(facts) else "busy" if gpus and not free else "mixed"
        cpus_free = max(facts.cpus - facts.cpus_busy, 0)
        return NodeFacts(
            host,
            state,
            cpus=facts.cpus,
            cpus_free=cpus_free,
            memory_mib=facts.memory_mib,
            gpus=gpus,
            gpus_free=free,
        )

    def stalled(self) -> str | None:
        found = self._ask_all(QueueClient.stalled, none_is_fine=True)
        return next((words for words in found.values() if words and len(self._queues) == 1), None)

    def waiting(self, run: RunRef) -> Waiting | None:
        problem: Unreachable | None = None
        for queue in self._queues.values():
            try:
                found = queue.waiting(run.id)
            except Unreachable as error:
                problem = error
                continue
            if found is not None:
                return found
        if problem is not None:
            raise problem
        return None

    def shell(
        self, run: RunRef, command: Sequence[str], *, terminal: bool, node: int | None = None
    ) -> list[str]:
        """A shell on the first machine that has a process of the run, or of the wanted node of the run."""
        problem: Unreachable | None = None
        for host, queue in self._queues.items():
            try:
                words = queue.shell(run.id, command, terminal=terminal, node=node)
            except Unreachable as error:
                problem = error
                continue
            if words is not None:
                return shell_argv(login_to(self._options, host), words, terminal=terminal)
        raise problem or no_process(run, node)

    def kept_places(self) -> list[KeptPlace]:
        folder = self._options.folder
        return [
            MachinePlace(f"{host}:{folder}", queue.machine, queue_home=self._queue_home, folder=folder)
            for host, queue in self._queues.items()
        ]

    def _ask_all(self, ask: Callable[[QueueClient], T], *, none_is_fine: bool = False) -> dict[str, T]:
        """The answers of the machines that answer. Unreachable when none answers."""
        answers = self._ask_each(ask)
        silent = [answer for answer in answers.values() if isinstance(answer, Unreachable)]
        if len(silent) == len(answers) and not none_is_fine:
            raise silent[0]
        return {host: answer for host, answer in answers.items() if not isinstance(answer, Unreachable)}

    def _ask_each(self, ask: Callable[[QueueClient], T]) -> dict[str, T | Unreachable]:
        """The answer of each machine, or the error where it gives none, from parallel questions."""

        def ask_one(queue: QueueClient) -> T | Unreachable:
            try:
                return ask(queue)
            except Unreachable as error:
                return error

        found = parallel_map(ask_one, self._queues.values(), at_once=len(self._queues))
        return dict(zip(self._queues, found, strict=True))


class SshPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The request for the queue of each machine. Pure data."""

    record: RunRecord
    parts: dict[str, QueuePlan]

    def render(self) -> str:
        """The request of each machine, as JSON."""
        bodies = ", ".join(f'"{host}": {part.render()}' for host, part in self.parts.items())
        return msgspec.json.format(f"{{{bodies}}}", indent=2)


def _parts(plan: QueuePlan, hosts: Sequence[str]) -> dict[str, QueuePlan]:
    if len(hosts) == 1:
        return {hosts[0]: plan}
    # Each machine gets the same request, and runs one node of it.
    requests = (msgspec.structs.replace(plan.request, span=(node,)) for node in range(len(hosts)))
    return {
        host: msgspec.structs.replace(plan, request=request)
        for host, request in zip(hosts, requests, strict=True)
    }


def _running(facts: MachineFacts) -> int:
    counts = facts.counts
    return int(counts.get("running", 0) + counts.get("starting", 0))


def _business(facts: MachineFacts, gpus: int) -> tuple[float, float]:
    """Sort key, smallest for the freest machine: GPUs in use where there are any, then CPUs; with waiting
    runs.
    """
    queued = facts.counts.get("queued", 0)
    by_gpus = (facts.gpus_busy + queued) / gpus if gpus else 0.0
    return by_gpus, (facts.cpus_busy + queued) / max(facts.cpus, 1)
