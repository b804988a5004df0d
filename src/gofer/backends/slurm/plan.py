"""The plan of a Slurm run: the request that the nodes get, and the batch script. Pure, without secrets."""

from __future__ import annotations

import msgspec

from gofer.backends.node_request import CommonRequest, common_fields
from gofer.backends.slurm.options import SlurmOptions, sees_environment
from gofer.config.batch_script import find_option, parse_signal
from gofer.model.job import Job
from gofer.model.run import RunRecord
from gofer.node.packages.package_files import AUTO, NONE

# When a batch script sets Slurm's time limit, gofer ends the command this much earlier: then gofer, and not
# Slurm's kill, ends the run, and the recorded reason is the time limit.
_BEFORE_SLURM_S = 5.0


class SlurmRequest(CommonRequest, frozen=True, kw_only=True):
    """`store` is a folder that the nodes see; None where an uploader sends the nodes' output to a store.

    Row i of an array has the values `rows[i]` of `columns`; a single run has no rows. `sbatch` are the
    options of a batch script, None for other commands. `batch_signal` is a signal for the script alone, with
    the seconds after the start at which it is sent. `passes_signals` says that signals of Slurm reach the
    command.
    """

    store: str | None
    scratch: str | None
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    name: str
    sbatch: tuple[str, ...] | None
    batch_signal: tuple[str, float] | None
    passes_signals: bool


def make_request(record: RunRecord, options: SlurmOptions, *, store: str | None) -> SlurmRequest:
    """Make the request. Pure: equal for equal records and targets."""
    array = record.array
    packages = NONE if sees_environment(options) else AUTO
    return SlurmRequest(
        **{**common_fields(record, packages=packages), "time_limit_s": limit_s(record, options)},
        store=store,
        scratch=options.scratch,
        columns=() if array is None else array.columns,
        rows=() if array is None else array.rows,
        name=record.name,
        sbatch=record.job.sbatch,
        batch_signal=_batch_signal(record.job),
        passes_signals=find_option(record.job.sbatch or (), "signal") is None,
    )


def limit_s(record: RunRecord, options: SlurmOptions) -> float | None:
    """The time limit of the job, or else that of the target."""
    own_s = record.job.time_limit_s
    if own_s is None:
        return options.time
    if find_option(record.job.sbatch or (), "time") is None:
        return own_s
    return max(own_s - _BEFORE_SLURM_S, own_s / 2)


def _batch_signal(job: Job) -> tuple[str, float] | None:
    """The signal that a batch script asks Slurm to send to itself. gofer's agent sends it to the command."""
    text = find_option(job.sbatch or (), "signal")
    if text is None or job.time_limit_s is None:
        return None
    to_batch, name, before_s = parse_signal(text)
    return (name, max(job.time_limit_s - before_s, 0.0)) if to_batch else None


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
