"""What a word means: mapped folders, stores by name, addresses, local paths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from data.project import Project

from gofer.errors import UnknownName, UsageError
from gofer.ops.data.places import StorePath, resolve, resolve_end
from gofer.ops.session import Session


def session(project: Project, folder: Path | None = None) -> Session:
    return Session(folder or project.folder, project.environ)


def place(project: Project, word: str, folder: Path | None = None) -> StorePath:
    return resolve(session(project, folder), word)


@pytest.mark.parametrize(
    ("word", "key", "shown", "slash"),
    [
        ("data/voc20", "me/data/voc20", "data/voc20", False),
        ("data/voc20/", "me/data/voc20", "data/voc20", True),
        ("./data/voc20", "me/data/voc20", "data/voc20", False),
        ("data", "me/data", "data", False),
        ("data/", "me/data", "data", True),
        ("data//a/./b", "me/data/a/b", "data/a/b", False),
        ("data/a/../b", "me/data/b", "data/b", False),
        ("s:x/y", "x/y", "s:x/y", False),
        ("s:/x/y/", "x/y", "s:x/y", True),
        ("s:", "", "s:", False),
        ("data/a:b", "me/data/a:b", "data/a:b", False),
    ],
)
def test_words(project: Project, word: str, key: str, shown: str, slash: bool) -> None:
    found = place(project, word)
    assert (found.key, str(found), found.slash) == (key, shown, slash)
    assert found.store.url == project.store.as_uri()
    inside = key.removeprefix("me/data").strip("/")
    assert found.local == (None if word.startswith("s:") else project.data / inside)


def test_addresses_are_opened_as_the_store_they_lie_under(project: Project) -> None:
    root = project.store.as_uri()
    found = place(project, f"{root}/me/data/x/")
    assert (found.key, str(found), found.slash) == ("me/data/x", f"{root}/me/data/x", True)
    elsewhere = project.root / "elsewhere"
    elsewhere.mkdir()
    found = place(project, f"{elsewhere.as_uri()}/a%20b/c")
    assert found.store.url == elsewhere.as_uri()
    assert found.key == "a b/c"


def test_an_address_that_two_accounts_share(project: Project) -> None:
    project.configure(
        "stores:\n"
        '  one: {url: "az://box", account: acct1, key: "${env:K}"}\n'
        '  two: {url: "az://box", account: acct2, key: "${env:K}"}\n'
        '  deep: {url: "az://box/deep", account: acct1, key: "${env:K}"}\n'
    )
    project.environ["K"] = "ZHVtbXk="
    with pytest.raises(UsageError, match="may mean the stores `one` and `two`"):
        place(project, "az://box/x")
    assert place(project, "az://box@acct2/x").store.url == "az://box@acct2"
    assert place(project, "az://box/deep/x").key == "x"
    assert place(project, "az://box@acct1/deeper").key == "deeper"


def test_names_below_a_place_are_shown_as_it_was_named(project: Project) -> None:
    assert place(project, "data/a").name("me/data/a/b/c") == "data/a/b/c"
    assert place(project, "s:me").name("me/data") == "s:me/data"
    assert place(project, "data/a").at("me/data/z").local == project.data / "z"


@pytest.mark.parametrize("word", ["./x", "../x", "/x", "~/x", ".", "..", "x", "results.csv", "./data/x"])
def test_local_words(project: Project, word: str) -> None:
    found = resolve_end(session(project), word)
    assert found == Path(os.path.abspath(project.folder / os.path.expanduser(word)))


@pytest.mark.parametrize("word", ["data/x", "s:x"])
def test_words_of_a_store(project: Project, word: str) -> None:
    assert isinstance(resolve_end(session(project), word), StorePath)


@pytest.mark.parametrize("word", ["data/../x", "..", "other", "dat", "nostore:x", "/etc/passwd", "data2/x"])
def test_words_that_mean_nothing(project: Project, word: str) -> None:
    with pytest.raises(UnknownName):
        place(project, word)


def test_a_misspelt_store_is_no_local_file(project: Project) -> None:
    with pytest.raises(UnknownName):
        resolve_end(session(project), "nostore:x")
    project.write("a:b")
    assert resolve_end(session(project), "a:b") == project.folder / "a:b"


def test_an_empty_word(project: Project) -> None:
    with pytest.raises(UsageError, match="empty"):
        place(project, "")
