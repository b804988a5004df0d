"""The logs of all ranks as one stream of lines: whole, at their ends, and as they come."""

from __future__ import annotations

import itertools
import threading
import time

import pytest
from unit.ops.project import OpsProject
from unit.ops.run_folders import make_group, make_record

from gofer.errors import UnknownName, UsageError
from gofer.ops.logs.labelled_lines import compile_pattern
from gofer.ops.logs.log_sources import LogChoice
from gofer.ops.logs.rank_logs import RankLogs

RUN = "r261116-091233-k9qd4x"


def lines_of(pieces: object) -> list[str]:
    assert hasattr(pieces, "__iter__")
    return b"".join(pieces).decode().splitlines()


def add_two_nodes(project: OpsProject, **changes: object) -> None:
    project.add(make_record(RUN, nodes=2, procs=2, job={"retries": 1}), **changes)
    folder = project.run_folder(RUN)
    for attempt in (1, 2):
        for rank in range(4):
            folder.log(b"a%d r%d\nend" % (attempt, rank), rank=rank, node=rank // 2, attempt=attempt)


def test_each_rank_of_the_last_attempt(project: OpsProject) -> None:
    add_two_nodes(project)
    session, row = project.session, project.get(RUN)
    whole = [line for rank in range(4) for line in (f"[{rank}] a2 r{rank}", f"[{rank}] end")]
    assert lines_of(RankLogs(session, row, LogChoice()).read()) == whole
    assert lines_of(RankLogs(session, row, LogChoice()).read(1)) == whole[1::2]
    on_node = RankLogs(session, row, LogChoice(node=1, attempt=1)).read()
    assert lines_of(on_node) == ["[2] a1 r2", "[2] end", "[3] a1 r3", "[3] end"]
    matching = RankLogs(session, row, LogChoice(), compile_pattern("r[13]")).read()
    assert lines_of(matching) == ["[1] a2 r1", "[3] a2 r3"]
    with pytest.raises(UnknownName, match="no log of rank 0 in attempt 1 on node 7"):
        list(RankLogs(session, row, LogChoice(node=7, attempt=1)).read())


def test_a_failed_set_up_has_no_label(project: OpsProject) -> None:
    row = project.add(make_record(RUN, procs=2), state="failed")
    project.run_folder(RUN).setup_log(b"no such package\n")
    logs = RankLogs(project.session, row, LogChoice())
    assert lines_of(logs.read()) == lines_of(logs.follow(lines=None)) == ["no such package"]


def test_a_group_is_refused(project: OpsProject) -> None:
    group = project.add(make_group(RUN, 3))
    with pytest.raises(UsageError, match="group of 3 runs"):
        list(RankLogs(project.session, group, LogChoice()).read())


def test_follow_all_ranks_over_two_attempts(project: OpsProject) -> None:
    """A rank may start late, end early, and end without a newline."""
    row = project.add(make_record(RUN, nodes=2, job={"retries": 1}), state="running")
    folder = project.run_folder(RUN)
    folder.setup_log(b"setting up\n")
    folder.log(b"".join(b"early %d\n" % number for number in range(9)))

    def work() -> None:
        for number in range(40):
            for rank in (0, 1):
                folder.log(b"one %d\n" % number, rank=rank, node=rank)
        folder.log(b"torn", rank=1, node=1)
        folder.exit("failed", reason="exit-code", exit_code=1)
        folder.log(b"again\n", attempt=2)
        folder.log(b"again", rank=1, node=1, attempt=2)
        folder.exit("succeeded", attempt=2)
        folder.exit("succeeded", node=1, attempt=2)
        folder.end("succeeded", exit_code=0)

    shown: list[bytes] = []
    thread = threading.Thread(target=work)
    pieces = RankLogs(project.session, row, LogChoice()).follow(lines=2, show_setup=shown.append)
    got = list(itertools.islice(pieces, 1))
    thread.start()
    lines = lines_of([*got, *pieces])
    thread.join()
    ones = [f"one {number}" for number in range(40)]
    assert [line[4:] for line in lines if line.startswith("[0] ")] == ["early 7", "early 8", *ones, "again"]
    assert [line[4:] for line in lines if line.startswith("[1] ")] == [*ones, "torn", "again"]
    assert len(lines) == 2 * 40 + 5
    assert b"".join(shown) == b"[setup] setting up\n"
    assert project.said == ["attempt 1 is over; following attempt 2"]


def test_follow_shows_each_rank_from_its_last_lines(project: OpsProject) -> None:
    add_two_nodes(project, state="succeeded")
    logs = RankLogs(project.session, project.get(RUN), LogChoice(), compile_pattern("end"))
    assert lines_of(logs.follow(lines=2)) == [f"[{rank}] end" for rank in range(4)]


def test_secrets_are_masked_in_every_rank(project: OpsProject) -> None:
    project.environ["MY_TOKEN"] = "dummy-token-1234"
    row = project.add(make_record(RUN, procs=2, job={"env": {"TOKEN": "${env:MY_TOKEN}"}}), state="succeeded")
    for rank in (0, 1):
        project.run_folder(RUN).log(b"got dummy-token-1234\n", rank=rank)
    logs = RankLogs(project.session, row, LogChoice())
    hidden = [f"[{rank}] got ****************" for rank in (0, 1)]
    assert lines_of(logs.read()) == lines_of(logs.follow(lines=None)) == hidden


def test_an_unfinished_progress_bar_is_shown_from_time_to_time(
    project: OpsProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    row = project.add(make_record(RUN, procs=2), state="running")
    folder = project.run_folder(RUN)
    folder.log(b"plain", rank=1)
    folder.log(b"\r1%\r2%")
    shown = b""
    for piece in RankLogs(project.session, row, LogChoice()).follow(lines=None):
        shown += piece
        if shown == b"[0] 2%\n":
            assert now[0] >= 10
            folder.log(b"\r100%\n")
            folder.exit("succeeded")
            folder.end("succeeded", exit_code=0)
    assert shown == b"[0] 2%\n[0] 100%\n[1] plain\n"
