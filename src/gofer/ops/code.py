"""The code of a run: taken from a folder into the store of its target, with a word about what went along."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.model.run import CodeOrigin
from gofer.text import format_size

if TYPE_CHECKING:
    from gofer.config.paths import Paths
    from gofer.ops.session import Session
    from gofer.snapshot import Snapshot

LARGE_BYTES = 50_000_000


def take(
    session: Session, folder: Path, store_url: str, *, target: str, without: Iterable[str] = ()
) -> Snapshot:
    """Snapshot the folder into the store and say what was sent, what is large and what changed meanwhile.

    `without` are names at its top that never go along: mapped folders come to a run by another way. Account
    files of other tools that hold a key never go along either.
    """
    from gofer.snapshot import take as take_snapshot
    from gofer.snapshot.patterns import escape

    store = session.store(store_url)
    mapped = [os.fsdecode(escape(os.fsencode(name))) for name in without]
    private = [*_own_files(session.paths, folder), *_credentials(session, folder)]
    ignore = [*session.settings.ignored(target), *private, *mapped]
    taken = take_snapshot(folder, store, cache_dir=session.paths.cache_dir, ignore=ignore)
    session.say(
        f"code: {_count(taken.files)}, {format_size(taken.bytes)}; sent {_count(taken.sent_files)},"
        f" {format_size(taken.sent_bytes)}"
    )
    for path, why in taken.skipped:
        session.say(f"left out `{path}`: {why}")
    for path in taken.changed:
        session.say(f"`{path}` changed while it was read; the run has it as it was last read")
    if taken.bytes > LARGE_BYTES:
        biggest = ", ".join(f"`{path}` {format_size(size)}" for path, size in taken.biggest)
        session.say(f"that is large; the biggest are {biggest}")
        session.say("hint: name what a run does not need in `.goferignore`")
    return taken


def _own_files(paths: Paths, folder: Path) -> list[str]:
    """Patterns for gofer's own files, should they lie in the code: above all the secrets never go along."""
    owned = (*paths, paths.engine_dir.parent)  # the engines of all machines that share this home
    return [f"{one}*" for one in _patterns(owned, folder)]


def _credentials(session: Session, folder: Path) -> list[str]:
    """Patterns for account files of other tools with a key in them, should they lie in the code."""
    if session.settings.aml is None:
        return []
    from gofer.config.imported import files_with_credentials

    found = _patterns(files_with_credentials(session.settings), folder)
    for path in found:
        session.say(f"left out `{path.lstrip('/')}`: it holds an account's key or token")
    return found


def _patterns(paths: Iterable[Path], folder: Path) -> list[str]:
    """Those of the paths that lie in the folder, as patterns relative to it."""
    from gofer.snapshot.patterns import escape

    root = os.path.realpath(folder)
    inside = [os.path.relpath(os.path.realpath(path), root) for path in paths]
    return [os.fsdecode(escape(os.fsencode(path))) for path in inside if not path.startswith("..")]


def origin(taken: Snapshot, folder: Path) -> CodeOrigin:
    return CodeOrigin(folder=str(folder), commit=taken.commit, branch=taken.branch, dirty=taken.dirty)


def _count(files: int) -> str:
    return "1 file" if files == 1 else f"{files:,} files"
