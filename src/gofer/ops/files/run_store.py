"""A read-only store with the files that a run left: `outputs/` and `files/` of its folder, merged.

If both have a name, the file of `outputs/` is used. Links that lead out of the run's folder are not shown.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from gofer.core import run_layout as names
from gofer.errors import StoreError, UnknownName, UsageError
from gofer.node.folders import remote
from gofer.ops.messages import AnyMessage, Message
from gofer.ops.runs.find import find, find_known
from gofer.ops.submission.ledger_rows import is_adopted
from gofer.storage.base import OnDisk, check_key, check_prefix, no_such_key
from gofer.text import count_runs
from gofer.tracking.references import LAST
from gofer.transfer.packs.list import level

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import ObjectInfo, Store
    from gofer.tracking.ledger import RunRow

_FULL_ID = re.compile(r"r\d{6}-\d{6}-[0-9a-z]+(-\d+)?")


class RunView:
    """Reads the files of one run. Blocks; any thread may use it. Methods that write raise StoreError.

    If a name below `shown` is in both places, one message says which file is used.
    """

    def __init__(
        self, store: Store, row: RunRow, emit: Callable[[AnyMessage], None], shown: str = ""
    ) -> None:
        self._store = store
        self._name = row.short_id
        self._emit = emit
        self._shown = shown
        self._has_said = False
        self._run = names.run_key(row.id)
        self._places = (names.outputs_key(row.id), names.files_key(row.id))
        self.url = f"{store.url.rstrip('/')}/{self._run}"

    def get(self, key: str) -> bytes:
        return self._store.get(self._stored_key(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._store.get_range(self._stored_key(key), start, length)

    def head(self, key: str) -> ObjectInfo | None:
        for place in self._places:
            info = self._info(f"{place}/{check_key(key)}")
            if info is not None:
                return info._replace(key=key)
        return None

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        seen: set[str] = set()
        for info in heapq.merge(*(self._listed(place, prefix) for place in self._places), key=_key):
            if info.key in seen:
                self._say_both(info.key)
            else:
                seen.add(info.key)
                yield info

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        found = {name for place in self._places for name in self._store.list_folders(_join(place, prefix))}
        return iter(sorted(found))

    def list_level(self, prefix: str = "") -> Iterator[ObjectInfo | str]:
        """The files and the names of folders directly in the folder `prefix`, in no particular order."""
        check_prefix(prefix)
        seen: set[str] = set()
        for place in self._places:
            for one in level(self._store, _join(place, prefix)):
                name = f"{one}/" if isinstance(one, str) else one.key[len(place) + 1 :]
                if name in seen:
                    if not isinstance(one, str):
                        self._say_both(name)
                    continue
                seen.add(name)
                found = one if isinstance(one, str) else self._info(one.key)
                if found is not None:
                    yield found if isinstance(found, str) else found._replace(key=name)

    def say_if_both(self, key: str) -> None:
        """Tell the person if `outputs/` and `files/` both have a file of this name."""
        if all(self._info(_join(place, key)) is not None for place in self._places):
            self._say_both(key)

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        raise self.is_fixed()

    def delete(self, keys: Iterable[str]) -> int:
        raise self.is_fixed()

    def copy(self, source: str, destination: str) -> None:
        raise self.is_fixed()

    def _stored_key(self, key: str) -> str:
        for place in self._places:
            whole = f"{place}/{check_key(key)}"
            if self._info(whole) is not None:
                return whole
        raise no_such_key(self.url, key)

    def _listed(self, place: str, prefix: str) -> Iterator[ObjectInfo]:
        for info in self._store.list(_join(place, prefix)):
            found = self._info(info.key) if isinstance(self._store, OnDisk) else info
            if found is not None:
                yield found._replace(key=info.key[len(place) + 1 :])

    def _info(self, whole: str) -> ObjectInfo | None:
        """The object; None when it is absent, or outside the run's folder because of a link."""
        info = self._store.head(whole)
        if info is None or not isinstance(self._store, OnDisk):
            return info
        path = str(self._store.path(whole))
        inside = os.path.realpath(self._store.path(self._run))
        if not os.path.realpath(path).startswith(f"{inside}/"):
            return None
        try:
            return info._replace(metadata=remote.describe(os.stat(path)))
        except OSError:
            return None

    def _say_both(self, key: str) -> None:
        if not self._has_said and f"{key}/".startswith(f"{self._shown}/" if self._shown else ""):
            self._has_said = True
            self._emit(
                Message(
                    f"`{key}` is both an output and a file beside the code, and the output is used; "
                    f"`gofer extract {self._name} DIR` brings both"
                )
            )

    def is_fixed(self) -> StoreError:
        """The error of every change."""
        return StoreError(
            f"the files of the run {self._name} cannot be changed",
            hint=f"copy them first: `gofer cp {self._name}: DIR`",
        )


def view_of(session: Session, reference: str, key: str) -> tuple[RunView, RunRow] | None:
    """The files of the run that a word names; None when it names no run. UsageError for a group.

    `key` is the path that the person wants. Only for a full id are stores and services searched.
    """
    row = _row_of(session, reference)
    if row is None or is_adopted(row):
        return None
    if row.kind == "group":
        raise UsageError(
            f"`{row.short_id}` is a group of {count_runs(row.size)}, and the files belong to its runs",
            hint=f"name one of them: `gofer ls {row.short_id}-0:`",
        )
    return RunView(session.runs_in(row.store), row, session.emit, key), row


def _row_of(session: Session, reference: str) -> RunRow | None:
    is_sure = _FULL_ID.fullmatch(reference) is not None
    try:
        return find(session, reference) if is_sure or reference == LAST else find_known(session, reference)
    except UnknownName:
        return None


def names_run(session: Session, word: str) -> bool:
    """Whether a word is also the complete short id of a run. Reads only the ledger."""
    try:
        row = session.ledger.resolve(word)
    except (UnknownName, UsageError):
        return False
    return word in (row.short_id, row.id)


def _key(info: ObjectInfo) -> str:
    return info.key


def _join(place: str, path: str) -> str:
    return f"{place}/{path}" if path else place
