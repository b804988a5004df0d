"""Options of `zip`, as the older tools keep them, as patterns of files that stay out of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class ZipPatterns(NamedTuple):
    """`ignore` for gofer.yaml; `exact` unless a `*` inside a pattern matched across folders; other words."""

    ignore: list[str]
    exact: bool
    others: list[str]


def read_zip_options(words: Sequence[str]) -> ZipPatterns:
    """The patterns behind each `-x`, up to the next option. Words of other options are given back."""
    ignore: list[str] = []
    others: list[str] = []
    exact, excluding = True, False
    for word in words:
        if word in ("-x", "--exclude"):
            excluding = True
        elif word.startswith("-x") and not word.startswith(("-x@", "-x=")):
            excluding = True
            ignore.append(_pattern(word[2:]))
        elif word.startswith("-"):
            excluding = False
            others.append(word)
        elif excluding:
            ignore.append(_pattern(word))
            exact = exact and "*" not in word.replace("\\", "").strip("*")
        else:
            others.append(word)
    return ZipPatterns(ignore, exact, others)


def _pattern(word: str) -> str:
    """zip's `*` matches across folders and a pattern is about the whole path; git's is about names."""
    plain = word.replace("\\", "")
    anywhere = plain.startswith("*")
    inside = plain.endswith("/*")
    core = plain.strip("*").lstrip("/")
    if not core:
        return plain or "*"
    tail = core if inside or not plain.endswith("*") else f"{core}*"
    if "/" not in tail.rstrip("/"):
        return f"*{tail}" if anywhere else f"/{tail}"
    return f"**/*{tail}" if anywhere else f"/{tail}"
