"""docs/cli.md says what `--help` says, and `--help` says the defaults."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from gofer.cli.commands.runs.submit import command as submit
from gofer.cli.commands.settings.prune import command as prune
from gofer.cli.lazy import LazyGroup, root
from gofer.cli.options import Option
from gofer.cli.reference import render
from gofer.cli.verbs import VERB_GROUPS, VERBS
from gofer.config.layers import JOB_VARIABLES
from gofer.core.states import RETRIED_BY_DEFAULT
from gofer.model.job import Job
from gofer.ops.prune.prune import OLDER_THAN_S
from gofer.text import parse_duration_s

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
_DEFAULT = re.compile(r" \[default: ([^\]]+)\]")

_OLD_WORDS = (
    r"unless told|\bstands?\b|\blies\b|is meant|goes on|\bmends?\b|such as|behind it|of its own|\btalk\b"
)
# Options that take a value and have no default: without them nothing is added, renamed, or left out.
_NO_DEFAULT = """
    --after --array --each --env --exclude --experiment --export --filter --group --include --job --outputs
    --location --remove --setup --status --tag --taint --user --wheels --yes
"""
# Without `--target` these commands look at all runs, or at the profile in use.
_ANY_TARGET = (
    "abort, extract, list jobs, list runs, login, logout, logs, monitor, query, scale, ssh, tag, view log, "
    "wait, why"
)


def _commands(group: LazyGroup, path: str) -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        words = f"{path} {name}".strip()
        found |= _commands(command, words) if isinstance(command, LazyGroup) else {words: command}
    return found


COMMANDS = _commands(root(), "")
OPTIONS = [
    pytest.param(path, param, id=f"{path} {param.opts[-1]}")
    for path, command in COMMANDS.items()
    for param in command.params
    if isinstance(param, Option) and not param.is_flag
]


def _default(command: click.Command, option: str) -> str:
    help = next(
        str(param.help) for param in command.params if isinstance(param, Option) and option in param.opts
    )
    found = _DEFAULT.search(help)
    assert found, help
    return found[1]


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == render(), "run `make docs`"


def test_every_verb_is_in_one_group() -> None:
    assert list(VERB_GROUPS) == ["Run", "Look", "Data", "Clusters", "Settings"]
    assert sum(len(table) for table in VERB_GROUPS.values()) == len(VERBS)


def test_the_help_lists_the_verbs_by_group() -> None:
    text = root().get_help(click.Context(root(), info_name="gofer"))
    found: dict[str, list[str]] = {}
    for line in text.partition("\n\nOptions:\n")[2].splitlines()[1:]:
        if line.endswith(":"):
            title = line[:-1]
        elif verb := re.match(r"  ([a-z]+)", line):
            found.setdefault(title, []).append(verb[1])
    assert found == {title: list(table) for title, table in VERB_GROUPS.items()}


@pytest.mark.parametrize(("path", "option"), OPTIONS)
def test_an_option_says_its_default(path: str, option: Option) -> None:
    name = option.opts[-1]
    has_none = name in _NO_DEFAULT.split() or (name == "--target" and path in _ANY_TARGET.split(", "))
    has_none = has_none and (path, name) != ("image wrap", "--tag")
    assert bool(_DEFAULT.search(str(option.help))) != has_none, option.help
    assert not re.search(r"unless told|by default", str(option.help))


@pytest.mark.parametrize(("path", "option"), OPTIONS)
def test_an_option_names_a_variable_that_settings_read(path: str, option: Option) -> None:
    if not option.variable:
        return
    assert str(option.help).endswith(f"[env: {option.variable}]")
    assert option.variable in (PAGE.parent / "configuration.md").read_text()
    assert option.variable.removeprefix("GOFER_").lower() in (*JOB_VARIABLES, "target")


def test_options_of_submit_name_their_variables() -> None:
    shown = {param.variable for param in submit.params if isinstance(param, Option)} - {""}
    assert {"GOFER_TARGET", "GOFER_GPUS", "GOFER_TIME_LIMIT", "GOFER_RETRIES"} <= shown


def test_the_help_has_no_words_of_the_old_dialect() -> None:
    page = PAGE.read_text()
    assert re.findall(_OLD_WORDS, page) == []


def test_the_defaults_of_submit_are_those_of_a_job() -> None:
    job = Job(command=("true",))
    assert _default(submit, "--keep") == job.keep
    assert parse_duration_s(_default(submit, "--grace")) == job.grace_s
    assert int(_default(submit, "--retries")) == job.retries
    assert _default(submit, "--retry-on") == ",".join(RETRIED_BY_DEFAULT) == ",".join(job.retry_on)
    assert int(_default(submit, "--priority")) == job.priority
    assert _default(submit, "--launcher") == job.launcher
    assert _default(submit, "--rank-variables") == job.rank_variables


def test_the_default_age_of_prune_is_the_one_it_uses() -> None:
    assert parse_duration_s(_default(prune, "--older-than")) == OLDER_THAN_S
