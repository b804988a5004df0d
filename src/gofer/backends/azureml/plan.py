"""The plan of a run on Azure ML: the job requests, and the request for the nodes."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gofer.backends.azureml.body import BodyInput, job_body, job_name
from gofer.backends.azureml.names import JOBS_API
from gofer.backends.azureml.request import AzureRequest
from gofer.model.run import RunRecord


class AzurePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is sent to the service, except the secrets. Pure data."""

    record: RunRecord
    request: AzureRequest
    given: BodyInput
    image: str | None

    @property
    def rows(self) -> list[int | None]:
        """The rows of an array; for a single run, one None."""
        return [*range(len(self.request.rows))] if self.record.array else [None]

    def name(self, row: int | None) -> str:
        return job_name(self.record, row)

    def body(self, row: int | None) -> dict[str, Any]:
        return job_body(self.record, self.request, self.given, row)

    def render(self) -> str:
        """The job request as it is sent; for an array, the request of the first row."""
        from gofer.text import quote_command

        first = self.rows[0] if self.rows else None
        path = self.given.workspace.job(self.name(first))
        text = json.dumps(self.body(first), indent=2, ensure_ascii=False)
        command = quote_command(self.request.command).replace("\n", "\\n")
        lines = [f"PUT {path}?api-version={JOBS_API}", text, ""]
        more = len(self.rows) - 1
        if more:
            rows = "row" if more == 1 else "rows"
            lines.append(f"# and {more} more for the other {rows}, up to {self.name(self.rows[-1])}")
        return "\n".join([*lines, f"# runs on each rank: {command}", ""])
