"""Parses lines of a `.gitignore` and matches paths against them, exactly as git does.

Pure: bytes in, verdicts out, without access to files. The rules are those of git's dir.c and wildmatch.c,
including their oddities, and matching is by byte as there. A fuzz test compares the results with git.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_SPECIAL = re.compile(rb"[*?\[\\]")
_STAR = ord("*")

# git's classes: ASCII only, and `space` without form feed and vertical tab.
_CLASSES = {
    b"alnum": rb"A-Za-z0-9",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t\n\r",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}


class Pattern:
    """One line. A line with `by_name` matches the last part of a path, others the path from their file.

    Exactly one of `literal` (the whole text), `ending` (only with `by_name`) and `source` (a regular
    expression) is set.
    """

    __slots__ = ("by_name", "ending", "folders_only", "ignores", "line", "literal", "source")

    def __init__(self, line: bytes, ignores: bool, folders_only: bool, by_name: bool) -> None:
        self.line = line
        self.ignores = ignores
        self.folders_only = folders_only
        self.by_name = by_name
        self.literal: bytes | None = None
        self.ending: bytes | None = None
        self.source: bytes | None = None

    def matches(self, name: bytes, path: bytes) -> bool:
        text = name if self.by_name else path
        if self.source is not None:
            return _compile(self.source).fullmatch(text) is not None
        return text == self.literal or (self.ending is not None and text.endswith(self.ending))


class PatternList:
    """The lines of one file. Parsed at the first question, because most folders ask none."""

    __slots__ = ("_endings", "_names", "_other_names", "_other_paths", "_paths", "_patterns", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._patterns: list[Pattern] | None = None

    def verdict(self, name: bytes, path: bytes, is_folder: bool) -> bool | None:
        """Whether the last matching line ignores; None when no line matches.

        `path` is relative to the list's file.
        """
        found = self.find(name, path, is_folder)
        return None if found is None else found.ignores

    def find(self, name: bytes, path: bytes, is_folder: bool) -> Pattern | None:
        """The last matching line; None when no line matches."""
        if self._patterns is None:
            self._patterns = self._prepare()
        if not (
            name in self._names
            or path in self._paths
            or name.endswith(self._endings)
            or self._other_names.fullmatch(name)
            or self._other_paths.fullmatch(path)
        ):
            return None
        for pattern in self._patterns:
            if (is_folder or not pattern.folders_only) and pattern.matches(name, path):
                return pattern
        return None

    def _prepare(self) -> list[Pattern]:
        """The parsed lines, last first.

        Also prepares a single test for all lines, because most paths match none.
        """
        patterns = list(parse_lines(self.text))
        self._names = {p.literal for p in patterns if p.by_name}
        self._paths = {p.literal for p in patterns if not p.by_name}
        self._endings = tuple(p.ending for p in patterns if p.ending is not None)
        self._other_names = _compile(b"|".join(p.source for p in patterns if p.by_name and p.source))
        self._other_paths = _compile(b"|".join(p.source for p in patterns if not p.by_name and p.source))
        return patterns[::-1]


@lru_cache(maxsize=4096)
def _compile(source: bytes) -> re.Pattern[bytes]:
    return re.compile(source or b"(?!)", re.DOTALL)


def parse_lines(text: bytes) -> Iterator[Pattern]:
    """The lines that can match something, in order."""
    # As git, skip a byte order mark at the start of the file.
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if line and not line.startswith(b"#"):
            pattern = _parse_line(_trim(line.removesuffix(b"\r").partition(b"\0")[0]))
            if pattern:
                yield pattern


def escape(path: bytes) -> bytes:
    """A line that matches exactly this path. For names without a newline."""
    return b"/" + _SPECIAL.sub(rb"\\\g<0>", path.rstrip(b"/")).replace(b" ", b"\\ ")


def _trim(line: bytes) -> bytes:
    """The line without trailing spaces, except a space after a backslash."""
    kept = line.rstrip(b" ")
    if len(kept) == len(line):
        return line
    backslashes = len(kept) - len(kept.rstrip(b"\\"))
    return kept + b" " if backslashes % 2 else kept


def _parse_line(line: bytes) -> Pattern | None:
    ignores = not line.startswith(b"!")
    glob = line if ignores else line[1:]
    pattern = Pattern(line, ignores, glob.endswith(b"/"), b"/" not in glob.removesuffix(b"/"))
    glob = glob.removesuffix(b"/").removeprefix(b"/")
    special = _SPECIAL.search(glob)
    if not special:
        pattern.literal = glob
        return pattern if glob else None
    start = special.start()
    if pattern.by_name and glob[0] == _STAR and not _SPECIAL.search(glob, 1):
        pattern.ending = glob[1:]
        return pattern
    # git compares the text before the first special character literally, and treats a `**` after it as a
    # start.
    source = translate(glob[start:])
    if source is None:
        return None
    pattern.source = re.escape(glob[:start]) + source
    return pattern


def translate(glob: bytes) -> bytes | None:
    """The regular expression for a wildmatch pattern; None for a pattern that matches nothing.

    It never tries one part of a text in many ways, however many stars there are: a star that another star
    follows stops at the first place where what lies between them fits, and does not try a later one.
    """
    chunks = [_Chunk(b"")]
    at = 0
    while at < len(glob):
        letter = glob[at : at + 1]
        if letter == b"*":
            source, at = _stars(glob, at)
            if source == _STAR_IN_NAME:
                chunks[-1].parts.append(b"")
            else:
                chunks.append(_Chunk(source))
            continue
        if letter == b"[":
            found = _bracket(glob, at + 1)
            if not found:
                return None
            source, at = found
        elif letter == b"\\":
            if at + 1 == len(glob):
                return None
            source, at = re.escape(glob[at + 1 : at + 2]), at + 2
        else:
            source, at = (b"[^/]" if letter == b"?" else re.escape(letter)), at + 1
        chunks[-1].parts[-1] += source
    first, *others = chunks
    return first.source() + b"".join(
        # Later chunks can begin at every place behind this one, so its first place is the best one.
        b"(?>%s)" % chunk.source() if number < len(others) else chunk.source()
        for number, chunk in enumerate(others, 1)
    )


_STAR_IN_NAME = b"[^/]*"
_ANY_FOLDERS = b"(?:.*?/)??"
_ANYTHING = b".*?"


class _Chunk:
    """What follows `**`, or begins the pattern: `parts` lie between stars and have a fixed length each."""

    def __init__(self, lead: bytes) -> None:
        self._lead = lead
        self.parts = [b""]

    def source(self) -> bytes:
        first, *others = self.parts
        stars = (
            # What the next star can match begins anywhere in this name, so the first place is the best one.
            b"(?>[^/]*?%s)" % part if number < len(others) else _STAR_IN_NAME + part
            for number, part in enumerate(others, 1)
        )
        return self._lead + first + b"".join(stars)


def _stars(glob: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while glob[end : end + 1] == b"*":
        end += 1
    rest = glob[end:]
    at_start = at == 0 or glob[at - 1 : at] == b"/"
    if end - at < 2 or not at_start or not (rest == b"" or rest.startswith((b"/", b"\\/"))):
        return _STAR_IN_NAME, end
    if rest.startswith(b"/"):
        return _ANY_FOLDERS, end + 1
    return _ANYTHING, end


def _bracket(glob: bytes, at: int) -> tuple[bytes, int] | None:
    """The set after a `[`, and the position after it; None when it is not closed or names no class."""
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    wanted: list[bytes] = []
    previous: int | None = None
    first = True
    while first or glob[at : at + 1] != b"]":
        first = False
        if at >= len(glob):
            return None
        found = _member(glob, at, previous)
        if not found:
            return None
        source, previous, at = found
        wanted.append(source)
    inside = b"".join(wanted)
    if negated:
        return b"(?!/)[^" + inside + b"]" if inside else b"[^/]", at + 1
    return b"(?!/)[" + inside + b"]" if inside else b"(?!)", at + 1


def _member(glob: bytes, at: int, previous: int | None) -> tuple[bytes, int | None, int] | None:
    """One member of a set as a regular expression, the letter with which a range may begin, and the next
    position.
    """
    letter = glob[at : at + 1]
    following = glob[at + 1 : at + 2]
    if letter == b"\\":
        return (_escaped_byte(following[0]), following[0], at + 2) if following else None
    if letter == b"-" and previous and following not in (b"", b"]"):
        at += 1 + (following == b"\\")
        last = glob[at : at + 1]
        return (_byte_range(previous, last[0]), None, at + 1) if last else None
    if letter == b"[" and following == b":":
        end = glob.find(b"]", at + 2)
        if end < 0:
            return None
        if end > at + 2 and glob[end - 1 : end] == b":":
            source = _CLASSES.get(glob[at + 2 : end - 1])
            return (source, None, end + 1) if source else None
    return _escaped_byte(letter[0]), letter[0], at + 1


def _escaped_byte(letter: int) -> bytes:
    return b"\\x%02x" % letter


def _byte_range(first: int, last: int) -> bytes:
    return b"%s-%s" % (_escaped_byte(first), _escaped_byte(last)) if first <= last else b""
