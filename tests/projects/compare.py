"""One project, run plainly and through gofer: output, exit status, and the files afterwards."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple

from home import Home
from projects.catalogue import Project

_JUNK = {".git", "__pycache__", ".venv", "gofer.yaml", "assets"}


class Seen(NamedTuple):
    """What is left of a run: `files` by path, as mode bits, kind and content."""

    status: int
    lines: list[str]
    files: dict[str, tuple[str, str]]


def lay_out(project: Project, top: Path, environ: dict[str, str]) -> None:
    """Write the project's files; an existing gofer.yaml stays."""
    for name, content in project.files.items():
        path = top / name.removesuffix("*")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        if name.endswith("*"):
            path.chmod(0o755)
    if project.git:
        for words in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"],
        ):
            subprocess.run(["git", *words], cwd=top, env=environ, check=True, timeout=60)
    if project.before:
        subprocess.run(["bash", "-ec", project.before], cwd=top, env=environ, check=True, timeout=120)


def plainly(project: Project, top: Path, environ: dict[str, str]) -> Seen:
    """The command as a person types it, stdout and stderr in one stream as a log has them."""
    lay_out(project, top, environ)
    before = _files(top)
    done = subprocess.run(
        ["bash", "-c", '"$@"', "bash", *project.command],
        cwd=top / project.folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    return Seen(done.returncode, _lines(done.stdout.decode(), top), _new(before, _files(top)))


def through_gofer(project: Project, home: Home) -> Seen:
    """The same through `gofer submit -f`; the files are those that `gofer extract` brings."""
    lay_out(project, home.folder, home.environ)
    where = home.folder / project.folder
    words = ["submit", "--wait", *project.submit, *project.command]
    done = home.gofer(*words, cwd=where, status=None)
    log = home.gofer("logs", "last", cwd=where).out
    target = home.root / "extracted"
    home.gofer("extract", "last", str(target), cwd=where)
    kept = target / "files"
    return Seen(done.status, _lines(log, home.folder), _files(kept) if kept.exists() else {})


def _lines(text: str, top: Path) -> list[str]:
    """Paths of the folder, and of the copy that gofer makes of it, are called TOP."""
    text = text.replace(str(top), "TOP")
    return re.sub(rf"/\S*?/w/\S*?/{top.name}\b", "TOP", text).splitlines()


def _files(top: Path) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for where, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in _JUNK]
        for name in [*names, *folders]:
            path = Path(where) / name
            if name not in _JUNK and not (path.is_dir() and not path.is_symlink() and any(path.iterdir())):
                found[str(path.relative_to(top))] = _describe(path)
    return found


def _describe(path: Path) -> tuple[str, str]:
    if path.is_symlink():
        return "link", os.readlink(path)
    if path.is_dir():
        return "folder", ""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"file {mode & 0o111:o}", path.read_bytes().hex()[:2000]


def _new(before: dict[str, tuple[str, str]], after: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return {path: what for path, what in after.items() if before.get(path) != what}


def both(project: Project, home: Home, plain_top: Path) -> tuple[Seen, Seen]:
    """The folder of the plain run, in `plain_top`, has the name that gofer's has."""
    top = plain_top / home.folder.name
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir(parents=True)
    return plainly(project, top, home.environ), through_gofer(project, home)
