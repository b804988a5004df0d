"""Names of processes that a command left running: the program or the script, never an argument."""

from __future__ import annotations

from pathlib import Path

import pytest

from gofer.node.background import describe, is_library_helper, name_command


@pytest.fixture
def project(tmp_path: Path) -> str:
    folder = tmp_path / "a folder ü"
    folder.mkdir()
    for name in ("train.py", "run.sh"):
        (folder / name).touch()
    return str(folder)


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["python3.11", "train.py", "--token", "SECRET"], "train.py"),
        (["/usr/bin/python", "-u", "-X", "dev", "train.py", "SECRET"], "train.py"),
        (["python", "-m", "pkg.train", "SECRET"], "pkg.train"),
        (["python", "-c", "print('SECRET')"], "python"),
        (["python", "gone.py", "SECRET", "train.py"], "python"),
        (["bash", "-euo", "pipefail", "run.sh"], "run.sh"),
        (["-bash"], "-bash"),
        (["sh", "-c", "curl -H SECRET", "train.py"], "sh"),
        (["/opt/tool/serve", "SECRET", "train.py"], "serve"),
        (["node", "--require", "SECRET", "train.py"], "train.py"),
        (["\x1b]0;x\x07`" + "y" * 100], "?]0;x??" + "y" * 52 + "…"),
        ([], ""),
    ],
)
def test_a_name_is_the_script_or_the_program(project: str, argv: list[str], name: str) -> None:
    assert name_command(argv, project) == name


def test_the_sentence_counts_groups_and_bounds_the_names(
    project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    one = "1 process was still running and was ended: `train.py`"
    assert describe([], ["sh", "run.sh"], succeeded=True) is None
    assert describe(["train.py"], ["sh", "run.sh"], succeeded=True) == f"{one}; end run.sh with `wait`"
    assert describe(["train.py"], ["./run.sh"], succeeded=True) == f"{one}; end run.sh with `wait`"
    assert (
        describe(["train.py"], ["sh", "-c", "x &"], succeeded=True) == f"{one}; end the command with `wait`"
    )
    assert describe(["train.py"], ["sh", "run.sh"], succeeded=False) == one
    many = describe(["a", "a", "b", "c", "d", "e"], ["python", "train.py"], succeeded=True)
    assert many == (
        "6 processes were still running and were ended: `a` (2), `b`, `c` and 2 more; "
        "train.py must wait for the processes it starts"
    )


def test_a_process_that_cleans_up_for_a_library_is_nobodys_work() -> None:
    tracker = "from multiprocessing.resource_tracker import main;main(5)"
    joblib = "from joblib.externals.loky.backend.resource_tracker import main; main(9, False)"
    assert is_library_helper(["python", "-c", tracker])
    assert is_library_helper(["python", "-c", joblib])
    assert not is_library_helper(["python", "train.py", "--tracker"])
