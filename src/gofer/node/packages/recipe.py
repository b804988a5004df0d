"""Everything that decides what an environment contains, and a hash over it. Runs with the same hash share one
environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Dict, List, Mapping, NamedTuple, Optional

from gofer.node.cancellable_task import WorkFailed
from gofer.node.packages import requirement_list
from gofer.node.packages.interpreter import Interpreter
from gofer.node.packages.package_files import CONDA, LOCK, PIP, PYPROJECT, REQUIREMENTS, PackageFile

# Increase this number to stop gofer from using environments that an older version built.
_FORMAT = 1
# Variables of the tools that affect what is installed, in addition to the list.
_DECIDING = re.compile(
    r"^(PIP|UV)_(INDEX_URL|DEFAULT_INDEX|INDEX|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|CONSTRAINT|PRE|PRERELEASE"
    r"|NO_BINARY|ONLY_BINARY|TORCH_BACKEND|PYTHON|DEV|NO_DEV|NO_GROUP|NO_DEFAULT_GROUPS|RESOLUTION|OVERRIDE"
    r"|EXCLUDE_NEWER|INDEX_STRATEGY)$|^CONDA_(CHANNELS|OVERRIDE_\w+)$"
)
_PASSWORD = re.compile(r"//[^/@\s]*@")
_LOCKED = re.compile(
    r'^\[\[package\]\]\nname = "([^"]+)"\n(?:version = [^\n]*\n)?'
    r'source = \{ (?:editable|virtual|directory) = "([^"]*)"',
    re.MULTILINE,
)
# A line in a `pip:` list of environment.yml that installs the project itself.
_PROJECT_LINE = re.compile(r"""^\s*-\s*["']?(-e|--editable)?[\s=]*\.{1,2}(/\S*)?["']?\s*(#.*)?$""")
_INCLUDE_LINE = re.compile(r"""^\s*-\s*["']?(?:-r|-c|--requirement|--constraint)[\s=]*([^\s"']+)""")


class Recipe(NamedTuple):
    """How to build one environment. `folder` is the project in the working copy. `projects` are folders of
    the working copy that are imported without an installation, and `locked_projects` are their names in a
    uv.lock. `wheels` is a folder on the node.
    """

    file: PackageFile
    folder: str
    interpreter: Interpreter
    required: requirement_list.RequirementList
    locked_projects: List[str]
    projects: List[str]
    wheels: Optional[str]
    hash: str


class RecipeInput(NamedTuple):
    """The input of a recipe: the working copy, the file that lists packages, the run's variables, the wheel
    folder as the person wrote it, and the cache of environments.
    """

    code: str
    file: PackageFile
    environment: Mapping[str, str]
    wheels: Optional[str]
    cache: str


def make_recipe(given: RecipeInput, interpreter: Interpreter) -> Recipe:
    """Make the recipe; reads the files of the list. WorkFailed, with a text for the person, when a file
    cannot be used.
    """
    folder = os.path.join(given.code, given.file.folder)
    path = os.path.join(given.code, given.file.path)
    name = os.path.basename(path)
    locked: Dict[str, str] = dict(_LOCKED.findall(_text(path))) if name == LOCK else {}
    required = _required(given.file, path)
    projects = [os.path.normpath(os.path.join(folder, one)) for one in locked.values()] or required.projects
    wheels = _wheel_folder(given)
    # Programs that conda installs contain the path of their environment, so the path is part of the hash.
    # Other environments can be moved.
    path_facts = given.cache if given.file.tool == CONDA else None
    facts = [_FORMAT, given.file.tool, path_facts, _python_facts(given.file.tool, interpreter)]
    facts += [_contents(given, required, folder), _options(given, wheels)]
    encoded = json.dumps(facts, sort_keys=True).encode("ascii")
    digest = hashlib.sha256(encoded).hexdigest()[:24]
    return Recipe(given.file, folder, interpreter, required, sorted(locked), projects, wheels, digest)


def _required(file: PackageFile, path: str) -> requirement_list.RequirementList:
    """The requirements in the file for pip or uv. Empty for a uv.lock and for conda, whose tools read the
    file themselves.
    """
    name = os.path.basename(path)
    if file.tool == CONDA:
        _check_conda(_text(path))
    try:
        if name == PYPROJECT:
            return requirement_list.of_project(os.path.dirname(path))
        return (
            requirement_list.read(path)
            if name == REQUIREMENTS
            else requirement_list.RequirementList([], [], [], [])
        )
    except requirement_list.UnreadableRequirements as error:
        raise WorkFailed(f"the list of packages names a file that cannot be read: {error}") from error


def _python_facts(tool: str, interpreter: Interpreter) -> List[object]:
    """Facts about the interpreter. For pip they include its packages, since pip installs only what is
    missing.
    """
    facts = [interpreter.path, interpreter.version, interpreter.platform]
    return [*facts, interpreter.installed] if tool == PIP else list(facts)


def _contents(
    given: RecipeInput, required: requirement_list.RequirementList, folder: str
) -> Dict[str, object]:
    """The list with relative paths, and a hash of each file that it names."""
    name = os.path.basename(given.file.path)
    files: List[str] = list(required.files)
    if name == LOCK:
        files += [os.path.join(folder, one) for one in (LOCK, PYPROJECT, ".python-version")]
    elif given.file.tool == CONDA:
        path = os.path.join(given.code, given.file.path)
        files += [path, *(os.path.join(folder, one) for one in _included(_text(path)))]
    mark = os.path.join(given.code, "")
    lines = [[one.replace(mark, "./") for one in part] for part in (required.lines, required.constraints)]
    known = {os.path.relpath(one, given.code): _file_hash(one) for one in files}
    return {"name": name, "lines": lines, "files": known}


def _included(text: str) -> List[str]:
    return [found.group(1) for found in map(_INCLUDE_LINE.match, text.splitlines()) if found]


def _options(given: RecipeInput, wheels: Optional[str]) -> Dict[str, object]:
    deciding = {
        name: _PASSWORD.sub("//", value) for name, value in given.environment.items() if _DECIDING.match(name)
    }
    held = None
    if wheels is not None:
        held = sorted((one.name, one.stat().st_size) for one in os.scandir(wheels) if one.is_file())
    is_inside = wheels is not None and wheels.startswith(os.path.join(given.code, ""))
    return {"variables": deciding, "wheels": held, "folder": None if is_inside else wheels}


def _wheel_folder(given: RecipeInput) -> Optional[str]:
    if not given.wheels:
        return None
    path = os.path.join(given.code, os.path.expanduser(given.wheels))
    if not os.path.isdir(path):
        where = "the node" if os.path.isabs(given.wheels) else "the code that was sent"
        raise WorkFailed(f"`wheels: {given.wheels}` names a folder that {where} does not have")
    return os.path.normpath(path)


def _check_conda(text: str) -> None:
    for line in text.splitlines():
        if _PROJECT_LINE.match(line):
            raise WorkFailed(
                f"environment.yml installs the project itself (`{line.strip()}`): leave that line out, since "
                "each run imports the project from its own copy"
            )


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise WorkFailed(f"`{path}` cannot be read: {error.strerror}") from error


def _file_hash(path: str) -> Optional[str]:
    """The hash of a file; None when the file is absent."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for piece in iter(lambda: file.read(1 << 20), b""):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()
