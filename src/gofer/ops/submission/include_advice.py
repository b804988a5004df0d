"""How ignored files of the project are taken along: the line to write, and patterns that cannot mean any."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from gofer.core.secrets.file_names import looks_like_secret
from gofer.errors import CheckFailed
from gofer.ops.messages import Message
from gofer.snapshot.include import Include, climb
from gofer.snapshot.patterns import escape
from gofer.text import quote_word

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.snapshot.summary import Snapshot

# A pattern that holds one of these would mean something else than the name.
_SPECIAL = re.compile(r"[*?\[\\]|^[!#]| $")
_PLAIN_YAML = re.compile(r"[\w./+-][\w ./+-]*")


def advise_include(path: str, workdir: str) -> str:
    """The two ways to take along `path`, which is from the top of the code and ends with `/` for a folder.

    `workdir` is the folder of the command, from where `--include` is read.
    """
    if workdir == ".":
        pattern, where = _pattern(path), "gofer.yaml"
    else:
        inside = os.path.relpath(path, workdir) + ("/" if path.endswith("/") else "")
        pattern, where = _pattern(inside), "the gofer.yaml at the top of the project"
    return (
        f"write `include: [{_yaml(_pattern(path))}]` into {where},"
        f" or submit with `--include {quote_word(pattern)}`"
    )


def check(session: Session, job: Job) -> None:
    """CheckFailed for a pattern that leads out of the project: it would take nothing along."""
    base = "" if job.workdir == "." else job.workdir
    written = [("include:", one, "") for one in session.settings.include]
    written += [("--include", one, base) for one in job.include]
    for key, pattern, folder in written:
        if climb(pattern, folder) is None:
            raise CheckFailed(
                f"`{key} {pattern}` leads out of the project, and nothing there goes along",
                hint="`folders:` in gofer.yaml brings a folder to the run",
            )


def name_unmatched(session: Session, job: Job, taken: Snapshot) -> None:
    """Say which patterns of `--include`, and which plain paths of `include:`, mean no file of the snapshot.

    A pattern with wildcards in the settings may be for files of other days, so it is not named.
    """
    written = [("--include", one, job.workdir) for one in job.include]
    written += [("include:", one, ".") for one in session.settings.include if not _SPECIAL.search(one)]
    missing = {
        (key, pattern): Include([climbed.pattern], climbed.base)
        for key, pattern, workdir in written
        if not looks_like_secret(pattern)
        and not pattern.startswith(("!", "#"))
        and (climbed := climb(pattern, "" if workdir == "." else workdir)) is not None
    }
    if not missing:
        return
    try:
        for path, is_folder in taken.listings.entries():
            name = path.rpartition(b"/")[2]
            for one in [one for one, patterns in missing.items() if patterns.matches(name, path, is_folder)]:
                del missing[one]
            if not missing:
                return
    except KeyError:
        return  # part of the snapshot is in no cache of this machine
    for key, pattern in missing:
        session.emit(Message(f"`{key} {pattern}` matches no file that is sent"))


def _pattern(path: str) -> str:
    """A pattern for this path alone."""
    if not _SPECIAL.search(path):
        return path
    return os.fsdecode(escape(os.fsencode(path))) + ("/" if path.endswith("/") else "")


def _yaml(text: str) -> str:
    if _PLAIN_YAML.fullmatch(text):
        return text
    return "'" + text.replace("'", "''") + "'"
