"""Settings that somebody shares: added from a file, a store or a Python package, and read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from home import Home
from terminal import Terminal

TEAM = """\
targets:
  box: {kind: local, gpus: 2, job: {env: {WHO: team}}}
  lab: {kind: slurm, partition: gpu}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "an odd: folder")


@pytest.fixture
def team(tmp_path: Path) -> Path:
    path = tmp_path / "shared disk" / "team.yaml"
    path.parent.mkdir()
    path.write_text(TEAM)
    return path


def names(home: Home) -> list[str]:
    return [row["name"] for row in json.loads(home.gofer("list", "targets", "--json").out)]


def test_a_person_reads_what_a_file_sets_and_agrees_once(home: Home, team: Path) -> None:
    refused = home.gofer("config", "add", "team", str(team), status=2)
    assert "targets.lab.partition: gpu\n" in refused.err
    assert "hint: add `--yes` if you trust them" in refused.err
    assert names(home) == ["local"]
    with Terminal(
        home.argv("config", "add", "team", str(team)), cwd=home.folder, env=home.environ
    ) as terminal:
        terminal.until("Do you trust these? [y/N]")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert names(home) == ["box", "lab", "local"]
    run = home.submit("-t", "box", "sh", "-c", "echo $WHO")
    home.wait(run)
    assert home.log(run) == "team\n"


def test_a_later_change_counts_only_when_it_is_read_again(home: Home, team: Path) -> None:
    home.gofer("config", "add", "team", str(team), "--yes")
    team.write_text(TEAM.replace("gpus: 2", "gpus: 4"))
    assert "gpus: 2" in home.gofer("config", "get", "targets.box").out
    again = home.gofer("config", "add", "team", "--yes")
    assert "- targets.box.gpus: 2\n+ targets.box.gpus: 4\n" in again.err
    assert "gpus: 4" in home.gofer("config", "get", "targets.box").out
    assert "is unchanged" in home.gofer("config", "add", "team").err


def test_the_settings_of_a_person_win_over_shared_ones_and_stay(home: Home, team: Path) -> None:
    own = home.path / "config.yaml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("# mine\nextends: other.yaml\ntargets: {box: {kind: local, gpus: 7}}\n")
    own.with_name("other.yaml").write_text("job: {tags: {a: b}}\n")
    home.gofer("config", "add", "team", str(team), "--yes")
    assert own.read_text().startswith("# mine\n")
    assert "gpus: 7" in home.gofer("config", "get", "targets.box").out
    assert home.gofer("config", "get", "job.tags.a").out == "b\n"


def test_a_project_shares_with_all_who_work_on_it(home: Home, team: Path) -> None:
    home.configure("target: box\n")
    home.gofer("config", "add", "team", str(team), "--project", "--yes")
    assert (home.folder / "shared/team.yaml").exists()
    assert names(home) == ["box", "lab", "local"]


def test_from_a_store_and_from_a_python_package(home: Home, team: Path, tmp_path: Path) -> None:
    home.configure(f'stores: {{disk: {{url: "{team.parent.as_uri()}"}}}}\n')
    home.gofer("config", "add", "a", "disk:team.yaml", "--yes")
    assert names(home) == ["box", "lab", "local"]
    home.gofer("config", "unset", "extends")
    package = tmp_path / "packages" / "lab_settings"
    package.mkdir(parents=True)
    package.joinpath("__init__.py").write_text("raise SystemExit('it was imported')\n")
    package.joinpath("t.yaml").write_text(TEAM)
    path = {"PYTHONPATH": str(package.parent)}
    home.gofer("config", "add", "b", "python:lab_settings/t.yaml", "--yes", env=path)
    assert names(home) == ["box", "lab", "local"]
    home.gofer("config", "unset", "extends")
    home.configure("extends: python:lab_settings/t.yaml\n")
    assert "box" in home.gofer("list", "targets", env=path).out
    gone = home.gofer("list", "targets", status=2)
    assert "`python:lab_settings/t.yaml` names no file of a Python package" in gone.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["new"], "nothing is shared under the name `new` yet"),
        (["a b", "team.yaml"], "`a b` cannot be the name of shared settings"),
        (["x", "./absent.yaml"], "cannot read"),
        (["x", "./wrong.yaml"], "did you mean `targets`?"),
        (["x", "./large.yaml"], "too large"),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_is_written(
    home: Home, words: list[str], message: str
) -> None:
    (home.folder / "wrong.yaml").write_text("targts: {}\n")
    (home.folder / "large.yaml").write_text("#" * (5 << 20))
    assert message in home.gofer("config", "add", *words, "--yes", status=2).err
    assert names(home) == ["local"]
