"""How a command uses the project it was submitted from, beyond the files that travel with it.

Read from the words of the command, the set-up and the text of the script that is started: which environments
of the project a run needs, what it would install, and which paths lead past its copy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.core.editable import below, find_editables
from gofer.node.project_environments import is_environment
from gofer.ops.submission import entry_point

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.snapshot import Snapshot

_SCRIPT_BYTES = 256 * 1024
_MOST_ENTRIES = 2000
# Programs that make an environment of their own in the copy, where a link would lead them to the person's.
_MAKES_OWN = re.compile(
    r"\buv\s+(run|sync|venv|add|remove|pip)\b|\b(poetry|pdm|hatch|pixi)\s+(install|sync|add|env|config)\b"
    r"|-m\s+venv\b|\bvirtualenv\b"
)
_EDITABLE = re.compile(r"\b(?:uv\s+)?pip3?\s+install\b[^\n;&|]*?\s(?:-e|--editable)\b[^\n;&|'\"]*")
_ACTIVE_ONLY = re.compile(r"\bpoetry\s+install\b[^\n;&|'\"]*|\buv\s+sync\b[^\n;&|'\"]*--active\b[^\n;&|'\"]*")
_OWN_FIRST = re.compile(r"-m\s+venv\b|\bvirtualenv\b|\buv\s+venv\b")


class ProjectUse(NamedTuple):
    """`environments` are folders of the project, `imports` those that a run is to import from."""

    environments: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()


def read_use(session: Session, job: Job, folder: Path, taken: Snapshot) -> ProjectUse:
    """What the run needs of the project, with a line for each thing that would lead past its copy."""
    text = _text(job, folder)
    found = [one for one in _environments(folder, job.workdir) if not taken.has(one)]
    installs = _installs(text, session.environ)
    for words in installs[:1]:
        session.say(
            f"warning: `{words}` changes an environment that other runs and you use: it would lead them to"
            " this run's copy"
        )
        session.say("hint: leave it out; the run imports the project from its own copy without it")
    _name_windows_line_ends(session, job, folder)
    _name_absolute_paths(session, job, folder, taken, found)
    _name_other_installs(session, job, folder, found)
    imports = () if not installs else (("src",) if (folder / "src").is_dir() else (".",))
    return ProjectUse(() if _MAKES_OWN.search(text) else tuple(found), imports)


def name_left_behind(session: Session, job: Job, folder: Path, use: ProjectUse) -> None:
    """Say which environment of the project the command uses, for a target whose nodes do not have it."""
    text = _text(job, folder)
    used = next((one for one in use.environments if f"{os.path.basename(one)}/" in text), None)
    if used is not None:
        session.say(f"warning: the command uses `{used}/`, which is left out and not on the nodes")
        session.say("hint: list what it needs in a requirements.txt, which `--packages auto` installs there")


def _text(job: Job, folder: Path) -> str:
    """The command, the set-up and the script that is started, as one text."""
    parts = [" ".join(job.command), job.setup or ""]
    script = entry_point.script_of(job.command)
    for name in (script, job.command[0] if "/" in job.command[0] else None):
        if name is not None:
            parts.append(_read(folder / job.workdir / name))
    return "\n".join(parts)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_SCRIPT_BYTES)
    except (OSError, ValueError):
        return ""
    return "" if b"\0" in data else data.decode("utf-8", "replace")


def _environments(folder: Path, workdir: str) -> list[str]:
    """Python environments at the top of the project and of the folders down to where the command starts."""
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
    return [entry.name for entry in some if entry.is_dir()]


def _installs(text: str, environ: Mapping[str, str]) -> list[str]:
    """The installs of the project into an environment that outlives the run."""
    if _OWN_FIRST.search(text):
        return []
    found = [one.strip() for one in _EDITABLE.findall(text)]
    if environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX"):
        found += [one.strip() for one in _ACTIVE_ONLY.findall(text)]
    return found


def _name_windows_line_ends(session: Session, job: Job, folder: Path) -> None:
    """A shell and the kernel take them for part of a word; Python does not mind them."""
    program = job.command[0]
    is_shell = os.path.basename(program) in ("sh", "bash")
    name = entry_point.script_of(job.command) if is_shell else program if "/" in program else None
    first, _, more = _read(folder / job.workdir / name).partition("\n") if name else ("", "", "")
    if more and first.endswith("\r") and (is_shell or first.startswith("#!")):
        session.say(f"warning: `{name}` has Windows line ends, and its command will not be found")
        session.say(f"hint: `sed -i 's/\\r$//' {name}` removes them")


def _name_absolute_paths(
    session: Session, job: Job, folder: Path, taken: Snapshot, environments: Sequence[str]
) -> None:
    """Words of the command that name the person's own file where the copy has one too."""
    names = {str(folder), os.path.realpath(folder)}
    for word in job.command:
        for path in (word, word.partition("=")[2]):
            inside = _inside(path, names)
            if inside is None or inside.partition("/")[0] in job.folders:
                continue
            is_environment = any(inside == one or inside.startswith(one + "/") for one in environments)
            if not is_environment and os.path.exists(path) and taken.has(inside):
                relative = os.path.relpath(inside, job.workdir)
                session.say(f"warning: `{path}` is the file in your folder, not the run's copy of it")
                session.say(f"hint: write `{relative}`, so that later edits do not reach the run")
                return


def _inside(path: str, names: set[str]) -> str | None:
    if not os.path.isabs(path):
        return None
    return next((found for one in names if (found := below(os.path.normpath(path), one)) is not None), None)


def _name_other_installs(session: Session, job: Job, folder: Path, environments: Sequence[str]) -> None:
    own = [str(folder / one) for one in environments]
    others = find_editables(job.command, session.environ, str(folder), own).others
    if others:
        session.say(f"warning: `{others[0]}` leads Python to your folder, not to the run's copy of it")
        session.say("hint: install it anew: `pip install -e . --config-settings editable_mode=compat`")
