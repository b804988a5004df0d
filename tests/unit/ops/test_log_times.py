"""The lines since a moment: by what nodes noted, by the start of the attempt, and where nothing is known."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from unit.ops.project import OpsProject
from unit.ops.run_folders import attempt, make_group, make_record

from gofer.core import run_layout as names
from gofer.core.states import State
from gofer.errors import UsageError
from gofer.model.run import Observation
from gofer.node.log_times import LogTimesWriter
from gofer.ops.logs.chosen_lines import LineChoice
from gofer.ops.logs.group_follow import GroupFollower
from gofer.ops.logs.group_logs import GroupLogs
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.logs.log_sources import LogChoice
from gofer.ops.logs.log_times import parse_since
from gofer.ops.logs.rank_logs import RankLogs

RUN = "r261116-091233-k9qd4x"
NOW = 1_700_000_000.0


def text_of(pieces: Iterable[bytes]) -> str:
    return b"".join(pieces).decode()


def add_log(project: OpsProject, run_id: str = RUN, number: int = 1, rank: int = 0) -> None:
    """A log of three lines, of which the node noted the sizes at 100, 110 and 200 s."""
    folder = project.run_folder(run_id)
    lines = [b"one %d\n" % rank, b"two, begun", b" earlier\nthree\n"]
    folder.log(b"".join(lines), rank=rank, attempt=number)
    sizes = itertools.accumulate(map(len, lines))
    key = f"{names.node_key(run_id, number, 0)}/{names.LOG_TIMES}"
    for at, size in zip((100.0, 110.0, 200.0), sizes, strict=True):
        folder.append(key, json.dumps({"at": NOW + at, "sizes": {str(rank): size}}).encode() + b"\n")


def set_time(project: OpsProject, key: str, at: float) -> None:
    os.utime(Path(project.store.url.removeprefix("file://")) / key, (at, at))


@pytest.mark.parametrize(
    ("since", "shown"),
    [
        (0.0, "one 0\ntwo, begun earlier\nthree\n"),
        (105.0, "two, begun earlier\nthree\n"),
        (115.0, "two, begun earlier\nthree\n"),
        (201.0, ""),
    ],
)
def test_lines_since_a_moment(project: OpsProject, since: float, shown: str) -> None:
    """A line that was begun before the moment and completed after it is shown whole."""
    row = project.add(state="succeeded", started_at=NOW)
    add_log(project)
    reader = LogReader(project.session, row)
    assert text_of(reader.read(since=NOW + since)) == shown
    assert text_of(reader.follow(lines=None, since=NOW + since)) == shown
    assert project.said == []


def test_a_log_that_was_last_written_before_has_no_line(project: OpsProject) -> None:
    row = project.add(state="succeeded", started_at=NOW)
    set_time(project, project.run_folder(RUN).log(b"old\n"), NOW + 5)
    assert text_of(LogReader(project.session, row).read(since=NOW + 6)) == ""
    assert project.said == []


def test_without_notes_the_start_of_the_attempt_decides(project: OpsProject) -> None:
    attempts = [attempt(1, "failed", started_at=NOW), attempt(2, "succeeded", started_at=NOW + 50)]
    row = project.add(state="succeeded", attempts=attempts)
    for number in (1, 2):
        project.run_folder(RUN).log(b"attempt %d\n" % number, attempt=number)
    reader = LogReader(project.session, row)
    assert text_of(reader.read(LogChoice(), since=NOW + 40)) == "attempt 2\n"
    assert project.said == []
    assert text_of(reader.read(LogChoice(attempt=1), since=NOW + 40)) == "attempt 1\n"
    assert project.said == [
        "when the lines of the log of rank 0 of k9qd4x were written is not known; all are shown"
    ]


def test_all_ranks_and_masked_secrets(project: OpsProject) -> None:
    project.environ["MY_TOKEN"] = "earlier\nthree"
    record = make_record(RUN, procs=2, job={"env": {"TOKEN": "${env:MY_TOKEN}"}})
    row = project.add(record, state="succeeded", started_at=NOW)
    for rank in (0, 1):
        add_log(project, rank=rank)
    logs = RankLogs(project.session, row, LogChoice(), since=NOW + 105)
    shown = [f"[{rank}] two, begun *************" for rank in (0, 1)]
    for pieces in (logs.read(), logs.follow(lines=None)):
        assert text_of(pieces).splitlines() == shown


def test_rows_that_ended_before_are_left_out(project: OpsProject) -> None:
    project.add(make_group(RUN, 30))
    seen = [
        Observation(run_id=f"{RUN}-{index}", state=State.SUCCEEDED, started_at=NOW, ended_at=NOW + 10 * index)
        for index in range(30)
    ]
    project.session.ledger.apply(seen, time.time())
    for index in range(30):
        add_log(project, f"{RUN}-{index}")
    chosen = LineChoice(since=NOW + 105)
    group = project.get(RUN)
    shown = [f"[{row}] {line}" for row in range(11, 30) for line in ("two, begun earlier", "three")]
    assert text_of(GroupLogs(project.session, group, chosen).read()).splitlines() == shown
    assert text_of(GroupFollower(project.session, group, chosen).follow()).splitlines() == shown


def test_moments() -> None:
    now = time.mktime((2026, 3, 1, 14, 30, 0, 0, 0, -1))
    assert parse_since("10m", now) == now - 600
    assert parse_since("1h30m", now) == now - 5400
    assert parse_since("14:05", now) == now - 25 * 60
    assert parse_since("9:00:30", now) == now - (5 * 3600 + 30 * 60 - 30)
    assert parse_since("14:31", now) == now - 24 * 3600 + 60
    assert parse_since("2026-03-01 14:00", now) == now - 1800
    for text in ("soon", "25:61", "", "10 parsecs"):
        with pytest.raises(UsageError, match="neither a time nor how long ago"):
            parse_since(text, now)


def test_a_node_notes_logs_that_have_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    writer = LogTimesWriter(str(tmp_path))
    log = tmp_path / "rank-3.log"
    log.write_bytes(b"x")
    for seconds, more in ((0, b""), (1, b""), (3, b"y"), (6, b"z"), (14, b""), (30, b""), (50, b"!")):
        now[0] = float(seconds)
        with open(log, "ab") as file:
            file.write(more)
        writer.tick([3, 4])
    lines = [json.loads(line) for line in (tmp_path / "log-times.jsonl").read_text().splitlines()]
    assert [line["sizes"] for line in lines] == [{"3": 2}, {"3": 3}, {"3": 4}]
