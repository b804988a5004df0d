"""`--with-git`: git answers in the run as it does in the person's folder."""

from __future__ import annotations

import subprocess
import tarfile

import pytest
from home import Home

from gofer.core.code.snapshot_names import ManifestError
from gofer.node.code import git_folder

ASK = "git rev-parse HEAD; git describe --tags; git status --porcelain; git log --oneline | wc -l"


def git(home: Home, *words: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", *words]
    return subprocess.run(
        command, cwd=home.folder, env=home.environ, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def output_of(home: Home, script: str) -> str:
    return subprocess.run(
        ["sh", "-c", script],
        cwd=home.folder,
        env=home.environ,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def repository(home: Home) -> None:
    git(home, "init", "-q")
    for number in range(4):
        (home.folder / "a.txt").write_text(f"{number}\n")
        git(home, "add", "-A")
        git(home, "commit", "-qm", f"commit {number}")
        if number == 1:
            git(home, "tag", "v1.0")
    git(home, "remote", "add", "origin", "https://me:dummy-password@example.invalid/x.git")
    (home.folder / "a.txt").write_text("changed\n")


def test_git_answers_in_the_run_as_in_the_folder(home: Home) -> None:
    repository(home)
    plain = output_of(home, ASK.rpartition(";")[0])
    assert "v1.0-2-g" in plain
    home.gofer("submit", "--wait", "--with-git", "sh", "-c", ASK + "; cat .git/config; ls .git/hooks || true")
    log = home.log("last")
    assert log.startswith(plain)
    assert "dummy-password" not in log
    assert "hooks" in log.splitlines()[-1], "the person's hooks stay behind"
    again = home.gofer("resubmit", "-Q", "--same-code", "last").out.strip()
    home.wait(again)
    assert home.log(again).startswith(plain)
    assert home.gofer("extract", again, str(home.root / "x")).status == 0
    assert not (home.root / "x" / "files").exists(), "the repository is no output of the run"


KINDS = "git cat-file --batch-all-objects --batch-check | cut -d ' ' -f 2 | sort -u"


def test_only_dvc_gets_the_contents_of_files(home: Home) -> None:
    repository(home)
    home.gofer("submit", "--wait", "--with-git", "sh", "-c", KINDS)
    assert home.log("last").split() == ["commit", "tree"]
    (home.folder / ".dvc").mkdir()
    for words in ([], ["--with-git"]):
        home.gofer("submit", "--wait", *words, "sh", "-c", f"true dvc; {KINDS}")
        assert home.log("last").split() == ["blob", "commit", "tree"]


def test_tox_gets_a_repository_where_the_build_asks_git(home: Home) -> None:
    """tox starts commands and builds with few of its own variables, as this one does."""
    repository(home)
    (home.folder / "pyproject.toml").write_text(
        '[project]\nname = "p"\ndynamic = ["version"]\n[build-system]\nrequires = ["setuptools-scm"]\n'
    )
    tox = home.root / "bin" / "tox"
    tox.parent.mkdir()
    tox.write_text('#!/bin/sh\nexec env -i PATH="$PATH" git describe --tags --long\n')
    tox.chmod(0o755)
    home.environ["PATH"] = f"{tox.parent}:{home.environ['PATH']}"
    for words in (["tox", "-e", "py"], ["sh", "-c", "true && tox"]):
        done = home.gofer("submit", "-f", *words)
        assert done.out.startswith("v1.0-2-g")
        assert "a small git repository is sent too (`--with-git`), since tox hides" in done.err
    done = home.gofer("submit", "--wait", "sh", "-c", "ls tox.ini; git describe", status=None)
    assert (done.status, "tox hides" in done.err) == (128, False)
    text = home.gofer("why", "last").out
    assert "the run has no git repository: `gofer submit --with-git` sends a small one" in text
    line = text.split("next:\n")[1].splitlines()[0].strip()
    assert line == "gofer submit -t local --with-git sh -c 'ls tox.ini; git describe'"
    (home.folder / "pyproject.toml").unlink()
    assert "tox hides" not in home.gofer("submit", "--wait", "tox", status=None).err
    tox.rename(tox.with_name("dvc"))
    assert "goes along" not in home.gofer("submit", "--wait", "dvc", "repro", status=None).err
    (home.folder / ".dvc").mkdir()
    done = home.gofer("submit", "-f", "dvc", "repro")
    assert done.out.startswith("v1.0-2-g")
    assert "a small git repository is sent too (`--with-git`), since dvc does nothing without one" in done.err


def test_without_a_repository_or_below_its_top_it_is_refused(home: Home) -> None:
    done = home.gofer("submit", "--with-git", "true", status=1)
    assert "to be the top of a git repository" in done.err
    repository(home)
    (home.folder / "exp").mkdir()
    done = home.gofer("submit", "--with-git", "--code-folder", ".", "true", status=1, cwd=home.folder / "exp")
    assert f"--code-folder {home.folder}" in done.err


def test_an_archive_that_gofer_does_not_make_is_refused(home: Home) -> None:
    (home.root / "evil").mkdir()
    for name in ("hooks/post-checkout", "../x", "objects/../../x", "refs/a b"):
        archive = home.root / "a.tar.gz"
        with tarfile.open(archive, "w:gz") as made:
            made.addfile(tarfile.TarInfo(name))
        with pytest.raises(ManifestError, match="unexpected entry"):
            git_folder.unpack(archive.read_bytes(), str(home.root / "evil"))
    with pytest.raises(ManifestError, match="damaged"):
        git_folder.unpack(b"no archive", str(home.root / "evil"))
    assert list((home.root / "evil").iterdir()) == []
