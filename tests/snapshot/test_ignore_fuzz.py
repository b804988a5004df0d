"""Our ignore rules against git's own, on random trees and random patterns."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gofer.snapshot.rules import SnapshotChoice, Tracked, top_rules
from gofer.snapshot.walk import walk

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")

NAMES = st.sampled_from(
    [b"a", b"b", b"ab", b"abc", b"a.b", b"x y", b"b.", b"-", b"[a]", b"a\\b", b"\xc3\xa9", b"!a", b"#a"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
LITERALS = rb"a b ab c . x - \  \a \* \[ ! # ]".split(b" ")
STARS = b"* ** *** ? / /**/ /** **/".split()
SETS = rb"[ab] [!a] [^b] [a-b] []a] [!]a] [a [[:alpha:]] [[:nope:]] [[:al] [\]a] [b-a] [a-] [--.]".split()
BYTES = [b" ", b"\\ ", b"\\", b"\xc3\xa9", b"\xc3", b"[\xc3\xa9]"]
PIECES = st.sampled_from([*LITERALS, *STARS, *SETS, *BYTES])
LINES = st.builds(
    lambda negated, pieces, end: negated + b"".join(pieces) + end,
    st.sampled_from([b"", b"", b"!", b"/", b"!/"]),
    st.lists(PIECES, min_size=1, max_size=4),
    st.sampled_from([b"", b"", b"", b"/", b" ", b"  ", b"\r", b"\\ "]),
)
RULES = st.lists(LINES, max_size=6).map(b"\n".join)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def build(root: bytes, paths: list[bytes], rules: dict[bytes, bytes]) -> None:
    os.makedirs(root)
    for path in paths:
        full = os.path.join(root, path)
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "xb"):
                pass
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue  # a file and a folder of the same name: the first stays
    for folder, text in rules.items():
        where = os.path.join(root, folder)
        if os.path.isdir(where):
            with open(os.path.join(where, b".gitignore"), "wb") as file:
                file.write(text)


def run_git(root: bytes, *words: str) -> bytes:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", *words], cwd=root, env=environ, check=True, capture_output=True, timeout=60
    ).stdout


def ask_git(root: bytes) -> set[bytes]:
    run_git(root, "init", "-q")
    return set(run_git(root, "ls-files", "-z", "-co", "--exclude-standard").split(b"\0")) - {b""}


def ask_gofer(root: bytes) -> set[bytes]:
    folders, _ = walk(os.fsdecode(root), top_rules(SnapshotChoice(), (), Tracked.of(())), {})
    return {os.path.join(os.fsencode(one.path), os.fsencode(name)) for one in folders for name in one.files}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    paths=st.lists(PATHS, min_size=1, max_size=12),
    top=RULES,
    nested=st.dictionaries(PATHS, RULES, max_size=2),
)
def test_same_files_as_git(place: Path, paths: list[bytes], top: bytes, nested: dict[bytes, bytes]) -> None:
    root = os.path.join(os.fsencode(place), os.urandom(8).hex().encode())
    build(root, paths, {b"": top, **nested})
    try:
        assert ask_gofer(root) == ask_git(root)
    finally:
        shutil.rmtree(root)
