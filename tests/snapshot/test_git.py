"""Commit, branch and dirty state, in every kind of work tree and without git."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from snapshot.project import SnapshotProject

from gofer.snapshot.summary import Snapshot


def facts(taken: Snapshot) -> tuple[str | None, str | None, bool | None]:
    return taken.commit, taken.branch, taken.dirty


def test_outside_git_nothing_is_claimed(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    assert facts(project.take()) == (None, None, None)


def test_clean_dirty_and_clean_again(project: SnapshotProject) -> None:
    project.write({"a": "1", "b": "2", ".gitignore": "*.log\n"})
    commit = project.commit()
    for _ in range(2):
        assert facts(project.take()) == (commit, "main", False)
    project.write({"x.log": "ignored"})
    assert facts(project.take()) == (commit, "main", False)
    project.write({"a": "edited"})
    for _ in range(2):
        assert facts(project.take()) == (commit, "main", True)
    project.write({"a": "1"})
    assert facts(project.take()) == (commit, "main", False)
    project.write({"new": "untracked"})
    assert facts(project.take()) == (commit, "main", True)
    project.git("add", "new")
    assert facts(project.take()) == (commit, "main", True)
    project.git("commit", "-qm", "new")
    assert facts(project.take()) == (project.git("rev-parse", "HEAD").decode().strip(), "main", False)


def test_first_seen_dirty(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    commit = project.commit()
    for text in ("2", "3", "2"):
        project.write({"a": text}, old=False)
        assert facts(project.take()) == (commit, "main", True)
    project.write({"a": "1"}, old=False)
    assert facts(project.take()) == (commit, "main", False)


def test_what_equals_the_commit_is_clean_whatever_is_staged(project: SnapshotProject) -> None:
    project.write({"a": "1", "b": "2"})
    commit = project.commit()
    assert facts(project.take()) == (commit, "main", False)
    project.git("rm", "-q", "--cached", "b")
    assert facts(project.take()) == (commit, "main", False)
    project.git("add", "b")
    (project.folder / "b").unlink()
    assert facts(project.take()) == (commit, "main", True)


def test_a_new_commit_of_the_same_files_makes_them_clean(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    project.commit()
    project.write({"a": "2"}, old=False)
    assert project.take().dirty is True
    project.git("commit", "-qam", "two")
    assert project.take().dirty is False
    project.git("reset", "-q", "--soft", "HEAD^")
    assert project.take().dirty is True


def test_only_the_folder_itself_counts(project: SnapshotProject) -> None:
    project.write({"app/a": "1", "other": "1"})
    commit = project.commit()
    project.write({"other": "edited"})
    assert facts(project.take(folder=project.folder / "app")) == (commit, "main", False)
    project.write({"app/a": "edited"})
    assert facts(project.take(folder=project.folder / "app")) == (commit, "main", True)


def test_a_branch_without_a_commit(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    project.git("init", "-q", "-b", "first")
    assert facts(project.take()) == (None, "first", True)


def test_no_branch(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    commit = project.commit()
    project.git("checkout", "-q", "--detach")
    assert facts(project.take()) == (commit, None, False)


def test_packed_references_and_odd_branches(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    commit = project.commit()
    project.git("checkout", "-q", "-b", "feat/é+x")
    project.git("pack-refs", "--all")
    assert facts(project.take()) == (commit, "feat/é+x", False)


def test_a_linked_work_tree(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    project.commit()
    tree = project.root / "linked"
    project.git("worktree", "add", "-q", "-b", "side", str(tree))
    (tree / "b").write_text("2")
    project.git("add", "b", folder=tree)
    project.git("commit", "-qm", "b", folder=tree)
    commit = project.git("rev-parse", "HEAD", folder=tree).decode().strip()
    assert facts(project.take(folder=tree)) == (commit, "side", False)
    assert project.taken(folder=tree) == ["a", "b"]


def test_a_submodule(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    inner = project.root / "inner"
    inner.mkdir()
    (inner / "lib.py").write_text("x")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "x")):
        project.git(*words, folder=inner)
    project.commit()
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "dep")
    project.git("commit", "-qm", "dep")
    assert project.taken() == [".gitmodules", "a", "dep/lib.py"]
    assert project.take().dirty is False
    taken = project.take(folder=project.folder / "dep")
    assert (taken.branch, taken.dirty) == ("main", False)


def test_without_git_the_commit_is_known_and_the_rest_is_not(
    project: SnapshotProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({".gitignore": "*.log\n", "a": "1", "b.log": "", "tracked.log": ""})
    project.git("init", "-q", "-b", "main")
    project.git("add", "-f", "tracked.log")
    commit = project.commit()
    monkeypatch.setenv("PATH", "/nonexistent")
    for _ in range(2):
        assert facts(project.take()) == (commit, "main", None)
        assert project.taken() == [".gitignore", "a"]
    monkeypatch.undo()
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    assert facts(project.take()) == (commit, "main", False)
    assert project.taken() == [".gitignore", "a", "tracked.log"]


def test_a_failing_git_counts_as_no_git(project: SnapshotProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write({"a": "1"})
    commit = project.commit()
    programs = project.root / "bin"
    programs.mkdir()
    (programs / "git").write_text("#!/bin/sh\necho 'fatal: detected dubious ownership' >&2\nexit 128\n")
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert facts(project.take()) == (commit, "main", None)


def test_variables_of_a_git_hook_are_ignored(
    project: SnapshotProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"a": "1"})
    commit = project.commit()
    other = project.root / "other"
    other.mkdir()
    project.git("init", "-q", folder=other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert facts(project.take()) == (commit, "main", False)


def test_the_repository_is_left_as_it_was(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    project.commit()
    os.utime(project.folder / "a", (5, 5))  # git would like to write that down

    def change_times() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in Path(project.folder / ".git").rglob("*")}

    before = change_times()
    project.take()
    assert change_times() == before


def test_a_folder_named_git_that_is_no_repository(project: SnapshotProject) -> None:
    project.write({".git/x": "", "a": ""})
    assert project.taken() == ["a"]
    assert facts(project.take()) == (None, None, None)


@pytest.mark.parametrize("head", [b"ref: refs/heads/a\0b\n", b"ref: refs/heads/a\tb\n", b"\0", b""])
def test_a_head_that_git_cannot_have_written_ends_in_no_error(project: SnapshotProject, head: bytes) -> None:
    project.write({"a": "1"})
    project.commit()
    (project.folder / ".git/HEAD").write_bytes(head)
    taken = project.take()
    assert (taken.commit, taken.files) == (None, 1)
    assert taken.branch in (None, "a")  # git itself reads up to the zero byte
