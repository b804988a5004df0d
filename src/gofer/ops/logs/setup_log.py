"""Show the set-up log of a run while an operation waits for the run and shows no other log of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from gofer.core.states import State
from gofer.errors import StoreError
from gofer.ops.logs.log_follow import SetupReader
from gofer.ops.logs.log_reader import mask_of
from gofer.ops.logs.log_sources import StoredLogs
from gofer.ops.runs.run_folder import attempt_numbers, list_logs
from gofer.ops.submission.ledger_rows import is_adopted

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow

_WAITING = (State.PENDING, State.QUEUED, State.PAUSED)
_BEFORE_COMMAND = (*_WAITING, State.STARTING)


class SetupLog:
    """The set-up of one run, on its first node; for one thread. `show` gets labelled lines.

    Nothing is shown of a set-up that was over when the operation began to wait.
    """

    def __init__(self, session: Session, row: RunRow, show: Callable[[bytes], None]) -> None:
        self._store = session.runs_in(row.store)
        self._run_id = row.id
        view = StoredLogs(session, row).setup_view(mask_of(session, row), show)
        self._reader = SetupReader(view)
        self._attempt = 0
        self._is_over = False

    def update(self, row: RunRow) -> None:
        """Show the new lines, until the command has started. A store that cannot be read is ignored, because
        the operation that waits reports it.
        """
        if row.state in _BEFORE_COMMAND:
            self._is_over = False  # a run that is retried is set up again
        if row.state in _WAITING or self._is_over or is_adopted(row):
            return
        with suppress(StoreError):
            self._show_new(row)

    def _show_new(self, row: RunRow) -> None:
        attempt = max(attempt_numbers(self._store, self._run_id), default=0)
        logs = list_logs(self._store, self._run_id, attempt) if attempt else []
        self._is_over = row.is_final or any(log.rank is not None for log in logs)
        if attempt and (attempt == self._attempt or not self._is_over):
            self._attempt = attempt
            self._reader.show_new(attempt, self._is_over)
