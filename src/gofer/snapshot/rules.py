"""Which entries of a folder belong to a snapshot: ignore files one above the other, and what git tracks.

From the strongest: `.git` is never taken; the caller's patterns; `.goferignore` files, the deepest first;
files that git tracks although a pattern ignores them; `.gitignore` files, the deepest first; the repository's
own exclude file; the person's global one; gofer's built-in list. In each file the last line that matches
decides. Pure: texts come from `walk` and `ignorefiles`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gofer.snapshot.patterns import PatternList

GIT_FILE = ".gitignore"
OWN_FILE = ".goferignore"

SKIP, KEEP, ONLY_TRACKED = 0, 1, 2

# What is never code: caches, editors' droppings, the history of other tools, and the logs gofer fetched.
BUILT_IN = b"""\
__pycache__/
*.pyc
*.pyo
.ipynb_checkpoints/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.hypothesis/
.hg/
.svn/
.DS_Store
/assets/r[0-9][0-9][0-9][0-9][0-9][0-9]-[0-9][0-9][0-9][0-9][0-9][0-9]-*/
"""

Judge = Callable[[bytes, bool], int]
_Verdict = Callable[[bytes, bytes, bool], bool | None]


class Layer(NamedTuple):
    """The lines of one file and how a path in the snapshot is seen from there: `lead + path[cut:]`."""

    patterns: PatternList
    lead: bytes
    cut: int


class Tracked(NamedTuple):
    """Files that git tracks although they are ignored, and the folders above them."""

    files: frozenset[bytes]
    folders: frozenset[bytes]

    @classmethod
    def of(cls, files: Iterable[bytes]) -> Tracked:
        paths = frozenset(files)
        folders: set[bytes] = set()
        for path in paths:
            while path := path.rpartition(b"/")[0]:
                folders.add(path)
        return cls(paths, frozenset(folders))


class Rules:
    """The rules in force in one folder. Two with equal fingerprints judge alike."""

    __slots__ = ("fingerprint", "git", "only_tracked", "own", "tracked")

    def __init__(
        self,
        own: tuple[Layer, ...],
        git: tuple[Layer, ...],
        tracked: Tracked,
        fingerprint: bytes,
        *,
        only_tracked: bool = False,
    ) -> None:
        self.own = own
        self.git = git
        self.tracked = tracked
        self.fingerprint = fingerprint
        self.only_tracked = only_tracked

    def enter(self, folder: bytes, git_text: bytes | None, own_text: bytes | None) -> Rules:
        """With the ignore files found in `folder`; these very rules when there are none."""
        if git_text is None and own_text is None:
            return self
        cut = len(folder) + 1 if folder else 0
        own, git = self.own, self.git
        if own_text is not None:  # the caller's patterns stay first
            own = (own[0], Layer(PatternList(own_text), b"", cut), *own[1:])
        if git_text is not None:
            git = (Layer(PatternList(git_text), b"", cut), *git)
        mark = _fingerprint(self.fingerprint, folder, git_text, own_text)
        return Rules(own, git, self.tracked, mark, only_tracked=self.only_tracked)

    def for_child(self, verdict: int) -> Rules:
        """The rules for a folder that was judged `verdict`."""
        only = verdict == ONLY_TRACKED
        if only == self.only_tracked:
            return self
        mark = _fingerprint(self.fingerprint, b"only" if only else b"all")
        return Rules(self.own, self.git, self.tracked, mark, only_tracked=only)

    def judge(self, folder: bytes) -> Judge:
        """A function of (name, is a folder) for the entries of `folder`: SKIP, KEEP or ONLY_TRACKED."""
        prefix = folder + b"/" if folder else b""
        own = [(layer.patterns.verdict, layer.lead + prefix[layer.cut :]) for layer in self.own]
        git = [(layer.patterns.verdict, layer.lead + prefix[layer.cut :]) for layer in self.git]

        def judged(name: bytes, is_folder: bool) -> int:
            if name == b".git":
                return SKIP
            for verdict, lead in own:
                found = verdict(name, lead + name, is_folder)
                if found is not None:
                    return SKIP if found else KEEP
            ignored = self.only_tracked or _first(git, name, is_folder)
            return self._rescue(prefix + name, is_folder) if ignored else KEEP

        return judged

    def names(self, folder: bytes) -> bool:
        """Whether a line says outright that this folder is wanted."""
        above, _, name = folder.rpartition(b"/")
        for layer in (*self.own, *self.git):
            path = layer.lead + (above + b"/" if above else b"")[layer.cut :] + name
            found = layer.patterns.verdict(name, path, True)
            if found is not None:
                return not found
        return False

    def _rescue(self, path: bytes, is_folder: bool) -> int:
        if is_folder:
            return ONLY_TRACKED if path in self.tracked.folders else SKIP
        return KEEP if path in self.tracked.files else SKIP


def top_rules(patterns: Sequence[str], git: Sequence[Layer], tracked: Tracked) -> Rules:
    """The rules before any file in the folder is read. `git` is what lies outside, the strongest first."""
    extra = "\n".join(patterns).encode("utf-8", "surrogateescape")
    texts = [part for layer in git for part in (layer.lead, layer.patterns.text)]
    mark = _fingerprint(b"%d" % len(git), BUILT_IN, extra, *texts, *sorted(tracked.files))
    built_in = Layer(PatternList(BUILT_IN), b"", 0)
    return Rules((Layer(PatternList(extra), b"", 0),), (*git, built_in), tracked, mark)


def _first(layers: Sequence[tuple[_Verdict, bytes]], name: bytes, is_folder: bool) -> bool:
    for verdict, lead in layers:
        found = verdict(name, lead + name, is_folder)
        if found is not None:
            return found
    return False


def _fingerprint(*parts: bytes | None) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return digest.digest()
