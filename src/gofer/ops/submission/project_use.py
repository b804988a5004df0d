"""Find out how a command uses its project beyond the files that are sent.

This reads the command, the set-up and the text of the script that is started: which environments of the
project a run needs, what it would install, and which paths lead past its working copy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.code.editable import below, find_editables
from gofer.node.code.project_environments import is_environment
from gofer.node.code.project_paths import PATH_LISTS
from gofer.ops.messages import Hint, Warning
from gofer.ops.submission import entry_point

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.snapshot.summary import Snapshot


_SCRIPT_BYTES = 256 * 1024
_MOST_ENTRIES = 2000
# Programs that make an environment in the working copy. With a link there, they would change the person's
# environment.
_MAKES_OWN = re.compile(
    r"\buv\s+(run|sync|venv|add|remove|pip)\b|\b(poetry|pdm|hatch|pixi)\s+(install|sync|add|env|config)\b"
    r"|-m\s+venv\b|\bvirtualenv\b"
)
_EDITABLE = re.compile(
    r"\b(?:uv\s+)?pip[0-9.]*\s+install\b[^\n;&|]*?\s(?:-[a-zA-Z]*e|--editable)\b[^\n;&|'\"]*|\bsetup\.py\s+develop\b"
)
_ACTIVE_ONLY = re.compile(r"\bpoetry\s+install\b[^\n;&|'\"]*|\buv\s+sync\b[^\n;&|'\"]*--active\b[^\n;&|'\"]*")
# Commands that may compile modules in the run itself.
_COMPILES = re.compile(
    r"\bbuild_ext\b|\bpip[0-9.]*\s+install\b|\bmaturin\b|\b(?:tox|nox|make|ninja|meson|scons)\b"
)
_COMPILED = (".so", ".pyd")
NO_VARIABLES: Mapping[str, str] = {}
_OWN_FIRST = re.compile(r"-m\s+venv\b|\bvirtualenv\b|\buv\s+venv\b")
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


class ProjectUse(NamedTuple):
    """`environments` are environments in the project; `imports` are folders from which the run must
    import.
    """

    environments: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()


def read_use(
    session: Session, job: Job, folder: Path, taken: Snapshot, variables: Mapping[str, str] = NO_VARIABLES
) -> ProjectUse:
    """What the run needs of the project. Warns about everything that would lead past its working copy.

    `variables` are those of the submitting shell that the run gets.
    """
    text = _text(job, folder)
    found = left_environments(folder, job.workdir, taken)
    installs = _installs(text, session.environ)
    for words in installs[:1]:
        session.emit(
            Warning(
                f"`{words}` changes an environment that other runs and you use: it would lead them to"
                " this run's copy"
            )
        )
        session.emit(Hint("leave it out; the run imports the project from its own copy without it"))
    _name_windows_line_ends(session, job, folder)
    copy = copy_of(session, job, folder, taken, found)
    name_first(session, job, copy, _script(job, folder), variables)
    name_cmake_build(session, text, copy)
    _name_other_installs(session, job, folder, found)
    if not job.setup and not _COMPILES.search(text):
        _name_compiled(session, job, folder, taken)
    imports = () if not installs else (("src",) if (folder / "src").is_dir() else (".",))
    return ProjectUse(() if _MAKES_OWN.search(text) else tuple(found), imports)


def left_environments(folder: Path, workdir: str, taken: Snapshot) -> list[str]:
    """The Python environments of the project that are not in the snapshot."""
    return [one for one in _environments(folder, workdir) if not taken.has(one)]


def name_left_behind(session: Session, job: Job, folder: Path, use: ProjectUse) -> None:
    """Warn about an environment of the project that the command uses and the nodes do not have."""
    text = _text(job, folder)
    used = next((one for one in use.environments if f"{os.path.basename(one)}/" in text), None)
    if used is not None:
        session.emit(Warning(f"the command uses `{used}/`, which is left out and not on the nodes"))
        session.emit(
            Hint("list its packages in a requirements.txt, which `--packages auto` installs on the nodes")
        )


def _text(job: Job, folder: Path) -> str:
    """The command, the set-up and the script that is started, as one text."""
    script = _script(job, folder)
    return "\n".join([" ".join(job.command), job.setup or "", *(script[1:] if script else ())])


def _script(job: Job, folder: Path) -> tuple[str, str] | None:
    """The name and text of the script that the command starts; None when there is none."""
    program = job.command[0] if "/" in job.command[0] else None
    for name in (entry_point.script_of(job.command), program):
        text = _read(folder / job.workdir / name) if name is not None else ""
        if name is not None and text:
            return name, text
    return None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_SCRIPT_BYTES)
    except (OSError, ValueError):
        return ""
    return "" if b"\0" in data else data.decode("utf-8", "replace")


def _environments(folder: Path, workdir: str) -> list[str]:
    """Python environments in the project's top folder and in the folders down to the command's folder."""
    places = ["."]
    for part in Path(workdir).parts:
        places.append(os.path.normpath(os.path.join(places[-1], part)))
    found = []
    for place in dict.fromkeys(places):
        for name in _folders_in(folder / place):
            if is_environment(os.path.join(folder, place, name)):
                found.append(os.path.normpath(os.path.join(place, name)))
    return found


def _folders_in(folder: Path) -> Iterable[str]:
    try:
        with os.scandir(folder) as entries:
            some = [entry for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False)]
    except OSError:
        return []
    return [entry.name for entry in some if os.path.isdir(entry.path)]  # False also for links in a circle


def _installs(text: str, environ: Mapping[str, str]) -> list[str]:
    """Commands that install the project into an environment that outlives the run."""
    if _OWN_FIRST.search(text):
        return []
    found = [one.strip() for one in _EDITABLE.findall(text)]
    if environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX"):
        found += [one.strip() for one in _ACTIVE_ONLY.findall(text)]
    return found


def _name_windows_line_ends(session: Session, job: Job, folder: Path) -> None:
    """Warn about Windows line ends. Shells and the kernel treat them as part of a word; Python accepts
    them.
    """
    program = job.command[0]
    is_shell = os.path.basename(program) in ("sh", "bash")
    name = entry_point.script_of(job.command) if is_shell else program if "/" in program else None
    first, _, more = _read(folder / job.workdir / name).partition("\n") if name else ("", "", "")
    if more and first.endswith("\r") and (is_shell or first.startswith("#!")):
        effect = "which become part of its words" if is_shell else "and its interpreter will not be found"
        session.emit(Warning(f"`{name}` has Windows line ends, {effect}"))
        session.emit(Hint(f"`sed -i 's/\\r$//' {name}` removes them"))


def _name_other_installs(session: Session, job: Job, folder: Path, environments: Sequence[str]) -> None:
    own = [str(folder / one) for one in environments]
    others = find_editables(job.command, session.environ, str(folder), own).others
    if others:
        session.emit(Warning(f"`{others[0]}` leads Python to your folder, not to the run's copy of it"))
        session.emit(Hint("reinstall it: `pip install -e . --config-settings editable_mode=compat`"))


def _name_compiled(session: Session, job: Job, folder: Path, taken: Snapshot) -> None:
    """Warn about a compiled module in the project that is left out. An editable install of the project would
    have it, but the run imports the project from its working copy: see gofer.node.code.project_paths.
    """
    left = [one.path for one in taken.left_out().entries if one.path.endswith(_COMPILED)]
    places = find_editables(job.command, session.environ, str(folder)).folders if left else ()
    for path in left:
        if any(one == "." or path.startswith(one + "/") for one in places):
            session.emit(
                Warning(f"the run imports the project without `{path}`, which is compiled and left out")
            )
            session.emit(Hint(f"`--include '*{os.path.splitext(path)[1]}'` includes such modules"))
            return


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
        home = _HOME_LINE.search(_read_text(copy.folder / inside))
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


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_CACHE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
