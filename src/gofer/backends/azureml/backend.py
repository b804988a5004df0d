"""The Azure ML backend: one target in one workspace behind the backend contract."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from gofer.backends.azureml import environments, names
from gofer.backends.azureml.besides import Besides
from gofer.backends.azureml.body import BodyInput, room_uri
from gofer.backends.azureml.folders import brought, folders_of_run
from gofer.backends.azureml.plan import AzurePlan
from gofer.backends.azureml.request import make_request
from gofer.backends.azureml.service import each
from gofer.backends.azureml.status_parse import AzureStatus
from gofer.backends.base import KeptPlace, Plan, RunRef
from gofer.backends.scheduled import SealsBeside, lay_out_on_nodes
from gofer.core.secrets import run_secrets
from gofer.errors import CheckFailed, GoferError, Unreachable
from gofer.model.job import Job
from gofer.model.layout import Layout
from gofer.model.run import Observation, RunRecord


class AzureBackend(SealsBeside, Besides):
    """One target. All targets of one workspace share what the service said."""

    kind = "azureml"
    reads_folder = True
    decides_grace = True

    def lay_out(self, job: Job) -> Layout:
        self._ssh_key()  # a key that is not there is found now
        return lay_out_on_nodes(job, gpus_per_node=self._options.gpus_per_node, target=self.target)

    def plan(self, record: RunRecord) -> AzurePlan:
        from gofer.transport.bundle import mark

        store, options = self._store, self._options
        environment = environments.choose(options, self._workspace)
        datastore = self._datastore_of(store)
        folders = brought(folders_of_run(record), self._around.place_of, self._datastore_of)
        given = BodyInput(
            self._workspace,
            options,
            environment.id,
            names.uri(datastore, store.prefix, names.agent_key(mark())),
            room_uri(datastore, store.prefix, record.id),
            folders,
            self._ssh_key(),
        )
        request = make_request(record, options)
        return AzurePlan(record=record, request=request, given=given, image=environment.image)

    @property
    def node_identity(self) -> dict[str, str | None] | None:
        """What opens the store on the nodes instead of a signature, where the target has such a thing."""
        word = self._options.identity
        if word is None:
            return None
        if word in ("managed", "user"):
            return {"client_id": None}
        return {"client_id": None, "resource_id": word} if word.startswith("/") else {"client_id": word}

    def drop_seals(self, is_recorded: Callable[[str], bool]) -> None:
        """Also those of runs that ended while their store could not be reached."""
        super().drop_seals(is_recorded)
        for request_id in run_secrets.kept(self._seals):
            note = self._notes.read(request_id)
            if note is not None and len(note.ended) >= note.runs:
                self._let_go(request_id)

    def unseal(self, run_id: str) -> None:
        """Also from its room, now or, where the store cannot be reached, with a later submission."""
        note = self._notes.read(run_id)
        if note is not None:
            self._notes.update(run_id, ended=[*range(note.runs)])
        self._let_go(run_id)

    def kept_places(self) -> list[KeptPlace]:
        from gofer.backends.azureml.prune import AzurePlace

        return [AzurePlace(self._around.store_url)]

    # -- the contract

    def submit(self, plan: Plan) -> None:
        """CheckFailed when the service refuses the job; BackendError when it cannot be asked."""
        from gofer.backends.azureml.submit import AzureSubmitter

        made = cast(AzurePlan, plan)
        own = self._options.datastore is not None
        sending = AzureSubmitter(
            self._service, self._rooms, self._notes, self._store, self._datastore_of(self._store), own=own
        )
        private = run_secrets.read(self._seals, made.record.id)
        try:
            sending.send(made, private, by_identity=self._options.identity is not None)
        except CheckFailed:
            if made.record.array is None:  # of an array, some may have been taken
                self._let_go(made.record.id)
            raise
        finally:
            self._polling.poke()

    def observe(self, runs: Sequence[RunRef]) -> dict[str, Observation]:
        from gofer.backends.azureml.status import Look

        if not runs:
            return {}
        look = Look(self._service)
        said = self._polling.ask({run.id: None for run in runs}, look)
        notes = {name: self._notes.read(name) for name in {run.group or run.id for run in runs}}
        reading = AzureStatus(said, notes, patience_s=self._options.patience, now=time.time())
        found = reading.of(runs)
        self._clear_up(runs, found)
        if look.problem is not None:
            raise self._partly(look.problem, found)
        return found

    def cancel(self, runs: Sequence[RunRef], *, grace_s: float | None = None) -> None:
        if not runs:
            return
        try:
            done = each(self._service.cancel_job, [name for run in runs for name in names.job_names(run)])
        finally:
            self._polling.poke()
        for one in done:
            if isinstance(one, GoferError):
                raise one

    def _partly(self, problem: GoferError, found: dict[str, Observation]) -> GoferError:
        if not isinstance(problem, Unreachable):
            return problem
        problem.answers = dict(found)
        return problem

    def _clear_up(self, runs: Sequence[RunRef], found: Mapping[str, Observation]) -> None:
        """What only these runs needed goes when the last of a request has ended."""
        ended: dict[str, list[int | None]] = {}
        for run in runs:
            one = found.get(run.id)
            if one is not None and one.state.is_final:
                ended.setdefault(run.group or run.id, []).append(run.row)
        for request_id, rows in ended.items():
            if self._notes.end(request_id, rows):
                self._let_go(request_id)

    def _let_go(self, request_id: str) -> None:
        private = run_secrets.read(self._seals, request_id)
        if private.store is not None:
            try:
                self._rooms.empty(private.store, request_id)
            except GoferError:
                return  # the next submission does it, see `drop_seals`
        run_secrets.remove(self._seals, request_id)
