"""The Slurm backend: implements the backend contract for one site, through the site's login node."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple, cast

import msgspec

from gofer.backends.base import KeptPlace, NodeFacts, Plan, RunRef, Waiting
from gofer.backends.kind import BackendContext
from gofer.backends.polling import Polling
from gofer.backends.scheduled import KeepsSecretsHere, lay_out_on_nodes, recorded_ends
from gofer.backends.slurm import facts
from gofer.backends.slurm.options import SlurmOptions, capabilities
from gofer.backends.slurm.plan import SlurmPlan, make_request, prepare_lines, render, with_job
from gofer.backends.slurm.prune import SlurmPlace
from gofer.backends.slurm.status import SlurmStatus
from gofer.config.batch_script import find_option
from gofer.core.secrets import run_secrets
from gofer.errors import BackendError, CheckFailed, GoferError, Unreachable
from gofer.model.job import Job
from gofer.model.layout import Layout
from gofer.model.run import Observation, RunRecord
from gofer.node import run_shell
from gofer.node.slurm.calls import SlurmSilent
from gofer.remote.api import QueuedJob, RowsOfRuns, SlurmAnswer, SlurmApi, SlurmNodeFacts
from gofer.remote.calls import describe
from gofer.remote.slurm.submission import JobRejected
from gofer.transport.activity import activity
from gofer.transport.bundle import bundle, mark
from gofer.transport.machine import LocalMachine, Machine
from gofer.transport.ssh import Login, shell_argv

_SUBMIT_S = 120.0
_CALL_S = 120.0
# Up to this many runs are looked up in the store's folder first, which is cheaper than a question to Slurm.
_MOST_LOOKED_FOR = 64


class SlurmPlanInput(NamedTuple):
    """What `SlurmBackend.prepare` reads: the name of the agent, which is made of its files, and how to ask
    for the GPUs of the job.
    """

    agent: str
    gpus: facts.GpuChoice


class SlurmBackend(KeepsSecretsHere):
    """One target. All targets with the same login node and folder share the cached answers of Slurm."""

    kind = "slurm"

    def __init__(self, options: SlurmOptions, context: BackendContext) -> None:
        self.capabilities = capabilities(options)
        self.target = context.target
        self.machine: Machine = context.machine or LocalMachine()
        self._options = options
        self._store = context.store_path
        self._secrets_folder = os.path.join(context.queue_home, "slurm")
        # On a login node, SLURM_CONF tells clusters apart that share a home.
        site = "\n".join([options.login or os.environ.get("SLURM_CONF", ""), options.folder])
        self._polling = Polling(context.queue_home, site, "slurm")

    def hidden_gpus(self) -> int:
        return self._options.gpus_per_node

    def lay_out(self, job: Job) -> Layout:
        """The layout. Without `gpus_per_node` in the target, a batch script's own options say the number."""
        own = job.resources.gpus // (job.resources.nodes or 1) if job.sbatch is not None else 0
        gpus_per_node = self._options.gpus_per_node or own
        layout = lay_out_on_nodes(job, gpus_per_node=gpus_per_node, target=self.target)
        self._check_nodes(job, layout)
        return layout

    def _check_nodes(self, job: Job, layout: Layout) -> None:
        """CheckFailed for a job that the nodes can never run. Asks the site only about jobs that ask for
        several nodes, or for something that nodes may not have.
        """
        asked = job.resources
        choice = self._gpu_choice(job, layout)
        has_partition = find_option(job.sbatch or (), "partition") is not None
        if has_partition or (layout.nodes == 1 and (asked.cpus, asked.memory, asked.gpu_type) == (None,) * 3):
            return
        part = self._options.partition
        where = f"the partition `{part}`" if part else f"the target `{self.target}`"
        try:
            found = self._site_nodes
        except BackendError:
            return  # a plan needs no cluster, and a submission asks Slurm again and reports the error
        facts.check_nodes(found, job, layout, choice, where=where)

    def _gpu_choice(self, job: Job, layout: Layout) -> facts.GpuChoice:
        wanted = job.resources.gpu_type
        if wanted is None or not layout.gpus_per_node:
            return facts.GpuChoice()
        return facts.choose_gpus(self._site_nodes, wanted, self.target)

    @cached_property
    def _site_nodes(self) -> list[SlurmNodeFacts]:
        with self._calling() as slurm:
            return slurm.nodes(self._options.partition)

    def prepare(self, record: RunRecord) -> SlurmPlanInput:
        return SlurmPlanInput(mark(), self._gpu_choice(record.job, record.layout))

    def plan(self, record: RunRecord, prepared: SlurmPlanInput) -> SlurmPlan:
        options = with_job(self._options, record.job, prepared.gpus)
        request = make_request(record, options, store=self._store)
        asked = record.job.resources.cpus is not None
        script = render(request, options, agent=prepared.agent, cpus_asked=asked)
        return SlurmPlan(record=record, request=request, script=script)

    # -- the backend contract

    def submit(self, plan: Plan) -> None:
        """Raises CheckFailed when Slurm refuses the job, BackendError when Slurm cannot be asked."""
        made = cast(SlurmPlan, plan)
        # The secrets go through the connection's data, never through a command line.
        private = msgspec.json.encode(run_secrets.read(self._secrets_folder, made.record.id)._asdict())
        arguments = mark(), msgspec.to_builtins(made.request), made.script, private, _SUBMIT_S
        try:
            with self._calling(_SUBMIT_S + 60) as slurm:
                # None: the site does not have this version of the agent yet. Install it and submit again.
                if slurm.submit(*arguments) is None:
                    slurm.install_agent(mark(), bundle().data)
                    slurm.submit(*arguments)
        except CheckFailed:
            run_secrets.remove(self._secrets_folder, made.record.id)
            raise
        finally:
            self._polling.poke()
        run_secrets.remove(self._secrets_folder, made.record.id)

    def observe(self, runs: Sequence[RunRef]) -> dict[str, Observation]:
        # A record in the store is final, so Slurm need not be asked about these runs.
        found = self._ended_here(runs) if len(runs) <= _MOST_LOOKED_FOR else {}
        left = [run for run in runs if run.id not in found]
        if not left:
            return found
        answer = self._polling.ask(_by_name(left), lambda runs: self._status(dict(runs)))
        patience_s = self._options.patience
        reading = SlurmStatus(answer, folder=self._options.folder, patience_s=patience_s, now=time.time())
        return {**found, **reading.of(left)}

    def cancel(self, runs: Sequence[RunRef], *, grace_s: float | None = None) -> None:
        if runs:
            try:
                with self._calling() as slurm:
                    slurm.cancel(_by_name(runs), grace_s)
            finally:
                self._polling.poke()

    def _ended_here(self, runs: Iterable[RunRef]) -> dict[str, Observation]:
        """Runs whose end is recorded in a folder that this machine sees, so that Slurm need not be asked."""
        if self._store is None or not isinstance(self.machine, LocalMachine):
            return {}
        return recorded_ends(self._store, (run.id for run in runs))

    # -- optional capabilities

    def describe(self) -> dict[str, object]:
        with self._calling() as slurm:
            return dict(slurm.survey(self._options.partition, self._options.account))

    def nodes(self) -> list[NodeFacts]:
        with self._calling() as slurm:
            return facts.nodes(slurm.nodes(self._options.partition))

    def waiting(self, run: RunRef) -> Waiting | None:
        job = self._queued_job(run)
        return None if job is None else facts.waiting(job, time.time())

    def shell(
        self, run: RunRef, command: Sequence[str], *, terminal: bool, node: int | None = None
    ) -> list[str]:
        job = self._queued_job(run)
        if job is None or job.state != "RUNNING":
            state = "not known to Slurm" if job is None else job.state.lower()
            raise CheckFailed(
                f"{run.id} is {state}, but a shell needs a run that is running", hint=f"`gofer why {run.id}`"
            )
        program = run_shell.program_in_job(
            self._options.python, self._install_agent(), run.id, command, terminal=terminal, node=node or 0
        )
        prepare = prepare_lines(self._options)
        words = facts.shell(job.job, program, prepare=prepare, terminal=terminal, node=node or 0)
        login = login_of(self._options)
        if login is None:
            return words
        return shell_argv(login, words, terminal=terminal)

    def kept_places(self) -> list[KeptPlace]:
        folder = self._options.folder
        return [SlurmPlace(self.machine, folder)]

    def _install_agent(self) -> str:
        """The folder of this version's agent on the site. The run itself may have another version's."""
        with self._calling() as slurm:
            folder = slurm.agent(mark())
            if folder is None:
                slurm.install_agent(mark(), bundle().data)
                folder = slurm.agent(mark())
        assert folder is not None
        return folder

    def _queued_job(self, run: RunRef) -> QueuedJob | None:
        with self._calling() as slurm:
            return slurm.queued_job(run.group or run.id, run.row)

    def _status(self, runs: RowsOfRuns) -> SlurmAnswer:
        with self._calling() as slurm:
            return slurm.status(runs, self._store)

    @contextmanager
    def _calling(self, wait_s: float = _CALL_S) -> Iterator[SlurmApi]:
        """Slurm for calls; the error of a call becomes one that names the site."""
        where = "" if isinstance(self.machine, LocalMachine) else f" on {self.machine.name}"
        try:
            with activity(f"waiting for Slurm{where}"):
                yield self.machine.slurm(self._options.folder, wait_s=wait_s)
        except GoferError:
            raise
        except JobRejected as error:
            raise CheckFailed(
                f"Slurm{where} refused the job: {error}",
                hint=f"`gofer target show {self.target}` shows what it has; the run is recorded as failed",
            ) from error
        except FileNotFoundError as error:
            raise BackendError(
                f"Slurm is not installed{where or ' on this machine'}: {describe(error)}",
                hint=f"set the login node in the target `{self.target}`: `login: user@host`",
            ) from error
        except SlurmSilent as error:
            raise Unreachable(
                f"Slurm{where} does not answer: {error}", hint="`scontrol ping` there"
            ) from error
        except Exception as error:
            raise BackendError(f"Slurm{where}: {describe(error)}") from error


def _by_name(runs: Iterable[RunRef]) -> RowsOfRuns:
    """The rows of each array by its name; None for a run that is not a row, and for a whole array."""
    found: RowsOfRuns = {}
    for run in runs:
        if run.group is None or run.row is None:
            found[run.id] = None
        else:
            rows = found.setdefault(run.group, [])
            if rows is not None:
                rows.append(run.row)
    return found


def login_of(options: SlurmOptions) -> Login | None:
    """The login node to connect to; None when this machine is the login node."""
    return None if options.login is None else Login(options.login, options.python, options.folder)
