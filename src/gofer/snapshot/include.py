"""Patterns of `include:` and `--include`: files to send although an ignore rule leaves them out. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gofer.snapshot.patterns import PatternList, parse_lines, translate


class Include:
    """A list of patterns. They are relative to the folder `base`, a path from the top of the code folder.

    The syntax is that of `.gitignore`. A pattern with a `/` before its end also applies inside ignored
    folders. A pattern without one applies only in folders that are sent anyway.
    """

    def __init__(self, patterns: Sequence[str] = (), base: str = "") -> None:
        self.text = "\n".join(patterns).encode("utf-8", "surrogateescape")
        self.base = (base + "/" if base else "").encode("utf-8", "surrogateescape")
        self._patterns = PatternList(self.text)
        self._ways = [re.compile(way, re.DOTALL) for line in self.text.split(b"\n") for way in _ways(line)]

    def matches(self, name: bytes, path: bytes, is_folder: bool) -> bool:
        """Whether a pattern names exactly this file or folder; `path` is from the top of the code folder."""
        if not self.text or not path.startswith(self.base):
            return False
        return self._patterns.verdict(name, path[len(self.base) :], is_folder) is True

    def leads_to(self, folder: bytes) -> bool:
        """Whether a pattern may name something inside this folder."""
        if not self._ways:
            return False
        if self.base.startswith(folder + b"/"):
            return True
        inside = folder[len(self.base) :]
        return folder.startswith(self.base) and any(way.fullmatch(inside) for way in self._ways)


class Includes(NamedTuple):
    """Several lists of patterns, each with its own base."""

    lists: tuple[Include, ...] = ()

    @classmethod
    def of(cls, *written: tuple[Sequence[str], str]) -> Includes:
        """Patterns with the folder they are written for; one that begins with `../` is for a folder above.

        A pattern that leads out of the code takes nothing along.
        """
        lists: list[tuple[str, list[str]]] = []
        for patterns, base in written:
            lists.append((base, []))
            for pattern in patterns:
                found = climb(pattern, base)
                if found is None:
                    continue
                if found.base != lists[-1][0]:
                    lists.append((found.base, []))
                lists[-1][1].append(found.pattern)
        return cls(tuple(Include(patterns, base) for base, patterns in lists))

    def matches(self, name: bytes, path: bytes, is_folder: bool) -> bool:
        return any(patterns.matches(name, path, is_folder) for patterns in self.lists)

    def leads_to(self, folder: bytes) -> bool:
        return any(patterns.leads_to(folder) for patterns in self.lists)

    @property
    def fingerprint(self) -> bytes:
        return b"\0".join(part for patterns in self.lists for part in (patterns.base, patterns.text))


class ClimbedPattern(NamedTuple):
    """A pattern without `../`, and the folder that it is written for, from the top of the code."""

    pattern: str
    base: str


def climb(pattern: str, base: str) -> ClimbedPattern | None:
    """The pattern as it is seen from the folder that its leading `../` lead to; None above the top."""
    if not pattern.startswith(("./", "../", "!./", "!../")):
        return ClimbedPattern(pattern, base)
    mark, rest = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    while rest.startswith(("./", "../")):
        step, _, rest = rest.partition("/")
        if step == "..":
            if not base:
                return None
            base = base.rpartition("/")[0]
    return ClimbedPattern(f"{mark}/{rest}" if rest else f"{mark}/**", base)


def _ways(line: bytes) -> list[bytes]:
    """Regular expressions for the folders that must be entered to apply a line."""
    if line.startswith((b"!", b"#")) or next(parse_lines(line), None) is None:
        return []
    parts = line.strip(b"/").split(b"/")
    found = []
    for length in range(1, len(parts)):
        glob = b"/".join(parts[:length])
        is_any_depth = parts[length - 1] == b"**"
        source = translate(glob + b"/**" if is_any_depth and length > 1 else glob)
        if source is not None:
            found.append(source)
    return found
