"""Adding a kind of backend needs no change outside its package: nothing else knows the names of kinds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gofer
from gofer.backends import registry

KINDS = ("azureml", "kubernetes", "local", "slurm", "ssh")
SOURCE = Path(gofer.__file__).parent
# `gofer submit ssh` holds a node for shells: there, `ssh` is a command, not a kind.
OTHER_MEANINGS = [("cli/commands/runs/submit.py", "ssh")]


def compared_words(tree: ast.AST) -> Iterator[ast.Constant]:
    """The words with which something is compared, by an operator, as a key, or in a `match`."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        for part in parts:
            words = part.elts if isinstance(part, ast.Tuple | ast.Set | ast.List) else [part]
            yield from (word for word in words if isinstance(word, ast.Constant))


@pytest.mark.parametrize("package", ["api.py", "cli", "config", "ops", "tracking", "transfer"])
def test_nothing_is_compared_with_the_name_of_a_kind(package: str) -> None:
    place = SOURCE / package
    found = []
    for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
        for word in compared_words(ast.parse(file.read_text())):
            if word.value in KINDS:
                found.append((file.relative_to(SOURCE).as_posix(), word.value))
    assert [one for one in found if one not in OTHER_MEANINGS] == []


def test_the_comparison_with_the_name_of_a_kind_is_found() -> None:
    text = 'kind == "ssh"\nkind in ("a", "local")\ntable["slurm"]\n"azureml"\n'
    assert [word.value for word in compared_words(ast.parse(text))] == ["ssh", "a", "local", "slurm"]


def test_every_package_is_a_kind() -> None:
    assert tuple(registry.Kinds()) == KINDS
    assert [name for name in KINDS if registry.runs_here(name)] == ["local"]


def test_a_kind_that_is_not_installed_does_not_run_here() -> None:
    assert not registry.runs_here("gone")


def test_the_checks_of_a_kind_are_found_by_their_word() -> None:
    found = registry.find_checks("azure")
    assert found is not None and found[0] == "azureml"
    assert registry.find_checks("azureml") is None
