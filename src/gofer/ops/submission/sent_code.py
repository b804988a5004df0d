"""Code that was sent before: `--code last`, `--code RUN`, and `gofer resubmit --same-code`.

`--code last` is the code that was sent last from this project, by a submission or by `gofer init`. What
`gofer init` sent belongs to no run, so a note of it is kept beside the ledger.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.config.folders import folders_of
from gofer.core.code.manifest import ManifestError, load, read_packs
from gofer.core.code.packs import read_object
from gofer.core.code.snapshot_names import index_key, manifest_key, pack_key
from gofer.core.command.rows import placeholders
from gofer.core.files import write_whole
from gofer.core.run_layout import git_key, times_key
from gofer.errors import CheckFailed, SnapshotError, StoreError
from gofer.model.decode import decode
from gofer.model.run import CodeOrigin, RunRecord
from gofer.ops.messages import Message
from gofer.ops.runs.find import find_known
from gofer.ops.submission import entry_point
from gofer.snapshot.inventory import refresh_manifest
from gofer.snapshot.removal_notice import wait_for_removal
from gofer.text import did_you_mean, format_duration
from gofer.tracking.references import LAST

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

_BRING_ATTEMPTS = 3
# How many of the newest runs are read until one of them had code.
_READ = (1, 20, 1000)


class SentCode(NamedTuple):
    """The code of a run in its store: the snapshot, its origin, the times and modes of its files, and its git
    repository, if any. `url` is set for code that came from a folder of a store.
    """

    snapshot: str | None
    origin: CodeOrigin | None
    times: bytes | None
    git: bytes | None = None
    store: str = ""
    workdir: str = "."
    url: str | None = None

    @property
    def folder(self) -> Path | None:
        """The folder that the code came from, if it is on this machine."""
        path = None if self.origin is None or self.url is not None else Path(self.origin.folder)
        return path if path is not None and path.is_dir() else None


class _InitNote(msgspec.Struct, frozen=True, kw_only=True):
    """What `gofer init` sent last from a project, to which store, and when."""

    snapshot: str
    store: str
    sent_at: float
    origin: CodeOrigin
    workdir: str


def names_earlier_code(session: Session, word: str, target: str) -> bool:
    """Whether the word of `--code` is `last` or names a run, and not a place in a store. Calls no service."""
    is_path = ":" in word or "/" in word
    return not is_path and word not in folders_of(session.settings, target)


def find_earlier(session: Session, word: str) -> SentCode:
    """The code that the word of `--code` names, with a message. CheckFailed when that run had no code,
    UsageError or UnknownName when there is no such run.
    """
    row = _newest_with_code(session) if word == LAST else find_known(session, word)
    note = _read_note(session) if word == LAST else None
    if note is not None and (row is None or note[0].sent_at > row.submitted_at):
        session.emit(Message(f"code: as `gofer init` sent it {_age(note[0].sent_at)}"))
        return _of_note(*note)
    if row is None:
        raise CheckFailed(
            f"no code has been sent from `{session.project}` yet",
            hint="leave out `--code`: the run gets the code as it is now",
        )
    record = read_record(session, row)
    if record.snapshot is None:
        raise CheckFailed(f"{row.short_id} had no code", hint="`--no-code` runs a command without code")
    session.emit(Message(f"code: as it was sent with {row.short_id} {_age(row.submitted_at)}"))
    return of_run(session, row, record)


def of_run(session: Session, row: RunRow, record: RunRecord) -> SentCode:
    """The code of a run, read from the run's store. KeyNotFound when it is gone from there."""
    store, origin = session.store(row.store), record.code
    has_times, has_git = (origin is not None and origin.file_times), (origin is not None and origin.git)
    return SentCode(
        record.snapshot,
        origin,
        _read(store, times_key(record.id)) if has_times else None,
        _read(store, git_key(record.id)) if has_git else None,
        row.store,
        record.job.workdir,
        record.job.code,
    )


def read_record(session: Session, row: RunRow) -> RunRecord:
    """The record of a run, or of the group that the run is a row of; CheckFailed when the ledger has none."""
    owner = session.ledger.get(row.group_id or row.id)
    if owner is None or not owner.record:
        raise CheckFailed(
            f"the ledger has no record of {row.id}", hint="`gofer ledger rebuild` reads it from the store"
        )
    record = decode(owner.record, RunRecord)
    if record is None:
        raise CheckFailed(
            f"the record of {row.id} in the ledger cannot be read",
            hint="`gofer ledger rebuild` reads it from the store",
        )
    return record


