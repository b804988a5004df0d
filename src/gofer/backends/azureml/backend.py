"""The Azure ML backend: implements the backend contract for one target in one workspace."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from gofer.backends.azureml import capacity, datastores, environments, images, jobs, names, shell
from gofer.backends.azureml.connection import AzureConnection
from gofer.backends.azureml.jobs import Nodes
from gofer.backends.azureml.options import AzureOptions, capabilities
from gofer.backends.azureml.plan import (
    AzurePlan,
    BodyInput,
    compute_id,
    folders_of_run,
    handoff_uri,
    make_request,
    service_folders,
)
from gofer.backends.azureml.prune import AzurePlace
from gofer.backends.azureml.service import each
from gofer.backends.azureml.status import AzureStatus, JobQuestion
from gofer.backends.azureml.submit import AzureSubmitter
from gofer.backends.base import (
    JobFilter,
    JobService,
    KeptPlace,
    LogService,
    NodeFacts,
    Plan,
    RunCredential,
    RunRef,
    ServiceImage,
    ServiceJob,
    Waiting,
)
from gofer.backends.kind import BackendContext, BlobPlace
from gofer.backends.scheduled import KeepsSecretsHere, lay_out_on_nodes
from gofer.core.secrets import run_secrets
from gofer.errors import CheckFailed, GoferError, Unreachable
from gofer.model.job import Job
from gofer.model.layout import Layout
from gofer.model.run import Observation, RunRecord
from gofer.transport.bundle import mark


class AzurePlanInput(NamedTuple):
    """What `AzureBackend.prepare` reads: the name of the agent, the public key for shells, the instance type,
    the image of Singularity's own, and the places of the stores with mapped folders, by URL.
    """

    agent: str
    ssh_key: str | None
    instance_type: str | None
    image_version: str | None
    places: Mapping[str, BlobPlace | None]


class AzureBackend(KeepsSecretsHere):
    """One target. Every method but `plan` may ask the service and block."""

    kind = "azureml"

    def __init__(self, options: AzureOptions, context: BackendContext) -> None:
        self.capabilities = capabilities(options)
        self._connection = AzureConnection(options, context)
        self._options = options
        self._secrets_folder = self._connection.secrets_folder
        self.target = context.target
        self.service_name = self._connection.service_name

    def lay_out(self, job: Job) -> Layout:
        # A missing key file must be reported at submission, before anything is recorded.
        self._connection.ssh_key(job)
        layout = lay_out_on_nodes(job, gpus_per_node=self._options.gpus_per_node, target=self.target)
        capacity.check_nodes(self._connection, layout.nodes)
        capacity.instance_type(self._connection, job.resources, layout.gpus_per_node)
        return layout

    def prepare(self, record: RunRecord) -> AzurePlanInput:
        stores = {folder.store for folder in record.job.folders.values()}
        places = {url: self._connection.context.place_of(url) for url in stores}
        instance_type = capacity.instance_type(
            self._connection, record.job.resources, record.layout.gpus_per_node
        )
        image = self._options.image_version or images.default_image(self._connection.service, self._options)
        return AzurePlanInput(mark(), self._connection.ssh_key(record.job), instance_type, image, places)

    def plan(self, record: RunRecord, prepared: AzurePlanInput) -> AzurePlan:
        connection = self._connection
        options = msgspec.structs.replace(
            self._options,
            instance_type=prepared.instance_type,
            image_version=prepared.image_version,
            interactive=self._options.interactive or record.job.shell,
        )
        store = connection.store
        environment = environments.choose(options, connection.workspace)
        datastore = connection.datastore_of(store)
        body_input = BodyInput(
            connection.workspace,
            options,
            environment.id,
            names.uri(datastore, store.prefix, names.agent_key(prepared.agent)),
            handoff_uri(datastore, store.prefix, record.id),
            service_folders(folders_of_run(record), prepared.places.__getitem__, connection.datastore_of),
            prepared.ssh_key,
        )
        request = make_request(record, options)
        return AzurePlan(record=record, request=request, body_input=body_input, image=environment.image)

    def drop_abandoned_secrets(self, is_recorded: Callable[[str], bool]) -> None:
        """Also removes the secrets of runs that ended while their store could not be reached."""
        super().drop_abandoned_secrets(is_recorded)
        for request_id in run_secrets.kept(self._secrets_folder):
            note = self._connection.notes.read(request_id)
            if note is not None and len(note.ended) >= note.runs:
                self._remove_secrets(request_id)

    def remove_secrets(self, run_id: str) -> None:
        """Also removes the secrets from the store: now, or with a later submission if the store is
        unreachable.
        """
        note = self._connection.notes.read(run_id)
        if note is not None:
            self._connection.notes.update(run_id, ended=[*range(note.runs)])
        self._remove_secrets(run_id)

    def kept_places(self) -> list[KeptPlace]:
        # The URL, not the target: targets that share a store have one place.
        return [AzurePlace(self._connection.context.store_url)]

    # -- the backend contract

    def submit(self, plan: Plan) -> None:
        """Raises CheckFailed when the service refuses the job, BackendError when it cannot be asked."""
        made = cast(AzurePlan, plan)
        connection, own = self._connection, self._options.datastore is not None
        sending = AzureSubmitter(
            connection.service,
            connection.handoff_store,
            connection.notes,
            connection.store,
            connection.datastore_of(connection.store),
            own=own,
        )
        private = run_secrets.read(self._secrets_folder, made.record.id)
        try:
            sending.send(made, private, by_identity=self._options.identity is not None)
        except CheckFailed:
            # The service may have accepted some rows of an array, and those rows still need their secrets.
            if made.record.array is None:
                self._remove_secrets(made.record.id)
            raise
        finally:
            self._connection.polling.poke()

    def observe(self, runs: Sequence[RunRef]) -> dict[str, Observation]:
        if not runs:
            return {}
        question = JobQuestion(self._connection.service)
        answer = self._connection.polling.ask({run.id: None for run in runs}, question)
        notes = {name: self._connection.notes.read(name) for name in {run.group or run.id for run in runs}}
        status = AzureStatus(answer, notes, patience_s=self._options.patience, now=time.time())
        observations = status.of(runs)
        self.clear_up([run for run in runs if run.id in observations and observations[run.id].state.is_final])
        if question.problem is not None:
            raise self._with_partial_answers(question.problem, observations)
        return observations

    def cancel(self, runs: Sequence[RunRef], *, grace_s: float | None = None) -> None:
        if not runs:
            return
        try:
            results = each(
                self._connection.service.cancel_job, [name for run in runs for name in names.job_names(run)]
            )
        finally:
            self._connection.polling.poke()
        for result in results:
            if isinstance(result, GoferError):
                raise result

    def _with_partial_answers(self, problem: GoferError, observations: dict[str, Observation]) -> GoferError:
        """Attach what is known of some runs, so that the caller can show it although others are unknown."""
        if not isinstance(problem, Unreachable):
            return problem
        problem.answers = dict(observations)
        return problem

    def clear_up(self, runs: Sequence[RunRef]) -> None:
        """Remove the secrets of each request whose last run is among these."""
        ended: dict[str, list[int | None]] = {}
        for run in runs:
            ended.setdefault(run.group or run.id, []).append(run.row)
        for request_id, rows in ended.items():
            if self._connection.notes.end(request_id, rows):
                self._remove_secrets(request_id)

    def _remove_secrets(self, request_id: str) -> None:
        private = run_secrets.read(self._secrets_folder, request_id)
        if private.store is not None:
            try:
                self._connection.handoff_store.empty(private.store, request_id)
            except GoferError:
                return  # the next submission tries again in `drop_abandoned_secrets`
        run_secrets.remove(self._secrets_folder, request_id)

    # -- capabilities that some backends have

    def describe(self) -> dict[str, object]:
        return capacity.describe(self._connection)

    def nodes(self) -> list[NodeFacts]:
        return capacity.list_nodes(self._connection)

    def images(self) -> list[ServiceImage]:
        return images.list_images(self._connection.service, self._options)

    def waiting(self, run: RunRef) -> Waiting | None:
        return capacity.waiting(self._connection, run)

    def job_service(self) -> JobService:
        return self

    def log_service(self) -> LogService:
        return self

    def jobs(self, wanted: JobFilter) -> list[ServiceJob]:
        return jobs.jobs(self._connection.service, wanted, self._known_nodes())

    def job(self, name: str) -> ServiceJob | None:
        return jobs.job(self._connection.service, name, self._known_nodes())

    def run_credentials(self) -> list[RunCredential]:
        """The SAS in the target's own datastore. gofer renews the datastores that it makes with each run."""
        name = self._options.datastore
        if name is None:
            return []
        ends_at = datastores.own_end(self._connection.service.arm, self._connection.workspace, name)
        if ends_at is None:
            return []
        return [RunCredential(f"the SAS of the datastore `{name}`", ends_at, datastores.RENEW)]

    def native_logs(self, job: str) -> list[str]:
        return self._connection.logs.names(job)

    def native_size(self, job: str, name: str) -> int | None:
        return self._connection.logs.size(job, name)

    def read_native(self, job: str, name: str, start: int) -> bytes:
        return self._connection.logs.read(job, name, start)

    def portal(self, run: RunRef | None = None) -> str:
        connection = self._connection
        cloud = connection.service.arm.cloud
        tenant = (connection.service.known.get("workspace", "facts") or {}).get("tenant")
        if run is None:
            return names.target_page(cloud, connection.workspace, self._options, tenant)
        return names.run_page(cloud, connection.workspace, run.id, tenant)

    def shell(
        self, run: RunRef, command: Sequence[str], *, terminal: bool, node: int | None = None
    ) -> list[str]:
        return shell.shell_command(self._connection, run, command, terminal=terminal, node=node)

    def _known_nodes(self) -> Nodes:
        compute = compute_id(self._connection.workspace, self._options)
        return Nodes(compute, self._options.gpus_per_node)
