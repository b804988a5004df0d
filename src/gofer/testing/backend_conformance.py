"""What every backend must do, tried on a real cluster of its kind. Subclass in a test module and run pytest.

::

    class TestMyCluster(BackendConformance):
        target = "mine"

        def open(self) -> Session:
            return Session(folder, environ)  # settings with the target `mine`; an empty project folder

Set `gpus_per_node` where the target has GPUs, and `timeout_s` to more than its queue is long. Where it is the
agent that brings what nodes write to the store, set `shared_folder` to one that the nodes and this machine
both see, so that processes can be heard which outlive the agent. Nothing here imports pytest.
"""

from __future__ import annotations

import os
import sys
import time

import msgspec

from gofer.backends.base import Plan, RunRef
from gofer.core import run_layout as names
from gofer.model.run import RunRecord
from gofer.ops.runs.merged_status import settled
from gofer.ops.runs.observe import refresh
from gofer.ops.runs.stop import abort
from gofer.ops.session import Session
from gofer.ops.submission.resubmit import resubmit
from gofer.testing.run_conformance import RunConformance
from gofer.tracking.ledger import RunRow

# The cases in which backends differ by how they reach their nodes. A backend that shares the rest with
# another one may run these alone.
SMOKE = frozenset(
    {
        "test_a_secret_reaches_the_command_and_no_record",
        "test_the_launch_contract_on_every_rank",
        "test_rank_variables_are_only_for_ranks",
        "test_code_is_there_as_it_was_at_submit",
        "test_a_log_can_be_followed_to_its_end",
        "test_a_function_returns_its_value_or_its_exception",
        "test_files_beside_the_code_are_kept_and_in_place_for_a_retry",
        "test_the_first_failing_rank_is_named",
        "test_the_time_limit_is_the_reason",
        "test_abort_leaves_nothing",
        "test_submitting_the_same_plan_again_starts_nothing",
        "test_an_array_is_a_run_for_each_row",
        "test_one_row_is_stopped_and_then_the_group",
    }
)
_HEARD = '"${PULSE:-$GOFER_OUTPUT_DIR}/pulse-$GOFER_RUN_ID"'
_PULSE = f"while :; do echo x >> {_HEARD}; sleep 0.1; done"
_UNTIL_HEARD = f"until [ -s {_HEARD} ]; do sleep 0.1; done"
_LOOK_S = 0.1


