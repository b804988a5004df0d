"""Commit, branch and dirty state, in every kind of work tree and without git."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from snapshot.desk import Desk

from gofer.snapshot import Snapshot


def facts(taken: Snapshot) -> tuple[str | None, str | None, bool | None]:
    return taken.commit, taken.branch, taken.dirty


def test_outside_git_nothing_is_claimed(desk: Desk) -> None:
    desk.write({"a": "1"})
    assert facts(desk.take()) == (None, None, None)


def test_clean_dirty_and_clean_again(desk: Desk) -> None:
    desk.write({"a": "1", "b": "2", ".gitignore": "*.log\n"})
    commit = desk.commit()
    for _ in range(2):
        assert facts(desk.take()) == (commit, "main", False)
    desk.write({"x.log": "ignored"})
    assert facts(desk.take()) == (commit, "main", False)
    desk.write({"a": "edited"})
    for _ in range(2):
        assert facts(desk.take()) == (commit, "main", True)
    desk.write({"a": "1"})
    assert facts(desk.take()) == (commit, "main", False)
    desk.write({"new": "untracked"})
    assert facts(desk.take()) == (commit, "main", True)
    desk.git("add", "new")
    assert facts(desk.take()) == (commit, "main", True)
    desk.git("commit", "-qm", "new")
    assert facts(desk.take()) == (desk.git("rev-parse", "HEAD").decode().strip(), "main", False)


def test_first_seen_dirty(desk: Desk) -> None:
    desk.write({"a": "1"})
    commit = desk.commit()
    for text in ("2", "3", "2"):
        desk.write({"a": text}, old=False)
        assert facts(desk.take()) == (commit, "main", True)
    desk.write({"a": "1"}, old=False)
    assert facts(desk.take()) == (commit, "main", False)


def test_what_equals_the_commit_is_clean_whatever_is_staged(desk: Desk) -> None:
    desk.write({"a": "1", "b": "2"})
    commit = desk.commit()
    assert facts(desk.take()) == (commit, "main", False)
    desk.git("rm", "-q", "--cached", "b")
    assert facts(desk.take()) == (commit, "main", False)
    desk.git("add", "b")
    (desk.project / "b").unlink()
    assert facts(desk.take()) == (commit, "main", True)


def test_a_new_commit_of_the_same_files_makes_them_clean(desk: Desk) -> None:
    desk.write({"a": "1"})
    desk.commit()
    desk.write({"a": "2"}, old=False)
    assert desk.take().dirty is True
    desk.git("commit", "-qam", "two")
    assert desk.take().dirty is False
    desk.git("reset", "-q", "--soft", "HEAD^")
    assert desk.take().dirty is True


def test_only_the_folder_itself_counts(desk: Desk) -> None:
    desk.write({"app/a": "1", "other": "1"})
    commit = desk.commit()
    desk.write({"other": "edited"})
    assert facts(desk.take(folder=desk.project / "app")) == (commit, "main", False)
    desk.write({"app/a": "edited"})
    assert facts(desk.take(folder=desk.project / "app")) == (commit, "main", True)


def test_a_branch_without_a_commit(desk: Desk) -> None:
    desk.write({"a": "1"})
    desk.git("init", "-q", "-b", "first")
    assert facts(desk.take()) == (None, "first", True)


def test_no_branch(desk: Desk) -> None:
    desk.write({"a": "1"})
    commit = desk.commit()
    desk.git("checkout", "-q", "--detach")
    assert facts(desk.take()) == (commit, None, False)


def test_packed_references_and_odd_branches(desk: Desk) -> None:
    desk.write({"a": "1"})
    commit = desk.commit()
    desk.git("checkout", "-q", "-b", "feat/é+x")
    desk.git("pack-refs", "--all")
    assert facts(desk.take()) == (commit, "feat/é+x", False)


def test_a_linked_work_tree(desk: Desk) -> None:
    desk.write({"a": "1"})
    desk.commit()
    tree = desk.place / "linked"
    desk.git("worktree", "add", "-q", "-b", "side", str(tree))
    (tree / "b").write_text("2")
    desk.git("add", "b", folder=tree)
    desk.git("commit", "-qm", "b", folder=tree)
    commit = desk.git("rev-parse", "HEAD", folder=tree).decode().strip()
    assert facts(desk.take(folder=tree)) == (commit, "side", False)
    assert desk.taken(folder=tree) == ["a", "b"]


def test_a_submodule(desk: Desk) -> None:
    desk.write({"a": "1"})
    inner = desk.place / "inner"
    inner.mkdir()
    (inner / "lib.py").write_text("x")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "x")):
        desk.git(*words, folder=inner)
    desk.commit()
    desk.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "dep")
    desk.git("commit", "-qm", "dep")
    assert desk.taken() == [".gitmodules", "a", "dep/lib.py"]
    assert desk.take().dirty is False
    taken = desk.take(folder=desk.project / "dep")
    assert (taken.branch, taken.dirty) == ("main", False)


def test_without_git_the_commit_is_known_and_the_rest_is_not(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write({".gitignore": "*.log\n", "a": "1", "b.log": "", "tracked.log": ""})
    desk.git("init", "-q", "-b", "main")
    desk.git("add", "-f", "tracked.log")
    commit = desk.commit()
    monkeypatch.setenv("PATH", "/nonexistent")
    for _ in range(2):
        assert facts(desk.take()) == (commit, "main", None)
        assert desk.taken() == [".gitignore", "a"]
    monkeypatch.undo()
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    assert facts(desk.take()) == (commit, "main", False)
    assert desk.taken() == [".gitignore", "a", "tracked.log"]


def test_git_that_refuses_is_as_good_as_none(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write({"a": "1"})
    commit = desk.commit()
    programs = desk.place / "bin"
    programs.mkdir()
    (programs / "git").write_text("#!/bin/sh\necho 'fatal: detected dubious ownership' >&2\nexit 128\n")
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert facts(desk.take()) == (commit, "main", None)


def test_variables_of_a_git_hook_do_not_lead_astray(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write({"a": "1"})
    commit = desk.commit()
    other = desk.place / "other"
    other.mkdir()
    desk.git("init", "-q", folder=other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert facts(desk.take()) == (commit, "main", False)


def test_the_repository_is_left_as_it_was(desk: Desk) -> None:
    desk.write({"a": "1"})
    desk.commit()
    os.utime(desk.project / "a", (5, 5))  # git would like to write that down

    def look() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in Path(desk.project / ".git").rglob("*")}

    before = look()
    desk.take()
    assert look() == before


def test_a_folder_named_git_that_is_no_repository(desk: Desk) -> None:
    desk.write({".git/x": "", "a": ""})
    assert desk.taken() == ["a"]
    assert facts(desk.take()) == (None, None, None)
