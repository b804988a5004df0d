"""`gofer why` for runs of another machine, of which only the store is reachable."""

from __future__ import annotations

import time

from unit.ops.project import OpsProject
from unit.ops.run_folders import T0, make_group, make_record

from gofer.core.states import State
from gofer.ops.runs.why import why

ID = "r261116-091233-k9qd4x"


def test_a_run_that_waits_elsewhere_says_where(project: OpsProject) -> None:
    row = project.add(state="queued")
    found = why(project.session, row)
    assert found.words == "it waits in the queue of bench, which can be asked only on that machine"
    assert found.next == ("gofer target show local", "gofer abort k9qd4x")


def test_a_run_that_failed_elsewhere_is_explained_from_its_folder(project: OpsProject) -> None:
    folder = project.run_folder(ID)
    failure = {"rank": 5, "exit_code": None, "signal": 11, "at": T0 + 4, "tail": ["last words"]}
    folder.exit("failed", node=1, reason="signal", exit_code=139, first_failure=failure)
    folder.exit("cancelled", node=0, reason="user")
    record = make_record(nodes=2, procs=4)
    row = project.add(record, state="failed", reason="signal", exit_code=139, ended_at=T0 + 5)
    found = why(project.session, row)
    assert (found.words or "").startswith("rank 5 was killed by signal 11 (SIGSEGV); it crashed")
    assert found.failure is not None
    assert (found.failure.node, found.failure.tail) == (1, ("last words",))
    assert " -e PYTHONFAULTHANDLER=1 python train.py " in found.next[0]
    assert found.next[1:] == ("gofer logs k9qd4x --rank 5",)


def test_a_run_that_runs_elsewhere_shows_its_signs_of_life(project: OpsProject) -> None:
    now = time.time()
    folder = project.run_folder(ID)
    folder.log(b"step 1\n")
    folder.log(b"", rank=1)
    folder.heartbeat(now - 60, [{"index": 0, "utilisation": 97.0, "memory_used_mib": 1000}])
    row = project.add(make_record(procs=2), state="running", started_at=now - 100)
    found = why(project.session, row)
    assert found.life is not None
    assert found.life.beat_age_s is not None
    assert 59 <= found.life.beat_age_s < 120
    assert found.life.log_age_s is not None
    assert [gpu.utilisation for gpu in found.life.beats[0].gpus] == [97.0]


def test_an_unreachable_store_is_named_and_the_rest_is_shown(project: OpsProject) -> None:
    row = project.add(state="failed", reason="exit-code", exit_code=3, store="file:///nowhere/at/all")
    found = why(project.session, row)
    assert found.words is not None
    assert found.words.startswith("exited with 3")


def test_every_state_has_an_answer(project: OpsProject) -> None:
    for number, state in enumerate(State):
        row = project.add(make_record(f"r261116-09123{number % 10}-bcd{number:03d}"), state=state.value)
        document = why(project.session, row).to_json()
        assert (document["state"], document["id"]) == (state.value, row.id)


def test_rows_of_a_group_repeat_their_group(project: OpsProject) -> None:
    group = project.add(make_group("r261116-091233-grpgrp", 3))
    row = project.get("r261116-091233-grpgrp-1")._replace(state="failed", reason="exit-code", exit_code=1)
    assert why(project.session, row).next == ("gofer resubmit --failed grpgrp",)
    assert group.kind == "group"
