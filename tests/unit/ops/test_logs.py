"""Which log is meant, and its bytes: whole, at the end, as they come, and copied here."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from unit.ops.project import OpsProject
from unit.ops.run_folders import make_group, make_record

from gofer.errors import UnknownName, UsageError
from gofer.ops.logs import log_bytes
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.logs.log_sources import LogChoice
from gofer.tracking.ledger import RunRow

RUN = "r261116-091233-k9qd4x"


def many_logs(project: OpsProject) -> None:
    """Two attempts on two nodes of two ranks; the second attempt has set-up logs too."""
    folder = project.run_folder(RUN)
    for attempt in (1, 2):
        for node in (0, 1):
            for rank in (2 * node, 2 * node + 1):
                folder.log(b"attempt %d rank %d\n" % (attempt, rank), rank=rank, node=node, attempt=attempt)
    folder.setup_log(b"set up\n", node=1, attempt=2)
    folder.exit("failed", attempt=1)
    folder.heartbeat(1.0, [], attempt=1)


def test_logs_are_listed_in_order(project: OpsProject) -> None:
    row = project.add()
    many_logs(project)
    found = LogReader(project.session, row).files()
    assert [(log.attempt, log.node, log.rank, log.kind) for log in found] == [
        (1, 0, 0, "rank"),
        (1, 0, 1, "rank"),
        (1, 1, 2, "rank"),
        (1, 1, 3, "rank"),
        (2, 0, 0, "rank"),
        (2, 0, 1, "rank"),
        (2, 1, None, "setup"),
        (2, 1, 2, "rank"),
        (2, 1, 3, "rank"),
    ]
    assert found[0].key == f"runs/{RUN}/attempts/1/node-0/rank-0.log"
    assert found[0].size == len(b"attempt 1 rank 0\n")


def test_a_set_up_that_says_nothing_has_no_log(project: OpsProject) -> None:
    row = project.add()
    project.run_folder(RUN).setup_log(b"")
    assert LogReader(project.session, row).files() == []
    project.run_folder(RUN).log(b"")
    assert [log.rank for log in LogReader(project.session, row).files()] == [0]


def test_ten_ranks_and_more_are_in_the_order_of_numbers(project: OpsProject) -> None:
    row = project.add()
    for rank in range(12):
        project.run_folder(RUN).log(b"x", rank=rank)
    assert [log.rank for log in LogReader(project.session, row).files()] == list(range(12))


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({}, b"attempt 2 rank 0\n"),
        ({"rank": 3}, b"attempt 2 rank 3\n"),
        ({"attempt": 1}, b"attempt 1 rank 0\n"),
        ({"attempt": 1, "rank": 2}, b"attempt 1 rank 2\n"),
        ({"node": 1}, b"attempt 2 rank 2\n"),
        ({"node": 1, "rank": 3}, b"attempt 2 rank 3\n"),
    ],
)
def test_the_requested_log(project: OpsProject, wanted: dict[str, int], text: bytes) -> None:
    row = project.add()
    many_logs(project)
    assert LogReader(project.session, row).tail(LogChoice(**wanted), lines=10) == text
    assert b"".join(LogReader(project.session, row).read(LogChoice(**wanted))) == text


@pytest.mark.parametrize("wanted", [{"rank": 4}, {"attempt": 3}, {"node": 2}, {"node": 0, "rank": 3}])
def test_a_log_that_is_not_there(project: OpsProject, wanted: dict[str, int]) -> None:
    row = project.add()
    many_logs(project)
    with pytest.raises(UnknownName, match="`k9qd4x` has no log of rank") as caught:
        b"".join(LogReader(project.session, row).read(LogChoice(**wanted)))
    assert "1/0/0, 1/0/1" in (caught.value.hint or "")


def test_only_set_up_logged(project: OpsProject) -> None:
    row = project.add()
    project.run_folder(RUN).setup_log(b"no such package\n")
    assert LogReader(project.session, row).tail(lines=5) == b"no such package\n"


def test_nothing_logged_yet(project: OpsProject) -> None:
    row = project.add()
    assert LogReader(project.session, row).files() == []
    assert LogReader(project.session, row).tail(lines=5) == b""
    assert list(LogReader(project.session, row).read()) == []


def test_a_group_has_no_log_of_its_own(project: OpsProject) -> None:
    group = project.add(make_group(RUN, 3))
    assert LogReader(project.session, group).files() == []
    reader = LogReader(project.session, group)
    for pieces in (reader.read(), reader.follow(lines=1)):
        with pytest.raises(UsageError, match="group of 3 runs") as caught:
            next(pieces)
        assert "`gofer logs k9qd4x-0`" in (caught.value.hint or "")


def test_outputs_that_look_like_logs_are_not_logs(project: OpsProject) -> None:
    row = project.add()
    project.run_folder(RUN).output("attempts/1/node-0/rank-0.log", b"mine\n")
    assert LogReader(project.session, row).files() == []


def test_follow_until_the_run_is_over(project: OpsProject) -> None:
    """The end comes from the run's folder, as for a run that another machine submitted."""
    row = project.add(make_record(RUN, job={"retries": 1}), state="running")
    folder = project.run_folder(RUN)
    folder.log(b"".join(b"early %d\n" % n for n in range(20)))

    def work() -> None:
        for number in range(50):
            folder.log(b"late %d\n" % number)
            time.sleep(0.005)
        folder.exit("failed", reason="exit-code", exit_code=1)
        folder.log(b"again\n", attempt=2)
        folder.exit("succeeded", attempt=2)
        folder.end("succeeded", exit_code=0)

    thread = threading.Thread(target=work)
    pieces = LogReader(project.session, row).follow(lines=3)
    got = next(pieces)
    thread.start()
    got += b"".join(pieces)
    thread.join()
    late = b"".join(b"late %d\n" % n for n in range(50))
    assert got == b"early 17\nearly 18\nearly 19\n" + late + b"again\n"
    assert project.said == ["attempt 1 is over; following attempt 2"]
    assert project.get(RUN).state == "succeeded"


