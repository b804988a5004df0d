"""What a command uses of its project, read from its words, its set-up and its script."""

from __future__ import annotations

from pathlib import Path

import pytest

from gofer.model.job import Job
from gofer.ops.session import Session
from gofer.ops.submission.project_use import name_left_behind, read_use
from gofer.snapshot.capture import take_snapshot
from gofer.storage.file import FileStore

INSTALLS = {
    "pip install -e .": True,
    "python -m pip install --quiet --editable '.[dev]'": True,
    "uv pip install -e . && python train.py": True,
    "pip3.11 install -qe .": True,
    "python setup.py develop": True,
    "pip install -r requirements.txt": False,
    "pip install --no-deps -q wheel": False,
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
    messages: list[str] = []
    environ = {"HOME": str(tmp_path), "GOFER_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    taken = take_snapshot(folder, FileStore(tmp_path / "store", create=True), cache_dir=tmp_path / "cache")
    with Session(folder, environ, emit=lambda message: messages.append(str(message))) as session:
        wanted = Job(command=("bash", "run.sh"), setup=setup)
        found = read_use(session, wanted, folder, taken)
        name_left_behind(session, wanted, folder, found)
    return messages, found.environments, found.imports


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
    assert said[0] == "warning: `run.sh` has Windows line ends, which become part of its words"
    assert "sed -i" in said[1]
    assert use(tmp_path, "echo one\necho two\r\n")[0] == []


def said_of(
    tmp_path: Path,
    script: str,
    *command: str,
    setup: str | None = None,
    env: dict[str, str] | None = None,
    variables: dict[str, str] | None = None,
) -> list[str]:
    """What is said of a project with `a/conf.yaml`: FOLDER in the words below, and LINK leads to it."""
    folder = tmp_path / "pröject one"
    (folder / "a").mkdir(parents=True, exist_ok=True)
    (folder / "a" / "conf.yaml").write_text("")
    link = tmp_path / "link"
    if not link.exists():
        link.symlink_to(folder)

    def fill(text: str) -> str:
        return text.replace("FOLDER", str(folder)).replace("LINK", str(link))

    (folder / "run.sh").write_text(fill(script))
    messages: list[str] = []
    environ = {"HOME": str(tmp_path), "GOFER_HOME": str(tmp_path / "home"), "PATH": "/bin", "PWD": str(link)}
    taken = take_snapshot(folder, FileStore(tmp_path / "store", create=True), cache_dir=tmp_path / "cache")
    with Session(folder, environ, emit=lambda message: messages.append(str(message))) as session:
        words = tuple(fill(word) for word in command) or ("bash", "run.sh")
        filled = {name: fill(value) for name, value in (env or {}).items()}
        job = Job(command=words, setup=None if setup is None else fill(setup), env=filled)
        shell = {name: fill(value) for name, value in (variables or {}).items()}
        read_use(session, job, folder, taken, shell)
    return messages


PAST_THE_COPY = {
    "cd FOLDER\npython train.py\n": ("`run.sh` names", "write `.`"),
    "python LINK/a/conf.yaml\n": ("`run.sh` names", "write `a/conf.yaml`"),
    "cat 'FOLDER/a/conf.yaml';\n": ("`run.sh` names", "write `a/conf.yaml`"),
    "# cd FOLDER\nls FOLDER2 /mnt/FOLDER FOLDER/not-there\n": None,
}


@pytest.mark.parametrize("script", PAST_THE_COPY)
def test_a_script_that_leads_past_the_copy_is_named(tmp_path: Path, script: str) -> None:
    said, expected = said_of(tmp_path, script), PAST_THE_COPY[script]
    if expected is None:
        assert said == []
    else:
        assert expected[0] in said[0] and "in your folder, not in the run's copy of it" in said[0]
        assert expected[1] in said[1] and len(said) == 2


def test_commands_set_ups_and_variables_that_lead_past_the_copy_are_named(tmp_path: Path) -> None:
    assert "the command names" in said_of(tmp_path, "", "sh", "-c", "cd FOLDER && ls")[0]
    assert "`LINK/a`".replace("LINK", f"{tmp_path}/link") in said_of(tmp_path, "", "ls", "--in=LINK/a")[0]
    assert "the set-up names" in said_of(tmp_path, "", setup="cd LINK; make")[0]
    assert "`CONF=" in said_of(tmp_path, "", env={"CONF": "FOLDER/a/conf.yaml"})[0]
    assert "`ROOT=" in said_of(tmp_path, "", variables={"LS": ":", "ROOT": "LINK"})[0]
    harmless = {"PWD": "FOLDER", "OLDPWD": "LINK/a", "DIRENV_FILE": "FOLDER/a", "PYTHONPATH": "FOLDER"}
    assert said_of(tmp_path, "", variables=harmless) == []


def test_a_build_folder_that_cmake_made_for_the_persons_folder_is_named(tmp_path: Path) -> None:
    build = tmp_path / "pröject one" / "out" / "debug"
    build.mkdir(parents=True)
    (build / "CMakeCache.txt").write_text(f"# cache\nCMAKE_HOME_DIRECTORY:INTERNAL={tmp_path}/pröject one\n")
    result = said_of(tmp_path, "cmake --build out/debug && ./prog\n")
    assert "cmake made `out/debug/` for your folder" in result[0] and "/out/debug/" in result[1]
    assert said_of(tmp_path, "./prog\n") == []
    (build / "CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
    assert said_of(tmp_path, "make -C out/debug\n") == []
