"""Compute the version of a project that takes it from git, for runs that have no repository.

setuptools-scm, hatch-vcs, PDM and poetry-dynamic-versioning each read a variable instead of git. The version
is computed as setuptools-scm does by default, from the newest tag and the commits since.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.errors import GoferError
from gofer.transport import process

if TYPE_CHECKING:
    from gofer.transport.process import Finished

# A pyproject.toml without any of these words does not use git and is not parsed.
_HINTS = (b"scm", b"vcs", b"dynamic-versioning")
_MOST_BYTES = 1 << 20
_TIMEOUT_S = 20.0
_DESCRIBE = ("git", "describe", "--tags", "--long", "--abbrev=8", "--match", "*[0-9]*")
# What git says of a commit without such a tag. Every other failure tells nothing of tags.
_NO_TAG = re.compile(rb"^fatal: No (names found|tags can describe)")
_DESCRIBED = re.compile(r"(?P<tag>.+)-(?P<distance>\d+)-g(?P<node>[0-9a-f]+)")
_TAG = re.compile(
    r"(?:[\w.-]*?[_-])?[vV]?(?P<version>\d+(?:\.\d+)*(?:[._-]?(?:a|b|rc|alpha|beta|post)\.?\d*)?)"
)
# Matches `tox`, `python -m tox`, `.venv/bin/tox` and the word in a shell script, but not `tox.ini` or
# `tox/x.py`.
_TOX, _DVC = (re.compile(rf"(?:^|[\s;&|(/]){name}(?=$|[\s;&|)])") for name in ("tox", "dvc"))
_DVC_FOLDER = ".dvc"
_SCM = "SETUPTOOLS_SCM_PRETEND_VERSION"


def version_variables(folder: Path, *, commit: str | None, dirty: bool | None) -> dict[str, str]:
    """The variables with the project's version; none when the project does not use git, there is no commit,
    or git does not answer.
    """
    project = _read_project(folder) if commit else None
    names = [] if project is None else _variables(project)
    if not names or commit is None:
        return {}
    version = _version(folder, commit, dirty=bool(dirty))
    return {} if version is None else dict.fromkeys(names, version)


def reason_for_repository(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> str | None:
    """Why the command needs a repository in the run though the variables tell the version; None when it does
    not.
    """
    if variables and any(_TOX.search(word) for word in command):
        return "tox hides the project's version"
    if reads_contents(command, folder):
        return "dvc does nothing without one; the contents of committed files go along, since dvc reads them"
    return None


def reads_contents(command: Sequence[str], folder: Path) -> bool:
    """Whether the command reads contents of files from git. dvc does so, and never ends where they are
    missing.
    """
    return (folder / _DVC_FOLDER).is_dir() and any(_DVC.search(word) for word in command)


def _read_project(folder: Path) -> dict[str, object] | None:
    """The pyproject.toml, if it may take a version from git; else None."""
    try:
        with (folder / "pyproject.toml").open("rb") as file:
            text = file.read(_MOST_BYTES)
    except OSError:
        return None
    if not any(hint in text for hint in _HINTS):
        return None
    import tomllib  # slow to load, and few projects need it

    try:
        return tomllib.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _variables(project: dict[str, object]) -> list[str]:
    """The variables that the project's build reads instead of git."""
    tool, name = _table(project, "tool"), _table(project, "project").get("name")
    requires = _table(project, "build-system").get("requires")
    needs_scm = isinstance(requires, list) and any(
        re.match(r"setuptools[-_.]scm", str(one)) for one in requires
    )
    is_hatch = _table(_table(tool, "hatch"), "version").get("source") == "vcs"
    found = []
    if (needs_scm or "setuptools_scm" in tool or is_hatch) and isinstance(name, str):
        found.append(f"{_SCM}_FOR_{re.sub(r'[-_.]+', '_', name).upper()}")
    if is_hatch:
        found.append(_SCM)  # hatch-vcs does not pass the project's name to setuptools-scm
    if _table(_table(tool, "pdm"), "version").get("source") == "scm":
        found.append("PDM_BUILD_SCM_VERSION")
    if "poetry-dynamic-versioning" in tool:
        found.append("POETRY_DYNAMIC_VERSIONING_BYPASS")
    return found


def _table(value: dict[str, object], key: str) -> dict[str, object]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _version(folder: Path, commit: str, *, dirty: bool) -> str | None:
    """The version; None when git fails, since a version without the newest tag would be wrong."""
    answer = _git(folder, *_DESCRIBE)
    if answer is None or (answer.status != 0 and not _NO_TAG.search(answer.stderr)):
        return None
    described = _DESCRIBED.fullmatch(_text(answer))
    tag = _TAG.fullmatch(described["tag"]) if described else None
    changed = f".d{time.strftime('%Y%m%d', time.gmtime())}" if dirty else ""
    if described is None or tag is None:
        counted = _git(folder, "git", "rev-list", "--count", "HEAD")
        if counted is None or counted.status != 0:
            return None
        return f"0.1.dev{_text(counted)}+g{commit[:8]}{changed}"
    distance = int(described["distance"])
    if distance == 0 and not dirty:
        return tag["version"]
    return f"{_next(tag['version'])}.dev{distance}+g{described['node']}{changed}"


def _next(version: str) -> str:
    """The version after this one, as setuptools-scm guesses it."""
    found = re.fullmatch(r"(.*?)(\d+)", version)
    return f"{version}1" if found is None else f"{found[1]}{int(found[2]) + 1}"


def _git(folder: Path, *argv: str) -> Finished | None:
    """The answer of git; None when git cannot be started or takes too long."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        with process.start(argv, cwd=folder, env={**environ, "LC_ALL": "C"}) as running:
            return running.finish(timeout_s=_TIMEOUT_S)
    except GoferError:
        return None


def _text(answer: Finished) -> str:
    return answer.stdout.decode("utf-8", "replace").strip()