def test_follow_all_from_the_first_attempt(project: OpsProject) -> None:
    row = project.add(state="succeeded")
    many_logs(project)
    reader = LogReader(project.session, row)
    assert b"".join(reader.follow(lines=None)) == b"attempt 1 rank 0\nattempt 2 rank 0\n"
    chosen = LogChoice(node=1, attempt=1)
    assert b"".join(reader.follow(chosen, lines=10)) == b"attempt 1 rank 2\n"


def test_follow_a_rank_that_never_was(project: OpsProject) -> None:
    row = project.add(state="succeeded")
    many_logs(project)
    with pytest.raises(UnknownName, match="no log of rank 9 in attempt 2"):
        list(LogReader(project.session, row).follow(LogChoice(9), lines=10))


SECRET = b"dummy-token-1234"


def run_with_secret(project: OpsProject) -> RunRow:
    project.environ["MY_TOKEN"] = SECRET.decode()
    return project.add(make_record(job={"env": {"TOKEN": "${env:MY_TOKEN}"}}))


def test_a_secret_in_which_the_end_of_a_log_begins_is_masked(project: OpsProject) -> None:
    row = run_with_secret(project)
    bar = b"=" * (log_bytes.TAIL_LIMIT - 5)
    project.run_folder(RUN).log(SECRET + bar)
    assert LogReader(project.session, row).tail(lines=1) == b"*" * 5 + bar


def test_a_secret_is_masked_in_a_copy_of_the_services_log(project: OpsProject, tmp_path: Path) -> None:
    row = run_with_secret(project)
    copy = tmp_path / "std_log.txt"
    copy.write_bytes(b"got " + SECRET + b"\n")
    shown = LogReader(project.session, row).tail(lines=5, copies=[copy])
    assert shown == b"got ****************\n"


def test_fetch_brings_logs_events_and_ends_and_returns_the_logs(project: OpsProject, tmp_path: Path) -> None:
    row = project.add()
    many_logs(project)
    project.run_folder(RUN).event("started", 5.0)
    folder = tmp_path / "assets" / RUN
    paths = LogReader(project.session, row).fetch(folder).own
    assert len(paths) == 9 and all(path.suffix == ".log" for path in paths)
    assert (folder / "attempts/2/node-1/rank-3.log").read_bytes() == b"attempt 2 rank 3\n"
    names = {path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".log"}
    assert names == {"exit.json", "events.jsonl"}


def test_fetch_of_a_group_takes_the_first_failed_rows(project: OpsProject, tmp_path: Path) -> None:
    group = project.add(make_group(RUN, 30))
    for index in range(0, 30, 2):
        project.run_folder(f"{RUN}-{index}").log(b"row %d\n" % index)
        project.run_folder(RUN).end(
            "failed", run_id=f"{RUN}-{index}", row=index, reason="exit-code", exit_code=1
        )
    from gofer.ops.runs.observe import refresh

    refresh(project.session)
    paths = LogReader(project.session, group).fetch(tmp_path / "assets").own
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        f"assets/{index}/attempts/1/node-0/rank-0.log" for index in range(0, 20, 2)
    ]
    assert paths[1].read_bytes() == b"row 2\n"
