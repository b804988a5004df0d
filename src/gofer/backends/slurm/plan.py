"""The plan of a Slurm run: the script, and what the nodes are told besides."""

from __future__ import annotations

import msgspec

from gofer.backends.slurm.request import SlurmRequest
from gofer.model.run import RunRecord


class SlurmPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that goes to the site but the private values."""

    record: RunRecord
    request: SlurmRequest
    script: str

    def render(self) -> str:
        """The script as `sbatch` gets it, with the command it is for."""
        from gofer.text import quote_command

        command = quote_command(self.request.command).replace("\n", "\\n")
        return f"{self.script}\n# runs on each rank: {command}\n"
