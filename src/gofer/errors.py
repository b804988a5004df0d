"""Every error a person can meet, in one tree.

::

    GoferError                 exit 1
    ├── UsageError             exit 2   the words given to gofer are wrong
    │   ├── ConfigError                 a value in a file, the environment or a flag; names file and line
    │   └── UnknownName                 a target, store, run, secret or key that does not exist
    ├── CheckFailed                     the job cannot run there; found before it was sent
    ├── SnapshotError                   the code folder cannot be read or restored
    ├── StoreError                      an object store refused or is not there
    │   ├── KeyNotFound
    │   └── KeyExists
    ├── LedgerError                     the local index of runs
    │   └── LedgerCorrupt
    ├── BackendError                    the cluster refused or is not there
    │   ├── TargetGone                  no settings say how the target of a run is reached
    │   └── Unreachable
    ├── CredentialError                 missing, expired or too weak
    ├── RunFailed                       from Python: a run did not succeed
    ├── ResultError                     from Python: the result of a function is missing or cannot be trusted
    └── Interrupted                     a bounded wait ran out
        └── TimedOut                    from Python: the same, and a TimeoutError

A message says what failed, on what, and the value given; `hint` is the command or edit that mends it.
Messages never carry a secret.
"""

from __future__ import annotations

from typing import Any


class GoferError(Exception):
    """Anything gofer can explain; shown as `error:` and `hint:` lines, without a traceback."""

    exit_status = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # for the traceback of a Python program


class UsageError(GoferError):
    """The person typed or wrote something gofer cannot take."""

    exit_status = 2


class ConfigError(UsageError):
    """A value that cannot be used; `where` is `FILE:LINE`, a flag or a variable's name."""

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.where = where


class UnknownName(UsageError):
    """No such target, store, run, folder, secret, column or key."""


class CheckFailed(GoferError):
    """The job would fail on that target; nothing was sent."""


class SnapshotError(GoferError):
    """The code folder could not be captured or restored exactly."""


class StoreError(GoferError):
    """An object store refused, failed, or is not there."""


class KeyNotFound(StoreError):
    """No object has that key."""


class KeyExists(StoreError):
    """An object has that key already, and the write asked for it to be new."""


class LedgerError(GoferError):
    """The local index of runs cannot be read or written."""


class LedgerCorrupt(LedgerError):
    """The ledger's file is damaged; it can be set aside and rebuilt from the stores."""


class BackendError(GoferError):
    """The cluster refused, or answered with something gofer does not understand."""


class TargetGone(BackendError):
    """No settings say how the target of a run is reached, so its cluster cannot be asked."""


class Unreachable(BackendError):
    """The cluster cannot be asked right now; nothing is known to have changed.

    `answers` is what those of its machines said that did answer, by run id.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.answers: dict[str, Any] = {}


class CredentialError(GoferError):
    """A key, token or login that is missing, expired or lacks a permission."""


class Interrupted(GoferError):
    """A wait with a limit ended before what it waited for; nothing was undone."""


class TimedOut(Interrupted, TimeoutError):
    """A wait with a limit ended, in a Python program, which may catch TimeoutError."""


class ResultError(GoferError):
    """The result of a function is missing, was changed by somebody, or cannot be loaded here."""


class RunFailed(GoferError):
    """A run did not succeed.

    `run_id` is the run or row, `state` its state, and `traceback` that of the function where it ran, if the
    run was a function whose exception cannot be loaded here.
    """

    def __init__(
        self, message: str, *, run_id: str, state: str, traceback: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.run_id = run_id
        self.state = state
        self.traceback = traceback
