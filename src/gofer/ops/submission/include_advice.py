"""How ignored files of the project are taken along: the line to write, and patterns that cannot mean any."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from gofer.errors import CheckFailed
from gofer.snapshot.include import climb
from gofer.snapshot.patterns import escape
from gofer.text import quote_word

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.ops.session import Session

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


def _pattern(path: str) -> str:
    """A pattern for this path alone."""
    if not _SPECIAL.search(path):
        return path
    return os.fsdecode(escape(os.fsencode(path))) + ("/" if path.endswith("/") else "")


def _yaml(text: str) -> str:
    if _PLAIN_YAML.fullmatch(text):
        return text
    return "'" + text.replace("'", "''") + "'"
