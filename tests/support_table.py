"""`docs/support.md`, made from what the conformance suite found on each backend: see `make support`.

A pytest plugin: `pytest -p support_table --support-table FILE tests/…/test_conformance.py`. A test class
takes part by its attribute `column`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

COLUMNS = ("local", "ssh", "slurm", "slurm over ssh", "aml", "itp", "singularity")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "support.md"

_HEAD = """# What works where

Made by `make support` from the results of the [conformance suite](../CONTRIBUTING.md).
`local`, `ssh` and `slurm` run on real machines and clusters; `aml`, `itp` and `singularity` run on
[the simulator](azureml.md) of the service.
`yes` passed, `no` failed, `-` was skipped because the backend cannot do it.

"""
_WORDS = {"passed": "yes", "failed": "no", "skipped": "-"}
_found: dict[str, dict[str, str]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--support-table", type=Path, help="write what the conformance suite found to this file")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    column = getattr(getattr(item, "cls", None), "column", None)
    if column is not None and (report.when == "call" or report.outcome != "passed"):
        _found.setdefault(words(item.name), {})[column] = _WORDS[report.outcome]
    return report  # type: ignore[return-value]


def pytest_sessionfinish(session: pytest.Session) -> None:
    path: Path | None = session.config.getoption("--support-table")
    if path is not None and _found:
        path.write_text(render(_found))


def words(name: str) -> str:
    """`test_the_first_failing_rank_is_named` as a person would say it."""
    return name.removeprefix("test_").replace("_", " ")


def render(found: dict[str, dict[str, str]]) -> str:
    lines = [f"| | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    for row in sorted(found):
        lines.append(f"| {row} | {' | '.join(found[row].get(column, ' ') for column in COLUMNS)} |")
    return _HEAD + "\n".join(lines) + "\n"
