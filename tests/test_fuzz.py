"""A bounded part of `make fuzz`, the same inputs each time, and proof that the fuzzer sees an odd answer.

Here each input imports gofer by itself; `make fuzz` imports it once.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.areas import AREAS
from fuzz.case import Case
from fuzz.harness import Answer, Workplace
from fuzz.home import HomeCopy
from fuzz.seed import make_home
from fuzz.work import case_of

INPUTS = 40


@pytest.fixture(scope="module")
def seed_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("fuzz") / "home")


@pytest.mark.xdist_group("fuzz")
@pytest.mark.parametrize("area", AREAS)
def test_whatever_is_given_gofer_answers_in_words(area: str, seed_home: Path, tmp_path: Path) -> None:
    odd = []
    place = Workplace(seed_home, tmp_path / "case")
    for number in range(INPUTS):
        case = case_of(1, area, number)
        problem = place.run(case).problem()
        if problem is not None:
            odd.append((number, problem, case))
    assert odd == []


def test_an_odd_answer_is_seen() -> None:
    assert Answer(0, "fine", 0.1, 40).problem() is None
    assert Answer(None, "", 0.1, 0).problem() == "it did not end within 180 s"
    assert Answer(0, "", 11.0, 40).problem() == "11 s of CPU"
    assert (
        Answer(1, "error: unexpected KeyError: 'x'\n", 0.1, 40).problem() == "error: unexpected KeyError: 'x'"
    )
    assert Answer(-11, "", 0.1, 40).problem() == "exit status -11: "
    assert Answer(0, "", 0.1, 900).problem() == "900 MiB of memory"
    traceback = "Traceback (most recent call last):\n"
    assert Answer(1, traceback, 0.1, 40).problem() == traceback.strip()
    assert Answer(1, traceback, 0.1, 40, debug=True).problem() is None


@pytest.mark.xdist_group("fuzz")
def test_what_an_input_prints_is_seen(seed_home: Path, tmp_path: Path) -> None:
    answer = Workplace(seed_home, tmp_path).run(Case(("list", "runs", "--columns", "name", "--all")))
    assert (answer.status, answer.text.split()[0]) == (0, "NAME")
    assert "fine" in answer.text
    refused = Workplace(seed_home, tmp_path).run(Case(("nonsense",)))
    assert refused.text.startswith("error: `gofer nonsense` is not a command")


@pytest.mark.xdist_group("fuzz")
def test_an_input_reads_and_writes_the_store_of_its_own_home(seed_home: Path, tmp_path: Path) -> None:
    place = Workplace(seed_home, tmp_path)
    name = "r260101-000000-aaaaaa"
    before = {path: path.read_bytes() for path in seed_home.rglob("*") if path.is_file()}
    log = f"runs/{name}/attempts/1/node-0/rank-0.log"
    assert (
        "written for this input"
        in place.run(Case(("logs", name), store={log: b"written for this input\n"})).text
    )
    place.run(Case(("prune", "--runs", "--older-than", "1d", "--yes")))
    assert {path: path.read_bytes() for path in seed_home.rglob("*") if path.is_file()} == before


@pytest.mark.xdist_group("fuzz")
def test_no_input_finds_what_the_one_before_it_wrote(seed_home: Path, tmp_path: Path) -> None:
    place = Workplace(seed_home, tmp_path)
    name = "r260101-000000-aaaaaa"
    before = place.run(Case(("tag", name))).text
    place.run(Case(("tag", name, "left=1")))
    place.run(Case(("version",), store={"runs/x/run.json": b"{}"}, damage={"ledger.db": 1}))
    assert place.run(Case(("tag", name))).text == before
    assert "left" not in before


def test_a_home_is_made_whole_again(tmp_path: Path) -> None:
    seed = tmp_path / "seed"
    (seed / "a").mkdir(parents=True)
    for number in range(3):
        (seed / "a" / str(number)).write_text("seed")
    copy = HomeCopy(seed, tmp_path / "copy")
    (copy.path / "a" / "0").write_text("SEED")  # as long as before
    (copy.path / "a" / "1").unlink()
    (copy.path / "a" / "2").unlink()
    (copy.path / "a" / "2").mkdir()
    (copy.path / "new" / "folder").mkdir(parents=True)
    (copy.path / "new" / "folder" / "file").write_text("x")
    copy.restore()
    found = sorted(str(path.relative_to(copy.path)) for path in copy.path.rglob("*"))
    assert found == ["a", "a/0", "a/1", "a/2"]
    assert {path.read_text() for path in (copy.path / "a").iterdir()} == {"seed"}
