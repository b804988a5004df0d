"""The web page of a target or of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.backends.base import RunRef
from gofer.errors import CheckFailed

if TYPE_CHECKING:
    from gofer.backends.base import Backend
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


def portal_of(session: Session, name: str | None) -> str:
    """The URL of the web page of a target or a run; a target takes precedence. None means the default target.

    CheckFailed for a kind of target without web pages; UnknownName when there is no such target or run.
    """
    target = name or session.settings.default_target
    if target in session.settings.target_names:
        backend = session.backend(target)
        return _page(backend.portal(), backend, target)
    from gofer.ops.runs.find import find

    return portal_of_run(session, find(session, target, target=session.target))


def portal_of_run(session: Session, row: RunRow) -> str:
    """The URL of a run's web page; CheckFailed when there is none."""
    backend = session.backend_of(row)
    return _page(backend.portal(RunRef(row.id, row.group_id, row.row_index)), backend, row.target)


def _page(page: str | None, backend: Backend, target: str) -> str:
    if page is None:
        raise CheckFailed(
            f"`{target}` is a target of the kind `{backend.kind}`, which has no web pages",
            hint=f"`gofer target show {target}` shows what is known about it",
        )
    return page


def page_of(session: Session, row: RunRow) -> str | None:
    """Like `portal_of_run`, but None when there is no page."""
    return session.backend_of(row).portal(RunRef(row.id, row.group_id, row.row_index))
