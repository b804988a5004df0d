"""Makes a small git repository for a run, enough for `git rev-parse HEAD`, `git describe` and `git status`.

It has the current commit with its folders and the history back to the nearest tag. It has no remotes, no
hooks and no settings of the user, and contents of files only for a command that reads them from git. Other
commands do not need them, because the run has the files.
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
# The longest history that is sent. With a longer one, `git describe` in the run finds no tag.
_MOST_COMMITS = 2000
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
# blob:none leaves out all contents of files. A repository ignores the filter unless `uploadpack.allowFilter`
# permits the filter, and `git -c` does not reach the `upload-pack` that `git clone` starts.
_WITHOUT_CONTENTS = (
    "--filter=blob:none",
    "--upload-pack=git -c uploadpack.allowFilter=true upload-pack",
)
_SENT = ("HEAD", "packed-refs", "shallow", "index", "objects", "refs")


def pack_repository(root: Path, environ: Mapping[str, str], *, contents: bool) -> bytes:
    """A tar file of the `.git` folder; CheckFailed when git cannot make it. Blocks while git works.

    `contents`: the repository holds the contents of committed files, too.
    """
    with tempfile.TemporaryDirectory(prefix="gofer-git-") as name:
        clone = Path(name) / "clone"
        depth = _distance_to_tag(root, environ) + 1
        address = f"file://{root}"
        options = [f"--depth={depth}", "--no-checkout", *(() if contents else _WITHOUT_CONTENTS), "--quiet"]
        _git(Path(name), environ, "-c", "protocol.file.allow=always", "clone", *options, address, str(clone))
        # Without an index, `git status` in the run would report every file as deleted.
        _git(clone, environ, "read-tree", "HEAD")
        _git(clone, environ, "pack-refs", "--all")
        return _tar(clone / ".git")


def _distance_to_tag(root: Path, environ: Mapping[str, str]) -> int:
    """The number of commits since the nearest tag; 0 without a tag, or when there are too many."""
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
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise CheckFailed(
            f"`--with-git`: `git {words[0]}` failed in {folder}: {lines[-1] if lines else 'no message'}",
            hint="check that the folder is in a git repository with at least one commit",
        )
    return done.stdout.decode("utf-8", "replace")


def _tar(repository: Path) -> bytes:
    """A tar file of the named files only: the clone's own settings contain a path of this machine."""
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
    """Keeps files and folders, without their owners.

    Leaves out the marks of a partial clone, with which git would try to fetch the missing contents.
    """
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry if entry.isfile() or entry.isdir() else None
