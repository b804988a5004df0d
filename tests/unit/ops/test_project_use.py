"""What a command uses of its project, read from its words, its set-up and its script."""

from __future__ import annotations

from pathlib import Path

import pytest

from gofer.model.job import Job
from gofer.ops.session import Session
from gofer.ops.submission.project_use import name_left_behind, read_use
from gofer.snapshot import take
from gofer.storage.file import FileStore

INSTALLS = {
    "pip install -e .": True,
    "python -m pip install --quiet --editable '.[dev]'": True,
    "uv pip install -e . && python train.py": True,
    "pip install -r requirements.txt": False,
    "python -m venv env && env/bin/pip install -e .": False,
    "uv sync": False,
    "echo pip; train -e 5": False,
}


def use(
    tmp_path: Path, script: str, setup: str | None = None
) -> tuple[list[str], tuple[str, ...], tuple[str, ...]]:
    """What is said of a script, and the environments and imports of its run."""
    folder = tmp_path / "pröject one"
    (folder / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
    (folder / ".venv" / "pyvenv.cfg").write_text("")
    (folder / "run.sh").write_text(script)
    said: list[str] = []
    environ = {"HOME": str(tmp_path), "GOFER_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    taken = take(folder, FileStore(tmp_path / "store", create=True), cache_dir=tmp_path / "cache")
    with Session(folder, environ, say=said.append) as session:
        wanted = Job(command=("bash", "run.sh"), setup=setup)
        found = read_use(session, wanted, folder, taken)
        name_left_behind(session, wanted, folder, found)
    return said, found.environments, found.imports


@pytest.mark.parametrize("script", INSTALLS)
def test_an_install_into_a_shared_environment_is_named(tmp_path: Path, script: str) -> None:
    said, _, imports = use(tmp_path, script)
    assert any("changes an environment" in one for one in said) is INSTALLS[script]
    assert imports == ((".",) if INSTALLS[script] else ())


def test_an_environment_that_stays_behind_is_named_where_the_script_uses_it(tmp_path: Path) -> None:
    said, environments, _ = use(tmp_path, "source .venv/bin/activate\npython train.py\n")
    assert environments == (".venv",) and "`.venv/`" in said[0]
    assert use(tmp_path, "python train.py\n")[0] == []
    assert use(tmp_path, "uv run train.py\n") == ([], (), ())
    assert "changes an environment" in use(tmp_path, "true\n", setup="pip install -e .")[0][0]


def test_windows_line_ends_of_a_shell_script_are_named(tmp_path: Path) -> None:
    said, _, _ = use(tmp_path, "#!/usr/bin/env bash\r\necho one\r\n")
    assert said[0].startswith("warning: `run.sh` has Windows line ends") and "sed -i" in said[1]
    assert use(tmp_path, "echo one\necho two\r\n")[0] == []
