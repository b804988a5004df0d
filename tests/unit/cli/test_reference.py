"""docs/cli.md says what `--help` says."""

from __future__ import annotations

from pathlib import Path

from gofer.cli.reference import render

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == render(), "run `python -m gofer.cli.reference > docs/cli.md`"
