"""Every command line of the older tools' documents, as printed, each tool's alias being gofer."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from azureml.seeds.effects import EFFECTS
from azureml.seeds.layout import OlderToolHome
from home import Done
from terminal import Terminal

pytestmark = [pytest.mark.xdist_group("azure-seeds"), pytest.mark.timeout(900)]

HERE = Path(__file__).parent
LINES: list[dict[str, Any]] = tomllib.loads((HERE / "lines.toml").read_text())["line"]
PAGE = HERE.parents[2] / "docs" / "older-tools.md"
ALIASES = ("a", "p", "xt")


def typed(older_home: OlderToolHome, words: list[str], answer: str | None) -> Done:
    """The line as a person types it; one that asks something is answered on a terminal."""
    if answer is None:
        return older_home.gofer(*words, status=None)
    with Terminal(older_home.argv(*words), cwd=older_home.folder, env=older_home.environ) as terminal:
        terminal.until("[y/N]")
        terminal.type(answer)
        return Done(terminal.end(), terminal.shown, "")


@pytest.mark.parametrize("one", LINES, ids=lambda one: f"{one['document']}: {one['line']}")
def test_a_line_of_the_documents(older_home: OlderToolHome, one: dict[str, Any]) -> None:
    {"xt": older_home.xt, "philly": older_home.philly}.get(one["document"], older_home.act)()
    if "needs" in one:
        older_home.need(one["needs"])
    alias, *words = shlex.split(one["line"])
    assert alias in ALIASES
    done = typed(older_home, words, one.get("answer"))
    assert done.status == one.get("status", 0), done
    assert re.search(one.get("says", ""), done.out + done.err, re.MULTILINE), done
    if "effect" in one:
        EFFECTS[one["effect"]](older_home, done)


def test_the_page_has_every_line() -> None:
    page = PAGE.read_text()
    missing = sorted({one["line"] for one in LINES if f"`{one['line']}`" not in page})
    assert missing == []


def rows() -> list[list[str]]:
    """The cells of the tables with a status: line, status, what happens."""
    tables = PAGE.read_text().partition("## Every line and key")[2].partition("### More words")[0]
    return [row.strip("| ").split(" | ") for row in tables.splitlines() if row.startswith("| ")]


def test_every_line_that_runs_here_works_by_the_page() -> None:
    statuses = {line: status for cell, status, *_ in rows() for line in re.findall("`([^`]+)`", cell)}
    assert {statuses[one["line"]] for one in LINES} <= {"works", "other form"}


def test_every_row_has_a_status() -> None:
    assert {status for _, status, *_ in rows()} == {"status", "works", "other form", "not yet"}


def test_every_effect_is_used() -> None:
    assert {one["effect"] for one in LINES if "effect" in one} == set(EFFECTS)
