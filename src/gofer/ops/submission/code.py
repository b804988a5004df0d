"""The code of a run: choose its folder, take a snapshot into the store of the target, and say what was sent.

Files that look like secrets are never part of a snapshot. Those that `include:` names in full are sent with
the private values of the run. An unexpectedly large folder is sent only when the person agrees.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.project import CHOSEN, GIT, UV_WORKSPACE
from gofer.config.target_provider import files_with_credentials
from gofer.core.folder_modes import WORKING_COPY
from gofer.core.secrets import secret_files
from gofer.core.secrets.secret_files import MOST_BYTES, looks_like_secret
from gofer.errors import CheckFailed, UsageError
from gofer.model.run import CodeOrigin
from gofer.ops.messages import Hint, Message, Progress
from gofer.ops.submission.git_version import version_variables
from gofer.snapshot import minimal_repository
from gofer.snapshot.capture import take_snapshot
from gofer.snapshot.include import Includes
from gofer.snapshot.patterns import escape
from gofer.snapshot.repository import find_root
from gofer.snapshot.rules import SnapshotChoice
from gofer.snapshot.walk import OutsideLimit
from gofer.text import count_files, format_size

if TYPE_CHECKING:
    from gofer.config.paths import Paths
    from gofer.ops.session import Session
    from gofer.ops.submission.project_use import ProjectUse
    from gofer.ops.submission.sent_code import SentCode
    from gofer.snapshot.summary import Snapshot


LARGE_BYTES = 50_000_000
# Reading this much keeps a person waiting.
_SLOW_BYTES = 1 << 30
_MOST_BYTES = 1 << 20
_PATTERN = re.compile(r"[*?\[\\!#]")
# More files than this outside the current folder are probably not intended.
ASKED_FILES = 20_000
ASKED_BYTES = 1 << 30


class Chosen(NamedTuple):
    """Like `CodeFolder`. Without a path and `sent`, the run gets no code. With `url`, the code comes from
    this folder of a store. `sent` is code that was sent before.
    """

    path: Path | None
    reason: str
    url: str | None = None
    sent: SentCode | None = None


NO_CODE = Chosen(None, "")


def choose_code_folder(session: Session, given: Path | None) -> Chosen:
    """The folder that `--code-folder` names, else the project's; UsageError for one elsewhere."""
    if given is None:
        return Chosen(*session.settings.code_folder)
    path = Path(os.path.normpath(session.folder / os.path.expanduser(given)))
    if not path.is_dir():
        raise UsageError(
            f"`--code-folder {given}` is not a folder", hint="name this folder, `.`, or one above it"
        )
    if not Path(os.path.abspath(session.folder)).is_relative_to(path):
        raise UsageError(
            f"`--code-folder {given}` does not hold the folder of this command",
            hint=f"name this folder, `.`, or one above it; or change to `{path}` first",
        )
    return Chosen(path, CHOSEN)


class Source(NamedTuple):
    """The folder to send, why it is the project (see `gofer.config.project`), and the folder in it where
    the command was typed. `include` are patterns, relative to that folder, of ignored files to send. `url` is
    that of code that lies in a store. `ignore` are patterns of files to leave out.
    """

    folder: Path
    reason: str = ""
    workdir: str = "."
    include: tuple[str, ...] = ()
    url: str | None = None
    ignore: tuple[str, ...] = ()

    @classmethod
    def of_project(cls, session: Session) -> Source:
        """The code of the project, according to the settings."""
        root = session.settings.code_folder
        return cls(root.path, root.reason, workdir(session, root.path))


def workdir(session: Session, folder: Path) -> str:
    """The current folder relative to the code folder; `.` when it is outside."""
    inside = os.path.relpath(os.path.abspath(session.folder), folder)
    return "." if inside == ".." or inside.startswith("../") else inside


def describe(source: Source) -> str:
    """`repo/ (git), in exp/: ` for a command in a subfolder of its code, else empty."""
    if source.workdir == ".":
        return ""
    reason = f" ({source.reason})" if source.reason else ""
    return f"{source.folder.name}/{reason}, in {source.workdir}/: "


def outside_limit(session: Session, source: Source) -> OutsideLimit | None:
    """A check for a project that was found automatically: ask when it has much code outside the current
    folder.
    """
    if source.workdir == "." or source.reason not in (GIT, UV_WORKSPACE):
        return None

    def exceeded(files: int, size: int) -> None:
        _agree(session, source, f"at least {count_files(files)}, {format_size(size)}")

    return OutsideLimit(source.workdir, files=ASKED_FILES, size=ASKED_BYTES, exceeded=exceeded)


