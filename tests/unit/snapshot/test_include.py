"""Patterns of `--include`, read from the folder they are written for."""

from __future__ import annotations

import pytest

from gofer.snapshot.include import Includes, climb


@pytest.mark.parametrize(
    ("pattern", "base", "wanted"),
    [
        ("data/", "a/b", ("data/", "a/b")),
        ("../data/", "a/b", ("/data/", "a")),
        ("../../data/*.txt", "a/b", ("/data/*.txt", "")),
        ("./x", "a", ("/x", "a")),
        ("!../x", "a", ("!/x", "")),
        ("../", "a/b", ("/**", "a")),
        ("..data", "a", ("..data", "a")),
        ("../../x", "a", None),
        ("../x", "", None),
    ],
)
def test_leading_dots_climb(pattern: str, base: str, wanted: tuple[str, str] | None) -> None:
    assert climb(pattern, base) == wanted


def test_each_pattern_is_seen_from_its_own_folder() -> None:
    include = Includes.of((["top/"], ""), (["own", "../beside/x", "!own", "own"], "a/b"))
    assert include.matches(b"top", b"top", True)
    assert include.matches(b"own", b"a/b/own", False)
    assert not include.matches(b"own", b"a/own", False)
    assert include.matches(b"x", b"a/beside/x", False)
    assert not include.matches(b"x", b"beside/x", False)
    assert include.leads_to(b"a/beside")
    assert include.leads_to(b"a")
    assert not include.leads_to(b"c")
