"""Code that lies in a store: `--code STORE:PATH`, or `code:` of a job file.

The folder is brought into gofer's cache and sent from there like the code of a project. So a run has the code
as it was at its submission, and a second submission brings only what has changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.config.folders import folders_of
from gofer.errors import CheckFailed, UsageError
from gofer.ops.data.places import StorePath, resolve
from gofer.ops.files.run_store import RunView
from gofer.ops.messages import Message
from gofer.ops.submission.code import ASKED_BYTES, ASKED_FILES
from gofer.text import count_files, format_size, quote_word
from gofer.transfer.progress import TransferProgress

if TYPE_CHECKING:
    from gofer.ops.data.steps import Step
    from gofer.ops.session import Session

_CACHE = "stored-code"
# The first bytes of scripts and of Linux programs.
_PROGRAM_MARKS = (b"#!", b"\x7fE")
# Snapshots never have these.
_NEVER_CODE = (".git/", "__pycache__/")


def url_of(session: Session, word: str, target: str) -> str:
    """The URL of the folder that `word` names: `STORE:PATH`, a path in a mapped folder, or a URL. Calls no
    service. UsageError for a place that is in no store.
    """
    place = resolve(session, word, target)
    if isinstance(place.store, RunView):
        run = word.partition(":")[0]
        raise UsageError(
            f"`--code {word}` names files that a run wrote",
            hint=f"`gofer extract {run}` brings them here; `--code {run}` takes the code of that run",
        )
    return "/".join(part for part in (place.store.url.rstrip("/"), place.key) if part)


def bring(session: Session, url: str, target: str, ignored: Sequence[str]) -> Path:
    """The folder on this machine with the code of the URL as it is now, without files that fit a pattern of
    `ignored`. Blocks; calls the store.

    Asks the person before very much is brought. CheckFailed when a part cannot be brought, KeyNotFound when
    the store has nothing there.
    """
    place = resolve(session, url, target)
    mark = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    mapped = [f"/{name}/" for name in folders_of(session.settings, target)]
    cache = session.paths.cache_dir / _CACHE
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / mark / (place.key.rpartition("/")[2] or "code")
    with _alone(cache / "lock"):
        _bring(session, place, folder, (*_NEVER_CODE, *mapped, *ignored))
    return folder


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock, so that no two submissions bring the same folder at once."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _bring(session: Session, place: StorePath, folder: Path, without: tuple[str, ...]) -> None:
    # Most submissions bring no code, and start faster without what copies it.
    from gofer.ops.data import data
    from gofer.ops.data.steps import go
    from gofer.transfer import TransferOptions

    # Contents decide: a store that counts seconds hides a change within the second of the last submission.
    step = data.bring(place, folder, TransferOptions(exclude=without, delete=True, checksum=True))
    progress = TransferProgress()
    _check_extent(session, place, step, progress)
    outcome = go(session, [step], progress)
    problems = [*outcome.failed, *outcome.odd, *outcome.changed]
    if problems:
        path, why = problems[0]
        raise CheckFailed(
            f"the code of `{place}` could not be brought here: {path}: {why}",
            hint=f"`gofer cp {quote_word(str(place))} DIR` shows all problems",
        )
    if outcome.files:
        _make_executable(folder)
    if outcome.files or outcome.deleted:
        brought = f"brought {count_files(outcome.files)}, {format_size(outcome.bytes)}"
        session.emit(Message(f"code: {brought} from `{place}`"))


def _make_executable(folder: Path) -> None:
    """Let scripts and programs be started: most stores do not know which files can be executed."""
    for above, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(above, name)
            if os.path.isfile(path) and not os.access(path, os.X_OK):
                with open(path, "rb") as file:
                    if file.read(2) in _PROGRAM_MARKS:
                        os.chmod(path, os.stat(path).st_mode | 0o111)


def _check_extent(session: Session, place: StorePath, step: Step, progress: TransferProgress) -> None:
    """Ask whether to bring very much; CheckFailed when nobody can answer or the answer is no."""
    work = step.compare(progress)
    if not work.files + work.skipped:
        raise CheckFailed(
            f"there is no code in `{place}`", hint=f"`gofer ls {quote_word(str(place))}` lists what is there"
        )
    if work.files < ASKED_FILES and work.bytes < ASKED_BYTES:
        return
    what = f"`{place}` has {count_files(work.files)}, {format_size(work.bytes)}, that are not here yet"
    if session.ask is None or not session.ask(f"{what}; take them all as code?"):
        raise CheckFailed(
            f"{what}: nothing was submitted",
            hint="name what is no code under `ignore:` in gofer.yaml, and map data under `folders:`",
        )
