"""The optional capabilities of the backend: facts, why runs wait, logs, portal pages, shells."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gofer.backends.azureml.service import each
from gofer.backends.azureml.target import AzureTarget, home
from gofer.backends.base import JobFilter, NodeFacts, RunCredential, RunRef, ServiceJob, Waiting
from gofer.core.states import State
from gofer.errors import CheckFailed, GoferError

if TYPE_CHECKING:
    from gofer.backends.azureml.jobs import Nodes


class Besides(AzureTarget):
    """Every method asks the service and blocks."""

    def describe(self) -> dict[str, object]:
        from gofer.backends.azureml import facts

        options, service = self._options, self._service
        if options.platform != "singularity":
            return facts.compute_facts(service.compute(options.compute or ""))
        name = options.virtual_cluster or ""
        cluster = service.virtual_cluster(name)
        managed = (cluster.get("properties") or {}).get("managed") or {}
        # Without locations in the target, ask for those that the cluster has quotas in.
        places = list(options.locations or managed.get("locations") or sorted(managed.get("quotas") or {}))
        found = each(lambda place: service.instance_types(name, place), places)
        types = {
            place: answer
            for place, answer in zip(places, found, strict=True)
            if not isinstance(answer, GoferError)
        }
        return {"sla": options.tier, **facts.cluster_facts(cluster, types)}

    def nodes(self) -> list[NodeFacts]:
        from gofer.backends.azureml import facts

        if self._options.platform != "aml":
            raise CheckFailed(
                f"the target `{self.target}` is a share of a cluster, whose nodes cannot be listed",
                hint=f"`gofer target show {self.target}` shows what the target has",
            )
        return facts.nodes(self._service.nodes(self._options.compute or ""), self._options)

    def waiting(self, run: RunRef) -> Waiting | None:
        from gofer.backends.azureml import facts
        from gofer.backends.azureml.status_parse import trim

        job = self._service.job(run.id)
        if job is None:
            return None
        trimmed = trim(job)
        try:
            is_waiting = trimmed["state"] in ("Queued", "NotStarted", "Scheduled")
            facts_of_target = self.describe() if is_waiting else {}
            if isinstance(facts_of_target.get("quota"), list):
                facts_of_target["quota"] = facts.quotas_for(self._options, facts_of_target)
        except GoferError:
            facts_of_target = {}  # a person may run jobs without the right to read quotas
        return facts.waiting(trimmed["state"], trimmed["tags"], facts_of_target)

    def jobs(self, wanted: JobFilter) -> list[ServiceJob]:
        from gofer.backends.azureml import jobs

        return jobs.jobs(self._service, wanted, self._known_nodes())

    def job(self, name: str) -> ServiceJob | None:
        from gofer.backends.azureml import jobs

        return jobs.job(self._service, name, self._known_nodes())

    def _known_nodes(self) -> Nodes:
        from gofer.backends.azureml.body import compute_id
        from gofer.backends.azureml.jobs import Nodes

        return Nodes(compute_id(self._workspace, self._options), self._options.gpus_per_node)

    def held(self) -> list[RunCredential]:
        """The SAS in the target's own datastore. gofer renews the datastores that it makes with each run."""
        name = self._options.datastore
        if name is None:
            return []
        from gofer.backends.azureml.datastores import RENEW, own_end

        ends_at = own_end(self._service.arm, self._workspace, name)
        return (
            [] if ends_at is None else [RunCredential(f"the SAS of the datastore `{name}`", ends_at, RENEW)]
        )

    def native_logs(self, job: str) -> list[str]:
        return self._logs.names(job)

    def native_size(self, job: str, name: str) -> int | None:
        return self._logs.size(job, name)

    def read_native(self, job: str, name: str, start: int) -> bytes:
        return self._logs.read(job, name, start)

    def portal(self, run: RunRef | None = None) -> str:
        from gofer.backends.azureml import portal

        cloud = self._service.arm.cloud
        tenant = (self._service.known.get("workspace", "facts") or {}).get("tenant")
        if run is None:
            return portal.target_page(cloud, self._workspace, self._options, tenant)
        return portal.run_page(cloud, self._workspace, run.id, tenant)

    def shell(
        self, run: RunRef, command: Sequence[str], *, terminal: bool, node: int | None = None
    ) -> list[str]:
        from gofer.backends.azureml import shell
        from gofer.backends.azureml.status_parse import from_job, trim
        from gofer.transport.azure.profile import differing

        job = self._service.job(run.id)
        state = "not known to the service" if job is None else from_job(run.id, trim(job)).state
        if job is None or state != State.RUNNING:
            raise CheckFailed(
                f"{run.id} is {state}, but a shell needs a run that is running", hint=f"`gofer why {run.id}`"
            )
        door = shell.find_door(job if not node else {}, self._service.instances(run.id, node or 0))
        if door is None and not node:
            # The list of nodes comes last, because it takes another request.
            door = shell.find_door(job, nodes=self._nodes_or_none())
        if door is None:
            raise self._no_door(run.id, job, node)
        login = differing(self._environ, os.environ)
        key = shell.private_key(self._options.ssh_public_key, home())
        here = shell.SshClientFiles(key, self._azure_folder, login)
        return shell.words(door, run.id, command, here, terminal=terminal)

    def _no_door(self, run_id: str, job: dict[str, Any], node: int | None) -> CheckFailed:
        if node:
            return CheckFailed(
                f"the service has opened no shell on node {node} of {run_id}",
                hint="try again in a minute; without `--node` the shell opens on the first node",
            )
        properties = job.get("properties") or {}
        is_interactive = "ssh" in (properties.get("services") or {}) or self._options.interactive
        if is_interactive:
            return CheckFailed(
                f"the service has not opened a shell for {run_id} yet", hint="try again in a minute"
            )
        return CheckFailed(
            f"{run_id} was submitted without access to a shell",
            hint=f"set `interactive: true` in the target `{self.target}` and submit again",
        )

    def _nodes_or_none(self) -> list[dict[str, Any]]:
        if self._options.platform != "aml":
            return []
        return self._service.nodes(self._options.compute or "")
