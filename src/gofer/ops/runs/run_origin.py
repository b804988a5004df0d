"""Reach the target of a run from any folder, with the settings of the project that the run came from.

Only this person's own ledger says where a run came from. From a run that was found in a store, only the name
of its target is used: the options of a target can run programs, so they are looked up in this person's own
settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.config.target_definition import TargetDefinition
from gofer.config.target_definition import define as define_target
from gofer.errors import CheckFailed, GoferError, LedgerError, TargetGone
from gofer.model.decode import decode
from gofer.model.run import RunRecord
from gofer.ops.settings.load import load_definition, load_project

if TYPE_CHECKING:
    from gofer.config.settings import Settings
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


def define(session: Session, target: str, store_url: str) -> str:
    """Store in the ledger how a target of this session is reached; the id of the definition."""
    return session.ledger.define(store_url, define_target(session.settings, target).to_json())


def settings_of_run(session: Session, row: RunRow) -> Settings:
    """Settings with the target to which the run was sent; TargetGone when there are none.

    The first of these that has a target of that name and kind: the present settings of the run's project, the
    definition in the ledger, the settings of this folder. The last are used only for a run without a
    definition.
    """
    definition = _read(session, row.definition)
    project = definition.project if definition else _project(session, row)
    found = _current(session, project, row.target, row.backend) if project else None
    if found is None and definition is not None:
        found = _defined(session, definition)
    if found is None and not row.definition and _has(session.settings, row.target, row.backend):
        found = session.settings
    if found is None:
        raise _gone(session, row, definition, project)
    return found


def settings_of_definition(session: Session, key: str) -> Iterator[Settings]:
    """The present settings of the project, if they still have the target, then the settings of the
    definition.
    """
    definition = _read(session, key)
    if definition is None:
        return
    for found in (
        _current(session, definition.project, definition.target, definition.kind),
        _defined(session, definition),
    ):
        if found is not None:
            yield found


def check_whole(session: Session, row: RunRow) -> None:
    """CheckFailed when nothing can be sent to the run's target: the ledger does not keep options that hold
    secrets, and the project's settings no longer have the target. Refreshing and stopping work without these
    options.
    """
    definition = _read(session, row.definition)
    if definition is None or not definition.withheld:
        return
    if _current(session, definition.project, row.target, row.backend) is None:
        message, hint = _lacking(row, definition)
        raise CheckFailed(message, hint=hint)


def _read(session: Session, key: str) -> TargetDefinition | None:
    with suppress(GoferError):
        data = session.definition(key) if key else None
        return TargetDefinition.from_json(data) if data else None
    return None


def _project(session: Session, row: RunRow) -> str:
    """The project of a run, or of the group that it is a row of."""
    if row.group_id is None:
        return row.project
    owner = session.ledger.get(row.group_id)
    return owner.project if owner else ""


def _current(session: Session, project: str, target: str, kind: str) -> Settings | None:
    """The present settings of a project, if they still have this target; else None."""
    if project == session.project and _has(session.settings, target, kind):
        return session.settings
    if not _is_own(project):
        return None
    with suppress(GoferError):
        found = load_project(session, Path(project))
        return found if _has(found, target, kind) else None
    return None


def _defined(session: Session, definition: TargetDefinition) -> Settings | None:
    with suppress(GoferError):
        found = load_definition(session, definition)
        return found if _has(found, definition.target, definition.kind) else None
    return None


def _has(settings: Settings, target: str, kind: str) -> bool:
    """Whether the settings have a valid target of this name and kind."""
    with suppress(GoferError):
        return target in settings.target_names and settings.target(target).kind == kind
    return False


def _is_own(folder: str) -> bool:
    """Whether the folder belongs to this user, so that nobody else can have put a settings file into it."""
    try:
        return os.stat(folder).st_uid in (os.geteuid(), 0)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False


def _gone(session: Session, row: RunRow, definition: TargetDefinition | None, project: str) -> TargetGone:
    name = row.short_id
    if definition is not None and definition.withheld:
        message, hint = _lacking(row, definition)
        return TargetGone(message, hint=hint)
    if project:
        return TargetGone(
            f"the target `{row.target}` of {name} is no longer in the settings of `{project}`, from where it "
            "was submitted",
            hint=f"put `{row.target}` back there, or under `targets:` in {session.paths.config_file}",
        )
    return TargetGone(
        f"the target `{row.target}` of {name} is not in the settings here{_told_folder(session, row)}",
        hint=f"add `{row.target}` under `targets:` in {session.paths.config_file}, or give the command where "
        "the run was submitted",
    )


def _lacking(row: RunRow, definition: TargetDefinition) -> tuple[str, str]:
    """Message and hint for a target whose definition lacks its secrets."""
    words = ", ".join(f"`{one}`" for one in definition.withheld)
    return (
        f"the target `{row.target}` of {row.short_id} is no longer in the settings of "
        f"`{definition.project}`, and the ledger does not keep {words}, which may hold a secret",
        f"put `{row.target}` back into the settings of `{definition.project}`",
    )


def _told_folder(session: Session, row: RunRow) -> str:
    """The origin of the run according to its record, as text for people. Nothing is read from that folder."""
    told = submitted_by(session, row)
    return f"; {told} submitted it" if told else ""


def submitted_by(session: Session, row: RunRow) -> str:
    """Who submitted a run, on which machine and from which folder, according to its record; "" without a
    record.
    """
    with suppress(LedgerError):
        owner = session.ledger.get(row.group_id or row.id)
        record = decode(owner.record, RunRecord) if owner is not None else None
        if record is not None:
            return record.submitted_by + (f" in `{record.code.folder}`" if record.code else "")
    return ""
