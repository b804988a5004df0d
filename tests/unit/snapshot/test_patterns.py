"""Single ignore lines: a table of git's own examples and oddities, so that a failure names the line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gofer.snapshot.patterns import PatternList, escape, parse_lines

CASES = [
    # line, path, is a folder, verdict
    (b"*.o", b"a/b.o", False, True),
    (b"*.o", b"a/b.oo", False, None),
    (b"!*.o", b"b.o", False, False),
    (b"/b.o", b"a/b.o", False, None),
    (b"/b.o", b"b.o", False, True),
    (b"doc/frotz", b"a/doc/frotz", False, None),
    (b"doc/frotz/", b"doc/frotz", True, True),
    (b"doc/frotz/", b"doc/frotz", False, None),
    (b"frotz/", b"a/frotz", True, True),
    (b"foo/*", b"foo/bar/hello.c", False, None),
    (b"foo/*", b"foo/bar", True, True),
    (b"**/foo", b"a/b/foo", False, True),
    (b"**/foo", b"foo", False, True),
    (b"abc/**", b"abc/x/y", False, True),
    (b"abc/**", b"abc", True, None),
    (b"a/**/b", b"a/b", False, True),
    (b"a/**/b", b"a/x/y/b", False, True),
    (b"a/x**/b", b"a/xy/z/b", False, True),  # git: `**` begins right after the literal part
    (b"a?/x**/b", b"ab/xy/z/b", False, None),  # but not when a special letter came before
    (b"a**b/", b"axxb", True, True),
    (b"\\#x", b"#x", False, True),
    (b"#x", b"#x", False, None),
    (b"\\!x", b"!x", False, True),
    (b"x ", b"x", False, True),
    (b"x\\ ", b"x ", False, True),
    (b"x\\\\ ", b"x\\", False, True),
    (b"x\r", b"x", False, True),
    (b"x\\", b"x\\", False, None),
    (b"[a-c]x", b"bx", False, True),
    (b"[!a-c]x", b"bx", False, None),
    (b"[^a-c]x", b"dx", False, True),
    (b"[]]x", b"]x", False, True),
    (b"[a-]x", b"-x", False, True),
    (b"[[:digit:]]x", b"4x", False, True),
    (b"[[:space:]]x", b"\x0bx", False, None),
    (b"[[:nope:]]x", b"nx", False, None),
    (b"[ab", b"[ab", False, None),
    (b"?", b"\xc3\xa9", False, None),  # one byte, not one letter
    (b"??", b"\xc3\xa9", False, True),
    (b"\xef\xbb\xbfx", b"x", False, True),
    (b"/", b"x", True, None),
    (b"a\nb\n!a", b"a", False, False),
    (b"!a\na", b"a", False, True),
]


@pytest.mark.parametrize(("line", "path", "is_folder", "verdict"), CASES)
def test_verdict(line: bytes, path: bytes, is_folder: bool, verdict: bool | None) -> None:
    assert PatternList(line).verdict(path.rpartition(b"/")[2], path, is_folder) is verdict


def test_comments_and_blank_lines_say_nothing() -> None:
    assert list(parse_lines(b"# a\n\n   \n\r\n!\n")) == []


@given(st.binary(min_size=1, max_size=12).filter(lambda name: not set(name) & set(b"\0\n\r/")))
def test_escaped_path_matches_itself_alone(name: bytes) -> None:
    path = b"x/" + name
    lines = PatternList(escape(path))
    assert lines.verdict(name, path, False) is True
    assert lines.verdict(name, b"y/" + path, False) is None
    assert lines.verdict(name + b"z", path + b"z", False) is None


@pytest.mark.parametrize(
    "line",
    [
        b"*a" * 14 + b"*b",
        b"/" + b"**/*a*/" * 8 + b"**/b",
        b"/" + b"a*" * 14 + b"/**/x",
        b"*[ab]?" * 14 + b"c",
    ],
)
def test_no_line_tries_one_name_in_many_ways(line: bytes) -> None:
    """A project of somebody else may have such a line: without an answer, nothing could be submitted."""
    patterns = PatternList(line)
    assert patterns.verdict(b"a" * 200, b"a" * 200, False) is None
    assert patterns.verdict(b"a", b"a/" * 100 + b"a", False) is None
