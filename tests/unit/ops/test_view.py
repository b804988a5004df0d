"""The JSON of a run: what the schema and the documents say it is."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from unit.ops.project import OpsProject
from unit.ops.run_folders import T0, failure, make_group, make_record

from gofer.ops.runs import run_document
from gofer.ops.runs.view import run_json, run_jsons
from gofer.storage.memory import MemoryStore
from gofer.storage.open import open_store

RUN = "r261116-091233-k9qd4x"
DOCS = Path(__file__).parents[3] / "docs"


def check(document: dict[str, Any]) -> dict[str, Any]:
    """The document after a trip through JSON, checked against the committed schema, with no other field."""
    plain: dict[str, Any] = json.loads(json.dumps(document))
    schema = json.loads((DOCS / "run.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(plain)
    assert set(plain) == set(schema["$defs"]["RunDocument"]["properties"])
    return plain


def test_documents_are_fresh() -> None:
    hint = "`python -m gofer.ops.runs.run_document` (with `--table`) prints what they must hold"
    assert (DOCS / "run.schema.json").read_text() == run_document.schema_text(), hint
    assert (DOCS / "run-json.md").read_text().endswith("\n" + run_document.field_table()), hint
    assert json.loads(run_document.schema_text()) == run_document.run_schema()


def test_a_fresh_run(project: OpsProject) -> None:
    record = make_record(RUN, snapshot="ab" * 32, job={"tags": {"lr": "0.1"}, "priority": 3})
    document = check(run_json(project.session, project.add(record)))
    assert document["state"] == "pending"
    assert document["command"] == ["python", "train.py", "a  b"]
    assert document["submitted_at"] == "2026-09-21T14:13:20.000000Z"
    assert (document["started_at"], document["ended_at"], document["elapsed_s"]) == (None, None, None)
    assert (document["logs"], document["attempts"], document["first_failure"]) == ([], [], None)
    assert document["snapshot"] == {
        "id": "ab" * 32,
        "folder": "/home/ann/project",
        "commit": "c0ffee",
        "branch": "main",
        "dirty": True,
    }
    assert (document["tags"], document["priority"], document["short_id"]) == ({"lr": "0.1"}, 3, "k9qd4x")
    assert (document["group"], document["row"], document["rows"]) == (None, None, None)


def test_a_failed_run_says_which_rank_and_where_its_logs_are(project: OpsProject) -> None:
    tries = [{"number": 1, "state": "failed", "reason": "exit-code", "exit_code": 1, "started_at": T0 + 1}]
    ended = {"state": "failed", "reason": "exit-code", "exit_code": 1, "attempts": tries, "elapsed_s": 4.5}
    row = project.add(make_record(RUN, procs=4), started_at=T0 + 1, ended_at=T0 + 5.5, **ended)
    folder = project.run_folder(RUN)
    key = folder.log(b"boom\n", rank=3)
    folder.exit("failed", first_failure=failure(3, T0 + 5))
    document = check(run_json(project.session, row))
    assert document["why"] == "rank 3 exited with 1"
    assert document["first_failure"] == {
        "attempt": 1,
        "node": 0,
        "rank": 3,
        "exit_code": 1,
        "signal": None,
        "at": "2026-09-21T14:13:25.000000Z",
        "tail": ["rank 3 broke"],
    }
    (log,) = document["logs"]
    assert (log["key"], log["size"], log["rank"]) == (key, 5, 3)
    assert Path(log["path"]).read_bytes() == b"boom\n"
    assert document["attempts"][0]["started_at"] == "2026-09-21T14:13:21.000000Z"
    assert document["elapsed_s"] == 4.5


def test_a_store_that_is_no_folder_has_no_paths(project: OpsProject) -> None:
    store = open_store("memory://view-test")
    assert isinstance(store, MemoryStore)
    store.append(f"runs/{RUN}/attempts/1/node-0/rank-0.log", b"hi\n")
    row = project.add(state="running")._replace(store="memory://view-test")
    (log,) = check(run_json(project.session, row))["logs"]
    assert (log["path"], log["size"]) == (None, 3)


def test_a_group_and_its_rows(project: OpsProject) -> None:
    group = project.add(make_group(RUN, 3))
    rows = project.session.ledger.rows_of(RUN)
    whole, first, *_ = [check(one) for one in run_jsons(project.session, [group, *rows])]
    assert (whole["kind"], whole["rows"], whole["counts"]) == ("group", 3, {"pending": 3})
    assert (first["kind"], first["group"], first["row"]) == ("run", RUN, 0)
    assert (first["args"], first["command"][-1]) == ({"seed": "0"}, "--seed=0")
    assert first["short_id"] == "k9qd4x-0"


def test_without_the_store_nothing_is_read_from_it(project: OpsProject) -> None:
    row = project.add(state="failed")._replace(store="file:///nowhere/at/all")
    document = check(run_json(project.session, row, from_store=False))
    assert (document["logs"], document["first_failure"]) == (None, None)


def test_a_running_run_has_run_until_now(project: OpsProject) -> None:
    document = check(run_json(project.session, project.add(state="running", started_at=time.time() - 100)))
    assert 100 <= document["elapsed_s"] < 200


@pytest.mark.parametrize("word", ["succeeded", "teleported"])
def test_words_that_gofer_does_not_know(project: OpsProject, word: str) -> None:
    document = check(run_json(project.session, project.add(state=word)))
    assert document["state"] == ("succeeded" if word == "succeeded" else "unknown")


def test_a_command_that_is_not_utf_8(project: OpsProject) -> None:
    row = project.add()._replace(command=["cat", "caf\udce9"])
    assert check(run_json(project.session, row))["command"] == ["cat", "caf\udce9"]