class _FileUse:
    """Records each file, connection and program that this process opens or starts within the `with` block."""

    _WATCHED = ("open", "os.scandir", "os.listdir", "socket.connect", "subprocess.Popen", "os.posix_spawn")

    def __init__(self) -> None:
        self.events: list[str] = []
        self._is_on = False
        sys.addaudithook(self._note)

    def __enter__(self) -> _FileUse:
        self._is_on = True
        return self

    def __exit__(self, *error: object) -> None:
        self._is_on = False

    def _note(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._is_on and event in self._WATCHED:
            self.events.append(f"{event} {arguments[0]!r}")


class BackendConformance(RunConformance):
    """All of the suite: one run, many runs, stopping them, and being asked twice."""

    shared_folder: str | None = None

    def plan_of(self, session: Session, row: RunRow) -> Plan:
        backend, record = session.backend(self.target), self.record(session, row)
        return backend.plan(record, backend.prepare(record))

    def until_logged(self, session: Session, row: RunRow, text: bytes) -> None:
        """Wait until the log of rank 0 holds these words."""
        deadline = time.monotonic() + self.timeout_s
        while text not in self.log(session, row):
            assert time.monotonic() < deadline, f"{text!r} was not logged in {self.timeout_s:g} s"
            time.sleep(_LOOK_S)

    def pulse(self, session: Session, row: RunRow) -> int:
        """How much `_PULSE` has written so far, which is something."""
        name = f"pulse-{row.id}"
        if self.shared_folder is not None:
            size = os.stat(os.path.join(self.shared_folder, name)).st_size
        else:
            found = session.store(row.store).head(f"{names.outputs_key(row.id)}/{name}")
            size = 0 if found is None else found.size
        assert size, "nothing was ever heard of what the run started"
        return size

    def _pulse_environment(self) -> dict[str, str]:
        return {} if self.shared_folder is None else {"PULSE": self.shared_folder}

    def record(self, session: Session, row: RunRow) -> RunRecord:
        held = session.ledger.get(row.id)
        assert held is not None
        return msgspec.json.decode(held.record, type=RunRecord)

    # -- stopping

    def test_abort_asks_first(self) -> None:
        with self.open() as session:
            script = "trap 'echo saved; exit 3' TERM; echo up; sleep 300 & wait"
            row = self.start(session, ["sh", "-c", script])
            self.until_logged(session, row, b"up")
            (stopped,) = abort(session, [row])
            assert (stopped.state, stopped.reason) == ("cancelled", "user")
            assert self.log(session, stopped) == b"up\nsaved\n"

    def test_abort_kills_what_does_not_listen(self) -> None:
        with self.open() as session:
            script = "trap '' TERM; echo up; while :; do sleep 0.1; done"
            row = self.start(session, ["sh", "-c", script], grace_s=1.0)
            self.until_logged(session, row, b"up")
            assert abort(session, [row])[0].state == "cancelled"

    def test_abort_leaves_nothing(self) -> None:
        """Neither the command nor what it started in a session of its own."""
        with self.open() as session:
            script = f"trap '' TERM HUP; setsid sh -c '{_PULSE}' & {_UNTIL_HEARD}; echo up; {_PULSE}"
            row = self.start(session, ["sh", "-c", script], grace_s=0.5, env=self._pulse_environment())
            self.until_logged(session, row, b"up")
            abort(session, [row])
            before = self.pulse(session, row)
            time.sleep(1.0)
            assert self.pulse(session, row) == before

    def test_the_end_of_a_run_leaves_nothing(self) -> None:
        with self.open() as session:
            script = f"setsid sh -c '{_PULSE}' & {_UNTIL_HEARD}"
            row = self.finish(session, ["sh", "-c", script], env=self._pulse_environment())
            assert row.state == "succeeded"
            before = self.pulse(session, row)
            time.sleep(1.0)
            assert self.pulse(session, row) == before

    def test_cancelling_what_has_ended_or_is_unknown_changes_nothing(self) -> None:
        with self.open() as session:
            row = self.finish(session, ["sh", "-c", "exit 3"])
            backend = session.backend(self.target)
            backend.cancel([RunRef(row.id), RunRef("r000101-000000-bbbbbb")])
            backend.cancel([])
            assert backend.observe([RunRef(row.id)])[row.id].exit_code == 3
            assert abort(session, [row])[0].state == "failed"

    # -- being asked twice, or about nothing

    def test_submitting_the_same_plan_again_starts_nothing(self) -> None:
        with self.open() as session:
            row = self.start(session, ["sh", "-c", 'echo x >> "$GOFER_OUTPUT_DIR/count"'])
            backend = session.backend(self.target)
            backend.submit(self.plan_of(session, row))
            row = self.ended(session, row)
            backend.submit(self.plan_of(session, row))
            refresh(session)
            assert session.store(row.store).get(f"{names.outputs_key(row.id)}/count") == b"x\n"
            seen = settled(session, [row], backend.observe([RunRef(row.id)])).seen[row.id]
            assert (seen.state, len(seen.attempts)) == ("succeeded", 1)

    def test_a_plan_is_pure_and_the_same_for_the_same_record(self) -> None:
        with self.open() as session:
            row = self.finish(session, ["echo", "a  b"])
            backend = session.backend(self.target)
            record = self.record(session, row)
            first = backend.plan(record, backend.prepare(record))
            prepared = backend.prepare(record)
            with _FileUse() as use:
                second = backend.plan(record, prepared)
            assert (use.events, first.render()) == ([], second.render())
            assert row.id in first.render()

    def test_a_run_it_does_not_know_is_left_out_of_the_answer(self) -> None:
        with self.open() as session:
            rows = [self.finish(session, ["true"]), self.finish(session, ["false"])]
            refs = [RunRef(row.id) for row in rows]
            found = session.backend(self.target).observe([RunRef("r000101-000000-bbbbbb"), *refs])
            assert {one: found[one].state.value for one in found} == {
                rows[0].id: "succeeded",
                rows[1].id: "failed",
            }
            assert not session.backend(self.target).observe([])

    # -- many at once

    def test_an_array_is_a_run_for_each_row(self) -> None:
        with self.open() as session:
            command = ["sh", "-c", 'echo "{x} {y} $GOFER_ARG_X"; exit {y}']
            group = self.ended(session, self.start(session, command, each=["x='a  b',$HOME", "y=0,1"]))
            rows = session.ledger.rows_of(group.id)
            wanted = [("a  b", "0"), ("a  b", "1"), ("$HOME", "0"), ("$HOME", "1")]
            assert [(row.args["x"], row.args["y"]) for row in rows] == wanted
            assert [row.exit_code for row in rows] == [0, 1, 0, 1]
            assert (group.state, group.counts) == ("failed", {"succeeded": 2, "failed": 2})
            assert self.log(session, rows[1]) == b"a  b 1 a  b\n"

    def test_every_row_has_a_folder_of_its_own(self) -> None:
        script = "ls; cat code; echo {x} > code; touch mark{x}; sleep 0.3; cat code"
        with self.open() as session:
            (session.folder / "code").write_text("sent\n")
            group = self.start(session, ["sh", "-c", script], each=["x=1,2,3"], code=True)
            self.ended(session, group)
            for row in session.ledger.rows_of(group.id):
                number = row.args["x"].encode()
                lines = self.log(session, row).split()
                assert lines[-2:] == [b"sent", number] and not any(one.startswith(b"mark") for one in lines)
                assert session.store(row.store).get(f"{names.files_key(row.id)}/code") == number + b"\n"

    def test_one_row_is_stopped_and_then_the_group(self) -> None:
        with self.open() as session:
            group = self.start(session, ["sh", "-c", "echo up; sleep 300"], each=["x=1,2,3"])
            first = session.ledger.rows_of(group.id)[0]
            self.until_logged(session, first, b"up")
            assert abort(session, [first])[0].state == "cancelled"
            refresh(session)
            assert not any(row.is_final for row in session.ledger.rows_of(group.id)[1:])
            assert abort(session, [group])[0].state == "cancelled"
            assert {row.state for row in session.ledger.rows_of(group.id)} == {"cancelled"}

    def test_failed_rows_are_run_again(self) -> None:
        with self.open() as session:
            group = self.ended(session, self.start(session, ["sh", "-c", "exit {x}"], each=["x=0,1,2"]))
            (again,) = resubmit(session, [group], failed_only=True)
            self.ended(session, again.new)
            assert [row.args["x"] for row in session.ledger.rows_of(again.new.id)] == ["1", "2"]

    def test_a_run_is_repeated_with_the_same_code(self) -> None:
        with self.open() as session:
            (session.folder / "code.txt").write_text("first\n")
            old = self.ended(session, self.start(session, ["cat", "code.txt"], code=True))
            (session.folder / "code.txt").write_text("second\n")
            (same,) = resubmit(session, [old], same_code=True)
            (new,) = resubmit(session, [old])
            assert (same.code_differs, new.code_differs) == (False, True)
            found = [self.log(session, self.ended(session, one.new)) for one in (same, new)]
            assert found == [b"first\n", b"second\n"]

    def test_runs_submitted_together_all_end(self) -> None:
        with self.open() as session:
            rows = [self.start(session, ["sh", "-c", f"exit {code}"]) for code in range(6)]
            assert [self.ended(session, row).exit_code for row in rows] == list(range(6))
