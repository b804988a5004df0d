"""The local backend: implements the backend contract with the queue of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from gofer.backends.base import Backend, KeptPlace, NodeFacts, Plan, RunRef, Waiting
from gofer.backends.kind import BackendContext
from gofer.backends.local.options import LocalOptions, capabilities
from gofer.backends.node_needs import are_of_type, gpu_names, shown_names
from gofer.backends.queue_client import QueueClient, no_process
from gofer.backends.queue_plan import QueuePlan, make_plan
from gofer.backends.queue_prune import MachinePlace
from gofer.core import gpus as driver
from gofer.core.command.programs import locate
from gofer.core.queue_home import spool_folder
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.errors import CheckFailed
from gofer.model.job import Job
from gofer.model.layout import Layout, lay_out
from gofer.model.run import Observation, RunRecord
from gofer.node import memory
from gofer.node.packages.package_files import NONE
from gofer.text import format_size
from gofer.transport.machine import LocalMachine

if TYPE_CHECKING:
    from gofer.remote.api import MachineFacts


class LocalGpus(NamedTuple):
    """The GPUs for runs on this machine, as a whole and for each node, and whether the driver has any."""

    total: int
    per_node: int
    has_driver: bool


class LocalBackend(Backend):
    """One local target. All local targets of a user share one queue, and therefore the same GPUs and CPUs."""

    kind = "local"

    def __init__(self, options: LocalOptions, context: BackendContext) -> None:
        self.capabilities = capabilities(options)
        self.target = context.target
        self.queue_home = context.queue_home
        self._store = context.store_path
        self._store_url = context.store_url
        self._options = options
        self._gpus: int | None = None
        self._queue = QueueClient(LocalMachine(), context.queue_home, inherit=False)

    @property
    def gpus(self) -> int:
        """The GPUs that runs may use: as the target says, else as the driver reports.

        Raises CheckFailed when the target says more than the driver reports.
        """
        if self._gpus is None:
            reported = driver.count()
            wanted = self._options.gpus
            if wanted is not None and reported and wanted > reported:
                raise CheckFailed(
                    f"the target `{self.target}` has `gpus: {wanted}`, but this machine has {reported}",
                    hint=f"set `gpus: {reported}` in the target, or leave `gpus` out",
                )
            self._gpus = reported if wanted is None else wanted
        return self._gpus

    @property
    def gpus_per_node(self) -> int:
        return min(self._options.gpus_per_node or self.gpus, self.gpus)

    def lay_out(self, job: Job) -> Layout:
        check_launcher(job.launcher, self.target)
        if self.gpus and job.resources.gpus > self.gpus:
            raise CheckFailed(
                f"the job asks for {job.resources.gpus} GPUs, but the target `{self.target}` has {self.gpus}",
                hint=f"ask for at most {self.gpus} with `-n`, or choose another target with `-t`",
            )
        layout = lay_out(job, gpus_per_node=self.gpus_per_node, target=self.target)
        cores = len(os.sched_getaffinity(0))
        # The affinity mask, not the number of CPUs: a container or `taskset` may allow only some.
        needed = layout.world_size * layout.cpus_per_proc
        if job.resources.cpus is not None and needed > cores:
            raise CheckFailed(
                f"the job asks for {needed} CPU cores, but the target `{self.target}` has {cores}",
                hint="ask for fewer cores with `--cpus`",
            )
        self._check_memory(layout.nodes * job.resources.memory_mib)
        if layout.gpus_per_node and job.resources.gpu_type is not None:
            self._check_gpu_type(job.resources.gpu_type)
        return layout

    def _check_memory(self, asked_mib: int) -> None:
        has_mib = memory.limit_kib() >> 10
        if asked_mib > has_mib:
            raise CheckFailed(
                f"the job asks for {format_size(asked_mib << 20)} of memory, but the target "
                f"`{self.target}` has {format_size(has_mib << 20)}",
                hint="ask for less with `--memory`",
            )

    def _check_gpu_type(self, wanted: str) -> None:
        """CheckFailed unless all GPUs are of the type, since the queue gives out any of them."""
        names = gpu_names(driver.sample())
        if not are_of_type(wanted, names):
            raise CheckFailed(
                f"the job asks for GPUs of the type `{wanted}`, but those of the target `{self.target}` "
                f"are {shown_names(names)}",
                hint="leave `--gpu-type` out, or choose another target with `-t`",
            )

    def hidden_gpus(self) -> int:
        return self.gpus_per_node

    def prepare(self, record: RunRecord) -> LocalGpus:
        return LocalGpus(self.gpus, self.gpus_per_node, driver.count() > 0)

    def plan(self, record: RunRecord, prepared: LocalGpus) -> QueuePlan:
        """The plan of a run. When the store is not a local folder, the run writes into a spool folder, which
        the uploader sends to the store.
        """
        store = self._store or spool_folder(self.queue_home, record.id)
        remote = None if self._store else self._store_url
        return make_plan(
            record,
            store=store,
            remote=remote,
            gpus=prepared.total,
            block=prepared.per_node,
            # Without GPUs in the driver the number is only a promise of the target, and there is nothing to
            # lease.
            leased=prepared.has_driver,
            packages=NONE,
        )

    def keep_secrets(self, run_id: str, values: RunSecrets) -> None:
        self._queue.keep_secrets(run_id, values)

    def drop_abandoned_secrets(self, is_recorded: Callable[[str], bool]) -> None:
        self._queue.drop_abandoned_secrets(is_recorded)

    def submit(self, plan: Plan) -> None:
        local = cast(QueuePlan, plan)
        self._queue.add(msgspec.to_builtins(local.request), local.runs())

    def observe(self, runs: Sequence[RunRef]) -> dict[str, Observation]:
        return self._queue.observe(dict.fromkeys(run.group or run.id for run in runs))

    def cancel(self, runs: Sequence[RunRef], *, grace_s: float | None = None) -> None:
        self._queue.cancel([run.id for run in runs], grace_s)

    def describe(self) -> dict[str, object]:
        facts = self._queue.facts()
        return summary(facts, this_machine(facts, self.gpus), self.gpus_per_node)

    def stalled(self) -> str | None:
        return self._queue.stalled()

    def waiting(self, run: RunRef) -> Waiting | None:
        return self._queue.waiting(run.id)

    def nodes(self) -> list[NodeFacts]:
        """This machine as one node, also when the target divides its GPUs into several nodes."""
        return [this_machine(self._queue.facts(), self.gpus)]

    def shell(
        self, run: RunRef, command: Sequence[str], *, terminal: bool, node: int | None = None
    ) -> list[str]:
        words = self._queue.shell(run.id, command, terminal=terminal, node=node)
        if words is None:
            raise no_process(run, node)
        return words

    def kept_places(self) -> list[KeptPlace]:
        return [MachinePlace(LocalMachine.name, LocalMachine(), queue_home=self.queue_home)]


def check_launcher(launcher: str, target: str) -> None:
    """Raise CheckFailed when this machine cannot start processes with the launcher."""
    if launcher not in ("spawn", "mpi", "torchrun"):
        raise CheckFailed(
            f"the target `{target}` does not support `launcher: {launcher}`",
            hint="leave `launcher` out: gofer starts the processes, with the variables of launchers",
        )
    if launcher == "mpi" and locate("mpirun", os.environ.get("PATH", os.defpath)) is None:
        raise CheckFailed(
            f"`launcher: mpi` needs `mpirun`, which the target `{target}` does not have",
            hint="install Open MPI (Debian: `apt-get install openmpi-bin`), or load its module first",
        )


def this_machine(facts: MachineFacts, gpus: int) -> NodeFacts:
    """The machine from the facts of `QueueClient.facts`; `gpus` is the number that the target may use."""
    gpus_free = max(gpus - facts.gpus_busy, 0)
    cpus_free = max(facts.cpus - facts.cpus_busy, 0)
    is_full = not cpus_free or (gpus > 0 and not gpus_free)
    is_idle = not facts.cpus_busy and not facts.gpus_busy
    return NodeFacts(
        name=facts.host,
        state="free" if is_idle else "busy" if is_full else "mixed",
        cpus=facts.cpus,
        cpus_free=cpus_free,
        memory_mib=facts.memory_mib,
        gpus=gpus,
        gpus_free=gpus_free,
        gpu_type=next((gpu["name"] for gpu in facts.usage if "name" in gpu), ""),
    )


def summary(facts: MachineFacts, machine: NodeFacts, gpus_per_node: int) -> dict[str, object]:
    """The facts for `gofer target show`. The counts include runs of other targets, which share the queue."""
    counts = facts.counts
    return {
        "gpus": {"free": machine.gpus_free, "total": machine.gpus},
        "gpus_per_node": gpus_per_node,
        "cpus": {"free": machine.cpus_free, "total": machine.cpus},
        "memory_mib": machine.memory_mib,
        "runs": {
            "running": counts.get("running", 0) + counts.get("starting", 0),
            "queued": counts.get("queued", 0),
        },
        "usage": facts.usage,
    }
