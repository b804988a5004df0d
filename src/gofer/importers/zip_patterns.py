"""Translates the options of `zip` in files of the older tools to ignore patterns of a snapshot.

A pattern of zip matches the whole path of a file from the top, and its `*` matches across folders. A line of
a `.gitignore` matches names of files and folders, and its `*` stays within one name. Where the two cannot be
equal, the translation ignores fewer files.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

# Each may double the lines that a pattern becomes.
_MOST_STARS = 6


class ZipPatterns(NamedTuple):
    """`ignore` for gofer.yaml, `others` the words of other options.

    `unsure` are patterns that leave out less than they did. `files` are those that zip took for the name of a
    file: it sent what is in a folder of that name, and a line would not, so there is none.
    """

    ignore: list[str]
    others: list[str]
    unsure: list[str]
    files: list[str]


def read_zip_options(words: Sequence[str]) -> ZipPatterns:
    """The patterns behind each `-x`, up to the next option or `@`; the words are part of a shell's line."""
    found = ZipPatterns([], [], [], [])
    excluding = False
    for word in (part for one in words for part in _shell_words(one)):
        if word in ("-x", "--exclude"):
            excluding = True
        elif word.startswith("-x") and not word.startswith(("-x@", "-x=")):
            excluding = True
            _take(word[2:], found)
        elif word.startswith("-"):
            excluding = False
            found.others.append(word)
        elif word == "@":
            excluding = False
        elif excluding:
            _take(word, found)
        else:
            found.others.append(word)
    return found


def _shell_words(text: str) -> list[str]:
    r"""The words of a shell's line. A file has `\*` where the shell must not expand the `*`."""
    try:
        return shlex.split(text)
    except ValueError:
        return [text.replace("\\", "")]


def _take(word: str, found: ZipPatterns) -> None:
    pattern = word
    while pattern.startswith(("/", "./")):
        pattern = pattern.removeprefix(".").removeprefix("/")
    while "**" in pattern:
        pattern = pattern.replace("**", "*")
    if not pattern.endswith("*") and not _has_extension(pattern):
        found.files.append(word)
        return
    found.ignore.extend(one for one in _lines(pattern) if one not in found.ignore)
    if any(letter in pattern for letter in "?[") or pattern.count("*") > _MOST_STARS:
        found.unsure.append(word)


def _has_extension(pattern: str) -> bool:
    """Whether the last name is like `*.pyc`, which folders are not called."""
    stem, _, extension = pattern.rpartition("/")[2].rpartition(".")
    return bool(stem) and any(letter.isalpha() for letter in extension)


def _lines(pattern: str) -> list[str]:
    """What matches the same files, for a pattern that ends with a `*` or an extension.

    `x/*` is all that is in folders that match `x`, and `x*` all that begins so, folders with what is in them.
    """
    if pattern == "*":
        return [pattern]
    if pattern.count("*") > _MOST_STARS:
        return []
    if pattern.endswith("/*"):
        return [f"{one}/" for one in _entries(pattern[:-2])]
    return _entries(pattern)


def _entries(pattern: str) -> list[str]:
    """Lines for the files and folders whose path from the top matches."""
    if "/" not in pattern and pattern.startswith("*") and "*" not in pattern[1:-1]:
        return [pattern]  # about the name alone
    lines = [""]
    parts = pattern.split("*")
    for part, following in pairwise(parts):
        stands = _star(part, following)
        lines = [line + part + star for line in lines for star in stands]
    lines = [line + parts[-1] for line in lines]
    return [line if line.startswith("**/") else f"/{line}" for line in lines]


def _star(before: str, after: str) -> tuple[str, ...]:
    """What stands for a `*`: any number of folders, also none. One at the end stays in its name."""
    if not after:
        return ("*",)
    if after.startswith("/"):
        return ("*/**",)
    return ("**/*",) if before.endswith("/") or not before else ("*", "*/**/*")
