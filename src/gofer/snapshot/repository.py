"""Reads the git repository around a folder from its files, without running git and without writing.

Running git takes longer than the whole walk. Facts that the files do not state plainly are marked as unknown,
and the module `git` asks git for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_CONTROL = re.compile(rb"[\x00-\x20\x7f]")
_BRANCH = b"refs/heads/"
_MOST_BYTES = 64 * 1024 * 1024


class Repository(NamedTuple):
    """A repository.

    `root` is the work tree; `common_dir` differs from `git_dir` only in linked work trees.
    """

    root: bytes
    git_dir: bytes
    common_dir: bytes


class GitHead(NamedTuple):
    """The checked-out commit. `known` is false when the files do not say it."""

    commit: str | None
    branch: str | None
    known: bool = True


def find_repository(folder: bytes) -> Repository | None:
    """The repository whose work tree contains the absolute path `folder`; None outside of any."""
    at = folder
    while True:
        git_dir = _git_dir(os.path.join(at, b".git"))
        if git_dir:
            common = read_file(os.path.join(git_dir, b"commondir"))
            shared = os.path.normpath(os.path.join(git_dir, common.strip())) if common else git_dir
            return Repository(at, git_dir, shared)
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above


def _git_dir(path: bytes) -> bytes | None:
    """The repository's folder.

    `.git` is this folder, or in work trees and submodules a file that names it.
    """
    if not os.path.isdir(path):
        text = read_file(path) if os.path.isfile(path) else None
        if not text or not text.startswith(b"gitdir:"):
            return None
        path = os.path.normpath(os.path.join(os.path.dirname(path), text[7:].strip()))
    return path if os.path.exists(os.path.join(path, b"HEAD")) else None


def find_root(folder: Path, environ: Mapping[str, str]) -> Path | None:
    """The root of the git work tree that contains `folder`; None without one, or when git ignores it."""
    path = os.fsencode(folder)
    repository = find_repository(path)
    if repository is None:
        return None
    if repository.root == path:
        return folder
    from gofer.snapshot.git import is_ignored  # the ignore rules are slow to load, and `gofer q` is instant

    return None if is_ignored(repository, path, environ) else Path(os.fsdecode(repository.root))


def read_head(repository: Repository) -> GitHead:
    """The checked-out commit and branch; no commit on a branch without commits."""
    text = (read_file(os.path.join(repository.git_dir, b"HEAD")) or b"").strip()
    if _COMMIT.fullmatch(text):
        return GitHead(text.decode(), None)
    if not text.startswith(b"ref: " + _BRANCH):
        return GitHead(None, None, known=False)
    ref = text[5:]
    if _CONTROL.search(ref):  # git has no such branch
        return GitHead(None, None, known=False)
    branch = os.fsdecode(ref[len(_BRANCH) :])
    if branch == ".invalid":  # git's mark for references in the reftable format
        return GitHead(None, None, known=False)
    commit = _read_ref(repository, ref)
    return GitHead(commit.decode() if commit else None, branch)


def _read_ref(repository: Repository, ref: bytes) -> bytes | None:
    loose = (read_file(os.path.join(repository.common_dir, ref)) or b"").strip()
    if _COMMIT.fullmatch(loose):
        return loose
    packed = read_file(os.path.join(repository.common_dir, b"packed-refs")) or b""
    found = re.search(rb"^([0-9a-f]+) " + re.escape(ref) + rb"$", packed, re.MULTILINE)
    return found[1] if found and _COMMIT.fullmatch(found[1]) else None


def index_mark(repository: Repository) -> bytes:
    """A text that changes whenever git writes the list of tracked files; empty without such a list."""
    try:
        status = os.stat(os.path.join(repository.git_dir, b"index"))
    except OSError:
        return b""
    return b"%d:%d:%d:%d" % (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def global_ignore(repository: Repository, environ: Mapping[str, str]) -> tuple[bytes, bytes | None]:
    """The path of the user's global ignore file, and the text of the settings if only git can interpret them.

    The second value is None when the usual path is right, and empty when the settings include other files.
    """
    home = environ.get("HOME", "")
    settings = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    files: list[str | bytes] = [
        "" if environ.get("GIT_CONFIG_NOSYSTEM") else environ.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig"),
        os.path.join(repository.common_dir, b"config"),
        os.path.join(repository.git_dir, b"config.worktree"),
    ]
    if "GIT_CONFIG_GLOBAL" in environ:
        files.append(environ["GIT_CONFIG_GLOBAL"])
    else:
        files += [os.path.join(settings, "git", "config"), os.path.join(home, ".gitconfig")]
    # Only a search for words: parsing git's settings is left to git.
    text = b"\0".join(read_file(os.fsencode(file)) or b"" for file in files)
    lower = text.lower()
    usual = os.fsencode(os.path.join(settings, "git", "ignore"))
    if b"[include" in lower or "GIT_CONFIG_COUNT" in environ or "GIT_CONFIG_PARAMETERS" in environ:
        return usual, b""
    return usual, text if b"excludesfile" in lower else None


def read_file(path: bytes) -> bytes | None:
    """The bytes of a small file; None when it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read() if os.fstat(file.fileno()).st_size <= _MOST_BYTES else None
    except (OSError, ValueError):  # ValueError: a zero byte in the path
        return None
