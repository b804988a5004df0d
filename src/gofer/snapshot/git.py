"""What git knows of the code folder: commit, branch, whether it differs, and tracked files that are ignored
or look like secrets.

Git runs in the background, and only when its last answer may be out of date. Without git, or when git fails,
everything works, except that `dirty` is unknown and no ignored file is kept.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import GoferError
from gofer.snapshot.ignorefiles import outside_layers
from gofer.snapshot.repository import (
    GitHead,
    Repository,
    find_repository,
    global_ignore,
    index_mark,
    read_head,
)
from gofer.snapshot.rules import Layer, Tracked

if TYPE_CHECKING:
    from gofer.transport.process import RunningProgram

_TIMEOUT_S = 120.0
# Also list tracked files that look like secrets, in any spelling of upper and lower case.
_SECRETS = (".env*", "*.pem", "*.key", "id_*", ".netrc", ".aws/", "*credentials*")
_SECRET_PATTERNS = tuple(
    "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in pattern) for pattern in _SECRETS
)
_TRACKED_BUT_IGNORED = (
    *("ls-files", "-z", "-c", "-i", "--exclude-standard"),
    *(word for pattern in _SECRET_PATTERNS for word in ("-x", pattern)),
)
_CHANGES = ("status", "--porcelain", "-z", "--untracked-files=normal", "--", ".")
_MOST_DIRTY = 16
_OTHER_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_LITERAL_PATHSPECS")


class GitMemory(NamedTuple):
    """What git reported last time, and what it depends on. `clean` is the snapshot that equals the commit.

    `dirty` are some snapshots that differ from the commit. `rules` is the fingerprint of the rules under
    which `tracked` is right.
    """

    commit: str | None = None
    index_mark: bytes = b""
    rules: bytes = b""
    tracked: tuple[bytes, ...] = ()
    clean: str | None = None
    dirty: tuple[str, ...] = ()
    settings: bytes = b""
    global_file: bytes = b""


def is_ignored(repository: Repository, folder: bytes, environ: Mapping[str, str]) -> bool:
    """Whether git ignores the folder of the repository."""
    plain = _own_environment(environ)
    usual, text = global_ignore(repository, plain)
    file = usual if text is None else _configured_ignore(folder, plain) or usual
    return outside_layers(repository, folder, file)[1]


class Git:
    """Git's answers about one folder. `close` ends running git processes."""

    def __init__(self, folder: bytes, memory: GitMemory, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = _own_environment(environ)
        self._memory = memory
        self._listing: RunningProgram | None = None
        self._status: RunningProgram | None = None
        self._layers: tuple[Layer, ...] = ()
        self.head = GitHead(None, None)
        repository = find_repository(folder)
        self._index = index_mark(repository) if repository else b""
        if repository:
            file = self._global_file(*global_ignore(repository, self._environ))
            self._layers, ignored = outside_layers(repository, folder, file)
            repository = None if ignored else repository
        self._inside = repository is not None
        if repository:
            self.head = self._ask_head(read_head(repository))
        self._same = self._inside and (memory.commit, memory.index_mark) == (self.head.commit, self._index)
        if self._inside and not self._same:
            # The snapshot that equals a commit does not depend on the index, so it stays valid.
            clean = memory.clean if memory.commit == self.head.commit else None
            self._memory = self._memory._replace(rules=b"", clean=clean, dirty=())
            self._listing = self._start(*_TRACKED_BUT_IGNORED) if self._index else None
            self.expect_change()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The ignore rules from outside the folder, the strongest first."""
        return self._layers

    def assumed_tracked(self) -> Tracked:
        """The tracked files that are ignored or look like secrets, as of last time; see `tracked`."""
        return Tracked.of(self._memory.tracked if self._inside and self._index else ())

    def tracked(self, rules: bytes) -> Tracked:
        """The same files now, under the rules with the given fingerprint. Waits for git if needed."""
        if not self._inside or not self._index or (self._same and self._memory.rules == rules):
            return self.assumed_tracked()
        output = _finish(self._listing or self._start(*_TRACKED_BUT_IGNORED))
        self._listing = None
        if output is None:
            return Tracked.of(())
        files = tuple(sorted(path for path in output.split(b"\0") if path))
        self._memory = self._memory._replace(rules=rules, tracked=files)
        self._same = True
        return Tracked.of(files)

    def expect_change(self) -> None:
        """Start git's comparison with the commit, unless its result is already known."""
        if self._inside and self._status is None and self._memory.clean is None:
            self._status = self._start(*_CHANGES)

    def is_dirty(self, snapshot_id: str) -> bool | None:
        """Whether the snapshot differs from the commit; None when git cannot tell.

        Waits for git if needed.
        """
        if not self._inside:
            return None
        memory = self._memory
        if memory.clean is not None:
            return snapshot_id != memory.clean
        if snapshot_id in memory.dirty:
            return True
        self.expect_change()
        output = _finish(self._status)
        if output is None:
            return None
        if output:
            self._memory = memory._replace(dirty=(*memory.dirty, snapshot_id)[-_MOST_DIRTY:])
        else:
            self._memory = memory._replace(clean=snapshot_id)
        return bool(output)

    def memory(self) -> GitMemory:
        """What to remember for next time."""
        if not self._inside:
            return GitMemory()
        return self._memory._replace(commit=self.head.commit, index_mark=self._index)

    def close(self) -> None:
        for running in (self._listing, self._status):
            if running:
                running.kill()

    def _global_file(self, usual: bytes, text: bytes | None) -> bytes:
        if text is None:
            return usual
        settings = hashlib.sha256(text).digest() if text else b""
        # The settings have not changed, so git would give the same answer.
        if settings and settings == self._memory.settings:
            return self._memory.global_file
        path = _configured_ignore(self._folder, self._environ) or usual
        self._memory = self._memory._replace(settings=settings, global_file=path)
        return path

    def _ask_head(self, head: GitHead) -> GitHead:
        if head.known:
            return head
        commit = _finish(self._start("rev-parse", "--verify", "-q", "HEAD"))
        branch = _finish(self._start("symbolic-ref", "-q", "--short", "HEAD"))
        return GitHead(_word(commit), _word(branch))

    def _start(self, *words: str) -> RunningProgram | None:
        return _start(self._folder, self._environ, *words)


def _own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for git: without variables that name another repository."""
    own = {name: value for name, value in environ.items() if name not in _OTHER_REPOSITORY}
    # Without optional locks, `git status` in the background cannot disturb the user's git commands.
    return {**own, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}


def _configured_ignore(folder: bytes, environ: Mapping[str, str]) -> bytes | None:
    """The user's global ignore file according to git's settings; None when they name none. Waits for git."""
    output = _finish(_start(folder, environ, "config", "--type=path", "-z", "--get", "core.excludesFile"))
    return (output or b"").rstrip(b"\0") or None


def _start(folder: bytes, environ: Mapping[str, str], *words: str) -> RunningProgram | None:
    from gofer.transport import process  # slow to load, and git is rarely needed

    try:
        return process.start(["git", *words], cwd=folder, env=dict(environ))
    except GoferError:
        return None


def _finish(running: RunningProgram | None) -> bytes | None:
    """The output of git; None when git is not installed, failed or took too long."""
    if running is None:
        return None
    try:
        done = running.finish(timeout_s=_TIMEOUT_S)
    except GoferError:
        return None
    return done.stdout if done.status == 0 else None


def _word(output: bytes | None) -> str | None:
    return os.fsdecode(output.strip()) or None if output is not None else None