def _agree(session: Session, source: Source, extent: str) -> None:
    """Ask whether to send the whole project; CheckFailed when nobody can answer or the answer is no."""
    what = f"`{source.folder}` ({source.reason}) contains {extent}, outside of `{source.workdir}`"
    if session.ask is not None and session.ask(f"{what}; send them all?"):
        return
    above = os.path.relpath(source.folder, source.folder / source.workdir)
    raise CheckFailed(
        f"{what}: nothing was sent",
        hint=f"`gofer submit --code-folder .` sends only this folder, `--code-folder {above}` the whole; "
        "a `gofer.yaml` in one of them settles this for good, and `.goferignore` leaves files out",
    )


def take(
    session: Session, source: Source, store_url: str, *, target: str, without: Iterable[str] = ()
) -> Snapshot:
    """Take a snapshot of the folder into the store, and report what was sent, what is large and what changed.
    Blocks.

    `without` are names at the top that are never sent: mapped folders reach a run in another way. Account
    files of other tools with a key are never sent either.
    """
    store, folder = session.store(store_url), source.folder
    choice, limit = choose_files(session, source, target, without), outside_limit(session, source)
    progress = _announce_reading(session)
    taken = take_snapshot(
        folder, store, cache_dir=session.paths.cache_dir, choice=choice, progress=progress, limit=limit
    )
    if taken.sent_files:
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
        session.emit(Message("; ".join(["large snapshot", *(said or ["no single file is large"])])))
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
    settings, base = session.settings, "" if source.workdir == "." else source.workdir
    mapped = [os.fsdecode(escape(os.fsencode(name))) for name in without if name != WORKING_COPY]
    private = (*_own_files(session.paths, source.folder), *_credentials(session, source.folder), *mapped)
    include = Includes.of((settings.include, ""), (source.include, base))
    return SnapshotChoice(private, (*settings.ignored(target), *source.ignore), include)


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
    found = _patterns(files_with_credentials(session.settings), folder)
    for path in found:
        session.emit(Message(f"left out `{path.lstrip('/')}`: it contains an account's key or token"))
    return found


def _patterns(paths: Iterable[Path], folder: Path) -> list[str]:
    """The paths that are in the folder, as patterns relative to it."""
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
    root = find_root(folder, session.environ)
    if root is None or root != folder:
        raise CheckFailed(
            f"`--with-git` needs the code folder `{folder}` to be the top of a git repository",
            hint=f"`--code-folder {root}` sends the whole repository" if root else "`git init` makes one",
        )
    return minimal_repository.pack_repository(folder, session.environ, contents=contents)


def collect_secret_files(session: Session, source: Source) -> dict[str, str]:
    """The contents of the named files by their paths in the code, in the form of `RunSecrets`. Tells the
    person which files are sent.

    CheckFailed for a file that cannot be read, and for more than 1 MiB in total.
    """
    found: dict[str, bytes] = {}
    for path in named_secrets(session, source):
        try:
            with open(os.path.join(source.folder, path), "rb") as file:
                found[path] = file.read(_MOST_BYTES + 1)
        except (FileNotFoundError, IsADirectoryError):
            session.emit(Message(f"`{path}` is named in `include:` but does not exist"))
        except OSError as error:
            raise CheckFailed(f"cannot read `{path}`, which `include:` names: {error.strerror}") from error
    size = sum(map(len, found.values()))
    if size > _MOST_BYTES:
        raise CheckFailed(
            f"the secret files named in `include:` have more than {format_size(_MOST_BYTES)}",
            hint="keep large files in a mapped folder, see `folders:`",
        )
    large = [f"`{path}`" for path, data in found.items() if len(data) > MOST_BYTES]
    if large:
        size_text = format_size(MOST_BYTES)
        session.emit(Message(f"logs mask only the values in the first {size_text} of {', '.join(large)}"))
    if found:
        session.emit(Message(f"sent as a secret of the run: {', '.join(f'`{path}`' for path in found)}"))
    return secret_files.encode(found)


def named_secrets(session: Session, source: Source) -> Iterator[str]:
    """The paths that look like secrets and are named in full, without a pattern."""
    # `include:` of the settings is about the project.
    of_project = () if source.url else session.settings.include
    for base, patterns in (("", of_project), (source.workdir, source.include)):
        for pattern in patterns:
            path = os.path.normpath(os.path.join(base, pattern.lstrip("/")))
            is_plain = not _PATTERN.search(pattern) and not pattern.endswith("/")
            if is_plain and not path.startswith("..") and looks_like_secret(path):
                yield path
