"""Decides which entries of a folder belong to a snapshot, from ignore files and from what git tracks.

The strongest rule first: `.git` and the caller's private files are never taken; files that look like secrets,
unless git tracks them; the caller's `include`; its `ignore`; `.goferignore` files, the deepest first; files
that git tracks although a pattern ignores them; `.gitignore` files, the deepest first; the repository's own
exclude file; the user's global one; gofer's built-in list. In each file the last matching line decides.
Pure: `walk` and `ignorefiles` supply the texts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gofer.core.code import junk
from gofer.core.secrets.secret_files import looks_like_secret
from gofer.snapshot.include import Includes
from gofer.snapshot.patterns import Pattern, PatternList

GIT_FILE = ".gitignore"
OWN_FILE = ".goferignore"

SKIP, KEEP, ONLY_TRACKED = 0, 1, 2

# Files that are never code: caches, files of editors, other tools' histories, and logs that gofer fetched.
BUILT_IN = "".join(
    [
        *(f"{name}/\n" for name in junk.FOLDERS),
        *(f"*{ending}\n" for ending in junk.ENDINGS),
        *(f"{name}\n" for name in junk.FILES),
        "**/assets/r[0-9][0-9][0-9][0-9][0-9][0-9]-[0-9][0-9][0-9][0-9][0-9][0-9]-*/\n",
    ]
).encode()

# The source of lines from the settings' `ignore`, in messages.
IGNORE_KEY = "ignore:"
SECRET = "looks like a secret"

Judge = Callable[[bytes, bool], int]


class Layer(NamedTuple):
    """The lines of one file. A path of the snapshot is `lead + path[cut:]` relative to that file.

    `source` is the file's name for people.
    """

    patterns: PatternList
    lead: bytes
    cut: int
    source: str = ""

    def for_folder(self, prefix: bytes) -> RuleLayer:
        """The layer for the entries of the folder `prefix` (empty, or ending with `/`)."""
        return RuleLayer(self, self.lead + prefix[self.cut :])


class RuleLayer(NamedTuple):
    """A layer, and the path before an entry's name relative to the layer's file."""

    layer: Layer
    lead: bytes

    def find(self, name: bytes, is_folder: bool) -> Pattern | None:
        return self.layer.patterns.find(name, self.lead + name, is_folder)


class IgnoreReason(NamedTuple):
    """Why an entry is left out: a line of an ignore file. For a file that looks like a secret, `source` is
    SECRET, without a line.
    """

    source: str
    line: str = ""


class Tracked(NamedTuple):
    """Files that git tracks although they are ignored or look like secrets, and the folders above them."""

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


class SnapshotChoice(NamedTuple):
    """The caller's rules for a snapshot, as lines of an ignore file.

    `private` files are never taken. `ignore` is stronger than ignore files. `include` takes files that any of
    these leave out.
    """

    private: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    include: Includes = Includes()

    def layers(self) -> tuple[Layer, Layer]:
        return _layer(self.private, ""), _layer(self.ignore, IGNORE_KEY)


NO_CHOICE = SnapshotChoice()


class Rules:
    """The rules for one folder. Two with equal fingerprints give equal results.

    In a folder with `only_tracked` everything is ignored, because of the line `because` that ignores the
    folder itself. From an `included` folder, only files that are never code are left out.
    """

    __slots__ = (
        "because",
        "fingerprint",
        "git",
        "include",
        "included",
        "only_tracked",
        "own",
        "private",
        "tracked",
    )

    def __init__(
        self,
        private: Layer,
        include: Includes,
        own: tuple[Layer, ...],
        git: tuple[Layer, ...],
        tracked: Tracked,
        fingerprint: bytes,
    ) -> None:
        self.private = private
        self.include = include
        self.own = own
        self.git = git
        self.tracked = tracked
        self.fingerprint = fingerprint
        self.because: IgnoreReason | None = None
        self.only_tracked = False
        self.included = False

    def enter(self, folder: bytes, git_text: bytes | None, own_text: bytes | None) -> Rules:
        """The rules with the ignore files found in `folder`; the same object when there are none."""
        if git_text is None and own_text is None:
            return self
        above = os.fsdecode(folder + b"/" if folder else b"")
        cut = len(folder) + 1 if folder else 0
        inside = self._changed(_fingerprint(self.fingerprint, folder, git_text, own_text))
        if own_text is not None:  # the caller's patterns stay first
            own = Layer(PatternList(own_text), b"", cut, above + OWN_FILE)
            inside.own = (self.own[0], own, *self.own[1:])
        if git_text is not None:
            inside.git = (Layer(PatternList(git_text), b"", cut, above + GIT_FILE), *self.git)
        return inside

    def for_child(self, folder: bytes, name: bytes, *, only: bool) -> Rules:
        """The rules for the folder `name` in `folder`; `only` says that `name` was judged ONLY_TRACKED."""
        path = folder + b"/" + name if folder else name
        included = self.included or self.include.matches(name, path, True)
        if included == self.included and only == self.only_tracked:
            return self
        inside = self._changed(_fingerprint(self.fingerprint, b"%d%d" % (included, only)))
        inside.included, inside.only_tracked = included, only
        inside.because = self.reason(folder, name, True) if only else None
        return inside

    def _changed(self, fingerprint: bytes) -> Rules:
        """A copy with another fingerprint."""
        copy = Rules(self.private, self.include, self.own, self.git, self.tracked, fingerprint)
        copy.because, copy.only_tracked, copy.included = self.because, self.only_tracked, self.included
        return copy

    def judge(self, folder: bytes) -> Judge:
        """A function of (name, is a folder) for the entries of `folder`: SKIP, KEEP or ONLY_TRACKED."""
        prefix = folder + b"/" if folder else b""
        private, own = self.private.for_folder(prefix), [layer.for_folder(prefix) for layer in self.own]
        git = [layer.for_folder(prefix) for layer in (self.git[-1:] if self.included else self.git)]

        def judged(name: bytes, is_folder: bool) -> int:
            if name == b".git" or private.find(name, is_folder):
                return SKIP
            path = prefix + name
            if not is_folder and looks_like_secret(os.fsdecode(path)):
                # A tracked file that looks like a secret counts as code unless a rule ignores it.
                is_code = path in self.tracked.files and not self._ignores([*own, *git], name, False)
                return KEEP if is_code else SKIP
            if self.include.matches(name, path, is_folder):
                return KEEP
            found = None if self.included else _first(own, name, is_folder)
            if found is not None and not found.ignores:
                return KEEP
            if found is None and not self._ignores(git, name, is_folder):
                return KEEP
            if is_folder and self.include.leads_to(path):
                return ONLY_TRACKED
            return SKIP if found is not None else self._rescue(path, is_folder)

        return judged

    def reason(self, folder: bytes, name: bytes, is_folder: bool) -> IgnoreReason | None:
        """Why an entry of `folder` that was judged SKIP or ONLY_TRACKED is left out.

        None for private files and for files that are never code.
        """
        prefix = folder + b"/" if folder else b""
        if name == b".git" or self.private.for_folder(prefix).find(name, is_folder):
            return None
        layers = [layer.for_folder(prefix) for layer in (*self.own, *self.git)]
        found = next(((seen, line) for seen in layers if (line := seen.find(name, is_folder))), None)
        if found is not None and found[1].ignores:
            source = found[0].layer.source
            return IgnoreReason(source, os.fsdecode(found[1].line)) if source else None
        if self.because is None and not is_folder and looks_like_secret(os.fsdecode(prefix + name)):
            return IgnoreReason(SECRET)
        return self.because

    def names(self, folder: bytes) -> bool:
        """Whether a line explicitly includes this folder."""
        above, _, name = folder.rpartition(b"/")
        if self.include.matches(name, folder, True):
            return True
        found = _first(
            [layer.for_folder(above + b"/" if above else b"") for layer in (*self.own, *self.git)], name, True
        )
        return found is not None and not found.ignores

    def _ignores(self, layers: Sequence[RuleLayer], name: bytes, is_folder: bool) -> bool:
        if self.only_tracked:
            return True
        found = _first(layers, name, is_folder)
        return found is not None and found.ignores

    def _rescue(self, path: bytes, is_folder: bool) -> int:
        if is_folder:
            return ONLY_TRACKED if path in self.tracked.folders else SKIP
        return KEEP if path in self.tracked.files else SKIP


def top_rules(choice: SnapshotChoice, git: Sequence[Layer], tracked: Tracked) -> Rules:
    """The rules above the folder. `git` are the layers from outside of it, the strongest first."""
    private, ignore = choice.layers()
    texts = [part for layer in git for part in (layer.lead, layer.patterns.text)]
    own = (private.patterns.text, ignore.patterns.text, choice.include.fingerprint)
    mark = _fingerprint(b"%d" % len(git), BUILT_IN, *own, *texts, *sorted(tracked.files))
    built_in = Layer(PatternList(BUILT_IN), b"", 0)
    return Rules(private, choice.include, (ignore,), (*git, built_in), tracked, mark)


def _layer(patterns: Sequence[str], source: str) -> Layer:
    return Layer(PatternList("\n".join(patterns).encode("utf-8", "surrogateescape")), b"", 0, source)


def _first(layers: Iterable[RuleLayer], name: bytes, is_folder: bool) -> Pattern | None:
    """The line that decides; None when no line matches."""
    for seen in layers:
        found = seen.find(name, is_folder)
        if found is not None:
            return found
    return None


def _fingerprint(*parts: bytes | None) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return digest.digest()
