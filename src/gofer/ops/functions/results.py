"""Read the results of functions. What a store has is loaded only when the run itself has written it."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from gofer.core.run_layout import outputs_key
from gofer.core.states import State
from gofer.errors import KeyNotFound, ResultError, UsageError
from gofer.node.functions import result_file
from gofer.node.functions.result_file import ERROR, ResultRefused, result_name
from gofer.ops.runs.run_records import RunRecords
from gofer.text import quote_command

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.rows import RunRow

_PIECE_BYTES = 8 << 20
_IN_MEMORY_BYTES = 64 << 20
# Ranks that are looked at for the exception of a run with many.
_MOST_RANKS = 256


class Raised(NamedTuple):
    """A function that has not returned. `error` is what it raised, if that can be loaded here. With
    `is_sentence`, the message says what happened; else it is that of an exception of the type.
    """

    error: Exception | None
    type: str
    message: str
    is_sentence: bool
    traceback: str
    at: float


class ResultReader:
    """Reads the results of a run of a function, or of the rows of an array of them. Blocks.

    UsageError when made for the run of a command. Any thread may call the methods.
    """

    def __init__(self, session: Session, run: RunRow) -> None:
        _check_function(session, run)
        self._store = session.runs_in(run.store)
        self._key = session.ledger.result_key(run.group_id or run.id)

    def value(self, row: RunRow, *, rank: int = 0) -> Any:
        """What the function returned in a run that has succeeded.

        ResultError when the result is missing, was changed, or cannot be loaded here.
        """
        found = self._read(row, rank)
        if found is None:
            raise ResultError(
                f"{row.short_id} has succeeded, and its result is not in the store",
                hint=f"`gofer resubmit {row.short_id}` computes it again",
            )
        header, body = found
        with body:
            if header["kind"] == ERROR:
                raise ResultError(f"rank {rank} of {row.short_id} has no result: {header['message']}")
            try:
                return pickle.load(body)
            except Exception as error:
                raise ResultError(
                    f"the result of {row.short_id} cannot be loaded here: {type(error).__name__}: {error}",
                    hint="install here what the function returns, or return numbers, texts, lists and dicts",
                ) from error

    def error(self, row: RunRow) -> Raised | None:
        """What the function raised in a run that has failed, the first of its ranks to do so; None when no
        rank wrote it: the process was ended from outside, or was never started.
        """
        if row.state != State.FAILED.value or row.exit_code is None:
            return None
        ranks = range(min(row.nodes * row.procs, _MOST_RANKS))
        found = [one for rank in ranks if (one := self._raised(row, rank)) is not None]
        return min(found, key=lambda one: one.at, default=None)

    def _raised(self, row: RunRow, rank: int) -> Raised | None:
        found = self._read(row, rank)
        if found is None:
            return None
        header, body = found
        with body:
            if header["kind"] != ERROR:
                return None
            return Raised(_loaded(body), *(header[name] for name in Raised._fields[1:]))

    def _read(self, row: RunRow, rank: int) -> tuple[dict[str, Any], IO[bytes]] | None:
        """The header and the pickle of a result, whose signature is right; None when there is no result."""
        if self._key is None:
            raise ResultError(
                f"the ledger has no key for {row.short_id}, so a forged result would look like the true one",
                hint="only the ledger of the submission has the key; "
                f"`gofer resubmit {row.short_id}` computes the result again",
            )
        copy = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115  the caller closes it
        try:
            pieces = self._pieces(f"{outputs_key(row.id)}/{result_name(rank)}")
            header = result_file.verify(pieces, self._key, copy)
            if (header["run"], header["rank"]) != (row.id, rank):
                raise ResultRefused(f"it is that of rank {header['rank']} of {header['run']}")
        except KeyNotFound:
            return None
        except ResultRefused as refused:
            raise ResultError(
                f"the result of {row.short_id} is refused: {refused}",
                hint="something other than the run has written it; "
                f"`gofer resubmit {row.short_id}` computes it again",
            ) from None
        return header, copy

    def _pieces(self, key: str) -> Iterator[bytes]:
        at = 0
        while piece := self._store.get_range(key, at, _PIECE_BYTES):
            yield piece
            at += len(piece)


def _check_function(session: Session, run: RunRow) -> None:
    record = RunRecords(session).of(run)
    if record is None or record.job.function is None:
        raise UsageError(
            f"{run.short_id} is a command and has no result: `{quote_command(run.command)}`",
            hint="`run.logs()` is what it printed, `run.outputs()` are the files that it left",
        )


def _loaded(body: IO[bytes]) -> Exception | None:
    try:
        error = pickle.load(body)
    except Exception:  # an empty pickle, or one of a class that is not here
        return None
    return error if isinstance(error, Exception) else None
