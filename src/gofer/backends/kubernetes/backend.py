"""The Kubernetes backend: implements the backend contract for one namespace of one cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import cast

from gofer.backends.base import KeptPlace, LogService, NodeFacts, Plan, RunRef, Waiting
from gofer.backends.kind import BackendContext
from gofer.backends.kubernetes import capacity, manifest, names
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.backends.kubernetes.jobs import KubeJobs
from gofer.backends.kubernetes.node_room import check_room
from gofer.backends.kubernetes.options import KubernetesOptions, capabilities
from gofer.backends.kubernetes.plan import KubernetesPlan, KubernetesPlanInput, make_plan, needs_of
from gofer.backends.kubernetes.pod_check import check_pod, nodes_with_gpus
from gofer.backends.kubernetes.pod_logs import PodLogs
from gofer.backends.kubernetes.prune import KubernetesPlace
from gofer.backends.kubernetes.shell import shell_command
from gofer.backends.kubernetes.state.job_facts import JobFacts
from gofer.backends.kubernetes.state.start_troubles import Patience
from gofer.backends.kubernetes.state.status import KubeJobQuestion, KubernetesStatus
from gofer.backends.kubernetes.state.wait_query import read_wait_facts
from gofer.backends.kubernetes.state.wait_reasons import explain
from gofer.backends.kubernetes.stop import Stopper
from gofer.backends.kubernetes.submit import KubernetesSubmitter
from gofer.backends.kubernetes.watch import MOST_WATCHED, watch_jobs
from gofer.backends.polling import Rows
from gofer.backends.scheduled import KeepsSecretsHere, lay_out_on_nodes
from gofer.core.secrets import run_secrets
from gofer.errors import CheckFailed, GoferError
from gofer.model.job import Job
from gofer.model.layout import Layout
from gofer.model.run import Observation, RunRecord
from gofer.transport.bundle import mark


class KubernetesBackend(KeepsSecretsHere):
    """One target. Every method but `plan` may ask the cluster and block."""

    kind = "kubernetes"

    def __init__(self, options: KubernetesOptions, context: BackendContext) -> None:
        self.capabilities = capabilities(options)
        self.target = context.target
        self._options = options
        self._connection = KubernetesConnection(options, context)
        self._logs = PodLogs(self._connection)
        self._secrets_folder = self._connection.folder

    def lay_out(self, job: Job) -> Layout:
        """The layout. CheckFailed when the namespace would refuse the pods of the job, or when the cluster
        can never hold them.
        """
        layout = lay_out_on_nodes(job, gpus_per_node=self._options.gpus_per_node, target=self.target)
        needs = needs_of(job, layout, self._options)
        nodes = nodes_with_gpus(self._connection, job.resources.gpu_type, layout)
        needs = needs._replace(gpu_nodes=nodes)
        check_pod(self._connection, needs)
        pod = manifest.template("check", needs, self._options, agent=mark())
        check_room(self._connection, pod["spec"], layout.nodes)
        return layout

    def prepare(self, record: RunRecord) -> KubernetesPlanInput:
        wanted = record.job.resources.gpu_type
        nodes = nodes_with_gpus(self._connection, wanted, record.layout)
        return KubernetesPlanInput(mark(), self._connection.namespace, nodes)

    def plan(self, record: RunRecord, prepared: KubernetesPlanInput) -> KubernetesPlan:
        return make_plan(record, self._options, prepared)

    # -- the backend contract

    def submit(self, plan: Plan) -> None:
        made = cast(KubernetesPlan, plan)
        private = run_secrets.read(self._secrets_folder, made.record.id)
        try:
            KubernetesSubmitter(self._connection).send(made, private)
        except CheckFailed:
            self._remove_secrets(made.record.id)
            raise
        finally:
            self._connection.polling.poke()

    def observe(self, runs: Sequence[RunRef]) -> dict[str, Observation]:
        if not runs:
            return {}
        connection = self._connection
        question = KubeJobQuestion(connection.client, connection.namespace)
        wanted: dict[str, Rows] = {names.job_name(run): None for run in runs}
        answer = connection.polling.ask(wanted, question)
        notes = {name: connection.notes.read(name) for name in wanted}
        status = KubernetesStatus(
            answer,
            notes,
            patience=Patience(image_s=self._options.image_patience),
            patience_s=self._options.patience,
        )
        observations = status.of(runs)
        final = [run for run in runs if run.id in observations and observations[run.id].state.is_final]
        for name in self._ended(final):
            with suppress(GoferError):  # the next observation tries again
                self._end_job(status.facts(name))
            self._remove_secrets(name)
        return observations

    def watch(self, runs: Sequence[RunRef], is_over: Callable[[], bool]) -> Iterator[None] | None:
        return watch_jobs(self._connection, runs, is_over) if len(runs) <= MOST_WATCHED else None

    def cancel(self, runs: Sequence[RunRef], *, grace_s: float | None = None) -> None:
        try:
            for run in runs:
                Stopper(self._connection).stop(run, grace_s)
        finally:
            self._connection.polling.poke()

    def remove_secrets(self, run_id: str) -> None:
        """Also removes the Secret in the cluster, if the cluster can be reached; its Job removes it else."""
        self._remove_secrets(run_id)

    def shell(
        self, run: RunRef, command: Sequence[str], *, terminal: bool, node: int | None = None
    ) -> list[str]:
        return shell_command(self._connection, run, command, terminal=terminal, node=node)

    def log_service(self) -> LogService:
        return self._logs

    # -- what the cluster can tell

    def waiting(self, run: RunRef) -> Waiting | None:
        name, connection = names.job_name(run), self._connection
        facts = read_wait_facts(
            connection.client, connection.namespace, name, row=run.row, target=self.target
        )
        patience = Patience(image_s=self._options.image_patience)
        return None if facts is None else explain(facts, now=time.time(), patience=patience)

    def describe(self) -> dict[str, object]:
        connection = self._connection
        where = {"server": connection.cluster.cluster.server, "namespace": connection.namespace}
        return {**where, **capacity.describe(self._survey())}

    def nodes(self) -> list[NodeFacts]:
        """The nodes; CheckFailed without the right to list them."""
        found = capacity.nodes_of(self._survey())
        if found is None:
            raise CheckFailed(
                f"you may not list the nodes of the target `{self.target}`",
                hint=f"`gofer doctor kubernetes {self.target}` prints the missing right",
            )
        return found

    def _survey(self) -> capacity.Survey:
        connection = self._connection
        return capacity.Survey.read(
            connection.client, connection.namespace, gpu_resource=self._options.gpu_resource
        )

    def job_service(self) -> KubeJobs:
        return KubeJobs(self._connection.client, self._connection.namespace)

    def kept_places(self) -> list[KeptPlace]:
        return [KubernetesPlace(self._connection)]

    def clear_up(self, runs: Sequence[RunRef]) -> None:
        for name in self._ended(runs):
            self._remove_secrets(name)

    def _ended(self, runs: Sequence[RunRef]) -> list[str]:
        """The Jobs of which all runs have ended, now that these have."""
        ended: dict[str, list[int | None]] = {}
        for run in runs:
            ended.setdefault(names.job_name(run), []).append(run.row)
        return [name for name, rows in ended.items() if self._connection.notes.end(name, rows)]

    def _end_job(self, facts: JobFacts | None) -> None:
        """Let no pod of a run that has ended start or go on. A Job that ends by itself is left alone."""
        if facts is None or facts.is_over:
            return
        if facts.is_suspended:
            connection = self._connection
            connection.client.delete(names.jobs_path(connection.namespace, facts.name))
        elif any(not pod.is_over for pod in facts.pods):
            Stopper(self._connection).stop(RunRef(facts.name), None)

    def _remove_secrets(self, run_id: str) -> None:
        run_secrets.remove(self._secrets_folder, run_id)
        connection = self._connection
        with suppress(GoferError):
            connection.client.delete(names.core_path(connection.namespace, "secrets", run_id))
