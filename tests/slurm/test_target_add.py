"""`gofer target add` for a Slurm site, from a laptop through its login node and on the login node."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_login as slurm_login
from clusters.fixtures import slurm_login_site as slurm_login_site
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from clusters.ssh import SshHosts
from home import Home
from terminal import Terminal

from gofer.config.yaml.document import parse_document
from gofer.config.yaml.text import plain

pytestmark = ON_SLURM


def _target(home: Home, name: str) -> dict[str, object]:
    found: dict[str, object] = plain(
        parse_document((home.path / "config.yaml").read_text(), source="f").entries["targets"]
    )[name]
    return found


@pytest.fixture
def laptop(tmp_path: Path, slurm: Slurm, slurm_login: SshHosts) -> Home:
    home = Home(tmp_path)
    home.environ["PATH"] = f"{slurm_login.bin}:{home.environ['PATH']}"
    home.environ.pop("SLURM_CONF", None)
    return home


def test_a_site_through_its_login_node_is_tried(laptop: Home, slurm: Slurm) -> None:
    done = laptop.gofer("target", "add", "lab", "--kind", "slurm", "--host", "login-jump")
    assert done.out.startswith("gofer reaches ") and done.out.split()[-1] in slurm.nodes
    assert "partition gpu: 3 nodes of 16 CPUs and 4 GPUs a100, no time limit (the default)" in done.err
    assert "partition short: 3 nodes of 16 CPUs and 4 GPUs a100, runs of at most 5:00" in done.err
    assert _target(laptop, "lab") == {
        "kind": "slurm",
        "login": "login-jump",
        "partition": "gpu",
        "gpus_per_node": "4",
    }
    wrong = laptop.gofer(
        "target", "add", "x", "--kind", "slurm", "--host", "login", "partition=shrt", status=2
    )
    assert "there is no partition `shrt`" in wrong.err and "did you mean `short`?" in wrong.err


def test_the_lines_of_the_readme_about_a_cluster(laptop: Home, request: pytest.FixtureRequest) -> None:
    """Those about `lab` and about the last run, with the login node of this cluster."""
    text = (Path(__file__).parents[2] / "README.md").read_text().partition("\n## Your cluster\n")[2]
    section = text.partition("\n## ")[0]
    lines = [line.partition("#")[0].split() for line in section.splitlines() if line.startswith("    gofer ")]
    changes = {"me@login.lab": "login", "python": "python3"}
    (laptop.folder / "train.py").write_text("print('trained')\n")
    request.addfinalizer(lambda: laptop.gofer("logout", "lab"))
    typed = []
    for words in lines:
        # A shell needs a terminal, and a run that has not ended.
        if {"lab", "last"} & {*words} and words[1] != "ssh":
            typed.append(words[1])
            done = laptop.gofer(*(changes.get(word, word) for word in words[1:]))
            if "submit" in words:
                laptop.gofer("wait", "last")
            assert words[1:3] != ["list", "nodes"] or "4/4" in done.out
    assert typed == ["target", "login", "doctor", "list", "-n", "why", "extract"]
    logs = (laptop.folder.parent / "results/logs").rglob("rank-0.log")
    assert any("trained" in path.read_text() for path in logs)


def test_the_partition_is_asked_on_a_terminal(laptop: Home) -> None:
    argv = laptop.argv("target", "add", "lab", "--kind", "slurm", "--host", "login", "--no-try", "time=4m")
    with Terminal(argv, cwd=laptop.folder, env=laptop.environ) as terminal:
        terminal.until("partition of the runs (gpu, short, spare) [gpu]")
        terminal.type("shrt\r")
        terminal.until("'shrt' is not one of")
        terminal.type("short\r")
        assert terminal.end() == 0
    assert _target(laptop, "lab")["partition"] == "short"
    assert _target(laptop, "lab")["time"] == "4m"


def test_on_the_login_node_itself(tmp_path: Path, slurm: Slurm) -> None:
    home = Home(tmp_path)
    home.environ |= slurm.exports
    home.gofer("target", "add", "here", "--kind", "slurm", "--no-try", f"folder={tmp_path}/shared")
    assert _target(home, "here") == {
        "kind": "slurm",
        "partition": "gpu",
        "gpus_per_node": "4",
        "folder": f"{tmp_path}/shared",
    }
