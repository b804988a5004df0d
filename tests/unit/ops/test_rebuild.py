"""A ledger rebuilt from the stores gives the same answers, whatever state files are in."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
from unit.ops.project import ELSEWHERE, OpsProject
from unit.ops.run_folders import T0, attempt, failure, make_group, make_record

from gofer.model.run import Attempt, Observation
from gofer.ops.maintenance.rebuild import find_runs, rebuild, statuses_of
from gofer.ops.session import Session
from gofer.ops.submission.ledger_rows import rows_of_record
from gofer.storage.file import FileStore
from gofer.tracking.ledger import Ledger, RunRow
from gofer.tracking.query import Query

RUN = "r261116-091233-k9qd4x"
SECOND = "r261116-101500-bbbbbb"
GROUP = "r261116-111500-cccccc"


def all_rows(session: Session) -> dict[str, RunRow]:
    """Every line, without the two columns that only the machine that recorded it can know."""
    rows = session.ledger.select(Query(include_rows=True, records=True))
    return {row.id: row._replace(submitter="", observed_at=None) for row in rows}


def see(
    project: OpsProject, run_id: str, state: str, *, attempts: list[dict[str, Any]], **facts: Any
) -> None:
    """What the backend says and, for an end, what the queue writes in the store, from the same facts."""
    observed = {"run_id": run_id, "state": state, "attempts": attempts, **facts}
    project.session.ledger.apply([msgspec.convert(observed, Observation)], time.time())


def end(
    project: OpsProject, owner: str, run_id: str, state: str, row: int | None = None, **facts: Any
) -> None:
    see(project, run_id, state, **facts)
    project.run_folder(owner).end(state, run_id=run_id, row=row, **facts)


def fill(project: OpsProject) -> None:
    """Runs and rows in many states, seen by the ledger and written in the store."""
    project.add(make_record(RUN, job={"retries": 2, "tags": {"lr": "0.1"}}, snapshot="ab" * 32))
    tries = [
        attempt(1, "failed", reason="exit-code", exit_code=1),
        attempt(2, "succeeded", gpus=[[0, 1], [2, 3]]),
    ]
    end(
        project,
        RUN,
        RUN,
        "succeeded",
        attempts=tries,
        exit_code=0,
        started_at=T0 + 1,
        ended_at=T0 + 9,
        elapsed_s=3.25,
    )
    project.add(make_record(SECOND, submitted_at=T0 + 60, resubmit_of=RUN))
    project.add(make_group(GROUP, 6, submitted_at=T0 + 90))
    for index, state in ((1, "succeeded"), (3, "failed"), (4, "cancelled")):
        facts: dict[str, Any] = {
            "started_at": T0 + 100 + index,
            "ended_at": T0 + 200 + index,
            "elapsed_s": 100.0,
        }
        facts |= (
            {"reason": "signal", "detail": "killed by «9»", "exit_code": 137} if state == "failed" else {}
        )
        end(project, GROUP, f"{GROUP}-{index}", state, index, attempts=[attempt(1, state)], **facts)


def test_the_same_answer(project: OpsProject) -> None:
    fill(project)
    before = all_rows(project.session)
    done = rebuild(project.session)
    assert (done.runs, done.rows, done.set_aside, done.broken) == (3, 6, None, ())
    assert all_rows(project.session) == before
    assert before[GROUP].counts == {"pending": 3, "succeeded": 1, "failed": 1, "cancelled": 1}


def test_the_same_answer_into_a_new_ledger(project: OpsProject) -> None:
    fill(project)
    before = all_rows(project.session)
    project.session.close()
    os.unlink(project.session.paths.ledger_file)
    with project.open() as fresh:
        rebuild(fresh)
        assert all_rows(fresh) == before


def test_a_run_of_another_machine_is_not_ours_to_send_again(project: OpsProject) -> None:
    from gofer.ops.submission.send import is_here

    project.add(make_record(RUN, recorder=project.session.queue_id))
    project.add(make_record(SECOND, recorder="his-laptop"))
    project.session.close()
    os.unlink(project.session.paths.ledger_file)
    with project.open() as fresh:
        rebuild(fresh)
        mine, his = fresh.ledger.get(RUN), fresh.ledger.get(SECOND)
        assert mine is not None and is_here(fresh, mine.submitter)
        assert his is not None and not is_here(fresh, his.submitter)


def test_runs_without_an_end_stand_as_their_folder_proves(project: OpsProject) -> None:
    project.add(make_record(RUN))
    folder = project.run_folder(RUN)
    folder.log(b"hi\n")
    folder.event("started", T0 + 2)
    project.add(make_record(SECOND))
    project.run_folder(SECOND).log(b"hi\n")
    project.run_folder(SECOND).exit(
        "failed", reason="signal", exit_code=137, first_failure=failure(0, T0 + 5)
    )
    project.add(make_group(GROUP, 3))
    project.run_folder(f"{GROUP}-1").log(b"row\n")
    rebuild(project.session)
    rows = all_rows(project.session)
    assert (rows[RUN].state, rows[RUN].started_at) == ("running", T0 + 2)
    assert (rows[SECOND].state, rows[SECOND].reason, rows[SECOND].exit_code) == ("failed", "signal", 137)
    assert [rows[f"{GROUP}-{index}"].state for index in range(3)] == ["pending", "running", "pending"]
    assert rows[GROUP].state == "running"


def test_torn_and_foreign_lines_are_skipped_and_the_last_line_counts(project: OpsProject) -> None:
    project.add(make_record(RUN))
    folder = project.run_folder(RUN)
    folder.end("lost", reason="node-failure")
    key = f"runs/{RUN}/ends.jsonl"
    folder.append(key, b'["not", "an end"]\n\xff\xfe\n{"id": "x"}\n')
    folder.end("succeeded", exit_code=0, detail="caf\udce9")
    folder.append(key, b'{"id": "' + RUN.encode() + b'", "state": "fai')
    rebuild(project.session)
    assert (project.get(RUN).state, project.get(RUN).exit_code) == ("succeeded", 0)


def test_broken_records_are_named_and_do_not_stop_it(project: OpsProject) -> None:
    project.add(make_record(RUN))
    project.store.put(f"runs/{SECOND}/run.json", b'{"id": "r2611')
    project.store.put("runs/r261116-131313-dddddd/run.json", project.store.get(f"runs/{RUN}/run.json"))
    project.store.put("runs/r261116-141414-eeeeee/attempts/1/node-0/rank-0.log", b"no record at all\n")
    project.store.put("runs/notes.txt", b"mine")
    project.store.put(f"runs/{RUN}/tags.json", b"[1]")
    done = rebuild(project.session)
    assert done.runs == 1
    assert [Path(key).parent.name for key in done.broken] == [
        "r261116-101500-bbbbbb",
        "r261116-131313-dddddd",
    ]


def test_a_damaged_ledger_is_set_aside_and_rebuilt_when_it_is_opened(project: OpsProject) -> None:
    fill(project)
    before = all_rows(project.session)
    project.session.close()
    path = project.session.paths.ledger_file
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    path.write_bytes(b"this was a database " * 500)
    with project.open() as fresh:
        assert all_rows(fresh) == before
    (kept,) = [one for one in path.parent.glob("ledger.db.damaged-*") if b"this was" in one.read_bytes()]
    assert "rebuilding it from the stores" in project.said[0]
    assert "rebuilt with 3 runs" in project.said[-1] and str(kept) in project.said[-1]


def test_a_ledger_cut_in_its_middle(project: OpsProject) -> None:
    project.add(make_group(GROUP, 400))
    before = all_rows(project.session)
    project.session.ledger.close()
    project.session.close()
    path = project.session.paths.ledger_file
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 // 4096 * 4096])
    with project.open() as fresh:
        done = rebuild(fresh)
        assert done.set_aside is not None and done.set_aside.exists()
        assert all_rows(fresh) == before


def test_stores_of_other_projects_are_read_too(project: OpsProject, tmp_path: Path) -> None:
    """They are in no settings of this folder, only in the ledger's lines."""
    other = FileStore(tmp_path / "shared", create=True)
    record = make_record(SECOND)
    other.put(f"runs/{SECOND}/run.json", msgspec.json.encode(record))
    project.session.ledger.insert(rows_of_record(record, store=other.url, submitter=ELSEWHERE))
    other.put(f"runs/{SECOND}/tags.json", b'{"found": "yes"}')
    rebuild(project.session)
    assert project.get(SECOND).tags == {"found": "yes"}
    assert project.get(SECOND).store == other.url


