"""Labels put on runs after they were submitted: in the store, which is the truth, then in the ledger."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gofer.agent import folder as names
from gofer.agent.files import encode
from gofer.errors import UsageError
from gofer.ops.run_folder import ROW_TAGS, decode, read

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

_KEY = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}")


def parse_edits(words: Sequence[str]) -> dict[str, str | None]:
    """`K` and `K=V` set a tag, `-K` removes one (None); the last word on a key counts; or UsageError."""
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

    Idempotent; removing an absent tag is no error. All words are checked before the first run is touched.
    """
    edits = parse_edits(words)
    return [_tag_one(session, row, edits) for row in rows]


def _tag_one(session: Session, row: RunRow, edits: Mapping[str, str | None]) -> RunRow:
    held = session.ledger.get(row.id) or row
    edited = {**held.tags, **edits}
    tags = {key: value for key, value in edited.items() if value is not None}
    if tags != held.tags:
        _write(session.runs_in(row.store), row, tags)
        session.ledger.set_tags(row.id, tags)
    return held._replace(tags=tags)


def _write(store: Store, row: RunRow, tags: dict[str, str]) -> None:
    """Rows of a group share one object, so that a rebuild need not ask for one in each of 10,000 folders."""
    if row.group_id is None:
        store.put(names.tags_key(row.id), encode(tags))
        return
    key = f"{names.run_key(row.group_id)}/{ROW_TAGS}"
    others = decode(read(store, key), dict[str, dict[str, str]]) or {}
    store.put(key, encode({**others, str(row.row_index): tags}))
