"""Change tags of submitted runs: first in the store, which decides, then in the ledger."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gofer.core import private_folder
from gofer.core import run_layout as names
from gofer.core.files import encode
from gofer.errors import StoreError, UsageError
from gofer.ops.runs.run_folder import ROW_TAGS, decode, read
from gofer.storage.base import ComparesAndSwaps

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

_KEY = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}")
_TRIES = 100


def parse_edits(words: Sequence[str]) -> dict[str, str | None]:
    """Parse edits: `K` and `K=V` set a tag, `-K` removes one (None). The last edit of a key counts.
    UsageError for other words.
    """
    if not words:
        raise UsageError("no tag was given", hint="`gofer tag RUN KEY=VALUE`, or `--remove KEY`")
    edits: dict[str, str | None] = {}
    for word in words:
        removes = word.startswith("-")
        key, equals, value = word.removeprefix("-").partition("=")
        if not _KEY.fullmatch(key) or (removes and equals):
            raise UsageError(
                f"`{word}` is not a tag",
                hint="write `KEY` or `KEY=VALUE`; a key has letters, digits, `_.-`",
            )
        edits[key] = None if removes else value
    return edits


def tag(session: Session, rows: Sequence[RunRow], words: Sequence[str]) -> list[RunRow]:
    """Apply the same edits to each run, group or row; the runs as they are then.

    Idempotent. Removing an absent tag is not an error. All words are checked before the first run is changed.
    """
    edits = parse_edits(words)
    return [_tag_one(session, row, edits) for row in rows]


def _tag_one(session: Session, row: RunRow, edits: Mapping[str, str | None]) -> RunRow:
    """Edit the tags in the store, since another machine may have changed them after the ledger was
    updated.
    """
    held = session.ledger.get(row.id) or row
    with _alone(session):
        tags = _edit(session.store(row.store), row, held.tags, edits)
        if tags != held.tags:
            session.ledger.set_tags(row.id, tags)
    return held._replace(tags=tags)


def _edit(
    store: Store, row: RunRow, known: Mapping[str, str], edits: Mapping[str, str | None]
) -> dict[str, str]:
    """Apply the edits to the tags in the store, and repeat when another writer was faster; the tags then.

    The rows of a group share one object, so that a rebuild does not read one in each of 10,000 folders.
    """
    key = names.tags_key(row.id) if row.group_id is None else f"{names.run_key(row.group_id)}/{ROW_TAGS}"
    for _ in range(_TRIES):
        old = read(store, key)
        others: dict[str, dict[str, str]] = {}
        if row.group_id is None:
            held = decode(old, dict[str, str])
        else:
            others = decode(old, dict[str, dict[str, str]]) or {}
            held = others.get(str(row.row_index))
        before = dict(known) if held is None else held
        tags = {name: value for name, value in {**before, **edits}.items() if value is not None}
        new = encode(tags if row.group_id is None else {**others, str(row.row_index): tags})
        if tags == before or _swap(store, key, old, new):
            return tags
    raise StoreError(
        f"the tags of {row.id} are being changed by too many processes at once", hint="try again"
    )


def _swap(store: Store, key: str, old: bytes | None, new: bytes) -> bool:
    if isinstance(store, ComparesAndSwaps):
        return store.compare_and_swap(key, old, new)
    store.put(key, new)  # this store cannot detect writers on other machines
    return True


@contextmanager
def _alone(session: Session) -> Iterator[None]:
    """Let one command of this person edit tags at a time, so that the ledger gets the edits in order."""
    import fcntl

    path = session.paths.ledger_file
    private_folder.make_missing(path.parent)
    with open(path.with_name(f"{path.name}.tags"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
