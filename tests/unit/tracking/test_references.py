from __future__ import annotations

import pytest
from unit.tracking.build import NOW, group, run

from gofer.errors import UnknownName, UsageError
from gofer.tracking.ledger import Ledger

OLD = "r261115-080000-k9qd4x"
NEW = "r261116-091233-x7bd4x"
GROUP = "r261116-100000-zz9k9q"
K7 = "r261114-100000-bbbbbb"
OTHER = "r261114-090000-k7cccc"


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    ledger.insert([run(OLD, submitted_at=NOW), run(NEW, submitted_at=NOW + 1, target="lab")])
    ledger.insert(group(GROUP, 12, submitted_at=NOW - 1, name="sweep"))
    # A name counts before a part of an id.
    ledger.insert([run(K7, submitted_at=NOW - 2, name="k7"), run(OTHER, submitted_at=NOW - 3, name="other")])
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
        ("z9k9q", GROUP),
        ("k9qd", OLD),
        ("x7b", NEW),
        ("last~1", OLD),
        ("last~2", GROUP),
        (f"{GROUP}-1", f"{GROUP}-1"),
        ("zz9k9q-11", f"{GROUP}-11"),
        ("9q-3", f"{GROUP}-3"),
        ("zz-3", f"{GROUP}-3"),
        ("sweep", GROUP),
        ("sweep-11", f"{GROUP}-11"),
        ("k7", K7),
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
    [
        "nobody",
        "last~x",
        "last~",
        "zz9k9q-12",
        "zz9k9q-",
        "%",
        "_9qd4x",
        "12",
        "-1",
        "zz9k9q-1x",
        "K9QD4X",
        "\udcff",
    ],
)
def test_no_run_is_meant(filled: Ledger, reference: str) -> None:
    with pytest.raises(UnknownName, match="no run") as caught:
        filled.resolve(reference)
    assert caught.value.hint == "`gofer list runs`"


@pytest.mark.parametrize("reference", ["", "/", " "])
def test_nothing_is_named(filled: Ledger, reference: str) -> None:
    with pytest.raises(UsageError, match="names no run"):
        filled.resolve(reference)


def _listed(caught: pytest.ExceptionInfo[UsageError]) -> list[list[str]]:
    """The lines of the error in words, without the ages."""
    return [[*line.split()[:2], *line.split()[4:]] for line in caught.value.message.splitlines()[1:]]


def test_several_runs_are_meant(filled: Ledger) -> None:
    with pytest.raises(UsageError, match="`d4x` fits 2 runs:") as caught:
        filled.resolve("d4x")
    assert _listed(caught) == [
        ["x7bd4x", "pending", "python", "train.py"],
        ["k9qd4x", "pending", "python", "train.py"],
    ]


def test_a_name_of_several_runs_is_refused_with_them(filled: Ledger) -> None:
    with pytest.raises(UsageError, match="`train` is the name of 2 runs:") as caught:
        filled.resolve("train")
    assert [line[0] for line in _listed(caught)] == ["x7bd4x", "k9qd4x"]
    assert filled.resolve("train", targets=["lab"]).id == NEW
    assert filled.matches("train").by_name
    assert not filled.matches("k9qd").by_name


def test_last_goes_back_in_a_project(ledger: Ledger) -> None:
    for at, run_id in enumerate((OLD, OTHER, NEW, K7)):
        ledger.insert([run(run_id, submitted_at=NOW + at, project="/odd" if at % 2 else "/even")])
    assert [ledger.matches(f"last~{back}", project="/even").ids for back in range(3)] == [[NEW], [OLD], []]
    assert ledger.resolve("last~3").id == OLD
    for too_far in ("last~4", f"last~{10**30}"):
        with pytest.raises(UnknownName, match="not as many as"):
            ledger.resolve(too_far)


def test_a_job_of_a_service_is_found_by_the_name_it_has_there(ledger: Ledger) -> None:
    ledger.insert([run("elated_pear_5h2k9q", name="x"), run("aml-a-b-5h2", name="y", submitted_at=NOW - 1)])
    for reference, expected in (
        ("elated", "elated_pear_5h2k9q"),
        ("b-5", "aml-a-b-5h2"),
        ("aml", "aml-a-b-5h2"),
    ):
        assert ledger.resolve(reference).id == expected


def test_a_target_narrows_what_is_meant(filled: Ledger) -> None:
    assert filled.resolve("d4x", targets=["lab"]).id == NEW
    assert filled.resolve("last", targets=["local"]).id == OLD
    assert filled.resolve("last~1", targets=["local"]).id == GROUP
    assert filled.resolve("last", targets=["lab", "local"]).id == NEW
    with pytest.raises(UsageError, match="fits 2 runs"):
        filled.resolve("d4x", targets=["lab", "local"])
    with pytest.raises(UnknownName, match="on the targets `lab`, `else`"):
        filled.resolve(OLD, targets=["lab", "else"])
    with pytest.raises(UnknownName, match="on the target `lab`"):
        filled.resolve(OLD, targets=["lab"])
    with pytest.raises(UnknownName, match="on the target"):
        filled.resolve(OLD, targets=["\udcff"])


def test_many_candidates_are_cut_at_ten(ledger: Ledger) -> None:
    ledger.insert([run(f"r261116-091233-{i:06}", submitted_at=NOW + i) for i in range(25)])
    with pytest.raises(UsageError) as caught:
        ledger.resolve("r26")
    lines = caught.value.message.splitlines()
    assert lines[0] == "`r26` fits 25 runs:"
    assert lines[1].startswith("  000024  pending  ")
    assert lines[-1] == "  and 15 more"
    assert len(lines) == 12


def test_last_without_any_run(ledger: Ledger) -> None:
    with pytest.raises(UnknownName, match="no run has been submitted yet"):
        ledger.resolve("last")
