"""Which folder's code a run gets: the project around the folder that the command was typed in."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from home import Home

_MANY = 20_010


@pytest.fixture
def repo(home: Home) -> Path:
    """A git repository with a space in its name, whose experiment needs the module beside it."""
    root = home.root / "my repo"
    (root / "exp").mkdir(parents=True)
    (root / "common").mkdir()
    (root / "common" / "__init__.py").write_text("WORD = 'from the root'\n")
    (root / "exp" / "train.py").write_text(
        "import sys; sys.path.insert(0, '..'); import common; print(common.WORD)\n"
    )
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def test_the_repository_goes_along_and_the_command_starts_where_it_was_typed(home: Home, repo: Path) -> None:
    done = home.gofer("submit", "-f", "python", "train.py", cwd=repo / "exp")
    assert "from the root" in done.out
    assert "code: my repo/ (git), in exp/: 2 files" in done.err
    # Code that the store has already is not described.
    assert "code: " not in home.gofer("submit", "true", cwd=repo).err
    # At the top of the project the line names no folder.
    (repo / "new").write_text("new")
    assert "code: 3 files" in home.gofer("submit", "true", cwd=repo).err
    # A file of gofer's between the two is nearer.
    (repo / "exp" / "deep").mkdir()
    (repo / "exp" / "gofer.yaml").write_text("")
    (repo / "exp" / "deep" / "x").write_text("deep")
    done = home.gofer("submit", "--wait", "ls", "..", cwd=repo / "exp" / "deep")
    assert "code: exp/ (gofer.yaml), in deep/: 3 files" in done.err


def test_one_folder_can_be_chosen(home: Home, repo: Path) -> None:
    alone = home.gofer("submit", "-f", "ls", cwd=repo / "exp", env={"LC_ALL": "C"})
    assert "common" not in alone.out
    (repo / "exp" / "train.py").write_text("print('alone')\n")
    done = home.gofer(
        "submit", "-f", "--code-folder", ".", "sh", "-c", "ls; ls ../common", cwd=repo / "exp", status=None
    )
    assert done.status != 0
    assert "code: 1 file," in done.err
    wrong = home.gofer("submit", "--code-folder", "../common", "true", cwd=repo / "exp", status=2)
    assert "does not hold the folder of this command" in wrong.err


def test_a_folder_that_git_ignores_and_a_repository_of_the_home_folder(home: Home, repo: Path) -> None:
    (repo / ".gitignore").write_text("scratch/\n")
    (repo / "scratch").mkdir()
    (repo / "scratch" / "a.py").write_text("scratch")
    assert "code: 1 file," in home.gofer("submit", "true", cwd=repo / "scratch").err
    # The repository of dotfiles: its root is the home folder.
    user = Path(home.environ["HOME"])
    subprocess.run(["git", "init", "-q", str(user)], check=True)
    (user / "work").mkdir()
    (user / "work" / "a.py").write_text("work")
    (user / "private.txt").write_text("")
    assert "code: 1 file," in home.gofer("submit", "true", cwd=user / "work").err
    # A home folder inside of the repository.
    inside = {"HOME": str(repo / "people" / "me")}
    (repo / "people" / "me").mkdir(parents=True)
    assert "code: 1 file," in home.gofer("submit", "true", cwd=repo / "exp", env=inside).err


def test_a_member_of_a_uv_workspace_brings_its_siblings(home: Home) -> None:
    root = home.root / "space"
    for member in ("libs/one", "libs/two", "libs/left-out"):
        (root / member).mkdir(parents=True)
        (root / member / "pyproject.toml").write_text(f"[project]\nname = '{os.path.basename(member)}'\n")
    (root / "pyproject.toml").write_text(
        "[tool.uv.workspace]\nmembers = ['libs/*']\nexclude = ['libs/left-out']\n"
    )
    done = home.gofer("submit", "-f", "ls", "../two", cwd=root / "libs" / "one")
    assert "pyproject.toml" in done.out
    assert "code: space/ (uv workspace), in libs/one/: 4 files" in done.err
    (root / "libs" / "left-out" / "pyproject.toml").write_text("[project]\nname = 'alone'\n")
    assert "code: 1 file," in home.gofer("submit", "true", cwd=root / "libs" / "left-out").err


def test_many_files_outside_of_the_folder_need_a_confirmation(home: Home, repo: Path) -> None:
    (repo / "many").mkdir()
    for number in range(_MANY):
        (repo / "many" / str(number)).touch()
    refused = home.gofer("submit", "true", cwd=repo / "exp", status=None)
    assert refused.status != 0
    assert "(git) contains at least 20,0" in refused.err
    assert (
        "`gofer submit --code-folder .` sends only this folder, `--code-folder ..` the whole" in refused.err
    )
    assert not list((home.store / "runs").glob("*"))
    no = _on_terminal(home, repo / "exp", b"n\n", "submit", "true")
    assert b"send them all? [y/N]" in no
    assert b"nothing was sent" in no
    assert b"code: my repo/ (git), in exp/" in _on_terminal(home, repo / "exp", b"y\n", "submit", "true")
    # It was sent once: the question is answered for this project.
    home.gofer("submit", "true", cwd=repo / "exp")


def _on_terminal(home: Home, folder: Path, answer: bytes, *words: str) -> bytes:
    """What a command writes on a terminal where the person answers its question."""
    near, far = pty.openpty()
    process = subprocess.Popen(
        home.argv(*words), cwd=folder, env=home.environ, stdin=far, stdout=far, stderr=far, close_fds=True
    )
    os.close(far)
    os.write(near, answer)
    written = b""
    while True:
        try:
            piece = os.read(near, 65536)
        except OSError:  # Linux raises this when the other end is closed
            break
        if not piece:
            break
        written += piece
    process.wait(timeout=120)
    os.close(near)
    return written


def test_logs_that_gofer_fetched_stay_out_at_any_depth(home: Home, repo: Path) -> None:
    run = home.gofer("submit", "-Q", "--wait", "echo", "hi", cwd=repo / "exp").out.strip()
    home.gofer("q", run, cwd=repo / "exp")
    assert list((repo / "exp" / "assets").glob("*/*"))
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    assert b"assets" not in subprocess.check_output(status, cwd=repo, timeout=60)
    done = home.gofer("submit", "-f", "find", "..", "-name", "*.log", cwd=repo / "exp")
    assert ".log" not in done.out


def test_init_makes_the_repository_the_project(home: Home, repo: Path) -> None:
    home.gofer("init", cwd=repo / "exp")
    assert (repo / "gofer.yaml").exists()
    assert not (repo / "exp" / "gofer.yaml").exists()


def test_a_folder_whose_name_is_not_utf8_is_shown_in_a_dry_run(home: Home, repo: Path) -> None:
    odd = repo / os.fsdecode(b"e\xff")
    odd.mkdir()
    (odd / "a").write_text("")
    request = home.gofer("submit", "--dry-run", "true", cwd=odd).out
    assert json.loads(request)["workdir"] == odd.name
    assert home.gofer("submit", "-f", "ls", cwd=odd).out == "a\n"


def test_more_than_a_gibibyte_outside_of_the_folder_is_refused(home: Home, repo: Path) -> None:
    with (repo / "large").open("wb") as file:
        file.truncate((1 << 30) + 1)
    refused = home.gofer("submit", "true", cwd=repo / "exp", status=1)
    assert "(git) contains at least 1 file, 1.0 GiB, outside of `exp`: nothing was sent" in refused.err


def test_a_large_code_folder_is_reported(home: Home, repo: Path) -> None:
    assert "reading" not in home.gofer("submit", "true", cwd=repo).err
    with (repo / "large").open("wb") as file:
        file.truncate((1 << 30) + 1)
    message = home.gofer("submit", "true", cwd=repo).err
    assert message.index("reading 1.0 GiB of code; `.goferignore` leaves out") < message.index(
        "code: 3 files"
    )


def test_an_interrupt_while_the_code_is_read_says_that_nothing_was_submitted(home: Home, repo: Path) -> None:
    with (repo / "large").open("wb") as file:
        file.truncate(200 << 30)  # nobody waits for its end
    process = subprocess.Popen(
        home.argv("submit", "true"),
        cwd=repo,
        env=home.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        output = process.stderr.readline()
        assert b"reading 200" in output
        process.send_signal(signal.SIGINT)
        output = process.stderr.read()
        assert process.wait(timeout=120) == 130
    finally:
        process.kill()
        process.wait(timeout=120)
        process.stderr.close()
    assert b"interrupted: nothing was submitted" in output
    assert not list((home.store / "runs").glob("*"))


def test_large_code_is_named_by_its_biggest_folders_and_files(home: Home) -> None:
    (home.folder / "src" / "models").mkdir(parents=True)
    for number in range(150):
        with open(home.folder / "src" / "models" / f"part-{number}", "wb") as file:
            file.truncate(400_000)
    assert (
        "large snapshot; the biggest folders are `src/models/` 57.2 MiB\n" in home.gofer("submit", "true").err
    )
    with open(home.folder / "weights", "wb") as file:
        file.truncate(1_000_000)
    said = "the biggest folders are `src/models/` 57.2 MiB; the biggest files are `weights` 976.6 KiB\n"
    assert said in home.gofer("submit", "true").err
