"""The plan of a Slurm run: the batch script, and the request for the nodes."""

from __future__ import annotations

import msgspec

from gofer.backends.slurm.request import SlurmRequest
from gofer.model.run import RunRecord


class SlurmPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is sent to the site, except the secrets. Pure data."""

    record: RunRecord
    request: SlurmRequest
    script: str

    def render(self) -> str:
        """The script as `sbatch` gets it, followed by the user's command as a comment."""
        from gofer.text import quote_command

        command = quote_command(self.request.command).replace("\n", "\\n")
        return f"{self.script}\n# runs on each rank: {command}\n"
