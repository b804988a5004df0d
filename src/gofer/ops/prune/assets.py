"""Remove copies of logs in `assets/` that can be fetched again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends.base import LogService, Prunable, PruneBounds
from gofer.core import run_layout as names
from gofer.model.ids import row_id
from gofer.ops.logs.log_copies import is_mark
from gofer.ops.logs.log_sources import ServiceLogs
from gofer.ops.prune.runs import ended_at
from gofer.ops.submission.ledger_rows import is_adopted

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

KIND = "log copies"
_WHY = "the store or the service has the originals; `gofer q` fetches them again"


class _Source(NamedTuple):
    """The run whose copies are in a folder, and where the originals are. `store` is None when gofer's store
    has none.
    """

    row: RunRow
    folder: Path
    store: Store | None
    service: LogService | None


class AssetsPlace:
    """The folder `assets` in the current folder."""

    def __init__(self, session: Session) -> None:
        top = session.folder / "assets"
        self.name = str(top)
        found = sorted(top.iterdir()) if top.is_dir() else []
        rows = {path: session.ledger.get(path.name) for path in found if path.is_dir()}
        self._sources = [_source(session, row, path) for path, row in rows.items() if _is_over(row)]

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        found = []
        for one in self._sources:
            files = _had_again(one) if ended_at(one.row) < bounds.before else {}
            if files:
                size = sum(status.st_size for status in files.values())
                at = max(status.st_mtime for status in files.values())
                found.append(Prunable(self.name, KIND, one.row.id, size, at, _WHY))
        return found

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        by_id = {one.row.id: one for one in self._sources}
        for item in doomed:
            source = by_id[item.name]
            for path in _had_again(source):
                path.unlink(missing_ok=True)
            _tidy(source.folder)
        return list(doomed)


def _is_over(row: RunRow | None) -> bool:
    return row is not None and row.is_final


def _source(session: Session, row: RunRow | None, folder: Path) -> _Source:
    assert row is not None
    store = None if is_adopted(row) else session.runs_in(row.store)
    return _Source(row, folder, store, ServiceLogs(session, row).service)


def _had_again(source: _Source) -> dict[Path, os.stat_result]:
    """The copies whose original has the same size. Other files may belong to the person."""
    originals: dict[str, dict[str, int]] = {}
    found = {}
    for path, status in _files(source.folder):
        relative = path.relative_to(source.folder).as_posix()
        run_id, inside = _of_run(source.row, relative)
        if run_id not in originals:
            originals[run_id] = _sizes(source.store, run_id)
        size = originals[run_id].get(inside)
        if size is None and source.service is not None and not inside.startswith("attempts/"):
            size = source.service.native_size(source.row.id, relative)
        if size == status.st_size:
            found[path] = status
    return found


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for where, _, filenames in os.walk(folder):
        for name in sorted(filenames):
            path = Path(where, name)
            with suppress(FileNotFoundError):  # somebody else removes here too
                if not is_mark(path):
                    yield path, path.lstat()


def _of_run(row: RunRow, relative: str) -> tuple[str, str]:
    """The run of a copy, and its name in the run's folder. The rows of a group have folders of their own."""
    index, _, inside = relative.partition("/")
    if row.kind == "group" and index.isascii() and index.isdigit():
        return row_id(row.id, int(index)), inside
    return row.id, relative


def _sizes(store: Store | None, run_id: str) -> dict[str, int]:
    if store is None:
        return {}
    skip = len(names.run_key(run_id)) + 1
    return {info.key[skip:]: info.size for info in store.list(names.attempts_key(run_id))}


def _tidy(folder: Path) -> None:
    """Remove empty folders. After the last copy, also remove the mark that the copies are complete."""
    if not any(_files(folder)):
        for where, _, filenames in os.walk(folder):
            for name in filenames:
                if is_mark(Path(where, name)):
                    Path(where, name).unlink(missing_ok=True)
    for where, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):  # not empty
            os.rmdir(where)
