"""Sends a run, or the rows of an array, to the service: handoff folder, datastores, environment, then the
jobs.

Every step can be repeated: existing resources are found again, and each job has a fixed name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gofer.backends.azureml import environments
from gofer.backends.azureml.datastores import Datastores
from gofer.backends.azureml.environments import Environment
from gofer.backends.azureml.handoff import HandoffStore
from gofer.backends.azureml.plan import AzurePlan
from gofer.backends.azureml.service import Service, each
from gofer.backends.kind import BlobPlace
from gofer.backends.run_notes import RunNotes
from gofer.core.secrets.run_secrets import NOTHING, RunSecrets
from gofer.core.store_spec import StoreSpec
from gofer.errors import BackendError, CheckFailed, GoferError
from gofer.transport.azure.problems import Answered, RequestRejected, ResourceNotFound


class AzureSubmitter:
    """The submissions of one target.

    `store` is where the target's store is, `datastore` the name that opens it.
    """

    def __init__(
        self,
        service: Service,
        handoff_store: HandoffStore,
        notes: RunNotes,
        store: BlobPlace,
        datastore: str,
        *,
        own: bool,
    ) -> None:
        self._service = service
        self._handoff_store = handoff_store
        self._notes = notes
        self._store = store
        self._datastore = datastore
        self._is_own = own  # the user made the datastore and renews it

    def send(self, plan: AzurePlan, private: RunSecrets, *, by_identity: bool) -> None:
        """Send the plan. Blocking; idempotent: jobs that the service has already are not sent again.

        Raises CheckFailed when the service refuses the job, BackendError when the run's secrets are gone.
        """
        note = self._notes.read(plan.record.id)
        rows = plan.rows
        # Sent before: send only what the service does not have, such as rows after an interruption.
        if note is not None and note.is_sent:
            rows = self._missing(plan)
            if not rows:
                return
        if private == NOTHING or private.store is None:
            raise BackendError(
                f"{plan.record.id} cannot be sent again: the credential for its store has been removed",
                hint=f"`gofer resubmit {plan.record.id}`",
            )
        # Written before the service gets the jobs: if this process is killed, the note still says that the
        # run's secrets must be removed when the run has ended.
        self._notes.update(plan.record.id, runs=len(plan.rows))
        try:
            self._send(plan, private, rows, by_identity=by_identity)
        except (RequestRejected, ResourceNotFound) as error:
            self._notes.update(plan.record.id, rejected=error.message)
            raise self._refused(error) from error
        except CheckFailed as error:
            self._notes.update(plan.record.id, rejected=error.message)
            raise
        self._notes.update(plan.record.id, is_sent=True)

    def _send(
        self, plan: AzurePlan, private: RunSecrets, rows: Sequence[int | None], *, by_identity: bool
    ) -> None:
        try:
            environment = self._prepare(plan, private, by_identity=by_identity)
            self._put(plan, environment, rows)
        except Answered:
            # The workspace may have lost a datastore or environment that this machine remembers.
            self._service.known.forget()
            environment = self._prepare(plan, private, by_identity=by_identity)
            self._put(plan, environment, rows)

    def _prepare(self, plan: AzurePlan, private: RunSecrets, *, by_identity: bool) -> str:
        """The id of the environment. Independent steps run at the same time."""
        brought = {folder.name for folder in plan.body_input.folders}
        # The service brings these folders, so the nodes need no credentials for them.
        left = {name: spec for name, spec in private.folders.items() if name not in brought}
        assert private.store is not None
        objects = self._handoff_store.open(private.store)
        node_secrets = private._replace(folders=left)
        acts: list[Callable[[], str | None]] = [
            lambda: environments.ensure(self._service, Environment(plan.body_input.environment, plan.image)),
            lambda: self._handoff_store.put_agent(objects),
            lambda: self._handoff_store.put_handoff(objects, plan.request, node_secrets),
        ]
        made = Datastores(self._service, by_identity=by_identity)
        if self._is_own:
            acts.append(lambda: made.check_own(self._datastore, self._store))
        for name, (place, spec) in self._datastores(plan, private).items():
            acts.append(lambda name=name, place=place, spec=spec: made.ensure(name, place, spec))  # type: ignore[misc]
        done = each(lambda act: act(), acts)
        _raise_first(done)
        return str(done[0])

    def _datastores(self, plan: AzurePlan, private: RunSecrets) -> dict[str, tuple[BlobPlace, StoreSpec]]:
        """Each datastore once, with a credential that can write where one of its folders is written."""
        assert private.store is not None
        found = {self._datastore: (self._store, private.store)}
        for folder in sorted(plan.body_input.folders, key=lambda folder: not folder.is_output):
            spec = private.folders.get(folder.name)
            if spec is not None:
                found.setdefault(folder.datastore, (folder.place, spec))
        if self._is_own:
            found.pop(self._datastore)
        return found

    def _put(self, plan: AzurePlan, environment: str, rows: Sequence[int | None]) -> None:
        def put(row: int | None) -> None:
            body = plan.body(row)
            # The plan names an environment by label; the job must name a version.
            body["properties"]["environmentId"] = environment
            self._service.put_job(plan.name(row), body)

        _raise_first(each(put, rows))

    def _missing(self, plan: AzurePlan) -> list[int | None]:
        found = each(lambda row: self._service.job(plan.name(row)), plan.rows)
        _raise_first(found)
        return [row for row, job in zip(plan.rows, found, strict=True) if job is None]

    def _refused(self, error: Answered) -> CheckFailed:
        hint = "`gofer target show` shows what the target has; the run is recorded as failed"
        return CheckFailed(f"Azure ML refused the job: {error.message}", hint=error.hint or hint)


def _raise_first(done: Sequence[object]) -> None:
    for result in done:
        if isinstance(result, GoferError):
            raise result
