"""Which log of a run a person is shown: that of a rank, else the service's own.

A rank has a log once its agent has started it. Jobs that gofer did not start never have one, and neither have
runs whose image or node never came up; of those the service's log says why.
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


class Which(NamedTuple):
    """The log that was asked for; None is the last attempt, and any node."""

    rank: int = 0
    node: int | None = None
    attempt: int | None = None

    @property
    def may_be_the_services(self) -> bool:
        """The service keeps logs by rank at the most."""
        return self.node is None and self.attempt is None


def tail(session: Session, row: RunRow, which: Which, *, lines: int, native: Sequence[Path] = ()) -> bytes:
    """The last lines, each at its last state; b"" when nothing was logged. UnknownName for a rank that has no
    log.

    `native` are copies of the service's logs that were brought just now: it is not asked for rank 0's again.
    """
    end = b"" if is_adopted(row) else logs.tail(session, row, lines=lines, **which._asdict())
    if end or not which.may_be_the_services:
        return last_states(end)
    if native and which.rank == 0:
        return last_states(mask_of(session, row).clean(service_logs.copied_tail(native[0], lines)))
    return b"".join(_asked(session, row, lambda: iter([_tail(session, row, lines, which.rank)])))


def _tail(session: Session, row: RunRow, lines: int, rank: int = 0) -> bytes:
    return last_states(service_logs.tail(session, row, lines=lines, rank=rank))


def read(session: Session, row: RunRow, which: Which) -> Iterator[bytes]:
    """The whole log in chunks, as it is now."""
    empty = True
    for piece in iter(()) if is_adopted(row) else logs.read(session, row, **which._asdict()):
        empty = False
        yield piece
    if empty and which.may_be_the_services:
        yield from _asked(session, row, lambda: service_logs.read(session, row, rank=which.rank))


def follow(
    session: Session,
    row: RunRow,
    which: Which,
    *,
    lines: int | None,
    show_setup: Callable[[bytes], None] | None = None,
) -> Iterator[bytes]:
    """The last lines (None: all), then what comes, until the run is over. Blocks.

    A run of gofer's that ends without a log of its own ends with the service's. For `show_setup` see
    `gofer.ops.logs.logs.follow`.
    """
    if is_adopted(row):
        yield from service_logs.follow(session, row, lines=lines, rank=which.rank)
        return
    empty = True

    def show(data: bytes) -> None:
        nonlocal empty
        empty = False
        if show_setup is not None:
            show_setup(data)

    view = show if show_setup is not None else None
    for piece in logs.follow(session, row, lines=lines, show_setup=view, **which._asdict()):
        empty = empty and not piece
        yield piece
    if empty and which.may_be_the_services:
        yield from _asked(session, row, lambda: service_logs.read(session, row, rank=which.rank))


class Fetched(NamedTuple):
    """Copies of logs: those of the ranks, and those that the service keeps, the one to show at the front."""

    own: list[Path]
    native: list[Path]

    @property
    def paths(self) -> list[Path]:
        return self.own + self.native


def fetch(session: Session, row: RunRow, folder: Path) -> Fetched:
    """Bring all logs to `folder`, reading only what is new there. A service that does not answer is named."""
    own = [] if is_adopted(row) else logs.fetch(session, row, folder)
    try:
        return Fetched(own, service_logs.fetch(session, row, folder, remember=True))
    except (BackendError, CredentialError) as error:
        if is_adopted(row):
            raise
        session.say(f"warning: the service's own logs were not brought: {error.message}")
        return Fetched(own, [])


def service_tail(session: Session, row: RunRow, lines: int) -> tuple[str, ...]:
    """The end of the service's log of a run, as text; nothing where there is none, or no answer."""
    data = b"".join(_asked(session, row, lambda: iter([_tail(session, row, lines)])))
    return tuple(data.decode("utf-8", "replace").splitlines())


def _asked(session: Session, row: RunRow, ask: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    """The service's answer. Of a run of gofer's it is only a help: its absence is said and no failure."""
    try:
        yield from mask_of(session, row).stream(ask())
    except (BackendError, CredentialError) as error:
        if is_adopted(row):
            raise
        session.say(f"warning: the service's own logs cannot be read: {error.message}")
