"""`gofer target add` for a machine over SSH: visited, written, tried, removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts
from home import Home
from terminal import Terminal

pytestmark = ON_SSH_HOSTS


@pytest.fixture
def home(tmp_path: Path, ssh_hosts: SshHosts) -> Iterator[Home]:
    made = Home(tmp_path)
    made.environ["PATH"] = f"{ssh_hosts.bin}:{made.environ['PATH']}"
    yield made


def test_a_target_is_visited_written_and_tried(home: Home) -> None:
    (home.path).mkdir()
    file = home.path / "config.yaml"
    file.write_text("# mine\njob: {retries: 1}  # once\n")
    done = home.gofer("target", "add", "box", "--kind", "ssh", "--host", "hostb")
    assert done.out == "gofer reaches hostb\n"
    assert "hostb: answers as hostb: Python 3." in done.err
    assert "gofer -c box submit python train.py" in done.err
    assert file.read_text() == (
        "# mine\njob: {retries: 1}  # once\ntargets:\n  box:\n    kind: ssh\n    hosts:\n    - hostb\n"
    )
    taken = home.gofer("target", "add", "box", "--kind", "ssh", "--host", "hosta", status=2)
    assert "there is a target `box` already" in taken.err and "--force" in taken.err
    words = ["target", "add", "box", "--force", "--no-try", "--kind", "ssh", "--host", "hosta"]
    home.gofer(*words, "--host", "hostb", "patience=2d")
    assert "hosts:\n    - hosta\n    - hostb\n    patience: 2d\n" in file.read_text()
    home.gofer("target", "rm", "box")
    assert file.read_text() == "# mine\njob: {retries: 1}  # once\n"
    assert "has no target `box`" in home.gofer("target", "rm", "box", status=2).err
    # The run was recorded with what is needed to reach it.
    assert home.gofer("logs", "last").out == "gofer reaches hostb\n"


def test_dry_run_prints_yaml_and_writes_nothing(home: Home) -> None:
    words = ["target", "add", "box", "--kind", "ssh", "--host", "hostb", "--project", "--dry-run"]
    assert home.gofer(*words).out == "targets:\n  box:\n    kind: ssh\n    hosts:\n    - hostb\n"
    assert not (home.folder / "gofer.yaml").exists()
    home.gofer(*[word for word in words if word != "--dry-run"], "--no-try")
    assert (home.folder / "gofer.yaml").read_text().startswith("targets:\n  box:\n")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--kind", "ssh", "--host", "nowhere"], 1, "nowhere cannot be reached: the host name is unknown"),
        (["--kind", "ssh"], 2, "the target needs its host for ssh"),
        (["--kind", "shs", "--host", "hostb"], 2, "did you mean `ssh`?"),
        (["--host", "hostb"], 2, "the kind of the target is missing"),
        (["--kind", "ssh", "--host", "hostb", "pyhton=x"], 2, "did you mean `python`?"),
        (["--kind", "ssh", "--host", "hostb", "shared"], 2, "`shared` is not an option of the target"),
        (["--kind", "slurm", "--host", "hosta"], 1, "hosta is no login node of Slurm"),
    ],
)
def test_what_cannot_be_a_target_is_not_written(
    home: Home, words: list[str], status: int, message: str
) -> None:
    assert message in home.gofer("target", "add", "x", *words, status=status).err
    assert not (home.path / "config.yaml").exists()


def test_the_python_of_a_machine_without_python3_is_found(home: Home, ssh_hosts: SshHosts) -> None:
    binaries = ssh_hosts.machines["hosta"].home / "miniconda3" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "python").symlink_to("/usr/bin/python3")
    (ssh_hosts.machines["hosta"].home / ".bashrc").write_text("PATH=/nowhere:/usr/sbin:/sbin\n")
    hidden = ssh_hosts.machines["hosta"].home / "bin"
    hidden.mkdir()
    # The login finds every program but Python.
    names = ["sh", "sed", "hostname", "nproc", "df", "cat", "id", "sort", "getconf"]
    for name in names:
        found = next(folder / name for folder in (Path("/usr/bin"), Path("/bin")) if (folder / name).exists())
        (hidden / name).symlink_to(found)
    (ssh_hosts.machines["hosta"].home / ".bashrc").write_text(f"PATH={hidden}\n")
    done = home.gofer("target", "add", "a", "--kind", "ssh", "--host", "hosta", "--dry-run")
    assert "python: /usr/bin/python3\n" in done.out


def test_questions_on_a_terminal(home: Home) -> None:
    argv = home.argv("target", "add", "box")
    with Terminal(argv, cwd=home.folder, env=home.environ) as terminal:
        terminal.until("kind of target")
        terminal.type("\r")
        terminal.until("host for ssh")
        terminal.type("hostb\r")
        terminal.until("gofer reaches hostb")
        assert terminal.end() == 0
    assert "kind: ssh" in (home.path / "config.yaml").read_text()


def test_init_on_a_terminal_offers_to_add_a_cluster(home: Home) -> None:
    question = "add a cluster (a machine over SSH, Slurm or Azure ML) as a target now? [y/N]"
    assert "add a cluster" not in home.gofer("init").err  # nobody can answer a script's question
    with Terminal(home.argv("init"), cwd=home.folder, env=home.environ) as terminal:
        terminal.until(question)
        terminal.type("\r")
        assert terminal.end() == 0
    assert "`gofer target add NAME` adds one later" in terminal.shown
    with Terminal(home.argv("init"), cwd=home.folder, env=home.environ) as terminal:
        for asked, answer in (
            (question, "y"),
            ("name of the target, such as lab:", "box"),
            ("kind of target", ""),
            ("host for ssh", "hostb"),
        ):
            terminal.until(asked)
            terminal.type(f"{answer}\r")
        terminal.until("gofer reaches hostb")
        assert terminal.end() == 0
    assert "box:" in (home.path / "config.yaml").read_text()
    with Terminal(home.argv("init"), cwd=home.folder, env=home.environ) as terminal:
        assert terminal.end() == 0
    assert question not in terminal.shown  # there is a cluster
