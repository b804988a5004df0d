"""The result of one check of `gofer doctor` and `gofer store check`."""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gofer.errors import GoferError


class Status(enum.StrEnum):
    """The result of a check. `fail` means that something will not work; `warn` only informs."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(NamedTuple):
    """The result of one check. `hint` says what to do."""

    name: str
    status: Status
    detail: str
    hint: str | None = None

    @property
    def ok(self) -> bool:
        return self.status != Status.FAIL


def guarded(name: str, look: Callable[[], Iterator[Check]]) -> list[Check]:
    """The checks that `look` yields. An error in it becomes a failed check."""
    found: list[Check] = []
    try:
        found.extend(look())
    except GoferError as error:
        found.append(Check(name, Status.FAIL, error.message, error.hint))
    except (OSError, sqlite3.Error) as error:
        hint = "correct the permissions, or set `GOFER_HOME` to another folder"
        found.append(Check(name, Status.FAIL, str(error), hint))
    return found
