"""Fetch new files from working copies that stayed on a node because their files exceed the limit.

A working copy also holds the code. The node's list of files says which files are new or changed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.backends import registry
from gofer.core.run_layout import node_files_path
from gofer.errors import GoferError
from gofer.node.kept.records import COPY
from gofer.ops.files import run_files
from gofer.ops.files.results import NodeCopy, copies_of
from gofer.ops.files.run_files import FetchedFiles
from gofer.ops.submission.send import is_here
from gofer.storage.ssh import SshAddress

if TYPE_CHECKING:
    from gofer.ops.runs.run_folder import RunFolder
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_REMOVED = "it was removed, by hand or by `gofer prune`, which does so after 14 days"


def bring_copies(session: Session, row: RunRow, folder: RunFolder, destination: Path) -> FetchedFiles:
    """Copy new files of a run's working copies to the folder `destination`, which holds its `files/`.

    A working copy that cannot be reached or was removed is listed under `failed`, with its path.
    """
    total = FetchedFiles()
    for copy in copies_of(folder, row):
        below = node_files_path(copy.node, "").rstrip("/")
        total = total.plus(_bring(session, row, folder, copy, destination / below).moved(below))
    return total


def _bring(
    session: Session, row: RunRow, folder: RunFolder, copy: NodeCopy, destination: Path
) -> FetchedFiles:
    if registry.runs_here(row.backend) and not is_here(session, row.submitter):
        return _unreached(copy, "it is on the machine that submitted the run")
    listed = run_files.list_of(folder, copy.attempt, copy.node)
    listed = [one for one in listed if one.place == COPY]
    try:
        host = _host(session, row, copy.node)
        if not host:
            is_there = os.path.isdir(copy.path)
            return run_files.bring_folder(copy.path, destination, listed) if is_there else _gone(copy, row)
        store = session.of_run(row).store(SshAddress(host, copy.path).url())
        return run_files.bring_listed(store, listed, destination)
    except GoferError as error:
        return _unreached(copy, error.message)


def _gone(copy: NodeCopy, row: RunRow) -> FetchedFiles:
    return _unreached(
        copy, _REMOVED if registry.runs_here(row.backend) else f"it is not on this machine, or {_REMOVED}"
    )


def _unreached(copy: NodeCopy, why: str) -> FetchedFiles:
    return FetchedFiles(
        0, ((".", f"the working copy of node {copy.node} in {copy.path} cannot be fetched: {why}"),)
    )


def _host(session: Session, row: RunRow, node: int) -> str:
    """The ssh name of the machine that has the working copy of a node; empty for this machine.

    Each node of a target over SSH is a machine of its own. A Slurm site has the copies in its shared folder,
    which the login node sees.
    """
    from gofer.ops.runs.run_records import RunRecords

    if registry.runs_here(row.backend):
        return ""
    record = RunRecords(session).of(row)
    hosts = record.placement.split(",") if record is not None and record.placement else []
    if node < len(hosts):
        return hosts[node]
    target = session.of_run(row).settings.target(row.target)
    login = registry.find(target.kind).login(target.options, "")
    return "" if login is None else login.host
