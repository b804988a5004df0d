"""Which files belong to a snapshot: git's rules, .goferignore, what git tracks, and what is never code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from snapshot.project import SnapshotProject


def test_gitignore_works_without_git(project: SnapshotProject) -> None:
    project.write({".gitignore": "*.log\n/out/\n", "a.py": "", "b.log": "", "out/x": "", "sub/out/y": ""})
    assert project.taken() == [".gitignore", "a.py", "sub/out/y"]


def test_goferignore_has_the_last_word(project: SnapshotProject) -> None:
    project.write(
        {
            ".gitignore": "data/\n*.bin\n",
            ".goferignore": "!data/\n!keep.bin\nnotes.md\n",
            "data/x": "",
            "keep.bin": "",
            "drop.bin": "",
            "notes.md": "",
            "sub/.goferignore": "!notes.md\n",
            "sub/notes.md": "",
        }
    )
    assert project.taken() == [
        ".gitignore",
        ".goferignore",
        "data/x",
        "keep.bin",
        "sub/.goferignore",
        "sub/notes.md",
    ]


def test_the_callers_patterns_are_stronger_still(project: SnapshotProject) -> None:
    project.write({".goferignore": "!a.txt\n", "a.txt": "", "b/a.txt": "", "c": ""})
    assert project.taken("a.txt") == [".goferignore", "c"]
    assert project.taken("/a.txt") == [".goferignore", "b/a.txt", "c"]
    assert project.taken() == [".goferignore", "a.txt", "b/a.txt", "c"]


def test_what_is_never_code(project: SnapshotProject) -> None:
    junk = [
        "__pycache__/x.py",
        "m.pyc",
        ".ipynb_checkpoints/a",
        ".mypy_cache/a",
        ".pytest_cache/a",
        ".ruff_cache/a",
    ]
    kept = [".hidden", "node_modules/a", "venv/not-one", "assets/logo.png", "assets/readme/x"]
    logs = "assets/r261116-091233-k9qd4x/rank-0.log"
    project.write(dict.fromkeys([*junk, *kept, logs], ""))
    assert project.taken() == sorted(kept)


def test_fetched_logs_do_not_change_the_snapshot(project: SnapshotProject) -> None:
    project.write({"a": ""})
    before = project.take().id
    project.write({"assets/r261116-091233-k9qd4x/rank-0.log": "log"})
    assert project.take().id == before
    assert project.take().id == before


def test_python_environments_are_left_out_by_default(project: SnapshotProject) -> None:
    project.write(
        {".venv/pyvenv.cfg": "", ".venv/bin/python": "", "my env/pyvenv.cfg": "", "my env/lib/x": ""}
    )
    project.write({"conda/conda-meta/history": "", "conda/bin/x": "", "a": ""})
    assert project.taken() == ["a"]
    assert project.taken("!/.venv/") == [".venv/bin/python", ".venv/pyvenv.cfg", "a"]
    (project.folder / "pyvenv.cfg").write_text("")  # the code folder itself is never left out
    assert project.taken() == ["a", "pyvenv.cfg"]


def test_git_folders_are_never_taken_not_even_by_a_rule(project: SnapshotProject) -> None:
    project.write({".goferignore": "!.git\n!.git/\n", "a": "", "sub/.git": "gitdir: ../x", "sub/b": ""})
    project.commit()
    assert project.taken("!.git") == [".goferignore", "a", "sub/b"]


def test_files_that_git_tracks_are_taken_although_ignored(project: SnapshotProject) -> None:
    project.write({"a.log": "", "deep/down/b.log": "", "deep/down/c.log": "", "deep/e.log": ""})
    project.git("init", "-q")
    project.git("add", "a.log", "deep/down/b.log")
    project.write({".gitignore": "*.log\ndeep/\n"})
    assert project.taken() == [".gitignore", "a.log", "deep/down/b.log"]
    assert project.taken() == [".gitignore", "a.log", "deep/down/b.log"]
    project.git("rm", "-q", "--cached", "a.log")
    assert project.taken() == [".gitignore", "deep/down/b.log"]
    project.git("add", "-f", "deep/e.log")
    assert project.taken() == [".gitignore", "deep/down/b.log", "deep/e.log"]
    project.write({".goferignore": "e.log\n"})
    assert project.taken() == [".gitignore", ".goferignore", "deep/down/b.log"]
    (project.folder / ".git/index").unlink()
    assert project.taken() == [".gitignore", ".goferignore"]


def test_a_tracked_file_stays_when_a_later_rule_ignores_it(project: SnapshotProject) -> None:
    project.write({"a.txt": "", "b": ""})
    project.commit()
    assert project.taken() == ["a.txt", "b"]
    project.write({".gitignore": "*.txt\n", "new.txt": ""})
    assert project.taken() == [".gitignore", "a.txt", "b"]


def test_rules_above_the_folder_count_up_to_the_top_of_the_repository(project: SnapshotProject) -> None:
    (project.root / ".gitignore").write_text("outside\n")  # above the repository: none of its business
    project.write(
        {
            ".gitignore": "*.tmp\n/app/code/x\n/x2\n",
            "app/.gitignore": "/code/y\n!keep.tmp\n",
            "app/code/a.tmp": "",
            "app/code/keep.tmp": "",
            "app/code/x": "",
            "app/code/x2": "",
            "app/code/y": "",
            "app/code/sub/y": "",
            "app/code/outside": "",
        }
    )
    project.git("init", "-q")
    assert project.taken(folder=project.folder / "app/code") == ["keep.tmp", "outside", "sub/y", "x2"]


@pytest.mark.parametrize("line", ["scratch/", "*", "/scratch", "scratch/try"])
def test_a_folder_that_its_repository_ignores_is_taken_whole(project: SnapshotProject, line: str) -> None:
    project.write(
        {".gitignore": line + "\n", "scratch/try/a": "", "scratch/try/.gitignore": "b\n", "scratch/try/b": ""}
    )
    project.commit()
    folder = project.folder / "scratch/try"
    assert project.taken(folder=folder) == [".gitignore", "a"]
    taken = project.take(folder=folder)
    assert (taken.commit, taken.branch, taken.dirty) == (None, None, None)


def test_gits_other_ignore_files_count(project: SnapshotProject) -> None:
    project.write({"a": "", "b": "", "c": "", "d": "", ".gitignore": "!c\n"})
    project.git("init", "-q")
    (project.folder / ".git/info/exclude").write_text("a\nc\n!d\n")
    usual = Path(os.environ["XDG_CONFIG_HOME"]) / "git/ignore"
    usual.parent.mkdir(parents=True)
    usual.write_text("b\nd\n")
    assert project.taken() == [".gitignore", "c", "d"]
    mine = Path(os.environ["HOME"]) / "mine"
    mine.write_text("d\n.gitignore\n")
    (Path(os.environ["HOME"]) / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    for _ in range(2):
        assert project.taken() == ["b", "c", "d"]
    mine.write_text("b\n")
    assert project.taken() == [".gitignore", "c", "d"]
    included = Path(os.environ["HOME"]) / "more"
    (Path(os.environ["HOME"]) / ".gitconfig").write_text("[include]\n\tpath = ~/more\n")
    included.write_text("[core]\n\texcludesFile = ~/none\n")
    assert project.taken() == [".gitignore", "b", "c", "d"]
    included.write_text("[core]\n\texcludesFile = ~/mine\n")
    assert project.taken() == [".gitignore", "c", "d"]


def test_repositories_inside_the_folder_are_plain_files(project: SnapshotProject) -> None:
    project.write({"a": "", "nested/b": "", "nested/.gitignore": "c\n", "nested/c": ""})
    project.git("init", "-q", folder=project.folder / "nested")
    project.git("add", "b", folder=project.folder / "nested")
    project.git("commit", "-qm", "x", folder=project.folder / "nested")
    project.git("init", "-q")
    assert project.taken() == ["a", "nested/.gitignore", "nested/b"]


def test_a_linked_rule_file_is_not_followed(project: SnapshotProject) -> None:
    project.write({"rules": "a\n", "a": ""})
    os.symlink("rules", project.folder / ".gitignore")
    assert project.taken() == [".gitignore", "a", "rules"]


def test_a_folder_of_ignored_files_stays_as_an_empty_one(project: SnapshotProject) -> None:
    project.write({".gitignore": "*.log\n", "logs/a.log": ""})
    assert (project.restore(project.take().id) / "logs").is_dir()
