"""`petctl configure`: write the job and the machines."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gofer.errors import UsageError
from gofer.importers.petctl import (
    DEFAULT_MASTER_VM,
    DEFAULT_WORKER_VM,
    PetFiles,
    PetJob,
    PetPools,
    training_command,
)


class PetConfiguration(NamedTuple):
    """What a person asks for. `size` is both sizes; one that is missing is that of the other, or 1."""

    name: str
    min_size: int | None = None
    max_size: int | None = None
    size: int | None = None
    master_vm: str = DEFAULT_MASTER_VM
    worker_vm: str = DEFAULT_WORKER_VM


def configure(files: PetFiles, wanted: PetConfiguration) -> list[Path]:
    """Write both files, and return their paths. The image and the command of an earlier job stay."""
    least = wanted.min_size or wanted.size or 1
    most = wanted.max_size or wanted.size or max(least, 1)
    if least < 1 or most < least:
        raise UsageError(
            f"`--min_size {least} --max_size {most}` are no bounds", hint="write `--min_size 1 --max_size 5`"
        )
    known = _known_job(files)
    command = known.command if known else training_command(files.state().uploads)
    job = PetJob(wanted.name, least, most, known.image if known else "", command)
    return [files.write_job(job), files.write_pools(PetPools(wanted.master_vm, wanted.worker_vm, least))]


def _known_job(files: PetFiles) -> PetJob | None:
    try:
        return files.job()
    except UsageError:
        return None
