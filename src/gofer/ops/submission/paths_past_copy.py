"""Warn about absolute paths into the project, which lead a run to the person's files instead of its working
copy.

They are searched in the command, in its set-up, in the text of the script that is started, and in variables.
The first one is reported. Environments of the project are not reported: a run uses them where they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.editable import below
from gofer.node.project_paths import PATH_LISTS
from gofer.ops.messages import Hint, Warning

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.snapshot.summary import Snapshot

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
# The rest of a path in the text of a script.
_PATH = r"(?:/[^\s\"'`;&|:,()<>\[\]{}$*?\\]*)?(?![\w.-])"
# Variables of shells, editors and tools that contain the project's path, but that its commands do not read.
_NOT_READ = re.compile(
    r"PWD|OLDPWD|_|INIT_CWD|CURDIR|(?:DIRENV|VSCODE|PYCHARM|TMUX|GIT|SSH|XDG|npm|NPM|PIXI|PIPENV|POETRY|UV|GOFER)_.*"
)
_BUILDS = re.compile(r"\b(?:cmake|ctest|g?make|ninja)\b")
_CACHE = "CMakeCache.txt"
_CACHE_BYTES = 1 << 20
_HOME_LINE = re.compile(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", re.MULTILINE)
_MOST_FOLDERS = 500


class ProjectCopy(NamedTuple):
    """A project and the part of it that is in a run's working copy. `names` are the ways to write its
    path.
    """

    folder: Path
    names: frozenset[str]
    taken: Snapshot
    workdir: str
    elsewhere: tuple[str, ...]  # folders that are not in the working copy: environments, mapped folders

    def find(self, path: str) -> str | None:
        """The relative path, from the command's folder, that the working copy has for an absolute path; None
        when it has none.
        """
        for name in {os.path.normpath(path), os.path.realpath(path)} if os.path.isabs(path) else ():
            for project in self.names:
                inside = below(name, project)
                if inside is None or any(
                    inside == one or inside.startswith(one + "/") for one in self.elsewhere
                ):
                    continue
                if inside == "." or (os.path.lexists(self.folder / inside) and self.taken.has(inside)):
                    return os.path.relpath(inside, self.workdir)
        return None


def copy_of(
    session: Session, job: Job, folder: Path, taken: Snapshot, environments: Sequence[str]
) -> ProjectCopy:
    """The working copy that a run of this folder gets."""
    names = {str(folder), os.path.realpath(folder), *_as_typed(session, folder)}
    return ProjectCopy(folder, frozenset(names), taken, job.workdir, (*environments, *job.folders))


def _as_typed(session: Session, folder: Path) -> Iterator[str]:
    """The path of the project in the shell, which may go through links."""
    shown, here = session.environ.get("PWD", ""), os.path.realpath(session.folder)
    if os.path.isabs(shown) and os.path.realpath(shown) == here:
        inside = below(here, os.path.realpath(folder))
        if inside == ".":
            yield os.path.normpath(shown)
        elif inside is not None and shown.endswith("/" + inside):
            yield shown[: -len(inside) - 1]


def name_first(
    session: Session,
    job: Job,
    copy: ProjectCopy,
    script: tuple[str, str] | None,
    variables: Mapping[str, str],
) -> None:
    """Warn about the first such path. `script` is the name and text of the script that is started;
    `variables` are those of the submitting shell that the run gets.
    """
    for where, relative in (*_in_words(job, copy), *_in_texts(job, copy, script)):
        session.emit(Warning(f"{where} in your folder, not in the run's copy of it"))
        session.emit(Hint(f"write `{relative}`, so that later edits do not reach the run"))
        return
    for name, value in {**variables, **job.env}.items():
        if name in PATH_LISTS or (name not in job.env and _NOT_READ.fullmatch(name)):
            continue
        for path in value.split(os.pathsep):
            if copy.find(path) is not None:
                session.emit(Warning(f"`{name}={path}` is in your folder, not in the run's copy of it"))
                session.emit(
                    Hint("a relative path leads to the copy, so that later edits do not reach the run")
                )
                return


def _in_words(job: Job, copy: ProjectCopy) -> Iterator[tuple[str, str]]:
    """For each argument with such a path, the text of the warning and the relative path to write instead."""
    for word in job.command:
        for path in (word, word.partition("=")[2]):
            relative = copy.find(path)
            if relative is not None:
                yield f"`{path}` is", relative


def _in_texts(job: Job, copy: ProjectCopy, script: tuple[str, str] | None) -> Iterator[tuple[str, str]]:
    texts = [("the command", word) for word in job.command] + [("the set-up", job.setup or "")]
    for where, text in [*texts, *([(f"`{script[0]}`", script[1])] if script else [])]:
        for path in _paths(text, copy.names):
            relative = copy.find(path)
            if relative is not None:
                yield f"{where} names `{path}`, which is", relative


def _paths(text: str, names: frozenset[str]) -> list[str]:
    """The absolute paths in a text that begin with the path of the project."""
    if not any(name in text for name in names):
        return []
    begin = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.findall(rf"(?<![\w./-])(?:{begin}){_PATH}", _COMMENT.sub("", text))


def name_cmake_build(session: Session, text: str, copy: ProjectCopy) -> None:
    """Warn about a build folder that cmake made for the person's own folder: even in the working copy, a
    build in it would compile the person's files. Checked only if the command may build.
    """
    if not _BUILDS.search(text):
        return
    for place in _folders(copy.folder):
        inside = os.path.normpath(os.path.join(place, _CACHE))
        if not copy.taken.has(inside):
            continue
        home = _HOME_LINE.search(_read(copy.folder / inside))
        if home is not None and copy.find(home[1].strip()) is not None:
            session.emit(
                Warning(f"cmake made `{place}/` for your folder: a build in it compiles your own files")
            )
            cure = f"`cmake -B {place}` in the run makes one for the copy"
            session.emit(Hint(f"with the line `/{place}/` in `.goferignore`, {cure}"))
            return


def _folders(folder: Path) -> Iterator[str]:
    """Folders of the project down to the second level, up to a number."""
    level = [""]
    for _ in range(2):
        level = list(islice((name for place in level for name in _below(folder, place)), _MOST_FOLDERS))
        yield from level


def _below(folder: Path, place: str) -> list[str]:
    try:
        with os.scandir(folder / place) as entries:
            some = list(islice(entries, _MOST_FOLDERS))
    except OSError:
        return []
    return sorted(os.path.join(place, one.name) for one in some if one.is_dir(follow_symlinks=False))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_CACHE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
