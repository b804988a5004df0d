"""The logs of the rows of a group as one stream of lines, whatever the number of rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import pytest
from unit.ops.counting_store import CountingStore
from unit.ops.project import OpsProject
from unit.ops.run_folders import make_group

from gofer.core.states import State
from gofer.errors import UsageError
from gofer.model.run import Observation
from gofer.ops.logs.chosen_lines import LineChoice
from gofer.ops.logs.group_follow import GroupFollower
from gofer.ops.logs.group_logs import GroupLogs, parse_rows
from gofer.ops.logs.labelled_lines import compile_pattern
from gofer.ops.logs.log_sources import LogChoice
from gofer.tracking.ledger import RunRow

RUN = "r261116-091233-k9qd4x"


def group_of(project: OpsProject, states: list[State], **changes: object) -> RunRow:
    """A group whose rows have these states; each row that has begun has a log of three lines."""
    project.add(make_group(RUN, len(states), **changes))
    set_states(project, dict(enumerate(states)))
    for index, state in enumerate(states):
        if state not in (State.PENDING, State.QUEUED):
            project.run_folder(f"{RUN}-{index}").log(b"one\ntwo %d\nthree" % index)
    return project.get(RUN)


def set_states(project: OpsProject, states: dict[int, State]) -> None:
    seen = [Observation(run_id=f"{RUN}-{index}", state=state) for index, state in states.items()]
    project.session.ledger.apply(seen, time.time())


def lines_of(pieces: Iterable[bytes]) -> list[str]:
    return b"".join(pieces).decode().splitlines()


def test_rows_one_after_another(project: OpsProject) -> None:
    group = group_of(project, [State.SUCCEEDED, State.RUNNING, State.QUEUED])
    whole = [f"[{row}] {word}" for row in (0, 1) for word in ("one", f"two {row}", "three")]
    assert lines_of(GroupLogs(project.session, group, LineChoice()).read()) == whole
    assert lines_of(GroupLogs(project.session, group, LineChoice()).read(1)) == ["[0] three", "[1] three"]
    assert project.said == []


def test_of_many_rows_the_last_lines_of_some_and_failures_first(project: OpsProject) -> None:
    states = [State.SUCCEEDED] * 50 + [State.QUEUED] * 5
    states[30] = states[49] = State.FAILED
    group = group_of(project, states)
    shown = lines_of(GroupLogs(project.session, group, LineChoice()).read(1))
    assert shown == [f"[{row}] three" for row in (*range(18), 30, 49)]
    assert project.said == [
        "the last 1 lines of 20 of 50 rows; `gofer logs k9qd4x --row all` prints all, "
        "and `--grep PATTERN` searches all"
    ]
    every = GroupLogs(project.session, group, LineChoice(rows=parse_rows("all", group)))
    assert len(lines_of(every.read())) == 150
    found = GroupLogs(project.session, group, LineChoice(pattern=compile_pattern("two 4[3-5]")))
    assert lines_of(found.read()) == [f"[{row}] two {row}" for row in (43, 44, 45)]


def test_chosen_rows(project: OpsProject) -> None:
    group = group_of(project, [State.FAILED] * 8)
    chosen = LineChoice(rows=parse_rows(" 1-2,7", group))
    assert lines_of(GroupLogs(project.session, group, chosen).read(1)) == [
        "[1] three",
        "[2] three",
        "[7] three",
    ]
    assert [row.row_index for row, _ in GroupLogs(project.session, group, chosen).files()] == [1, 2, 7]
    for text, part in (
        ("8", "no row 8"),
        ("2-1", "names no rows"),
        ("", "names no rows"),
        ("a", "`a` names"),
    ):
        with pytest.raises(UsageError, match=part):
            parse_rows(text, group)


def test_all_ranks_and_a_rank_that_some_rows_do_not_have(project: OpsProject) -> None:
    group = group_of(project, [State.SUCCEEDED] * 2, procs=2)
    project.run_folder(f"{RUN}-1").log(b"more\n", rank=1)
    every = GroupLogs(project.session, group, LineChoice(all_ranks=True))
    assert lines_of(every.read(1)) == ["[0/0] three", "[1/0] three", "[1/1] more"]
    one = GroupLogs(project.session, group, LineChoice(choice=LogChoice(1)))
    assert lines_of(one.read()) == ["[1] more"]


def test_secrets_are_masked_in_every_row(project: OpsProject) -> None:
    project.environ["MY_TOKEN"] = "two-0-is-secret"
    changes = {"job": {"env": {"TOKEN": "${env:MY_TOKEN}"}}}
    group = group_of(project, [State.SUCCEEDED], **changes)
    project.run_folder(f"{RUN}-0").log(b" two-0-is-secret\n")
    hidden = ["[0] one", "[0] two 0", "[0] three ***************"]
    assert lines_of(GroupLogs(project.session, group, LineChoice()).read()) == hidden
    assert lines_of(GroupFollower(project.session, group, LineChoice()).follow()) == hidden


def follow_while(project: OpsProject, group: RunRow, seen: str, lines: int | None = None) -> list[str]:
    """What is followed while all rows write a line and end, as soon as the line `seen` was shown."""
    folder = project.run_folder(RUN)

    def work() -> None:
        for index in range(group.size):
            project.run_folder(f"{RUN}-{index}").log(b"\nlast %d\n" % index)
            folder.end("succeeded", run_id=f"{RUN}-{index}", row=index, exit_code=0)

    thread, shown = threading.Thread(target=work), b""
    for piece in GroupFollower(project.session, group, LineChoice()).follow(lines=lines):
        shown += piece
        if seen.encode() in shown and not thread.ident:
            thread.start()
    thread.join()
    return lines_of([shown])


def test_following_many_rows_misses_no_line(project: OpsProject) -> None:
    rows = 45
    group = group_of(project, [State.RUNNING] * rows)
    shown = follow_while(project, group, "[19] two 19")
    expected = [
        [f"[{row}] one", f"[{row}] two {row}", f"[{row}] three", f"[{row}] last {row}"] for row in range(rows)
    ]
    assert [[line for line in shown if line.startswith(f"[{row}] ")] for row in range(rows)] == expected
    assert len(shown) == 4 * rows
    assert project.said == [
        "45 rows run: 20 of them are followed, and the lines of the others come when they end"
    ]


def test_a_store_that_fails_for_a_moment_costs_no_line(project: OpsProject) -> None:
    group = group_of(project, [State.SUCCEEDED] * 30)
    follower = GroupFollower(project.session, group, LineChoice())
    store = CountingStore(project.store)
    store.failures = 2
    follower._logs.store = store
    assert len(lines_of(follower.follow(from_start=True))) == 90
    assert len(project.said) == 1 and project.said[0].endswith("connection reset; trying again")


def test_rows_that_had_ended_are_shown_first(project: OpsProject) -> None:
    group = group_of(project, [State.FAILED, State.RUNNING, State.RUNNING])
    shown = follow_while(project, group, "[2] two 2", lines=2)
    assert shown[:4] == ["[0] two 0", "[0] three", "[1] two 1", "[2] two 2"]
    assert sorted(shown[4:]) == ["[1] last 1", "[1] three", "[2] last 2", "[2] three"]


def test_a_group_that_has_ended_is_followed_like_one_that_is_read(project: OpsProject) -> None:
    group = group_of(project, [State.SUCCEEDED] * 30)
    read = lines_of(GroupLogs(project.session, group, LineChoice()).read())
    assert lines_of(GroupFollower(project.session, group, LineChoice()).follow()) == read
    new = GroupFollower(project.session, group, LineChoice()).follow(from_start=True)
    assert len(lines_of(new)) == 90


def test_following_chosen_rows_ends_with_them(project: OpsProject) -> None:
    group = group_of(project, [State.RUNNING, State.FAILED])
    chosen = LineChoice(rows=parse_rows("1", group))
    shown = lines_of(GroupFollower(project.session, group, chosen).follow())
    assert shown == ["[1] one", "[1] two 1", "[1] three"]
