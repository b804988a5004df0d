"""`target_groups`: a name for several targets, wherever runs are looked up."""

from __future__ import annotations

import json

import pytest
from home import Home

YAML = """\
target_groups:
  both: [one, two]
  half: [one, farm]
targets:
  one: {kind: local}
  two: {kind: local}
  three: {kind: local}
"""


@pytest.fixture
def grouped(home: Home) -> Home:
    (home.folder / "gofer.yaml").write_text(YAML)
    return home


def test_commands_that_look_up_runs_look_on_each_target_of_the_group(grouped: Home) -> None:
    for target in ("one", "two", "three"):
        grouped.gofer("-c", target, "submit", "--wait", "-Q", "--name", target, "echo", f"said on {target}")
    shown = json.loads(grouped.gofer("list", "-c", "both", "--json").out)
    assert [run["target"] for run in shown] == ["two", "one"]
    assert grouped.gofer("-c", "both", "logs").out == "said on two\n"
    assert "no run has the id or the name `three` on the targets `one`, `two`" in (
        grouped.gofer("-c", "both", "q", "three", status=2).err
    )
    chosen = grouped.gofer("-c", "both", "wait", "--filter", "state=succeeded", "--json").out
    assert sorted(run["target"] for run in json.loads(chosen)) == ["one", "two"]
    assert [run["target"] for run in json.loads(grouped.gofer("list", "-c", "half", "--json").out)] == ["one"]


def test_a_command_that_needs_one_target_names_those_of_the_group(grouped: Home) -> None:
    for words in (("submit", "true"), ("ls",), ("target", "show")):
        said = grouped.gofer("-c", "both", *words, status=2).err
        assert "`both` is a group of targets, and this command needs one of them: `one`, `two`" in said
        assert "hint: `-c one` chooses it" in said
    assert "hint: did you mean `both`?" in grouped.gofer("-c", "bth", "submit", "true", status=2).err


def test_members_that_are_no_targets_are_found_by_config_check(grouped: Home) -> None:
    done = grouped.gofer("config", "check", status=2)
    assert "gofer.yaml:3: `target_groups.half`: there is no target `farm`" in done.out + done.err
    assert "`gofer target add farm`" in done.out + done.err
    (grouped.folder / "gofer.yaml").write_text(f"target: both\n{YAML}  farm: {{kind: local}}\n")
    done = grouped.gofer("config", "check", status=2)
    assert "`target`: `both` is a group of targets, and runs need one of them" in done.out
    assert "name one: `one`, `two`" in done.out
    (grouped.folder / "gofer.yaml").write_text("target_groups: {both: []}\n")
    assert "the group `both` has no targets" in grouped.gofer("-c", "both", "submit", "x", status=2).err
    assert "target_groups.both" in grouped.gofer("config", "show").out
