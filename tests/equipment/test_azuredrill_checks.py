"""Whether the drill of a failing service would see what it looks for in runs, logs, outputs and the store."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from azuredrill.checks import log_errors, output_errors, store_errors
from linedrill.line_drill import incomplete_arrays, is_refused, start_errors
from services.azure import Azure
from services.azure import azure as azure

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-drill-truth"), pytest.mark.timeout(900)]

# -- what is judged


def run(state: str, *numbers: int, **more: Any) -> dict[str, Any]:
    attempts = [{"number": number, "state": "lost", "exit_code": None} for number in numbers]
    if attempts:
        attempts[-1].update(state=state, exit_code=0)
    held = {"kind": "run", "nodes": 1, "procs": 1, "group": None, "rows": None, "reason": None}
    return {"id": "r1", "state": state, "attempts": attempts, **held, **more}


@pytest.mark.parametrize(
    ("state", "numbers", "starts"),
    [
        ("succeeded", [1], {(1, 0): 1}),
        ("succeeded", [], {(1, 0): 1}),
        ("succeeded", [1, 2], {(1, 0): 1, (2, 0): 1}),
        # Taken back before the command was started.
        ("succeeded", [1, 2], {(2, 0): 1}),
    ],
)
def test_a_run_that_took_place_once_in_each_attempt(
    state: str, numbers: list[int], starts: dict[tuple[int, int], int]
) -> None:
    assert start_errors(run(state, *numbers), Counter(starts)) == []


@pytest.mark.parametrize(
    ("state", "numbers", "starts"),
    [
        ("failed", [1], {(1, 0): 1}),
        ("succeeded", [1], {}),
        ("succeeded", [1], {(1, 0): 2}),
        ("succeeded", [1, 2], {(1, 0): 1}),
        ("succeeded", [1, 2], {(1, 0): 2, (2, 0): 1}),
        # An attempt that no record knows, and a rank.
        ("succeeded", [1], {(1, 0): 1, (2, 0): 1}),
        ("succeeded", [1], {(1, 0): 1, (1, 1): 1}),
    ],
)
def test_a_run_that_was_lost_or_doubled(
    state: str, numbers: list[int], starts: dict[tuple[int, int], int]
) -> None:
    (line,) = start_errors(run(state, *numbers), Counter(starts))
    assert line.startswith(f"r1 is {state}")


def test_every_rank_of_the_last_attempt_must_have_started_once() -> None:
    held = run("succeeded", 1, 2, nodes=2, procs=2)
    starts = Counter({(1, 0): 1, **{(2, rank): 1 for rank in range(4)}})
    assert start_errors(held, starts) == []
    del starts[2, 3]
    assert start_errors(held, starts) != []


def test_an_array_has_each_of_its_rows() -> None:
    group = {**run("succeeded", kind="group", rows=2), "id": "g"}
    rows = {f"g-{row}": {**run("succeeded", 1, group="g"), "id": f"g-{row}"} for row in range(2)}
    assert incomplete_arrays({"g": group, **rows}) == []
    del rows["g-1"]
    assert incomplete_arrays({"g": group, **rows}) == ["the array g of 2 has the rows ['g-0']"]


@pytest.mark.parametrize(
    ("state", "reason", "refused"),
    [("failed", "rejected", True), ("failed", "exit-code", False), ("succeeded", None, False)],
)
def test_only_what_the_service_would_not_have_is_refused(
    state: str, reason: str | None, refused: bool
) -> None:
    assert is_refused({"state": state, "reason": reason}) is refused


# -- what is held against the truth


def write_files(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        ({"r1.1.0.log": "a\n", "r1.2.0.log": "a\nb\n"}, 0),
        # Of an attempt that was taken back, the beginning or nothing.
        ({"r1.2.0.log": "a\nb\n"}, 0),
        ({"r1.1.0.log": "b\n", "r1.2.0.log": "a\nb\n"}, 1),
        ({"r1.1.0.log": "a\na\n", "r1.2.0.log": "a\nb\n"}, 1),
        ({"r1.2.0.log": "a\n"}, 1),
        ({"r1.2.0.log": "a\nb\nb\n"}, 1),
        ({"r1.2.0.log": "b\na\n"}, 1),
        ({}, 1),
        ({"r1.2.0.log": "a\nb\n", "r1.3.0.log": "a\n"}, 1),
    ],
)
def test_a_log_is_what_the_command_printed(shown: dict[str, str], wrong: int, tmp_path: Path) -> None:
    printed_folder = write_files(tmp_path / "truth", {"r1.1.0.log": "a\nb\n", "r1.2.0.log": "a\nb\n"})
    found = write_files(tmp_path / "shown", shown)
    assert len([*log_errors({"r1": run("succeeded", 1, 2)}, printed_folder, found)]) == wrong


BURST = "1 in the burst of r1\n2 in the burst of r1\n"


@pytest.mark.parametrize(
    ("printed", "shown", "wrong"),
    [
        # The last rank ended by itself, so its log is whole; the other was stopped, and may lack a last line.
        (["a\nb\nc\n", "a\nb\n"], ["a\nb\nc\n", "a\nb\n"], 0),
        (["a\nb\nc\n", "a\nb\n"], ["a\nb\n", "a\nb\n"], 0),
        (["a\nb\nc\n", "a\nb\n"], ["a\n", "a\nb\n"], 1),
        (["a\nb\nc\n", "a\nb\n"], ["a\nb\nc\n", "a\n"], 1),
        (["a\nb\nc\n", "a\nb\n"], ["a\nb\nc\n", ""], 1),
        (["a\nb\nc\n", "a\nb\n"], ["a\nb\nc\n", None], 1),
        ([BURST, BURST], ["", BURST], 0),
        ([BURST, BURST], [BURST, ""], 1),
    ],
)
def test_of_an_attempt_that_failed_the_rank_that_did_has_its_whole_log(
    printed: list[str], shown: list[str | None], wrong: int, tmp_path: Path
) -> None:
    held = run("succeeded", 1, 2, nodes=2)
    held["attempts"][0].update(state="failed", exit_code=7)
    last = {"r1.2.0.log": "", "r1.2.1.log": ""}
    printed_folder = write_files(
        tmp_path / "truth", {f"r1.1.{rank}.log": text for rank, text in enumerate(printed)} | last
    )
    brought = {f"r1.1.{rank}.log": text for rank, text in enumerate(shown) if text is not None}
    found = write_files(tmp_path / "shown", brought | last)
    assert len([*log_errors({"r1": held}, printed_folder, found)]) == wrong


def test_outputs_are_those_of_the_last_attempt(tmp_path: Path) -> None:
    held = {"r1": run("succeeded", 1, 2, nodes=2)}
    sums = {rank: f"{hashlib.sha256(b'two').hexdigest()}  ./a b/{rank}.bin\n" for rank in range(2)}
    printed_folder = write_files(
        tmp_path / "truth", {f"r1.2.{rank}.sums": text for rank, text in sums.items()}
    )
    found = write_files(tmp_path / "shown", {f"r1.outputs/a b/{rank}.bin": "two" for rank in range(2)})
    assert [*output_errors(held, printed_folder, found)] == []
    (found / "r1.outputs/a b/0.bin").write_text("one")
    (found / "r1.outputs/a b/1.bin").rename(found / "r1.outputs/else")
    assert [*output_errors(held, printed_folder, found)] == [
        "the output a b/0.bin of r1, attempt 2, is another",
        "the output a b/1.bin of r1, attempt 2, is missing",
        "the output else of r1, attempt 2, is unexpected",
    ]


def test_what_should_not_be_in_the_store_is_seen(azure: Azure) -> None:
    container = azure.container()
    held = azure.blob_client().get_container_client(container)
    end = json.dumps({"id": "r1"})
    for name in ("rooms/r1/request.json", "rooms/r1/over.json", "runs/r1/run.json", "agents/a.zip"):
        held.upload_blob(f"me/{name}", b"")
    held.upload_blob("me/runs/r1/ends.jsonl", f"{end}\n")
    runs = {"r1": run("succeeded", 1)}
    assert [*store_errors(azure, container, "me/", runs)] == []
    left = ("rooms/r1/private.json", "told/r1/run/begun.1", "rooms/r2/request.json")
    for name in (
        *left,
        "runs/r2/run.json",
        "else",
        "runs/r1/attempts/1/node-0/rank-0.log.parts/000000000000000",
    ):
        held.upload_blob(f"me/{name}", b"")
    held.upload_blob("me/runs/r1/ends.jsonl", f"{end}\n{end}\n", overwrite=True)
    assert len([*store_errors(azure, container, "me/", runs)]) == 7
