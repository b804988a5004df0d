"""What an observation may change, and what never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.tracking.build import NOW, group, run

from gofer.core.states import FINAL_STATES, Reason, State
from gofer.model.run import Attempt, Observation
from gofer.tracking.changes import after, group_state
from gofer.tracking.ledger import Ledger
from gofer.tracking.rows import RunRow

ID = run().id
GROUP = "r261116-091233-gggggg"
FINAL = sorted(FINAL_STATES)
OPEN = [state for state in State if state not in FINAL_STATES]


def seen(state: State, run_id: str = ID, **values: object) -> Observation:
    return Observation(run_id=run_id, state=state, **values)  # type: ignore[arg-type]


KILLED = seen(
    State.FAILED,
    reason=Reason.SIGNAL,
    detail="killed by signal 9",
    exit_code=-9,
    ended_at=NOW + 9,
    elapsed_s=6.5,
    attempts=(
        Attempt(number=1, state=State.FAILED, reason=Reason.SIGNAL, exit_code=-9, gpus=((0, 1), (2,))),
    ),
)


def stored(ledger: Ledger, run_id: str = ID) -> RunRow:
    row = ledger.get(run_id)
    assert row is not None
    return row


def test_a_whole_life(ledger: Ledger) -> None:
    ledger.insert([run()])
    assert ledger.apply([seen(State.QUEUED)], NOW + 1) == [ID]
    assert ledger.apply([seen(State.RUNNING, started_at=NOW + 2)], NOW + 3) == [ID]
    assert ledger.apply([KILLED], NOW + 10) == [ID]
    assert stored(ledger) == run()._replace(
        state="failed",
        reason="signal",
        detail="killed by signal 9",
        exit_code=-9,
        started_at=NOW + 2,
        ended_at=NOW + 9,
        elapsed_s=6.5,
        attempts=[
            {"number": 1, "state": "failed", "reason": "signal", "exit_code": -9, "gpus": [[0, 1], [2]]}
        ],
        observed_at=NOW + 10,
    )
    assert [(event.at, event.data["from"], event.data["to"]) for event in ledger.events(ID)] == [
        (NOW + 1, "pending", "queued"),
        (NOW + 3, "queued", "running"),
        (NOW + 10, "running", "failed"),
    ]


def test_the_same_again_changes_only_when_it_was_seen(ledger: Ledger) -> None:
    ledger.insert([run()])
    ledger.apply([seen(State.RUNNING, started_at=NOW)], NOW + 1)
    before = stored(ledger)
    assert ledger.apply([seen(State.RUNNING, started_at=NOW)], NOW + 2) == []
    assert stored(ledger) == before._replace(observed_at=NOW + 2)
    assert len(ledger.events(ID)) == 1


def test_unknown_runs_are_skipped(ledger: Ledger) -> None:
    ledger.insert([run()])
    assert ledger.apply([seen(State.RUNNING, "r261116-091233-nobody"), seen(State.QUEUED)], NOW) == [ID]
    assert ledger.apply([], NOW) == []


def test_a_retry_goes_back_to_the_queue_and_keeps_its_first_start(ledger: Ledger) -> None:
    ledger.insert([run()])
    ledger.apply([seen(State.RUNNING, started_at=NOW)], NOW)
    first = Attempt(number=1, state=State.FAILED)
    ledger.apply([seen(State.QUEUED, attempts=(first,))], NOW)
    row = stored(ledger)
    assert (row.state, row.started_at, len(row.attempts)) == ("queued", NOW, 1)
    ledger.apply([seen(State.RUNNING)], NOW)
    assert len(stored(ledger).attempts) == 1


@pytest.mark.parametrize("state", [state for state in FINAL if state is not State.LOST])
@pytest.mark.parametrize("later", list(State))
def test_a_final_state_is_final(ledger: Ledger, state: State, later: State) -> None:
    ledger.insert([run()])
    ledger.apply([seen(state, exit_code=3, ended_at=NOW)], NOW)
    changed = ledger.apply([seen(later, exit_code=3, ended_at=NOW)], NOW + 1)
    assert stored(ledger).state == state
    assert changed == []


@pytest.mark.parametrize("later", list(State))
def test_lost_gives_way_only_to_proof_of_an_end(ledger: Ledger, later: State) -> None:
    ledger.insert([run()])
    ledger.apply([seen(State.LOST, reason=Reason.NODE_FAILURE)], NOW)
    ledger.apply([seen(later, exit_code=0)], NOW + 1)
    row = stored(ledger)
    assert row.state == (later if later in FINAL_STATES else State.LOST)
    assert row.reason == ("node-failure" if row.state == "lost" else None)


def test_late_details_fill_gaps_and_erase_nothing(ledger: Ledger) -> None:
    ledger.insert([run()])
    ledger.apply([seen(State.FAILED, reason=Reason.EXIT_CODE, ended_at=NOW)], NOW)
    assert ledger.apply([seen(State.FAILED, exit_code=0, elapsed_s=0.0)], NOW) == [ID]
    row = stored(ledger)
    assert (row.reason, row.exit_code, row.ended_at, row.elapsed_s) == ("exit-code", 0, NOW, 0.0)
    assert len(ledger.events(ID)) == 1


def test_the_rows_of_a_group_move_it(ledger: Ledger) -> None:
    ledger.insert([*group(GROUP, 3), run()])
    rows = [f"{GROUP}-{i}" for i in range(3)]
    assert ledger.apply([seen(State.RUNNING, rows[1], started_at=NOW + 5)], NOW + 6) == [rows[1], GROUP]
    head = stored(ledger, GROUP)
    assert (head.state, head.counts, head.started_at) == ("running", {"pending": 2, "running": 1}, NOW + 5)
    assert head.ended_at is None
    ends = [
        seen(State.SUCCEEDED, rows[0], started_at=NOW + 1, ended_at=NOW + 20),
        seen(State.SUCCEEDED, rows[1], ended_at=NOW + 7),
        seen(State.FAILED, rows[2], started_at=NOW + 8, ended_at=NOW + 9),
    ]
    assert set(ledger.apply(ends, NOW + 30)) == {*rows, GROUP}
    head = stored(ledger, GROUP)
    assert (head.state, head.counts) == ("failed", {"succeeded": 2, "failed": 1})
    assert (head.started_at, head.ended_at, head.elapsed_s) == (NOW + 1, NOW + 20, 19)
    assert head.observed_at == NOW + 30
    assert ledger.events(rows[0]) == ledger.events(GROUP) == []


def test_ends_of_the_group_itself_are_skipped(ledger: Ledger) -> None:
    ledger.insert(group(GROUP, 2))
    assert ledger.apply([seen(State.FAILED, GROUP)], NOW) == []
    assert stored(ledger, GROUP).state == "pending"


def test_a_clock_set_back_gives_a_group_no_negative_time(ledger: Ledger) -> None:
    ledger.insert(group(GROUP, 1))
    ledger.apply([seen(State.SUCCEEDED, f"{GROUP}-0", started_at=NOW, ended_at=NOW - 60)], NOW)
    assert stored(ledger, GROUP).elapsed_s == 0


def test_looking_again_at_rows_that_did_not_change_tells_the_group_only(ledger: Ledger) -> None:
    ledger.insert(group(GROUP, 2))
    assert ledger.apply([seen(State.PENDING, f"{GROUP}-0")], NOW + 7) == []
    assert stored(ledger, GROUP).observed_at == NOW + 7
    assert stored(ledger, f"{GROUP}-0").observed_at is None


def test_thousands_at_once(ledger: Ledger) -> None:
    ledger.insert(group(GROUP, 2500))
    ends = [seen(State.SUCCEEDED, f"{GROUP}-{i}", exit_code=0) for i in range(2500)]
    assert len(ledger.apply(ends, NOW)) == 2501
    assert stored(ledger, GROUP).counts == {"succeeded": 2500}


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("pending", "pending"),
        ("pending queued", "queued"),
        ("pending succeeded", "queued"),
        ("paused failed", "queued"),
        ("starting pending", "running"),
        ("running failed lost", "running"),
        ("unknown succeeded", "unknown"),
        ("unknown queued", "queued"),
        ("succeeded", "succeeded"),
        ("succeeded cancelled", "cancelled"),
        ("succeeded cancelled failed", "failed"),
        ("succeeded lost", "failed"),
        ("cancelled", "cancelled"),
    ],
)
def test_the_state_of_a_group(states: str, expected: str) -> None:
    assert group_state(dict.fromkeys(states.split(), 1) | {"running and none of it": 0}) == expected


@given(st.lists(st.sampled_from(list(State)), max_size=8))
def test_whatever_is_seen_the_first_end_stays(states: list[State]) -> None:
    row = run()
    for state in states:
        row = after(row, seen(state))
    ends = [state for state in states if state in FINAL_STATES]
    if not ends:
        assert row.state == (states[-1] if states else "pending")
    else:
        proven = [state for state in ends if state is not State.LOST]
        assert row.state == (proven[0] if ends[0] is State.LOST and proven else ends[0])


def test_rows_that_the_caller_has_read_are_merged_as_all_others(ledger: Ledger) -> None:
    ledger.insert(group(GROUP, 3))
    read = ledger.rows_of(GROUP)
    observations = [
        seen(State.PENDING, f"{GROUP}-0"),
        seen(State.RUNNING, f"{GROUP}-1", started_at=NOW + 1),
        seen(State.PENDING, f"{GROUP}-2"),
    ]
    assert ledger.apply(observations, NOW + 9, read) == [f"{GROUP}-1", GROUP]
    assert [row.state for row in ledger.rows_of(GROUP)] == ["pending", "running", "pending"]
    assert stored(ledger, GROUP).observed_at == NOW + 9
    # The same answer again changes nothing, and the group has the time of the question.
    assert ledger.apply(observations, NOW + 10, ledger.rows_of(GROUP)) == []
    assert stored(ledger, GROUP).observed_at == NOW + 10


def test_an_end_that_another_process_wrote_meanwhile_stays(ledger: Ledger) -> None:
    ledger.insert(group(GROUP, 1))
    read = ledger.rows_of(GROUP)
    ledger.apply([seen(State.SUCCEEDED, f"{GROUP}-0", ended_at=NOW + 2)], NOW + 2)
    ledger.apply([seen(State.PENDING, f"{GROUP}-0")], NOW + 3, read)
    assert stored(ledger, f"{GROUP}-0").state == "succeeded"
