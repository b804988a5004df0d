"""A small git repository for a run: enough for `git rev-parse HEAD`, `git describe` and `git status`.

It holds the current commit with its folders, the history back to the nearest tag, and no contents of files,
no remotes, no hooks and no settings of the person. Contents are not needed: the run has the files themselves.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gofer.errors import CheckFailed, GoferError
from gofer.transport import process

_TIMEOUT_S = 300.0
# The history back to a tag is sent no deeper than this; `git describe` then finds no tag.
_MOST_COMMITS = 2000
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
_SENT = ("HEAD", "packed-refs", "shallow", "index", "objects", "refs")


def pack_repository(root: Path, environ: Mapping[str, str]) -> bytes:
    """A tar file of the `.git` folder; CheckFailed when git cannot make one. Blocks while git works."""
    with tempfile.TemporaryDirectory(prefix="gofer-git-") as name:
        clone = Path(name) / "clone"
        depth = _distance_to_tag(root, environ) + 1
        address = f"file://{root}"
        options = [f"--depth={depth}", "--no-checkout", "--filter=blob:none", "--quiet"]
        _git(Path(name), environ, "-c", "protocol.file.allow=always", "clone", *options, address, str(clone))
        _git(clone, environ, "read-tree", "HEAD")
        _git(clone, environ, "pack-refs", "--all")
        return _tar(clone / ".git")


def _distance_to_tag(root: Path, environ: Mapping[str, str]) -> int:
    """How many commits the nearest tag is away; 0 without one, or with one that is too far away."""
    try:
        words = _git(root, environ, "describe", "--tags", "--long", "--abbrev=40")
    except CheckFailed:
        return 0
    distance = int(words.strip().rsplit("-", 2)[1])
    return distance if distance <= _MOST_COMMITS else 0


def _git(folder: Path, environ: Mapping[str, str], *words: str) -> str:
    try:
        done = process.run(["git", *words], timeout_s=_TIMEOUT_S, cwd=folder, env=dict(environ))
    except GoferError as error:
        raise CheckFailed(f"`--with-git` needs git: {error.message}", hint=error.hint) from error
    if done.status:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise CheckFailed(
            f"`--with-git`: `git {words[0]}` failed in {folder}: {said[-1] if said else 'no word'}",
            hint="is the folder in a git repository that has a commit?",
        )
    return done.stdout.decode("utf-8", "replace")


def _tar(repository: Path) -> bytes:
    """Only what is named: the clone's own settings have an address of this machine."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz", compresslevel=1) as archive:
        entry = tarfile.TarInfo("config")
        entry.size = len(_CONFIG)
        archive.addfile(entry, io.BytesIO(_CONFIG))
        for name in _SENT:
            if os.path.exists(repository / name):
                archive.add(repository / name, name, filter=_is_plain)
    return data.getvalue()


def _is_plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files and folders without their owners; a partial clone marks its packs, which nobody can complete."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry if entry.isfile() or entry.isdir() else None