def check(session: Session, job: Job, code: SentCode) -> Job:
    """The job with its working folder and, for a plain `script.py`, its interpreter; CheckFailed when the
    code does not have the script or the program that the command names.
    """
    here = _workdir(session, code)
    store = session.store(code.store)
    try:
        entries = load(store.get_range, code.snapshot or "").entries
    except (ManifestError, StoreError) as error:
        raise CheckFailed(
            f"the code that was sent before cannot be read: {error}",
            hint="`gofer prune --code` may have removed it; leave out `--code` to send the code as it is now",
        ) from error
    kinds = {os.fsdecode(entry.path): entry.kind for entry in entries}
    word = job.command[0]
    program = kinds.get(os.path.normpath(os.path.join(here, word))) if "/" in word else None
    is_script = word.endswith(".py") and program != "x" and job.function is None
    command = ("python", *job.command) if is_script else job.command
    job = msgspec.structs.replace(job, workdir=here, command=command)
    script = entry_point.script_of(command) if job.function is None else None
    for name in (script, word if "/" in word and not is_script else None):
        if name is not None and not os.path.isabs(name) and not placeholders([name]):
            _check_has(kinds, here, name)
    return job


def bring(session: Session, code: SentCode, destination: Store) -> None:
    """Copy the code to another store, even while `gofer prune --code` removes it there.

    KeyNotFound when the code is gone from both stores.
    """
    if code.snapshot is None:
        return
    source = session.store(code.store)
    packs = read_packs(source.get_range, code.snapshot)
    keys = [key_of(pack) for pack in packs for key_of in (pack_key, index_key)]
    keys.append(manifest_key(code.snapshot))
    for _ in range(_BRING_ATTEMPTS):
        for key in keys:
            if destination.head(key) is None:
                destination.put(key, source.get(key))
        if refresh_manifest(destination, code.snapshot) and not wait_for_removal(destination, keys):
            return
    raise SnapshotError(
        f"another process keeps removing the code of snapshot {code.snapshot[:12]} from {destination.url}",
        hint="end that `gofer prune --code`",
    )


def note_init(session: Session, code: SentCode) -> None:
    """Remember the code that `gofer init` has sent, for `--code last`. Does nothing on a read-only disk."""
    if code.snapshot is None or code.origin is None:
        return
    note = _InitNote(
        snapshot=code.snapshot,
        store=code.store,
        sent_at=time.time(),
        origin=code.origin,
        workdir=code.workdir,
    )
    path = _note_path(session)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # The note is one line of JSON; the times of the files follow it.
        write_whole(str(path), json.dumps(msgspec.to_builtins(note)).encode() + b"\n" + (code.times or b""))


def _read_note(session: Session) -> tuple[_InitNote, bytes] | None:
    try:
        line, _, times = _note_path(session).read_bytes().partition(b"\n")
    except OSError:
        return None
    note = decode(line, _InitNote)
    return None if note is None else (note, times)


def _note_path(session: Session) -> Path:
    mark = hashlib.sha256(os.fsencode(session.project)).hexdigest()[:16]
    return session.paths.ledger_file.parent / "init" / mark


def _of_note(note: _InitNote, times: bytes) -> SentCode:
    return SentCode(note.snapshot, note.origin, times or None, None, note.store, note.workdir)


def _newest_with_code(session: Session) -> RunRow | None:
    """The newest run of this project that had code."""
    for most in _READ:
        rows = session.ledger.newest(project=session.project, most=most)
        found = next((row for row in rows if row.snapshot is not None), None)
        if found is not None or len(rows) < most:
            return found
    return None


def _workdir(session: Session, code: SentCode) -> str:
    """The person's folder in the code, or where the earlier run started, if this folder is elsewhere."""
    if code.origin is None or code.url is not None:
        return code.workdir
    inside = os.path.relpath(os.path.abspath(session.folder), code.origin.folder)
    return code.workdir if inside == ".." or inside.startswith("../") else inside


def _check_has(kinds: dict[str, str], here: str, name: str) -> None:
    path = os.path.normpath(os.path.join(here, name))
    # A link of the code may lead to the file.
    folders = [path.rsplit("/", count)[0] for count in range(1, path.count("/") + 1)]
    if path in kinds or any(kinds.get(one) == "l" for one in folders):
        return
    if path.startswith(".."):
        return
    raise CheckFailed(
        f"`{name}` is not in the code that was sent before",
        hint=did_you_mean(path, list(kinds)) or "leave out `--code` to send the code as it is now",
    )


def _read(store: Store, key: str) -> bytes:
    """The object. StoreError when it is larger than anything that gofer writes there."""
    try:
        return read_object(store.get_range, key)
    except ManifestError as error:
        raise StoreError(str(error)) from None


def _age(moment: float) -> str:
    return f"{format_duration(max(time.time() - moment, 0.0))} ago"
