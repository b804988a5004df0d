"""Which files belong to a snapshot: git's rules, .goferignore, what git tracks, and what is never code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from snapshot.desk import Desk


def test_gitignore_works_without_git(desk: Desk) -> None:
    desk.write({".gitignore": "*.log\n/out/\n", "a.py": "", "b.log": "", "out/x": "", "sub/out/y": ""})
    assert desk.taken() == [".gitignore", "a.py", "sub/out/y"]


def test_goferignore_has_the_last_word(desk: Desk) -> None:
    desk.write(
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
    assert desk.taken() == [
        ".gitignore",
        ".goferignore",
        "data/x",
        "keep.bin",
        "sub/.goferignore",
        "sub/notes.md",
    ]


def test_the_callers_patterns_are_stronger_still(desk: Desk) -> None:
    desk.write({".goferignore": "!a.txt\n", "a.txt": "", "b/a.txt": "", "c": ""})
    assert desk.taken("a.txt") == [".goferignore", "c"]
    assert desk.taken("/a.txt") == [".goferignore", "b/a.txt", "c"]
    assert desk.taken() == [".goferignore", "a.txt", "b/a.txt", "c"]


def test_what_is_never_code(desk: Desk) -> None:
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
    desk.write(dict.fromkeys([*junk, *kept, logs], ""))
    assert desk.taken() == sorted(kept)


def test_fetched_logs_do_not_change_the_snapshot(desk: Desk) -> None:
    desk.write({"a": ""})
    before = desk.take().id
    desk.write({"assets/r261116-091233-k9qd4x/rank-0.log": "log"})
    assert desk.take().id == before
    assert desk.take().id == before


def test_python_environments_are_left_out_unless_asked_for(desk: Desk) -> None:
    desk.write({".venv/pyvenv.cfg": "", ".venv/bin/python": "", "my env/pyvenv.cfg": "", "my env/lib/x": ""})
    desk.write({"conda/conda-meta/history": "", "conda/bin/x": "", "a": ""})
    assert desk.taken() == ["a"]
    assert desk.taken("!/.venv/") == [".venv/bin/python", ".venv/pyvenv.cfg", "a"]
    (desk.project / "pyvenv.cfg").write_text("")  # the code folder itself is what was asked for
    assert desk.taken() == ["a", "pyvenv.cfg"]


def test_git_is_never_taken_not_even_when_asked_for(desk: Desk) -> None:
    desk.write({".goferignore": "!.git\n!.git/\n", "a": "", "sub/.git": "gitdir: ../x", "sub/b": ""})
    desk.commit()
    assert desk.taken("!.git") == [".goferignore", "a", "sub/b"]


def test_files_that_git_tracks_are_taken_although_ignored(desk: Desk) -> None:
    desk.write({"a.log": "", "deep/down/b.log": "", "deep/down/c.log": "", "deep/e.log": ""})
    desk.git("init", "-q")
    desk.git("add", "a.log", "deep/down/b.log")
    desk.write({".gitignore": "*.log\ndeep/\n"})
    assert desk.taken() == [".gitignore", "a.log", "deep/down/b.log"]
    assert desk.taken() == [".gitignore", "a.log", "deep/down/b.log"]
    desk.git("rm", "-q", "--cached", "a.log")
    assert desk.taken() == [".gitignore", "deep/down/b.log"]
    desk.git("add", "-f", "deep/e.log")
    assert desk.taken() == [".gitignore", "deep/down/b.log", "deep/e.log"]
    desk.write({".goferignore": "e.log\n"})
    assert desk.taken() == [".gitignore", ".goferignore", "deep/down/b.log"]
    (desk.project / ".git/index").unlink()
    assert desk.taken() == [".gitignore", ".goferignore"]


def test_a_tracked_file_stays_when_a_later_rule_ignores_it(desk: Desk) -> None:
    desk.write({"a.txt": "", "b": ""})
    desk.commit()
    assert desk.taken() == ["a.txt", "b"]
    desk.write({".gitignore": "*.txt\n", "new.txt": ""})
    assert desk.taken() == [".gitignore", "a.txt", "b"]


def test_rules_above_the_folder_count_up_to_the_top_of_the_repository(desk: Desk) -> None:
    (desk.place / ".gitignore").write_text("outside\n")  # above the repository: none of its business
    desk.write(
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
    desk.git("init", "-q")
    assert desk.taken(folder=desk.project / "app/code") == ["keep.tmp", "outside", "sub/y", "x2"]


@pytest.mark.parametrize("line", ["scratch/", "*", "/scratch", "scratch/try"])
def test_a_folder_that_its_repository_ignores_is_taken_whole(desk: Desk, line: str) -> None:
    desk.write(
        {".gitignore": line + "\n", "scratch/try/a": "", "scratch/try/.gitignore": "b\n", "scratch/try/b": ""}
    )
    desk.commit()
    folder = desk.project / "scratch/try"
    assert desk.taken(folder=folder) == [".gitignore", "a"]
    taken = desk.take(folder=folder)
    assert (taken.commit, taken.branch, taken.dirty) == (None, None, None)


def test_gits_other_ignore_files_count(desk: Desk) -> None:
    desk.write({"a": "", "b": "", "c": "", "d": "", ".gitignore": "!c\n"})
    desk.git("init", "-q")
    (desk.project / ".git/info/exclude").write_text("a\nc\n!d\n")
    usual = Path(os.environ["XDG_CONFIG_HOME"]) / "git/ignore"
    usual.parent.mkdir(parents=True)
    usual.write_text("b\nd\n")
    assert desk.taken() == [".gitignore", "c", "d"]
    mine = Path(os.environ["HOME"]) / "mine"
    mine.write_text("d\n.gitignore\n")
    (Path(os.environ["HOME"]) / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    for _ in range(2):
        assert desk.taken() == ["b", "c", "d"]
    mine.write_text("b\n")
    assert desk.taken() == [".gitignore", "c", "d"]
    included = Path(os.environ["HOME"]) / "more"
    (Path(os.environ["HOME"]) / ".gitconfig").write_text("[include]\n\tpath = ~/more\n")
    included.write_text("[core]\n\texcludesFile = ~/none\n")
    assert desk.taken() == [".gitignore", "b", "c", "d"]
    included.write_text("[core]\n\texcludesFile = ~/mine\n")
    assert desk.taken() == [".gitignore", "c", "d"]


def test_repositories_inside_the_folder_are_plain_files(desk: Desk) -> None:
    desk.write({"a": "", "nested/b": "", "nested/.gitignore": "c\n", "nested/c": ""})
    desk.git("init", "-q", folder=desk.project / "nested")
    desk.git("add", "b", folder=desk.project / "nested")
    desk.git("commit", "-qm", "x", folder=desk.project / "nested")
    desk.git("init", "-q")
    assert desk.taken() == ["a", "nested/.gitignore", "nested/b"]


def test_a_linked_rule_file_is_not_followed(desk: Desk) -> None:
    desk.write({"rules": "a\n", "a": ""})
    os.symlink("rules", desk.project / ".gitignore")
    assert desk.taken() == [".gitignore", "a", "rules"]


def test_a_folder_of_ignored_files_stays_as_an_empty_one(desk: Desk) -> None:
    desk.write({".gitignore": "*.log\n", "logs/a.log": ""})
    assert (desk.restore(desk.take().id) / "logs").is_dir()
