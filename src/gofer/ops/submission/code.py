"""Take a snapshot of the code of a run into the store of its target, and tell the person what was sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import CheckFailed
from gofer.model.run import CodeOrigin
from gofer.ops.messages import Hint, Message, Progress
from gofer.ops.submission.code_folder import describe, outside_limit, workdir
from gofer.ops.submission.git_version import version_variables
from gofer.text import count_files, format_size

if TYPE_CHECKING:
    from gofer.config.paths import Paths
    from gofer.ops.session import Session
    from gofer.ops.submission.project_use import ProjectUse
    from gofer.snapshot.rules import SnapshotChoice
    from gofer.snapshot.summary import Snapshot

LARGE_BYTES = 50_000_000
# Reading this much keeps a person waiting.
_SLOW_BYTES = 1 << 30


class Source(NamedTuple):
    """The folder to send, why it is the project (see `gofer.config.project`), and the folder in it where
    the command was typed. `include` are patterns, relative to that folder, of ignored files to send.
    """

    folder: Path
    reason: str = ""
    workdir: str = "."
    include: tuple[str, ...] = ()

    @classmethod
    def of_project(cls, session: Session) -> Source:
        """The code of the project, according to the settings."""
        root = session.settings.code_folder
        return cls(root.path, root.reason, workdir(session, root.path))


def take(
    session: Session, source: Source, store_url: str, *, target: str, without: Iterable[str] = ()
) -> Snapshot:
    """Take a snapshot of the folder into the store, and report what was sent, what is large and what changed.
    Blocks.

    `without` are names at the top that are never sent: mapped folders reach a run in another way. Account
    files of other tools with a key are never sent either.
    """
    from gofer.snapshot.capture import take_snapshot

    store, folder = session.store(store_url), source.folder
    choice, limit = choose_files(session, source, target, without), outside_limit(session, source)
    progress = _announce_reading(session)
    taken = take_snapshot(
        folder, store, cache_dir=session.paths.cache_dir, choice=choice, progress=progress, limit=limit
    )
    session.emit(
        Message(
            f"code: {describe(source)}{count_files(taken.files)}, {format_size(taken.bytes)};"
            f" sent {count_files(taken.sent_files)}, {format_size(taken.sent_bytes)}"
        )
    )
    for path, why in taken.skipped:
        session.emit(Message(f"left out `{path}`: {why}"))
    for path in taken.changed:
        session.emit(Message(f"`{path}` changed while it was read; the run has it as it was last read"))
    if taken.bytes > LARGE_BYTES:
        folders = _large([(f"{path}/", size) for path, size in taken.biggest_folders])
        files = _large(taken.biggest)
        said = [f"the biggest folders are {folders}"] if folders else []
        said += [f"the biggest files are {files}"] if files else []
        session.emit(Message("; ".join(["that is large", *(said or ["no file alone is"])])))
        session.emit(Hint("name what a run does not need in `.goferignore`"))
    return taken


def _large(sizes: Iterable[tuple[str, int]]) -> str:
    """The paths that count in large code, with their sizes; empty without one."""
    large = [one for one in sizes if one[1] >= LARGE_BYTES / 100]
    return ", ".join(f"`{path}` {format_size(size)}" for path, size in large)


def _announce_reading(session: Session) -> Callable[[int, int], None]:
    """Says when it begins that reading the code takes long; says nothing of what is read in a moment."""
    is_said = False

    def progress(done: int, total: int) -> None:
        nonlocal is_said
        if not is_said and total > _SLOW_BYTES:
            is_said = True
            session.emit(
                Progress(
                    f"reading {format_size(total)} of code; `.goferignore` leaves out what a run "
                    "does not need",
                    done,
                    total,
                )
            )

    return progress


def choose_files(session: Session, source: Source, target: str, without: Iterable[str]) -> SnapshotChoice:
    """The choice of files by the settings and the command line; see `take`."""
    from gofer.snapshot.include import Includes
    from gofer.snapshot.patterns import escape
    from gofer.snapshot.rules import SnapshotChoice

    settings, base = session.settings, "" if source.workdir == "." else source.workdir
    mapped = [os.fsdecode(escape(os.fsencode(name))) for name in without]
    private = (*_own_files(session.paths, source.folder), *_credentials(session, source.folder), *mapped)
    include = Includes.of((settings.include, ""), (source.include, base))
    return SnapshotChoice(private, settings.ignored(target), include)


def _own_files(paths: Paths, folder: Path) -> list[str]:
    """Patterns for gofer's own files, in case they are in the code folder: above all, secrets must never be
    sent.
    """
    owned = (*paths, paths.queue_home.parent)  # the queue homes of all machines that share this home
    return [f"{one}*" for one in _patterns(owned, folder)]


def _credentials(session: Session, folder: Path) -> list[str]:
    """Patterns for account files of other tools with a key in them, in case they are in the code folder."""
    if session.settings.provider is None:
        return []
    from gofer.config.target_provider import files_with_credentials

    found = _patterns(files_with_credentials(session.settings), folder)
    for path in found:
        session.emit(Message(f"left out `{path.lstrip('/')}`: it holds an account's key or token"))
    return found


def _patterns(paths: Iterable[Path], folder: Path) -> list[str]:
    """The paths that are in the folder, as patterns relative to it."""
    from gofer.snapshot.patterns import escape

    root = os.path.realpath(folder)
    inside = [os.path.relpath(os.path.realpath(path), root) for path in paths]
    return [os.fsdecode(escape(os.fsencode(path))) for path in inside if not path.startswith("..")]


def origin(taken: Snapshot, source: Source, use: ProjectUse) -> CodeOrigin:
    """What is recorded about the code. Calls git if the project takes its version from git."""
    versions: dict[str, str] = {}
    for folder in dict.fromkeys((source.folder, source.folder / source.workdir)):
        versions.update(version_variables(folder, commit=taken.commit, dirty=taken.dirty))
    return CodeOrigin(
        folder=str(source.folder),
        commit=taken.commit,
        branch=taken.branch,
        dirty=taken.dirty,
        file_times=True,
        environments=use.environments,
        imports=use.imports,
        versions=versions,
    )


def pack_repository_unasked(session: Session, folder: Path, reason: str, *, contents: bool) -> bytes | None:
    """As `pack_repository`, and says for which reason; None where the code is not a repository."""
    try:
        packed = pack_repository(session, folder, contents=contents)
    except CheckFailed:
        return None
    session.emit(Message(f"a small git repository is sent too (`--with-git`), since {reason}"))
    return packed


def pack_repository(session: Session, folder: Path, *, contents: bool) -> bytes:
    """The small git repository that `--with-git` sends; CheckFailed when the code is not a repository.

    `contents`: the repository holds the contents of committed files, too.
    """
    from gofer.snapshot.minimal_repository import pack_repository as pack
    from gofer.snapshot.repository import find_root

    root = find_root(folder, session.environ)
    if root is None or root != folder:
        raise CheckFailed(
            f"`--with-git` needs the code folder `{folder}` to be the top of a git repository",
            hint=f"`--code-folder {root}` sends the whole repository" if root else "`git init` makes one",
        )
    return pack(folder, session.environ, contents=contents)
