"""The web page of a target or of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.backends.base import HasPortal, RunRef
from gofer.errors import CheckFailed

if TYPE_CHECKING:
    from gofer.backends.base import Backend
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


def portal_of(session: Session, name: str | None) -> str:
    """The address of the page of the target or run of that name, a target first; None: the default target.

    CheckFailed for a kind of target that has no pages; UnknownName when nothing is called so.
    """
    target = name or session.settings.default_target
    if target in session.settings.target_names:
        return _with_pages(session.backend(target), target).portal()
    from gofer.ops.runs.find import find

    return portal_of_run(session, find(session, target, target=session.target))


def portal_of_run(session: Session, row: RunRow) -> str:
    """The address of a run's page; CheckFailed where there are none."""
    backend = _with_pages(session.backend_of(row), row.target)
    return backend.portal(RunRef(row.id, row.group_id, row.row_index))


def _with_pages(backend: Backend, target: str) -> HasPortal:
    if not isinstance(backend, HasPortal):
        raise CheckFailed(
            f"`{target}` is a target of the kind `{backend.kind}`, which has no web pages",
            hint=f"`gofer target show {target}` says what it has",
        )
    return backend


def page_of(session: Session, row: RunRow) -> str | None:
    """As `portal_of_run`; None where there are none."""
    backend = session.backend_of(row)
    if not isinstance(backend, HasPortal):
        return None
    return backend.portal(RunRef(row.id, row.group_id, row.row_index))
