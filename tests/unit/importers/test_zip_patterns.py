"""Patterns of `zip -x` as lines of an ignore list: the same files stay out, or fewer, and never more."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gofer.importers.zip_patterns import read_zip_options
from gofer.snapshot.patterns import PatternList

PATHS = [
    "data/x", "data/data/x", "src/data/x", "src/data/deep/x.py", "src/metadata/x", "aux_data/x",
    "src/data.txt", "build/x", "src/build/x", "src/rebuild/x", "tmp/x", "src/tmp/x", "src/other/tmp",
    "src/mytmp", "tmpfile", "wandb/run/x", "src/mywandb/x", "src/CMC/x", "lib/src/CMC/x", "mysrc/CMC/x",
    "src/CMC2/x", "CMC/x", "a.pyc", "src/a.pyc", "src/py/a.pyc", "a/b", "a/b/c", "x/a/b", "ab/x", "a/x/b/y",
    "a1/2b/y", "main.py", "src/deep/er/model.ckpt", "model.ckpt", "lib64/x", "libs", "deep/lib/x", "a b/c d",
]  # fmt: skip
PATTERNS = [
    "*/data/*", "*/build/*", "*/tmp/*", "data/*", "*data/*", "*data*", "/data/*", "./data/*", "src/*", "*/*",
    "*src/CMC/*", "*/CMC/*", "*.pyc", "src/*.pyc", "*/a.pyc", "lib*", "*/lib/*", "*wandb*", "src/*data/*",
    "a*b/*", "a*b*", "a/*/b/*", "*a*/b/*", "*", "*.ckpt", "src/*/model.ckpt", "**/tmp/**", "a b/*", "*t*a/*",
]  # fmt: skip


def sent_by_zip(path: str, pattern: str) -> bool:
    """zip matches the whole path, and takes no notice of what it begins with."""
    return not fnmatchcase(path, pattern.removeprefix(".").removeprefix("/"))


def sent(path: str, lines: list[str]) -> bool:
    """As a snapshot has it: whatever lies in a folder that stays out does too."""
    rules = PatternList("\n".join(lines).encode())
    parts = path.encode().split(b"/")
    for length, name in enumerate(parts, 1):
        if rules.verdict(name, b"/".join(parts[:length]), length < len(parts)):
            return False
    return True


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_same_files_stay_out(pattern: str) -> None:
    found = read_zip_options(["-x", f"'{pattern}'"])
    assert (found.unsure, found.files) == ([], [])
    wrong = [path for path in PATHS if sent(path, found.ignore) != sent_by_zip(path, pattern)]
    assert wrong == []


@pytest.mark.parametrize("pattern", ["*/tmp", "src/data", "src/data/", "*tmp", "a/b", "*/v1.0", "*/.cache"])
def test_the_name_of_a_file_says_nothing_of_a_folder(pattern: str) -> None:
    """zip still sent `src/tmp/x`, and no pattern could leave out `src/tmp` only if it is a file."""
    found = read_zip_options(["-x", pattern])
    assert (found.ignore, found.files) == ([], [pattern])


@pytest.mark.parametrize("pattern", ["src/?ata/*", "s[qr]c/*", "*a*b*c*d*e*f*g*"])
def test_less_stays_out_where_the_two_cannot_agree(pattern: str) -> None:
    found = read_zip_options(["-x", pattern])
    assert found.unsure == [pattern]
    assert [path for path in PATHS if sent_by_zip(path, pattern) and not sent(path, found.ignore)] == []


NAMES = st.sampled_from(["a", "b", "ab", "ba", "data", "metadata"])
TREES = st.tuples(st.lists(NAMES, max_size=4), st.sampled_from(["a", "ab", "b.x", "a.b.x"]))


@settings(max_examples=600, deadline=None)
@given(
    pattern=st.lists(st.sampled_from(["*", "/", "a", "b", "data", ".x"]), min_size=1, max_size=7),
    trees=st.lists(TREES, min_size=1, max_size=12),
)
def test_any_pattern_leaves_out_what_zip_did_or_says_so(
    pattern: list[str], trees: list[tuple[list[str], str]]
) -> None:
    word = "".join(pattern)
    if "//" in word or word.startswith("./"):
        return
    found = read_zip_options(["-x", f"'{word}'"])
    for folders, name in trees:
        path = "/".join([*folders, name])
        if found.files or found.unsure:
            assert sent(path, found.ignore) or not sent_by_zip(path, word)
        else:
            assert sent(path, found.ignore) == sent_by_zip(path, word)


@pytest.mark.parametrize(
    ("words", "ignore", "others"),
    [
        (["-x", "\\*src/CMC/\\*"], ["**/*src/CMC/"], []),
        (["-x", "*/data/*"], ["/*/**/data/"], []),
        (["-x", "*.pyc", "data/*"], ["*.pyc", "/data/"], []),
        (["-x '*.pyc' data/\\*"], ["*.pyc", "/data/"], []),
        (["-r", "-x", "a/b.c", "-9"], ["/a/b.c"], ["-r", "-9"]),
        (["-x", "a/*", "@", "src"], ["/a/"], ["src"]),
        (["-x*wandb*"], ["*wandb*"], []),
        (["-x", "it's*"], ["/it's*"], []),
        ([], [], []),
    ],
)
def test_options_of_zip(words: list[str], ignore: list[str], others: list[str]) -> None:
    found = read_zip_options(words)
    assert (found.ignore, found.others) == (ignore, others)
