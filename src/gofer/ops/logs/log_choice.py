"""Choose the log of a run to show: that of a rank, else the one of the service.

A rank has a log once its agent has started it. Jobs that gofer did not start have none, nor have runs whose
image or node did not start. For these, the log of the service says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.log_lines import last_states
from gofer.errors import BackendError, CredentialError
from gofer.ops.logs import logs, service_logs
from gofer.ops.runs.adopt import is_adopted
from gofer.ops.runs.run_secrets import mask_of

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


class LogChoice(NamedTuple):
    """The requested log. None means the last attempt, or any node."""

    rank: int = 0
    node: int | None = None
    attempt: int | None = None

    @property
    def may_be_the_services(self) -> bool:
        """Whether the log of the service can be shown instead: it distinguishes ranks, but not nodes and
        attempts.
        """
        return self.node is None and self.attempt is None


def tail(
    session: Session, row: RunRow, choice: LogChoice, *, lines: int, native: Sequence[Path] = ()
) -> bytes:
    """The last lines, as a terminal would show them; b"" when nothing was logged. UnknownName for a rank
    without a log.

    `native` are copies of the service's logs that were just fetched, so that the log of rank 0 is not fetched
    again.
    """
    end = b"" if is_adopted(row) else logs.tail(session, row, lines=lines, **choice._asdict())
    if end or not choice.may_be_the_services:
        return last_states(end)
    if native and choice.rank == 0:
        return last_states(mask_of(session, row).clean(service_logs.copied_tail(native[0], lines)))
    return b"".join(_asked(session, row, lambda: iter([_tail(session, row, lines, choice.rank)])))


def _tail(session: Session, row: RunRow, lines: int, rank: int = 0) -> bytes:
    return last_states(service_logs.tail(session, row, lines=lines, rank=rank))


def read(session: Session, row: RunRow, choice: LogChoice) -> Iterator[bytes]:
    """The whole log as it is now, in chunks."""
    empty = True
    for piece in iter(()) if is_adopted(row) else logs.read(session, row, **choice._asdict()):
        empty = False
        yield piece
    if empty and choice.may_be_the_services:
        yield from _asked(session, row, lambda: service_logs.read(session, row, rank=choice.rank))


def follow(
    session: Session,
    row: RunRow,
    choice: LogChoice,
    *,
    lines: int | None,
    show_setup: Callable[[bytes], None] | None = None,
) -> Iterator[bytes]:
    """The last lines (None: all), then new output, until the run is over. Blocks.

    For a run without a log of its own, the service's log is shown at the end. `show_setup` is as in
    `gofer.ops.logs.logs.follow`.
    """
    if is_adopted(row):
        yield from service_logs.follow(session, row, lines=lines, rank=choice.rank)
        return
    empty = True

    def show(data: bytes) -> None:
        nonlocal empty
        empty = False
        if show_setup is not None:
            show_setup(data)

    view = show if show_setup is not None else None
    for piece in logs.follow(session, row, lines=lines, show_setup=view, **choice._asdict()):
        empty = empty and not piece
        yield piece
    if empty and choice.may_be_the_services:
        yield from _asked(session, row, lambda: service_logs.read(session, row, rank=choice.rank))


class Fetched(NamedTuple):
    """Copies of logs: those of the ranks, and those of the service, the one to show first."""

    own: list[Path]
    native: list[Path]

    @property
    def paths(self) -> list[Path]:
        return self.own + self.native


def fetch(session: Session, row: RunRow, folder: Path) -> Fetched:
    """Copy all logs to `folder`, reading only what is new. Warns about a service that does not answer."""
    own = [] if is_adopted(row) else logs.fetch(session, row, folder)
    try:
        return Fetched(own, service_logs.fetch(session, row, folder, remember=True))
    except (BackendError, CredentialError) as error:
        if is_adopted(row):
            raise
        session.say(f"warning: the service's own logs were not fetched: {error.message}")
        return Fetched(own, [])


def service_tail(session: Session, row: RunRow, lines: int) -> tuple[str, ...]:
    """The end of the service's log of a run, as text; empty when there is none or the service does not
    answer.
    """
    data = b"".join(_asked(session, row, lambda: iter([_tail(session, row, lines)])))
    return tuple(data.decode("utf-8", "replace").splitlines())


def _asked(session: Session, row: RunRow, ask: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    """The log of the service, with secrets masked. For gofer's own runs it is only additional, so an error is
    a warning.
    """
    try:
        yield from mask_of(session, row).stream(ask())
    except (BackendError, CredentialError) as error:
        if is_adopted(row):
            raise
        session.say(f"warning: the service's own logs cannot be read: {error.message}")
