from __future__ import annotations

import pytest
from unit.tracking.build import NOW, group, run

from gofer.errors import UnknownName, UsageError
from gofer.tracking.ledger import Ledger

OLD = "r261115-080000-k9qd4x"
NEW = "r261116-091233-x7bd4x"
GROUP = "r261116-100000-zz9k9q"


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    ledger.insert([run(OLD, submitted_at=NOW), run(NEW, submitted_at=NOW + 1, target="lab")])
    ledger.insert(group(GROUP, 12, submitted_at=NOW - 1))
    return ledger


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (OLD, OLD),
        ("k9qd4x", OLD),
        ("9qd4x", OLD),
        ("r261115", OLD),
        ("r261116-09", NEW),
        ("last", NEW),
        (" last ", NEW),
        (GROUP, GROUP),
        ("zz9k9q", GROUP),
        ("k9q", GROUP),
        (f"{GROUP}-1", f"{GROUP}-1"),
        ("zz9k9q-11", f"{GROUP}-11"),
        ("9q-3", f"{GROUP}-3"),
        (f"assets/{OLD}/", OLD),
        (f"./runs/assets/{GROUP}-4//", f"{GROUP}-4"),
    ],
)
def test_one_run_is_meant(filled: Ledger, reference: str, expected: str) -> None:
    found = filled.resolve(reference)
    assert found.id == expected
    assert found == filled.get(expected)


@pytest.mark.parametrize(
    "reference",
    ["nobody", "zz9k9q-12", "zz9k9q-", "%", "_9qd4x", "12", "-1", "zz9k9q-1x", "K9QD4X", "\udcff"],
)
def test_no_run_is_meant(filled: Ledger, reference: str) -> None:
    with pytest.raises(UnknownName, match="no run") as caught:
        filled.resolve(reference)
    assert caught.value.hint == "`gofer list runs`"


@pytest.mark.parametrize("reference", ["", "/", " "])
def test_nothing_is_named(filled: Ledger, reference: str) -> None:
    with pytest.raises(UsageError, match="names no run"):
        filled.resolve(reference)


def test_several_runs_are_meant(filled: Ledger) -> None:
    with pytest.raises(UsageError) as caught:
        filled.resolve("d4x")
    assert caught.value.message.splitlines() == [
        "`d4x` fits 2 runs:",
        f"  {NEW}  pending  python train.py",
        f"  {OLD}  pending  python train.py",
    ]


def test_a_target_narrows_what_is_meant(filled: Ledger) -> None:
    assert filled.resolve("d4x", target="lab").id == NEW
    assert filled.resolve("last", target="local").id == OLD
    with pytest.raises(UnknownName, match="on the target `lab`"):
        filled.resolve(OLD, target="lab")
    with pytest.raises(UnknownName, match="on the target"):
        filled.resolve(OLD, target="\udcff")


def test_many_candidates_are_cut_at_ten(ledger: Ledger) -> None:
    ledger.insert([run(f"r261116-091233-{i:06}", submitted_at=NOW + i) for i in range(25)])
    with pytest.raises(UsageError) as caught:
        ledger.resolve("r26")
    lines = caught.value.message.splitlines()
    assert lines[0] == "`r26` fits 25 runs:"
    assert lines[1].startswith("  r261116-091233-000024")
    assert lines[-1] == "  and 15 more"
    assert len(lines) == 12


def test_last_without_any_run(ledger: Ledger) -> None:
    with pytest.raises(UnknownName, match="no run has been submitted yet"):
        ledger.resolve("last")
