"""Choose the code folder of a run, describe it, and ask before an unexpectedly large folder is sent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.project import CHOSEN, GIT, UV_WORKSPACE
from gofer.errors import CheckFailed, UsageError
from gofer.text import count_files, format_size

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.ops.submission.code import Source
    from gofer.snapshot.walk import OutsideLimit

# More files than this outside the current folder are probably not intended.
MOST_FILES = 20_000
MOST_BYTES = 1 << 30


class Chosen(NamedTuple):
    """Like `CodeFolder`. Without a path, the run gets no code."""

    path: Path | None
    reason: str


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
    from gofer.snapshot.walk import OutsideLimit

    def exceeded(files: int, size: int) -> None:
        _agree(session, source, f"at least {count_files(files)}, {format_size(size)}")

    return OutsideLimit(source.workdir, files=MOST_FILES, size=MOST_BYTES, exceeded=exceeded)


def _agree(session: Session, source: Source, extent: str) -> None:
    """Ask whether to send the whole project; CheckFailed when nobody can answer or the answer is no."""
    what = f"`{source.folder}` ({source.reason}) holds {extent}, outside of `{source.workdir}`"
    if session.ask is not None and session.ask(f"{what}; send them all?"):
        return
    above = os.path.relpath(source.folder, source.folder / source.workdir)
    raise CheckFailed(
        f"{what}: nothing was sent",
        hint=f"`gofer submit --code-folder .` sends only this folder, `--code-folder {above}` the whole; "
        "a `gofer.yaml` in one of them settles this for good, and `.goferignore` leaves files out",
    )