def test_lines_of_a_store_that_cannot_be_read_are_kept(project: OpsProject) -> None:
    gone = "file:///nowhere/at/all"
    record = make_record(SECOND)
    project.session.ledger.insert(rows_of_record(record, store=gone, submitter=ELSEWHERE))
    project.add(make_record(RUN))
    done = rebuild(project.session)
    assert (done.runs, done.kept, done.unread) == (2, 1, (gone,))
    assert project.get(SECOND).store == gone


def test_lines_that_the_store_denies_go_unless_they_are_brand_new(project: OpsProject) -> None:
    url = project.store.url
    for run_id, submitted_at in ((RUN, time.time() - 5), (SECOND, time.time() - 86400)):
        record = make_record(run_id, submitted_at=submitted_at)
        project.session.ledger.insert(rows_of_record(record, store=url, submitter=ELSEWHERE))
    done = rebuild(project.session)
    assert (done.runs, done.kept) == (1, 1)
    assert project.session.ledger.get(SECOND) is None
    assert project.get(RUN).submitter == ELSEWHERE


def test_two_rebuilds_at_once(project: OpsProject) -> None:
    fill(project)
    before = all_rows(project.session)
    project.session.close()
    project.session.paths.ledger_file.write_bytes(b"garbage " * 1000)
    problems: list[BaseException] = []

    def work() -> None:
        try:
            with project.open() as session:
                rebuild(session)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert problems == []
    with project.open() as session:
        assert all_rows(session) == before


def test_statuses_of_rows_read_the_ends_once(project: OpsProject) -> None:
    record = make_group(GROUP, 3)
    project.add(record)
    end(project, GROUP, f"{GROUP}-0", "succeeded", 0, attempts=[attempt(1, "succeeded")], exit_code=0)
    found = statuses_of(project.store, project.session.ledger.rows_of(GROUP), record)
    assert [found[f"{GROUP}-{index}"].state for index in range(3)] == ["succeeded", "pending", "pending"]
    convert = [msgspec.convert(one, Attempt) for one in found[f"{GROUP}-0"].attempts]
    assert convert[0].number == 1


def test_ten_thousand_rows(project: OpsProject) -> None:
    project.add(make_group(GROUP, 10_000))
    tries = [attempt(1, "succeeded")]
    ends = [{"id": f"{GROUP}-{index}", "state": "succeeded", "attempts": tries} for index in range(10_000)]
    project.store.put(f"runs/{GROUP}/ends.jsonl", b"\n".join(json.dumps(line).encode() for line in ends))
    rebuild(project.session)
    assert project.get(GROUP).counts == {"succeeded": 10_000}


def test_a_store_without_runs(tmp_path: Path) -> None:
    assert find_runs(FileStore(tmp_path / "empty", create=True)).rows == []
    assert Ledger.open(tmp_path / "ledger.db").select(Query()) == []
