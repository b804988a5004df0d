"""Tell the person at submit which packages a run will have. The nodes find the same file and build it."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.errors import CheckFailed
from gofer.node.packages import package_files
from gofer.ops.messages import Message

if TYPE_CHECKING:
    from gofer.backends.base import Backend
    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.snapshot.summary import Snapshot


def chosen(job: Job, backend: Backend) -> str:
    """`none`, `auto` or a tool: the job's setting, else the default for the target."""
    if job.packages is not None:
        return job.packages
    return package_files.NONE if backend.capabilities.sees_environment else package_files.AUTO


def announce(session: Session, job: Job, backend: Backend, folder: Path, taken: Snapshot) -> bool:
    """Tell the person which file of the snapshot is built and with which tool; False when there is none.

    CheckFailed when the job names a tool and the snapshot has no file for it, or when the snapshot lacks the
    job's wheel folder.
    """
    wanted = chosen(job, backend)
    if wanted == package_files.NONE:
        return False

    def read(path: str) -> str | None:
        try:
            return (folder / path).read_text("utf-8", "replace") if taken.has(path) else None
        except OSError:
            return None

    file = package_files.find(wanted, job.workdir, read)
    if file is not None:
        _check_wheels(job, taken)
        session.emit(Message(f"packages: {file}"))
    elif job.packages == package_files.AUTO:
        session.emit(Message("packages: none, since the code has no file that lists them"))
    elif wanted != package_files.AUTO:
        names = ", ".join(f"`{name}`" for name in package_files.file_names(wanted))
        raise CheckFailed(
            f"`packages: {wanted}` needs one of {names}, and the code that would be sent has none",
            hint="write one, check that no ignore rule leaves it out, or use `--packages auto`",
        )
    return file is not None


def _check_wheels(job: Job, taken: Snapshot) -> None:
    wheels = posixpath.normpath(job.wheels or ".")
    if wheels.startswith(("/", "~", "..")) or taken.has(wheels):
        return
    raise CheckFailed(
        f"`wheels: {job.wheels}` is not part of the code that would be sent",
        hint=f"`--include '{wheels}/*'` includes what an ignore rule leaves out; an absolute path is a "
        "folder on the node",
    )
